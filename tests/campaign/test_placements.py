# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to hold of every placement, whatever the machine and the instances."""

from __future__ import annotations

import json
from typing import Any, Callable

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.filter.placement import placement
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import (
    instances_of,
    named_gpus,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import Placement, place
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, version_facts

Draw = Callable[..., Any]
Examples = Callable[[Callable[[Any], None], st.SearchStrategy[Any]], None]

COMMANDS = ("python3", "sglang::scheduler", "python3 -m sglang.launch_server", None)
RESERVE = 10 * 10**9
LEVELS = ("NV18", "NV2", "PIX", "PXB", "PHB", "NODE", "SYS", None)
LIMITS = ("memory_available_bytes", "cgroup_limit_bytes", "cgroup_available_bytes")
RELEASES = [None, *(str(version) for version in EXAMINED)]


@st.composite
def topologies(draw: Draw, most_gpus: int = 10) -> dict[str, Any]:
    ids = sorted(draw(st.sets(st.sampled_from((0, 1, 2, 3, 8, 33, 250)), min_size=1, max_size=4)))
    nodes = [
        {
            "id": node,
            "has_cpus": draw(st.sampled_from((True, True, True, False))),
            "usable": draw(st.sampled_from((True, True, True, False))),
            "kind": draw(st.sampled_from(("general", "general", "general", "memory", "gpu_memory", "cpus"))),
            "memory_total_bytes": draw(st.sampled_from((None, 0, 512 * 10**9, 512 * 10**9))),
            "memory_available_bytes": draw(st.none() | st.integers(0, 500 * 10**9)),
            "cpus": f"{node * 8}-{node * 8 + 7}",
            "distances": [10 if node == other else draw(st.integers(11, 254)) for other in ids],
        }
        for node in ids
    ]
    memory = st.none() | st.integers(0, 10**12)
    count = draw(st.integers(0, most_gpus))
    levels = draw(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4))
    gpus = [
        {
            "index": index,
            "uuid": f"GPU-{index}",
            "name": draw(st.sampled_from(("H100", "H100", "H100", "L40S", None))),
            "memory_total_bytes": draw(st.sampled_from((80 * 2**30, 80 * 2**30, None))),
            "numa_node": draw(st.sampled_from((None, *ids))),
            "usable": draw(st.sampled_from((True, True, True, True, False))),
            "processes": [{"pid": 7, "name": draw(st.sampled_from(COMMANDS))}]
            if draw(st.booleans()) and draw(st.booleans())
            else [],
        }
        for index in range(count)
    ]
    pairs = {(one, two): draw(st.sampled_from(levels)) for two in range(count) for one in range(two)}
    links = [
        [{"level": "SELF" if one == two else pairs[min(one, two), max(one, two)]} for two in range(count)]
        for one in range(count)
    ]
    return {"gpus": gpus, "gpu_links": links, "numa_nodes": nodes, "host": {limit: draw(memory) for limit in LIMITS}}


@st.composite
def requests(draw: Draw) -> tuple[dict[str, Any], list[dict[str, Any]], str | None]:
    """A machine and instances that mostly fit it."""
    facts = draw(topologies())
    usable = [gpu["index"] for gpu in facts["gpus"] if gpu["usable"]]
    left = draw(st.permutations(usable))
    instances: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        ranks = draw(st.integers(1, max(1, len(left))))
        instance: dict[str, Any] = {"name": f"i{number}", "ranks": ranks}
        if draw(st.sampled_from((True, False, False))) and ranks <= len(left):
            instance["gpus"] = [draw(st.sampled_from((gpu, f"GPU-{gpu}"))) for gpu in left[:ranks]]
        if draw(st.sampled_from((True, False, False, False))):
            node = st.sampled_from([entry["id"] for entry in facts["numa_nodes"]])
            instance["numa_nodes"] = draw(st.lists(node, min_size=ranks, max_size=ranks))
        if draw(st.booleans()):
            instance["pool_bytes_per_rank"] = draw(st.integers(0, 200 * 10**9))
        left = left[ranks:]
        instances.append(instance)
    return facts, instances, draw(st.sampled_from(RELEASES))


def attempt(request: tuple[dict[str, Any], list[dict[str, Any]], str | None]) -> Placement | Refusal:
    topology, instances, release = request
    try:
        facts = None if release is None else version_facts(release)
        return place(machine_facts(topology), instances_of(instances), facts, reserve_bytes=RESERVE)
    except Refusal as refusal:
        return refusal


def test_a_placement_gives_each_gpu_once_and_names_nodes_that_can_take_ranks(examples: Examples) -> None:
    placed = 0

    def check(request: tuple[dict[str, Any], list[dict[str, Any]], str | None]) -> None:
        nonlocal placed
        result = attempt(request)
        if isinstance(result, Refusal):
            assert result.message.endswith(".")
            assert result.remedy.endswith(".")
            return
        placed += 1
        facts = machine_facts(request[0])
        homes = {node.id: node for node in facts.homes}
        usable = {gpu.index for gpu in facts.gpus if gpu.trouble is None}
        taken = [gpu.index for one in result.instances for gpu in one.gpus]
        assert len(taken) == len(set(taken))
        assert usable == {*taken, *result.free_gpus}
        assert len(usable) == len(taken) + len(result.free_gpus)
        for instance, one in zip(instances_of(request[1]), result.instances):
            assert (one.name, len(one.seats)) == (instance.name, instance.ranks)
            assert [seat.gpu for seat in one.seats] == [gpu.index for gpu in one.gpus]
            assert not instance.gpus or one.gpus == named_gpus(facts, instance)
            assert not instance.numa_nodes or [seat.numa_node for seat in one.seats] == list(instance.numa_nodes)
            for seat in one.seats:
                assert seat.numa_node is None or seat.numa_node in homes
                if len(homes) == 1:
                    assert seat.numa_node is not None
                if seat.gpu_numa_node in homes and not instance.numa_nodes:
                    assert seat.numa_node == seat.gpu_numa_node
            assert one.binding.mode == "none" or all(seat.numa_node is not None for seat in one.seats)
            assert one.binding.numa_nodes in ((), tuple(seat.numa_node for seat in one.seats))
        assert {load.node for load in result.nodes} == set(homes)

    examples(check, requests())
    assert placed, "nothing was placed"


