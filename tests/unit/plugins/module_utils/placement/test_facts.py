# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import (
    HugepageFacts,
    Link,
    machine_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Gpu,
    GpuLink,
    GpuProcess,
    Host,
    Machine,
    Mode,
    NumaNode,
)


def test_a_survey_is_taken_as_it_is() -> None:
    surveyed = Machine(
        gpus=(
            Gpu(0, uuid="GPU-a", name="H100", numa_node=1, processes=(GpuProcess(7, None, "python"),)),
            Gpu(1, usable=False, mig=Mode(True, True), compute_capability="9.0"),
        ),
        numa_nodes=(
            NumaNode(0, "0-3", True, cpus_usable="0-3", memory_total_bytes=2**30, distances=(10, 32)),
            NumaNode(1, "4-7", True, cpus_usable="4-7", memory_total_bytes=2**30, distances=(32, 10)),
        ),
        gpu_links=(
            (GpuLink("SELF", None), GpuLink("NV4", "ok", 4)),
            (GpuLink("NV4", "ok", 4), GpuLink("SELF", None)),
        ),
        host=Host(memory_available_bytes=20),
        driver=Driver(),
        problems=(),
    )
    facts = machine_facts(surveyed.as_dict())
    assert (facts.gpus[0].uuid, facts.gpus[0].numa_node, facts.gpus[0].users) == ("GPU-a", 1, ("python",))
    assert (facts.gpus[1].trouble, facts.gpus[1].compute_capability) == ("MIG divides it", (9, 0))
    assert facts.links[1, 0] == Link("NV4", 4)
    assert facts.nodes[0].distances == {0: 10, 1: 32}
    assert facts.memory_available_bytes == 20


def test_on_paper_little_is_enough() -> None:
    facts = machine_facts({"gpus": [{"numa_node": "1"}, {}], "numa_nodes": [{}, {}]})
    assert [(gpu.index, gpu.numa_node, gpu.trouble) for gpu in facts.gpus] == [(0, 1, None), (1, None, None)]
    assert [(node.id, node.is_home) for node in facts.nodes] == [(0, True), (1, True)]
    assert machine_facts({}).gpus == ()


@pytest.mark.parametrize(
    ("changes", "home"),
    [
        ({}, True),
        ({"memory_total_bytes": 0}, False),
        ({"has_cpus": False}, False),
        ({"usable": False}, False),
        ({"kind": "general", "memory_total_bytes": 2**20}, True),
        ({"kind": "gpu_memory"}, False),
        ({"kind": "memory"}, False),
        ({"kind": "cpus"}, False),
    ],
)
def test_ranks_live_where_cpus_and_memory_are(changes: dict[str, Any], home: bool) -> None:
    (node,) = machine_facts({"numa_nodes": [{"id": 3, **changes}]}).nodes
    assert node.is_home is home


def test_a_node_whose_cpus_are_closed_to_services_is_no_home() -> None:
    nodes = [{"id": 0, "cpus": "0-3", "cpus_usable": "0-3"}, {"id": 1, "cpus": "4-7", "cpus_usable": ""}]
    assert [node.id for node in machine_facts({"numa_nodes": nodes, "host": {"cpus_usable": "0-3"}}).homes] == [0]
    # Without a limit the survey leaves no list of usable CPUs behind, and all of them count.
    free = machine_facts({"numa_nodes": [{**node, "cpus_usable": ""} for node in nodes]})
    assert [(node.id, node.cpus) for node in free.homes] == [(0, "0-3"), (1, "4-7")]


def test_distances_follow_the_order_of_the_list() -> None:
    facts = machine_facts({"numa_nodes": [{"id": 8, "distances": [10, 40]}, {"id": 0, "distances": [40, 10]}]})
    assert {node.id: node.distances for node in facts.nodes} == {0: {8: 40, 0: 10}, 8: {8: 10, 0: 40}}


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ({"state": "lost"}, "the driver has lost it"),
        ({"state": "reset_required"}, "the driver wants it to be reset"),
        ({"mig": {"enabled": True, "pending": True}}, "MIG divides it"),
        ({"kernel_driver": "vfio-pci"}, "the kernel driver vfio-pci holds it"),
        ({"compute_mode": "prohibited"}, "its compute mode forbids compute processes"),
        ({"virtualization": "host_vgpu"}, "it gives slices of itself to guests"),
        ({"kernel_driver": "nvidia"}, "the survey of the host calls it unusable"),
    ],
)
def test_an_unusable_gpu_says_why(gpu: dict[str, Any], why: str) -> None:
    assert machine_facts({"gpus": [{"usable": False, **gpu}]}).gpus[0].trouble == why
    # What may be is the survey's to judge.
    assert machine_facts({"gpus": [{"usable": True, **gpu}]}).gpus[0].trouble is None


