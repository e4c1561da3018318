# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.context_memory import context_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB


@pytest.mark.parametrize(
    ("ranks", "capability", "gib"),
    [(1, (9, 0), 1.0), (1, None, 1.0), (1, (12, 0), 1.8), (2, (8, 0), 1.3), (2, (12, 0), 1.8), (8, (12, 0), 3.0)],
)
def test_what_a_context_and_the_collectives_take(ranks: int, capability: tuple[int, int] | None, gib: float) -> None:
    assert context_bytes(ranks, capability) == round(gib * GIB)


@pytest.mark.parametrize(
    # Card in MiB, ranks, GiB that were logged as available: #1386, #3204, #4257, pull request 4760.
    ("card_mib", "capability", "ranks", "logged"),
    [
        (81_559, (9, 0), 8, 76.73),
        (81_920, (8, 0), 8, 77.14),
        (40_960, (8, 0), 2, 38.71),
        (81_559, (9, 0), 1, 78.59),
        (97_887, (12, 0), 1, 93.77),
    ],
)
def test_logged_memory_is_met_within_two_hundred_mib(
    card_mib: int, capability: tuple[int, int], ranks: int, logged: float
) -> None:
    assert card_mib / 1024 - context_bytes(ranks, capability) / GIB == pytest.approx(logged, abs=0.2)
