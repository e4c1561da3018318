# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.findings.nodes import node_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, Host, NumaNode, Pcie
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.places import placed, placed_nodes

GB = 10**9
HOST = Host(memory_total_bytes=1000 * GB, cpus="0-15")
ZERO = NumaNode(0, "0-7", True, cpus_usable="0-7", memory_total_bytes=500 * GB)
ONE = NumaNode(1, "8-15", True, cpus_usable="8-15", memory_total_bytes=500 * GB)


def gpu(index: int, node: int | None) -> Joined:
    pci = PciGpu(f"0000:0{index}:00.0", "10de:2330", (), node, None, "nvidia", Pcie(), None)
    return Joined(Gpu(index, numa_node=node), pci, None)


def found(nodes: tuple[NumaNode, ...], host: Host = HOST, at: tuple[int | None, ...] = (0, 1)) -> dict[str, str]:
    pairs = [placed(gpu(index, node), nodes) for index, node in enumerate(at)]
    homes = placed_nodes(nodes, [pair.gpu for pair in pairs])
    return {problem.code: problem.message for problem in node_problems(pairs, homes, host)}


def test_a_usual_machine_has_no_problem() -> None:
    assert found((ZERO, ONE)) == {}
    assert found((ZERO, ONE), at=()) == {}


@pytest.mark.parametrize(
    ("host", "code", "message"),
    [
        (replace(HOST, memory_total_bytes=None), "memory_not_reported", "There is no MemTotal in /proc/meminfo."),
        (replace(HOST, hugepages_total_bytes=GB), "hugepages_reserved", "1.00 GB lie in huge pages."),
        (replace(HOST, cgroup_limit_bytes=8 * GB), "cgroup_memory_limited", "Control groups allow 8.00 GB."),
        (
            replace(HOST, cgroup_limit_bytes=8 * GB, cgroup_available_bytes=3 * GB),
            "cgroup_memory_limited",
            "Control groups allow 8.00 GB, of which 3.00 GB are left.",
        ),
        (
            replace(HOST, cpus_usable="0-11"),
            "cgroup_cpus_limited",
            "Control groups allow the CPUs 0-11 of 0-15.",
        ),
        (
            replace(HOST, cpu_quota=2.5),
            "cgroup_cpu_quota",
            "Control groups allow as much CPU time as 2.5 CPUs have.",
        ),
        (replace(HOST, cpus_offline="16"), "cpus_offline", "Offline CPUs: 16."),
        (replace(HOST, cpus_isolated="2-7"), "cpus_isolated", "Isolated CPUs: 2-7."),
        (replace(HOST, numa_nodes_offline="2,5"), "numa_nodes_offline", "Offline NUMA nodes: 2,5."),
        (
            replace(HOST, cpus="0-19"),
            "cpus_without_node",
            "CPUs 16-19 are online and belong to no NUMA node that is.",
        ),
    ],
)
def test_the_host_is_judged(host: Host, code: str, message: str) -> None:
    assert found((ZERO, ONE), host) == {code: message}


def test_limits_that_limit_nothing_are_no_problem() -> None:
    assert found((ZERO, ONE), replace(HOST, cgroup_limit_bytes=2000 * GB, cpu_quota=16.0)) == {}
    # A quota as wide as the CPUs that a cpuset leaves stops nobody.
    assert list(found((ZERO, ONE), replace(HOST, cpus_usable="0-11", cpu_quota=12.0))) == ["cgroup_cpus_limited"]


def test_without_nodes_there_is_nothing_to_place_on() -> None:
    assert list(found((), at=(0,))) == ["numa_not_reported"]


def test_a_node_that_groups_bar_matters_where_gpus_are() -> None:
    barred = (ZERO, replace(ONE, usable=False, cpus_usable=""))
    limited = replace(HOST, cpus_usable="0-7", memory_nodes_usable="0")
    codes = found(barred, limited)
    assert codes["cgroup_memory_nodes_limited"] == "Control groups allow memory of NUMA node 0 only."
    assert codes["cgroup_bars_gpu_node"] == "GPU 1: control groups allow no memory and CPUs of their node 1."
    assert "cgroup_bars_gpu_node" not in found(barred, limited, at=(0,))
    only_cpus = found((ZERO, replace(ONE, cpus_usable="")), replace(HOST, cpus_usable="0-7"))
    assert only_cpus["cgroup_bars_gpu_node"] == "GPU 1: control groups allow no CPUs of their node 1."