def test_a_gpu_that_waits_for_its_driver_is_planned() -> None:
    assert machine_facts({"gpus": [{"usable": False, "kernel_driver": "nouveau"}]}).gpus[0].trouble is None


def test_processes_without_a_name_go_by_their_number() -> None:
    (gpu,) = machine_facts({"gpus": [{"processes": [{"pid": 12, "name": None}]}]}).gpus
    assert gpu.users == ("process 12",)


@pytest.mark.parametrize(
    ("topology", "named"),
    [
        ({"gpus": 5}, "topology.gpus"),
        ({"gpus": [{"usable": "no"}]}, "topology.gpus[0].usable"),
        ({"gpus": [{"uuid": 7}]}, "topology.gpus[0].uuid"),
        ({"gpus": [{"processes": [1]}]}, "topology.gpus[0].processes"),
        ({"gpus": [{}, {}], "gpu_links": [[]]}, "topology.gpu_links"),
        ({"gpus": [{}], "gpu_links": [[{}, {}]]}, "topology.gpu_links"),
        ({"numa_nodes": [{"distances": "far"}]}, "topology.numa_nodes[0].distances"),
        ({"numa_nodes": [{"has_cpus": 1}]}, "topology.numa_nodes[0].has_cpus"),
        ({"host": []}, None),
        ({"host": [1]}, "topology.host"),
        ({"assumptions": "one"}, "topology.assumptions"),
    ],
)
def test_what_is_malformed_is_refused_by_name(topology: dict[str, Any], named: str | None) -> None:
    if named is None:
        assert machine_facts(topology).memory_total_bytes is None
        return
    with pytest.raises(Refusal) as refused:
        machine_facts(topology)
    assert refused.value.code == "value_malformed"
    assert named in refused.value.message


def test_huge_pages_are_those_of_the_survey_or_unknown() -> None:
    pages = {"size_bytes": 2 << 20, "total": 10, "free": 4}
    nodes = [{"id": 0, "hugepages": [pages]}, {"id": 1, "hugepages": []}, {"id": 2}]
    found = [node.hugepages for node in machine_facts({"numa_nodes": nodes}).nodes]
    assert found == [(HugepageFacts(2 << 20, 10, 4),), (), None]
    # On paper nothing uses them yet.
    on_paper = [{"id": 0, "hugepages": [{"size_bytes": 1 << 30, "total": 200}]}]
    assert machine_facts({"numa_nodes": on_paper}).nodes[0].hugepages == (HugepageFacts(1 << 30, 200, 200),)


@pytest.mark.parametrize(
    "pages", [{"total": 3}, {"size_bytes": 0, "total": 3}, {"size_bytes": 1, "total": -1}, {"size_bytes": 1, "free": 2}]
)
def test_impossible_huge_pages_are_refused_by_name(pages: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        machine_facts({"numa_nodes": [{"id": 0, "hugepages": [pages]}]})
    assert "topology.numa_nodes[0].hugepages" in refusal.value.message


@pytest.mark.parametrize(
    ("topology", "named"),
    [
        ({"host": {"memory_total_bytes": 2**34, "memory_available_bytes": 2**34 + 1}}, "topology.host"),
        (
            {"numa_nodes": [{}, {"memory_total_bytes": 2**34, "memory_available_bytes": 2**34 + 1}]},
            "topology.numa_nodes[1]",
        ),
    ],
)
def test_no_part_is_larger_than_the_whole(topology: dict[str, Any], named: str) -> None:
    with pytest.raises(Refusal) as refusal:
        machine_facts(topology)
    assert refusal.value.code == "topology_inconsistent"
    assert refusal.value.message.startswith(f"{named}.memory_available_bytes is {2**34 + 1} bytes, more than")
    assert refusal.value.evidence == {
        "key": f"{named}.memory_available_bytes",
        "value": 2**34 + 1,
        "largest": 2**34,
    }


def test_all_of_the_memory_may_be_available() -> None:
    whole = {"memory_total_bytes": 2**34, "memory_available_bytes": 2**34}
    facts = machine_facts({"host": whole, "numa_nodes": [whole]})
    assert (facts.memory_available_bytes, facts.nodes[0].memory_available_bytes) == (2**34, 2**34)
