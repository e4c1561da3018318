# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.names import in_short, ranges_of


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], []),
        (["kimi-01"], ["kimi-01"]),
        (["kimi-01", "kimi-02"], ["kimi-01", "kimi-02"]),
        (["kimi-01", "kimi-02", "kimi-03"], ["kimi-01 to kimi-03"]),
        (["a-1", "a-2", "a-3", "b", "a-4"], ["a-1 to a-4", "b"]),
        (["a-9", "a-10", "a-11"], ["a-9", "a-10", "a-11"]),
        (["r1.gpu", "r2.gpu", "r3.gpu", "r5.gpu"], ["r1.gpu to r3.gpu", "r5.gpu"]),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["10.0.0.1 to 10.0.0.3"]),
        (["b3", "b2", "b1"], ["b3", "b2", "b1"]),
    ],
)
def test_running_numbers_become_ranges(names: list[str], told: list[str]) -> None:
    assert ranges_of(names) == told


def test_what_is_left_out_is_counted() -> None:
    assert in_short(["a", "b", "c", "d"]) == "a, b, c, d"
    assert in_short(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"
