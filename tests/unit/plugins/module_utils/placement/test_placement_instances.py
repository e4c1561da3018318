# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import (
    Instance,
    instances_of,
    named_gpus,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import place
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.placement.paper import machine, two_sockets


def refused(call: Any, *arguments: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        call(*arguments)
    assert refusal.value.remedy.endswith(".")
    return refusal.value


def test_ranks_follow_from_the_gpus_that_are_named() -> None:
    one, two = instances_of([{"name": "a", "gpus": [3, "GPU-1"]}, {"name": "b", "ranks": "2", "numa_nodes": ["1", 0]}])
    assert one == Instance("a", 2, (3, "GPU-1"))
    assert two == Instance("b", 2, (), (1, 0))


@pytest.mark.parametrize("key", [5, "5", "GPU-5", "gpu-5", "0000:15:00.0", "00000000:15:00.0", "15:00.0"])
def test_a_gpu_has_several_names(key: Any) -> None:
    (gpu,) = named_gpus(machine_facts(two_sockets()), Instance("a", 1, (key,)))
    assert gpu.index == 5


@pytest.mark.parametrize("key", [8, -1, "8", "GPU-", "MIG-1", "0001:15:00.0", "", None, True, 1.5, [0], {"index": 0}])
def test_what_names_no_gpu_is_refused_with_those_there_are(key: Any) -> None:
    refusal = refused(named_gpus, machine_facts(two_sockets()), Instance("a", 1, (key,)))
    assert refusal.code == "gpu_unknown"
    assert repr(key) in refusal.message
    assert "GPUs 0, 1, 2, 3, 4, 5, 6 and 7" in refusal.message
    assert refusal.evidence["gpus"] == list(range(8))


@pytest.mark.parametrize(
    ("instances", "code", "said"),
    [
        ([Instance("a", 2, (1, "GPU-1"))], "gpu_count_mismatch", "names 1 different GPU in 2 entries"),
        ([Instance("a", 3, (1, 2))], "gpu_count_mismatch", "there are 3 ranks"),
        ([Instance("a", 1, (1,)), Instance("b", 1, (1,))], "gpu_taken", "which instance a names too"),
        ([Instance("a", 1, (7,))], "gpu_unusable", "names GPU 7, and the driver has lost it"),
        ([Instance("a", 8)], "gpus_too_few", "Not counted: GPU 7 (the driver has lost it)"),
        ([Instance("a", 4, (0, 1, 2, 3)), Instance("b", 4)], "gpus_too_few", "4 of them named by other instances"),
        ([Instance("a", 4), Instance("b", 4)], "gpus_too_few", "8 GPUs are needed for a, b"),
        ([Instance("a", 2, numa_nodes=(0,))], "numa_node_count_mismatch", "has 1 entries, and there are 2 ranks"),
        ([Instance("a", 1, numa_nodes=(7,))], "numa_node_unfit", "NUMA node 7, which does not exist"),
        ([Instance("a", 1, numa_nodes=(2,))], "numa_node_unfit", "NUMA node 2, which has no CPUs"),
        ([Instance("a", 1, numa_nodes=(3,))], "numa_node_unfit", "NUMA node 3, which has no memory"),
        ([Instance("a", 1, numa_nodes=(4,))], "numa_node_unfit", "which is of the kind memory"),
    ],
)
def test_what_cannot_be_honoured_is_refused(instances: list[Instance], code: str, said: str) -> None:
    facts = two_sockets()
    facts["gpus"][7].update(usable=False, state="lost")
    facts["numa_nodes"] += [
        {"id": 2, "has_cpus": False},
        {"id": 3, "memory_total_bytes": 0},
        {"id": 4, "kind": "memory"},
    ]
    refusal = refused(place, machine_facts(facts), instances)
    assert refusal.code == code
    assert said in refusal.message


def test_a_machine_without_gpus_says_so() -> None:
    refusal = refused(place, machine(()), [Instance("a", 1)])
    assert "the machine has no GPU" in refusal.message
    assert "gpu_topology_info" in refusal.remedy


@pytest.mark.parametrize(
    ("entries", "code", "said"),
    [
        (None, "value_malformed", "instances is None"),
        ([], "value_malformed", "instances is []"),
        ({"name": "a"}, "value_malformed", "instances"),
        (["a"], "value_malformed", "instances[0] is 'a'"),
        ([{"ranks": 1}], "value_malformed", "instances[0].name is None"),
        ([{"name": ""}], "value_malformed", "instances[0].name"),
        ([{"name": "a"}], "value_malformed", "instances[0].ranks is None"),
        ([{"name": "a", "ranks": 0}], "value_malformed", "instances[0].ranks is 0"),
        ([{"name": "a", "ranks": 10**9}], "value_malformed", "instances[0].ranks"),
        ([{"name": "a", "ranks": "two"}], "value_malformed", "instances[0].ranks is 'two'"),
        ([{"name": "a", "gpus": "0,1"}], "value_malformed", "instances[0].gpus is '0,1'"),
        ([{"name": "a", "ranks": 1, "numa_nodes": [None]}], "value_malformed", "instances[0].numa_nodes"),
        ([{"name": "a", "ranks": 1, "pool_bytes_per_rank": -1}], "value_malformed", "pool_bytes_per_rank is -1"),
        ([{"name": "a", "rank": 1}], "option_unknown", "holds rank"),
        ([{"name": "a", "ranks": 1}] * 2, "instance_named_twice", "name a"),
    ],
)
def test_malformed_instances_are_refused_by_name(entries: Any, code: str, said: str) -> None:
    refusal = refused(instances_of, entries)
    assert refusal.code == code
    assert said in refusal.message