def test_unknown_places_matter_only_with_several_nodes() -> None:
    assert found((ZERO, ONE), at=(None, 1)) == {"gpu_numa_unknown": "GPU 0: NUMA node unknown, the host has 2."}
    assert found((ZERO,), replace(HOST, cpus="0-7"), at=(None, 0)) == {}


def test_a_place_that_is_not_there_is_named_once() -> None:
    assert found((ZERO, ONE), at=(0, 7)) == {"gpu_numa_absent": "GPU 1: the kernel names node 7, which is not online."}


def test_all_gpus_on_one_of_several_nodes() -> None:
    assert found((ZERO, ONE), at=(1, 1)) == {"gpus_on_one_numa_node": "All 2 GPUs are on node 1 of 2."}
    assert found((ZERO, ONE), at=(1,)) == {}


def test_nodes_without_cpus_are_told_apart() -> None:
    bare = NumaNode(2, "", False, kind="memory", memory_total_bytes=64 * GB)
    gpus = NumaNode(3, "", False, kind="gpu_memory", memory_total_bytes=96 * GB)
    empty = NumaNode(4, "", False, kind="empty", memory_total_bytes=0)
    assert found((ZERO, ONE, bare)) == {"memory_without_cpus": "NUMA node 2 has 64.00 GB and no CPUs."}
    assert found((ZERO, ONE, gpus)) == {
        "gpu_memory_as_numa_node": "NUMA node 3 is memory of GPUs, 96.00 GB of what the host counts as its own."
    }
    more = replace(gpus, id=5, memory_total_bytes=4 * GB)
    assert found((ZERO, ONE, gpus, empty, more)) == {
        "gpu_memory_as_numa_node": "NUMA nodes 3,5 are memory of GPUs, 100.00 GB of what the host counts as its own."
    }
    assert found((ZERO, ONE, empty)) == {}


def test_gpus_on_a_node_that_lacks_something() -> None:
    no_memory = replace(ONE, kind="cpus", memory_total_bytes=0)
    assert found((ZERO, no_memory)) == {"gpu_node_without_memory": "GPU 1: node 1 has no memory."}
    assert found((ZERO, no_memory), at=(0,)) == {}
    no_cpus = NumaNode(1, "", False, kind="memory", memory_total_bytes=500 * GB)
    codes = found((ZERO, no_cpus), replace(HOST, cpus="0-7"))
    assert codes["gpu_node_without_cpus"] == "GPU 1: node 1 has no CPUs."


def test_uneven_nodes_matter_where_gpus_are() -> None:
    small = replace(ONE, memory_total_bytes=250 * GB)
    assert found((ZERO, small)) == {
        "gpu_nodes_uneven": "The nodes of the GPUs differ: node 0 has 500.00 GB, node 1 has 250.00 GB."
    }
    assert found((ZERO, small), at=(0,)) == {}
    assert found((ZERO, replace(ONE, memory_total_bytes=495 * GB))) == {}
    assert found((ZERO, replace(ONE, memory_total_bytes=None))) == {}


def test_a_size_that_cannot_be_read_is_not_called_none() -> None:
    lone = NumaNode(2, "", False, kind="memory")
    sized = replace(lone, id=3, memory_total_bytes=64 * GB)
    said = "memory_without_cpus"
    assert found((ZERO, ONE, lone))[said] == "NUMA node 2 has an unknown amount of memory and no CPUs."
    assert found((ZERO, ONE, lone, sized))[said] == "NUMA nodes 2-3 have at least 64.00 GB and no CPUs."
    assert found((ZERO, ONE, sized))[said] == "NUMA node 3 has 64.00 GB and no CPUs."