def test_no_node_gives_more_than_there_is(examples: Examples) -> None:
    def check(request: tuple[dict[str, Any], list[dict[str, Any]], str | None]) -> None:
        result = attempt(request)
        if isinstance(result, Refusal):
            return
        known = [request[0]["host"][limit] for limit in LIMITS if request[0]["host"][limit] is not None]
        whole = max(0, min(known) - RESERVE) if known else None
        given = 0
        for load in result.nodes:
            assert (load.fits is None) == (load.there_bytes is None)
            if load.there_bytes is None:
                assert load.largest_pool_bytes_per_rank is None
                continue
            assert load.there_bytes >= 0
            assert whole is None or load.there_bytes <= whole
            assert (load.largest_pool_bytes_per_rank is None) == (load.pool_ranks == 0)
            here = (load.largest_pool_bytes_per_rank or 0) * load.pool_ranks
            assert 0 <= here <= load.there_bytes
            given += here
        assert whole is None or given <= whole

    examples(check, requests())


def test_gpus_of_unknown_board_are_taken_last(examples: Examples) -> None:
    def check(request: tuple[dict[str, Any], list[dict[str, Any]], str | None]) -> None:
        result = attempt(request)
        if isinstance(result, Refusal):
            return
        unknown = machine_facts(request[0]).unidentified
        chosen = [one for one, asked in zip(result.instances, request[1]) if not asked.get("gpus")]
        if any(gpu.index in unknown for one in chosen for gpu in one.gpus):
            assert set(result.free_gpus) <= unknown
        for one in result.instances:
            warned = "gpus_unidentified" in {entry.code for entry in one.problems}
            assert warned == any(gpu.index in unknown for gpu in one.gpus)

    examples(check, requests())


def test_the_order_of_gpus_and_nodes_in_the_list_does_not_matter(examples: Examples) -> None:
    def check(drawn: tuple[Any, Any]) -> None:
        (topology, instances, release), seed = drawn
        order = list(range(len(topology["gpus"])))
        seed.shuffle(order)
        ids = list(range(len(topology["numa_nodes"])))
        seed.shuffle(ids)
        nodes = [
            {
                **topology["numa_nodes"][place],
                "distances": [topology["numa_nodes"][place]["distances"][to] for to in ids],
            }
            for place in ids
        ]
        shuffled = {
            **topology,
            "gpus": [topology["gpus"][index] for index in order],
            "gpu_links": [[topology["gpu_links"][one][two] for two in order] for one in order],
            "numa_nodes": nodes,
        }
        one, two = attempt((topology, instances, release)), attempt((shuffled, instances, release))
        if isinstance(one, Refusal):
            assert isinstance(two, Refusal)
            # What contradicts itself is named by its place in the list.
            if one.code == "topology_inconsistent":
                assert two.code == one.code
            else:
                assert one.as_dict() == two.as_dict()
        else:
            assert one == two

    examples(check, st.tuples(requests(), st.randoms(use_true_random=False)))


def test_other_instances_of_its_size_take_nothing_from_a_lone_one(examples: Examples) -> None:
    """A machine of GPUs that nothing tells apart: any instances that fit together are placed."""

    def check(sizes: list[int]) -> None:
        total = sum(sizes)
        facts = machine_facts({"gpus": [{} for _gpu in range(total)], "numa_nodes": [{"id": 0}]})
        result = place(facts, instances_of([{"name": str(place), "ranks": size} for place, size in enumerate(sizes)]))
        assert result.free_gpus == ()

    examples(check, st.lists(st.integers(1, 8), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) <= 16))


STRANGE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def odd(draw: Draw, value: Any) -> Any:
    """The value with one part of it replaced by something of another kind."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: draw(odd(value[key]))}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(odd(value[place])), *value[place + 1 :]]
    return draw(STRANGE)


@pytest.mark.parametrize("part", ["topology", "instances"])
def test_odd_values_end_in_plain_data_or_a_sentence(examples: Examples, part: str) -> None:
    topology: dict[str, Any] = {
        "gpus": [{"index": 0, "numa_node": 0, "usable": True, "processes": [{"pid": 1, "name": "x"}]}, {"index": 1}],
        "gpu_links": [[{"level": "SELF"}, {"level": "NV4"}], [{"level": "NV4"}, {"level": "SELF"}]],
        "numa_nodes": [{"id": 0, "distances": [10, 20], "kind": "general"}, {"id": 1, "distances": [20, 10]}],
        "host": {"memory_available_bytes": 10**12, "cpus_usable": None},
    }
    instances = [{"name": "a", "ranks": 2, "gpus": [0, 1], "numa_nodes": [0, 1], "pool_bytes_per_rank": 10**9}]

    def check(changed: Any) -> None:
        try:
            result = placement(changed, instances) if part == "topology" else placement(topology, changed)
        except AnsibleFilterError as error:
            assert str(error).strip()
        else:
            json.dumps(result)

    examples(check, odd(topology if part == "topology" else instances))
