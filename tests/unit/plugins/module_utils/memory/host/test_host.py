# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    Sizing,
    auto_ratio,
    largest_near,
    pool_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts

GIB = 1 << 30
GB = 10**9


@pytest.mark.parametrize(
    ("release", "device_tokens", "page_size", "sizing", "expected"),
    [
        # int(tokens * ratio) // page + 1 pages (memory_pool_host.py of 0.5.9, pool_host/base.py of 0.5.23)
        ("0.5.9", 159_277, 1, Sizing("ratio", ratio=4.0), 637_109),
        ("0.5.23", 400_000, 1, Sizing("ratio", ratio=4.0), 1_600_001),
        ("0.5.23", 400_000, 64, Sizing("ratio", ratio=4.0), 1_600_064),
        ("0.5.23", 1_000, 64, Sizing("ratio", ratio=1.5), 1_536),
        ("0.5.23", 1_000, 1, Sizing("ratio", ratio=0.3333), 334),
        # rounded down to pages before 0.5.6, with no page more
        ("0.5.5", 159_277, 1, Sizing("ratio", ratio=4.0), 637_108),
        ("0.5.5", 1_000, 64, Sizing("ratio", ratio=1.5), 1_472),
        # a size is in 1e9 bytes and wins
        ("0.5.23", 1_000, 1, Sizing("size", size_gb=40), 40 * GB // 70_272 + 1),
        ("0.5.23", 1_000, 64, Sizing("size", size_gb=40), (40 * GB // 70_272 // 64 + 1) * 64),
    ],
)
def test_pool_tokens_round_to_pages_as_the_release_does(
    release: str, device_tokens: int, page_size: int, sizing: Sizing, expected: int
) -> None:
    assert pool_tokens(version_facts(release), device_tokens, page_size, 70_272, sizing) == expected


def test_auto_sizing_shrinks_the_default_ratio_until_the_pools_fit() -> None:
    facts = version_facts("0.5.23")
    device = 10 * GB
    assert auto_ratio(facts, device, 8, 10_000 * GB, 0.8) == 2.0
    # ((110.74 - 10.74) GB // 8 ranks x 0.8) x 0.95 / 10 GB
    assert auto_ratio(facts, device, 8, 100 * GB + 10 * GIB, 0.8) == pytest.approx(0.95)
    assert auto_ratio(facts, device, 8, 10 * GIB, 0.8) == 0


@given(st.integers(0, 10_000), st.integers(-50, 20_000))
def test_the_largest_is_found_from_any_guess(largest: int, guess: int) -> None:
    asked: list[int] = []

    def fits(value: int) -> bool:
        asked.append(value)
        return value <= largest

    assert largest_near(guess, fits) == largest
    assert min(asked) > 0


def test_a_good_guess_asks_little() -> None:
    asked: list[int] = []

    def fits(value: int) -> bool:
        asked.append(value)
        return value <= 400

    assert largest_near(400, fits) == 400
    assert len(asked) == 2
