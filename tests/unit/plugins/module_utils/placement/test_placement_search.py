# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The search against trying everything, and its bounds on machines that are too large for that."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts, machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.search import (
    Room,
    Wish,
    choose,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.ways import link_cost, worst_link
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.placement.paper import machine, topology

LEVELS = ("NV12", "NV4", "NV2", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS")


def any_machine(dice: random.Random, gpus: int) -> MachineFacts:
    levels = [dice.choice(LEVELS) for _kind in range(dice.randint(1, 5))]
    known = {pair: dice.choice(levels) for pair in combinations(range(gpus), 2)}
    ids = dice.choice(((None, 0, 0, 1, 2), (0, 1, 2, 3, 4)))
    nodes = [dice.choice(ids) for _gpu in range(gpus)]
    facts = topology(nodes, lambda one, two: known[one, two])
    names = dice.choice((("H100", "H100", "L40S"), ("H100", "H100", None)))
    for gpu in facts["gpus"]:
        gpu["name"] = dice.choice(names)
    if dice.random() < 0.7:
        size = range(len(facts["numa_nodes"]))
        apart = {pair: dice.choice((12, 12, 20, 30)) for pair in combinations(size, 2)}
        for one, node in enumerate(facts["numa_nodes"]):
            node["distances"] = [10 if one == two else apart[min(one, two), max(one, two)] for two in size]
    return machine_facts(facts)


def distance(facts: MachineFacts, one: int | None, two: int | None) -> int:
    if not any(node.distances for node in facts.nodes):
        return 0
    told = {node.id: node.distances for node in facts.nodes}
    return 255 if one is None or two is None else told[one][two]


def score(
    facts: MachineFacts,
    sets: Sequence[tuple[int, ...]],
    in_use: frozenset[int],
    pools: Sequence[int],
    there: Mapping[int, int | None],
) -> list[Any]:
    """What a division of the GPUs is worth, by the rules as they are documented: instances of one size at a time, the
    largest first; of those unknown boards, those used by others, kinds, worst links, nodes, bytes of pools that do not
    fit, largest and all distances, all links."""
    worth: list[Any] = []
    only = facts.homes[0].id if len(facts.homes) == 1 else None
    load = dict.fromkeys(there, 0)
    named = any(gpu.name for gpu in facts.gpus)
    for size in sorted({len(one) for one in sets}, reverse=True):
        alike = [one for one in sets if len(one) == size]
        for one, pool in zip(sets, pools):
            for index in one if len(one) == size else ():
                node = only if only is not None else facts.gpus[index].numa_node
                if node is not None:
                    load[node] += pool
        spans = [sorted({facts.gpus[index].numa_node for index in one}, key=str) for one in alike]
        apart = [[distance(facts, first, second) for first, second in combinations(nodes, 2)] for nodes in spans]
        gpus = [[facts.gpus[index] for index in one] for one in alike]
        links = [[link_cost(facts, first, second) for first, second in combinations(one, 2)] for one in gpus]
        worth += [
            sum(named and not gpu.name for one in gpus for gpu in one),
            sum(index in in_use for one in alike for index in one),
            sum(len({gpu.name for gpu in one}) - 1 for one in gpus),
            sorted((max(costs) for costs in links if costs), reverse=True),
            sum(len(nodes) for nodes in spans),
            sum(max(0, load[node] - size) for node, size in there.items() if size is not None),
            sum(max(costs, default=0) for costs in apart),
            sum(sum(costs) for costs in apart),
            sum(sum(costs) for costs in links),
        ]
    return worth


def divisions(free: frozenset[int], sizes: Sequence[int]) -> Iterator[list[tuple[int, ...]]]:
    if not sizes:
        yield []
        return
    for one in combinations(sorted(free), sizes[0]):
        for rest in divisions(free - set(one), sizes[1:]):
            yield [one, *rest]


@pytest.mark.parametrize(
    ("gpus", "sizes"),
    [
        (4, (2,)),
        (4, (2, 2)),
        (5, (3,)),
        (6, (3, 2)),
        (6, (2, 2, 2)),
        (6, (4, 1)),
        (7, (2, 2, 1)),
        (8, (4, 4)),
        (8, (5,)),
    ],
)
def test_nothing_is_better_than_what_is_chosen(gpus: int, sizes: tuple[int, ...]) -> None:
    for seed in range(24):
        dice = random.Random(seed)
        facts = any_machine(dice, gpus)
        in_use = frozenset(index for index in range(gpus) if dice.random() < 0.2)
        pools = [dice.choice((0, 3, 3, 8)) for _size in sizes]
        there = {node.id: dice.choice((None, 6, 12, 30)) for node in facts.homes}
        wishes = [Wish(str(place), size, pools[place]) for place, size in enumerate(sizes)]
        found = choose(facts, facts.gpus, wishes, in_use, Room(there))
        chosen = [tuple(gpu.index for gpu in found[wish.name]) for wish in wishes]
        best = min(score(facts, sets, in_use, pools, there) for sets in divisions(frozenset(range(gpus)), sizes))
        assert score(facts, chosen, in_use, pools, there) == best, f"seed {seed}"


@pytest.mark.parametrize("gpus", [16, 24, 64])
def test_machines_that_are_too_large_to_try_everything_get_a_sound_answer(gpus: int) -> None:
    facts = any_machine(random.Random(gpus), gpus)
    sizes = (gpus // 2, gpus // 4, 2, 1, 1)
    found = choose(facts, facts.gpus, [Wish(str(place), size) for place, size in enumerate(sizes)])
    taken = [gpu.index for place in range(len(sizes)) for gpu in found[str(place)]]
    assert len(taken) == len(set(taken)) == sum(sizes)
    assert [len(found[str(place)]) for place in range(len(sizes))] == list(sizes)


def test_sets_are_grown_where_they_are_too_many_to_list() -> None:
    # Sixteen of thirty-two on one switch each: no set that crosses is as good.
    halves = machine([index % 2 for index in range(32)], lambda one, two: "PIX" if one % 2 == two % 2 else "SYS")
    found = choose(halves, halves.gpus, [Wish("a", 16), Wish("b", 16)])
    assert [{gpu.index % 2 for gpu in found[name]} for name in "ab"] == [{0}, {1}]


def test_what_claims_to_have_hundreds_of_gpus_is_served_in_order() -> None:
    facts = machine([index % 2 for index in range(400)])
    found = choose(facts, facts.gpus, [Wish("small", 8), Wish("large", 200)], frozenset((0, 2)))
    assert [gpu.index for gpu in found["large"]] == [*range(4, 400, 2), 1, 3]
    assert [gpu.index for gpu in found["small"]] == [5, 7, 9, 11, 13, 15, 17, 19]


@pytest.mark.parametrize(("better", "worse"), list(zip(LEVELS, LEVELS[1:])))
def test_levels_have_an_order(better: str, worse: str) -> None:
    facts = machine((0, 0, 0), lambda one, two: better if (one, two) == (0, 1) else worse)
    assert link_cost(facts, facts.gpus[0], facts.gpus[1]) < link_cost(facts, facts.gpus[0], facts.gpus[2])
    assert worst_link(facts, facts.gpus) == worse
    assert worst_link(facts, facts.gpus[:2]) == better
    assert worst_link(facts, facts.gpus[:1]) is None


def test_without_links_the_nodes_tell() -> None:
    facts = machine((0, 0, 1, None))
    near, far, unknown = (link_cost(facts, facts.gpus[0], facts.gpus[other]) for other in (1, 2, 3))
    assert near < far < unknown
    assert worst_link(facts, facts.gpus[:2]) is None


def test_pools_of_many_sizes_cost_no_time_without_end() -> None:
    facts = any_machine(random.Random(5), 16)
    room = Room({node.id: 40 for node in facts.homes}, {0: 1})
    for size in (1, 2, 4):
        wishes = [Wish(str(place), size, place + 1) for place in range(16 // size)]
        begun = time.process_time()
        found = choose(facts, facts.gpus, wishes, room=room)
        assert time.process_time() - begun < 20
        assert sorted(gpu.index for gpus in found.values() for gpu in gpus) == list(range(16))


def test_boards_that_are_not_known_are_served_last_on_a_huge_machine() -> None:
    facts = topology([0] * 100)
    for gpu in facts["gpus"]:
        gpu["memory_total_bytes"] = None if gpu["index"] < 3 else 80 << 30
    huge = machine_facts(facts)
    found = choose(huge, huge.gpus, [Wish("a", 97), Wish("b", 3)], frozenset((50,)))
    assert [gpu.index for gpu in found["b"]] == [0, 1, 2]
