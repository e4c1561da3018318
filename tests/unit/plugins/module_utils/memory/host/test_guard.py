# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.guard import (
    Claim,
    ClaimingRanks,
    GuardNeed,
    guard_need,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.arrival_orders import (
    RESERVE,
    Pools,
    book,
    orders,
    play,
    verdict,
)

GIB, GB = 1 << 30, 10**9
POOL = 637_109 * 70_272  # ratio 4.0 of the founding case, a rank
RELEASES = {"A": "0.5.18", "B": "0.5.20", "D": "0.5.23"}


def claiming(ranks: int, *sizes: int) -> tuple[ClaimingRanks, ...]:
    return (ClaimingRanks(ranks, tuple(Claim(size, size) for size in sizes)),)


def need_of(release: str, ranks: tuple[Pools, ...], fraction: float | None = None) -> GuardNeed:
    groups = [ClaimingRanks(1, tuple(Claim(*pool) for pool in zip(one.requested, one.taken))) for one in ranks]
    return guard_need(version_facts(release), groups, fraction)


@pytest.mark.parametrize(
    ("release", "fraction", "asks_gb", "best_gb", "worst_gb"),
    [
        ("0.5.9", None, 55.5, 55.5, 368.9),
        ("0.5.18", None, 55.5, 55.5, 368.9),
        ("0.5.19", None, 682.3, 368.9, 682.3),
        ("0.5.20", None, 682.3, 368.9, 682.3),
        ("0.5.23", None, 682.3, 368.9, 682.3),
        # one snapshot: 8 x 44.77 / 0.8 + 10.74
        ("0.5.23", 0.8, 458.4, 458.4, 458.4),
    ],
)
def test_guard_asks_by_release_and_order_of_arrival(
    release: str, fraction: float | None, asks_gb: float, best_gb: float, worst_gb: float
) -> None:
    need = guard_need(version_facts(release), claiming(8, POOL), fraction)
    found = (need.required_bytes, need.best_order_bytes, need.worst_order_bytes)
    assert [round(size / GB, 1) for size in found] == [asks_gb, best_gb, worst_gb]


def test_each_pool_of_a_rank_is_checked_by_itself() -> None:
    """Two pools of 10 and 20 GB are no request of 30 GB: the second is checked when the first is populated."""
    groups = claiming(2, 10 * GB, 20 * GB)
    need = guard_need(version_facts("0.5.18"), groups)
    # Both ranks hold their first pool when the second ones are checked: 20 + 20 GB.
    assert need.best_order_bytes - RESERVE == 40 * GB
    assert need.worst_order_bytes - RESERVE == 60 * GB
    need = guard_need(version_facts("0.5.20"), groups)
    assert need.best_order_bytes - RESERVE == 20 * GB + 2 * 20 * GB
    # The last check of all: its rank's first pool, both of its peer, and twice its own request.
    assert need.worst_order_bytes - RESERVE == (30 + 10 + 2 * 20) * GB


def test_pools_in_huge_pages_are_checked_against_memory_that_they_do_not_take() -> None:
    groups = (ClaimingRanks(8, (Claim(POOL, 0),)),)
    for release, share in (("0.5.18", 1), ("0.5.20", 8), ("0.5.23", 8)):
        need = guard_need(version_facts(release), groups)
        assert need.best_order_bytes == need.worst_order_bytes == share * POOL + RESERVE


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (None, "unknown"),
        (99, "refuses"),
        (100, "depends_on_arrival_order"),
        (199, "depends_on_arrival_order"),
        (200, "passes"),
    ],
)
def test_verdict(available: int | None, expected: str) -> None:
    assert GuardNeed("B", 100, 200).verdict(available) == expected


def agrees(variant: str, ranks: tuple[Pools, ...]) -> None:
    """At both edges, and a byte to each side of them, the closed form says what playing every order says."""
    need = need_of(RELEASES[variant], ranks)
    for edge in (need.best_order_bytes, need.worst_order_bytes):
        for available in (edge - 1, edge, edge + 1):
            assert need.verdict(available) == verdict(variant, ranks, available), (variant, ranks, available)
    # What is needed in the worst order is never less than in the best.
    assert need.best_order_bytes <= need.worst_order_bytes


def pools(*sizes: int) -> Pools:
    return Pools(sizes, sizes)


@pytest.mark.parametrize("variant", sorted(RELEASES))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_small_cases_all_of_them(variant: str, count: int) -> None:
    """One to three ranks with one or two pools of one to three bytes, every combination up to the ranks' order."""
    one_rank = [pools(*sizes) for number in (1, 2) for sizes in itertools.product((1, 2, 3), repeat=number)]
    cases = list(itertools.combinations_with_replacement(one_rank, count))
    assert len(cases) == {1: 12, 2: 78, 3: 364}[count]
    for ranks in cases:
        agrees(variant, ranks)


PART = st.integers(1, 40)
RANK = st.lists(st.tuples(PART, st.sampled_from((0, 1, 2))), min_size=1, max_size=3).map(
    lambda drawn: Pools(tuple(size for size, _factor in drawn), tuple(size * factor for size, factor in drawn))
)


@settings(deadline=None)
@given(st.sampled_from(sorted(RELEASES)), st.lists(RANK, min_size=1, max_size=4).map(tuple))
def test_verdicts_equal_every_order_played(variant: str, ranks: tuple[Pools, ...]) -> None:
    """Up to four ranks of up to three pools, unlike each other, some in huge pages, some rounded up to twice."""
    agrees(variant, ranks)


@given(
    st.sampled_from(sorted(RELEASES)),
    st.lists(st.tuples(st.integers(1, 3), RANK), min_size=1, max_size=2),
)
def test_alike_ranks_may_be_counted_instead_of_listed(variant: str, drawn: list[tuple[int, Pools]]) -> None:
    facts = version_facts(RELEASES[variant])
    listed = tuple(one for count, one in drawn for _repeat in range(count))
    counted = [
        ClaimingRanks(count, tuple(Claim(*pool) for pool in zip(one.requested, one.taken))) for count, one in drawn
    ]
    assert guard_need(facts, counted) == need_of(RELEASES[variant], listed)


@given(
    st.lists(st.lists(st.integers(1, 10**12), min_size=1, max_size=4), min_size=1, max_size=8),
    st.floats(0.01, 1.0),
)
def test_booking_needs_to_the_byte_what_the_snapshot_has_to_show(sizes: list[list[int]], fraction: float) -> None:
    ranks = tuple(pools(*one) for one in sizes)
    need = need_of("0.5.23", ranks, fraction)
    assert need.best_order_bytes == need.worst_order_bytes
    assert book(ranks, need.required_bytes, fraction)
    assert not book(ranks, need.required_bytes - 1, fraction)


@pytest.mark.parametrize("variant", sorted(RELEASES))
def test_the_walk_over_states_is_the_walk_over_orders(variant: str) -> None:
    """The simulation's own shortcut, held against playing each order by itself."""
    for ranks in ((pools(2, 3), pools(4)), (pools(1), pools(2), pools(3)), (pools(1, 2), pools(2, 1))):
        every = list(orders(ranks))
        for available in range(RESERVE, RESERVE + 30):
            results = {play(variant, ranks, available, order) for order in every}
            expected = {frozenset({True}): "passes", frozenset({False}): "refuses"}.get(
                frozenset(results), "depends_on_arrival_order"
            )
            assert verdict(variant, ranks, available) == expected
