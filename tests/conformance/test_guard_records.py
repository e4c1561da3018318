# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulation of arrival orders against SGLang's own check, run by concurrent ranks; record_guards.py recorded it.

Every order of every recorded start is played again by arrival_orders.py, and has to end as the ranks' processes did.
What the plan computes of the same start has to be the verdict of all its orders together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.guard import Claim, ClaimingRanks, guard_need
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    BY_RATIO,
    Sizing,
    auto_ratio,
    pool_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    VersionFacts,
    version_facts,
)
from ansible_collections.gpufleet.sglang.tests.conformance.guard_cases import (
    RATIO,
    GuardCase,
    case_of,
    interleavings,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.arrival_orders import (
    CHECK,
    POPULATE,
    Pools,
    Step,
    book,
    play,
    verdict,
)

ORACLE = Path(__file__).resolve().parent / "oracle"
RELEASES = ("0.5.9", "0.5.20", "0.5.23")


def rows_of(release: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((ORACLE / f"guards-{release}.json").read_text(encoding="utf-8"))["rows"]
    return rows


def seen_by(facts: VersionFacts, case: GuardCase) -> int:
    """What the release's check takes for available before the first pool."""
    if case.group is None or not host_memory_facts(facts.version).sees_control_groups:
        return case.available_bytes
    headroom = case.group.headroom_bytes
    return case.available_bytes if headroom is None else min(case.available_bytes, headroom)


def pools_of(facts: VersionFacts, case: GuardCase) -> tuple[Pools, ...]:
    """What the plan says that each rank's pools ask for."""
    ratio = RATIO
    if case.fraction is not None:
        largest = max(sum(pool.slots * pool.bytes_per_slot for pool in pools) for pools in case.ranks)
        ratio = auto_ratio(facts, largest, len(case.ranks), seen_by(facts, case), case.fraction)
    sizing = Sizing(BY_RATIO, ratio=ratio)
    sizes = [
        tuple(pool_tokens(facts, pool.slots, 1, pool.bytes_per_slot, sizing) * pool.bytes_per_slot for pool in pools)
        for pools in case.ranks
    ]
    return tuple(Pools(one, one) for one in sizes)


def steps_of(ranks: tuple[Pools, ...], word: str) -> Iterator[Step]:
    """A recorded order, which names the rank of each step, with what that rank does then."""
    done = [0] * len(ranks)
    for letter in word:
        rank = int(letter)
        pool, populates = divmod(done[rank], 2)
        done[rank] += 1
        yield rank, POPULATE if populates else CHECK, pool


@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_order_ends_as_it_did(release: str) -> None:
    facts, played = version_facts(release), 0
    for row in rows_of(release):
        case = case_of(row)
        ranks = pools_of(facts, case)
        if case.fraction is not None:
            served = {book(ranks, seen_by(facts, case), case.fraction)}
            assert {letter == "1" for letter in row["served"]} == served, row
            played += len(row["served"])
            continue
        words = list(interleavings([2 * len(pools) for pools in case.ranks]))
        assert len(words) == len(row["served"])
        for word, letter in zip(words, row["served"]):
            ends = play(facts.guard, ranks, seen_by(facts, case), list(steps_of(ranks, word)))
            assert ends == (letter == "1"), (row, word)
        played += len(words)
    assert played > 2000


@pytest.mark.parametrize("release", RELEASES)
def test_pools_ask_for_what_the_plan_says(release: str) -> None:
    facts, populated = version_facts(release), 0
    for row in rows_of(release):
        if row["populated"] is not None:
            assert [list(pools.requested) for pools in pools_of(facts, case_of(row))] == row["populated"]
            populated += 1
    assert populated > 30


@pytest.mark.parametrize("release", RELEASES)
def test_the_plans_verdict_is_that_of_all_recorded_orders(release: str) -> None:
    facts, verdicts = version_facts(release), set()
    for row in rows_of(release):
        case = case_of(row)
        ranks, available = pools_of(facts, case), seen_by(facts, case)
        recorded = {"1": "passes", "0": "refuses"}.get("".join(sorted(set(row["served"]))), "depends_on_arrival_order")
        groups = [ClaimingRanks(1, tuple(Claim(size, size) for size in pools.requested)) for pools in ranks]
        need = guard_need(facts, groups, case.fraction)
        assert need.verdict(available) == recorded, row
        if case.fraction is None:
            assert verdict(facts.guard, ranks, available) == recorded, row
        verdicts.add(recorded)
    assert verdicts == {"passes", "depends_on_arrival_order", "refuses"}


@pytest.mark.parametrize("release", RELEASES)
def test_a_record_names_its_wheel(release: str) -> None:
    wheel = json.loads((ORACLE / f"guards-{release}.json").read_text(encoding="utf-8"))["wheel"]
    assert wheel["wheel"].startswith(f"sglang-{release}-")
    assert len(wheel["sha256"]) == 64
