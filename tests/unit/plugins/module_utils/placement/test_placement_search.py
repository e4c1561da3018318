# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The search against trying everything, and its bounds on machines that are too large for that."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts, machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.search import (
    Wish,
    choose,
    link_cost,
    worst_link,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.placement.paper import machine, topology

LEVELS = ("NV12", "NV4", "NV2", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS")


def any_machine(dice: random.Random, gpus: int) -> MachineFacts:
    levels = [dice.choice(LEVELS) for _kind in range(dice.randint(1, 5))]
    known = {pair: dice.choice(levels) for pair in combinations(range(gpus), 2)}
    nodes = [dice.choice((None, 0, 0, 1, 2)) for _gpu in range(gpus)]
    facts = topology(nodes, lambda one, two: known[one, two])
    for gpu in facts["gpus"]:
        gpu["name"] = dice.choice(("H100", "H100", "L40S"))
    return machine_facts(facts)


def score(facts: MachineFacts, sets: Sequence[tuple[int, ...]], in_use: frozenset[int]) -> list[Any]:
    """What a division of the GPUs is worth, by the rules as they are documented: instances of one size at a time, the
    largest first; of those used by others, kinds, worst links, nodes, all links."""
    worth: list[Any] = []
    for size in sorted({len(one) for one in sets}, reverse=True):
        alike = [one for one in sets if len(one) == size]
        gpus = [[facts.gpus[index] for index in one] for one in alike]
        links = [[link_cost(facts, first, second) for first, second in combinations(one, 2)] for one in gpus]
        worth += [
            sum(index in in_use for one in alike for index in one),
            sum(len({gpu.name for gpu in one}) - 1 for one in gpus),
            sorted((max(costs) for costs in links if costs), reverse=True),
            sum(len({gpu.numa_node for gpu in one}) for one in gpus),
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
    for seed in range(12):
        dice = random.Random(seed)
        facts = any_machine(dice, gpus)
        in_use = frozenset(index for index in range(gpus) if dice.random() < 0.2)
        wishes = [Wish(str(place), size) for place, size in enumerate(sizes)]
        found = choose(facts, facts.gpus, wishes, in_use)
        chosen = [tuple(gpu.index for gpu in found[wish.name]) for wish in wishes]
        best = min(score(facts, sets, in_use) for sets in divisions(frozenset(range(gpus)), sizes))
        assert score(facts, chosen, in_use) == best, f"seed {seed}"


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
