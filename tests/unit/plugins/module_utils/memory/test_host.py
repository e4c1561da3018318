# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import (
    GuardNeed,
    Sizing,
    auto_ratio,
    guard_need,
    largest_ratio,
    largest_size_gb,
    pool_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import version_facts

GIB = 1 << 30
GB = 10**9
POOL = 637_109 * 70_272  # ratio 4.0 of the founding case, a rank
RATIO = Sizing("ratio", ratio=4.0)


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


@pytest.mark.parametrize(
    ("release", "sizing", "asks_gb", "best_gb", "worst_gb"),
    [
        ("0.5.9", RATIO, 55.5, 55.5, 368.9),
        ("0.5.18", RATIO, 55.5, 55.5, 368.9),
        ("0.5.19", RATIO, 682.3, 368.9, 682.3),
        ("0.5.20", RATIO, 682.3, 368.9, 682.3),
        ("0.5.23", RATIO, 682.3, 368.9, 682.3),
        ("0.5.23", Sizing("size", size_gb=44), 682.3, 368.9, 682.3),
        # one snapshot: 8 x 44.77 / 0.8 + 10.74
        ("0.5.23", Sizing("fraction", fraction=0.8), 458.4, 458.4, 458.4),
    ],
)
def test_guard_asks_by_release_and_order_of_arrival(
    release: str, sizing: Sizing, asks_gb: float, best_gb: float, worst_gb: float
) -> None:
    need = guard_need(version_facts(release), 8, POOL, sizing)
    found = (need.required_bytes, need.best_order_bytes, need.worst_order_bytes)
    assert [round(size / GB, 1) for size in found] == [asks_gb, best_gb, worst_gb]


def serve(release: str, ranks: int, pool: int, available: int, arrivals_at_once: bool) -> bool:
    """Whether all ranks pass the release's check, re-enacted: each checks, then allocates."""
    facts = version_facts(release)
    reserve = facts.guard_reserve_bytes
    free = available
    for _rank in range(ranks):
        allowed = free - reserve if facts.guard == "A" else (free - reserve) // ranks
        if pool > allowed:
            return False
        if not arrivals_at_once:
            free -= pool
    return True


@pytest.mark.parametrize("release", ["0.5.9", "0.5.19", "0.5.23"])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("pool", [1 * GB, 7 * GB, POOL])
def test_guard_verdicts_are_those_of_the_re_enacted_check(release: str, ranks: int, pool: int) -> None:
    need = guard_need(version_facts(release), ranks, pool, RATIO)
    assert serve(release, ranks, pool, need.best_order_bytes, arrivals_at_once=True)
    assert not serve(release, ranks, pool, need.best_order_bytes - 1, arrivals_at_once=True)
    assert serve(release, ranks, pool, need.worst_order_bytes, arrivals_at_once=False)
    assert not serve(release, ranks, pool, need.worst_order_bytes - 1, arrivals_at_once=False)


@pytest.mark.parametrize(
    ("available", "verdict"),
    [
        (None, "unknown"),
        (99, "refuses"),
        (100, "depends_on_arrival_order"),
        (199, "depends_on_arrival_order"),
        (200, "passes"),
    ],
)
def test_verdict(available: int | None, verdict: str) -> None:
    assert GuardNeed("B", 100, 200).verdict(available) == verdict


def test_auto_sizing_shrinks_the_default_ratio_until_the_pools_fit() -> None:
    facts = version_facts("0.5.23")
    device = 10 * GB
    assert auto_ratio(facts, device, 8, 10_000 * GB, 0.8) == 2.0
    # ((110.74 - 10.74) GB // 8 ranks x 0.8) x 0.95 / 10 GB
    assert auto_ratio(facts, device, 8, 100 * GB + 10 * GIB, 0.8) == pytest.approx(0.95)
    assert auto_ratio(facts, device, 8, 10 * GIB, 0.8) == 0


@pytest.mark.parametrize("release", ["0.5.4", "0.5.9", "0.5.23"])
@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("device_tokens", [1_000, 40_001, 159_277])
@pytest.mark.parametrize("per_token", [2_048, 70_272])
@pytest.mark.parametrize("limit", [3 * GB, 17_000_000_001, 48_157_822_720])
def test_largest_ratio_fits_and_the_next_step_does_not(
    release: str, page_size: int, device_tokens: int, per_token: int, limit: int
) -> None:
    facts = version_facts(release)

    def pinned(ratio: float) -> int:
        return per_token * pool_tokens(facts, device_tokens, page_size, per_token, Sizing("ratio", ratio=ratio))

    found = largest_ratio(facts, device_tokens, page_size, per_token, limit)
    if found is None:
        # The smallest pool that the release accepts is too large already.
        assert pinned(1.01 if facts.smaller_than_device_is_fatal else 0.01) > limit
        return
    assert pinned(found) <= limit
    assert pinned((round(found * 100) + 1) / 100) > limit


@pytest.mark.parametrize("limit", [5 * GB, 40 * GB, 48_157_822_720])
def test_largest_size_fits_and_the_next_step_does_not(limit: int) -> None:
    facts = version_facts("0.5.23")

    def pinned(size: int) -> int:
        return 70_272 * pool_tokens(facts, 1_000, 64, 70_272, Sizing("size", size_gb=size))

    found = largest_size_gb(facts, 1_000, 64, 70_272, limit)
    assert found is not None
    assert pinned(found) <= limit < pinned(found + 1)


@pytest.mark.parametrize("limit", [0, -1, -(10**12)])
def test_nothing_fits_into_nothing(limit: int) -> None:
    facts = version_facts("0.5.23")
    assert largest_ratio(facts, 1_000, 1, 70_272, limit) is None
    assert largest_size_gb(facts, 1_000, 1, 70_272, limit) is None
