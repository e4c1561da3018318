# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What a person reads of a survey."""

import json
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Gpu,
    GpuLink,
    Host,
    Machine,
    NumaNode,
    Pcie,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.summary import survey_lines

GIB = 1 << 30
BOARD = Gpu(
    index=0,
    name="NVIDIA H100 80GB HBM3",
    memory_total_bytes=80 * GIB,
    memory_source="nvml",
    compute_capability="9.0",
    pcie=Pcie(generation_max=5, width_max=16, state="idle"),
)
SAME = GpuLink("SELF", None)


def machine(gpus: list[Gpu], links: list[list[GpuLink]], **parts: Any) -> Machine:
    rows = tuple(tuple(row) for row in links)
    given = {"numa_nodes": (), "host": Host(), "driver": Driver(source="nvml"), "problems": (), **parts}
    return Machine(gpus=tuple(gpus), gpu_links=rows, **given)


def lines(found: Machine, stack: dict[str, Any] | None = None) -> list[str]:
    """As the filter gets it: through JSON."""
    return survey_lines(json.loads(json.dumps(found.as_dict())), stack)


def entry(text: list[str], label: str) -> list[str]:
    """The lines below one label, without the label."""
    start = next((place for place, line in enumerate(text) if line.startswith(label)), None)
    if start is None:
        return []
    rest = text[start + 1 :]
    count = next((place for place, line in enumerate(rest) if not line.startswith(" ")), len(rest))
    return [line[11:] for line in text[start : start + 1 + count]]


def test_gpus_of_one_kind_are_one_entry_with_their_nodes() -> None:
    gpus = [replace(BOARD, index=index, numa_node=index // 2) for index in range(4)]
    links = [[SAME if one == two else GpuLink("NV18", "ok", 18, "nvlink") for two in range(4)] for one in range(4)]
    text = lines(machine(gpus, links))
    assert entry(text, "GPUs") == [
        "4 x NVIDIA H100 80GB HBM3, 80.0 GiB each, compute capability 9.0, PCIe 5 x16 (idle)",
        "GPU 0-1 on node 0; 2-3 on node 1",
    ]
    assert entry(text, "Links") == ["NV18, over NVLink, peer access ok: 0+1 0+2 0+3 1+2 1+3 2+3"]


def test_kinds_that_differ_and_what_cannot_be_used_are_told_apart() -> None:
    small = replace(BOARD, index=1, name="NVIDIA L40S", memory_total_bytes=None, usable=False, pcie=Pcie())
    text = lines(machine([BOARD, small], [[SAME, GpuLink(None, None)], [GpuLink(None, None), SAME]]))
    assert entry(text, "GPUs") == [
        "1 x NVIDIA H100 80GB HBM3, 80.0 GiB each, compute capability 9.0, PCIe 5 x16 (idle)",
        "GPU 0 on an unknown node",
        "1 x NVIDIA L40S, memory unknown, compute capability 9.0",
        "GPU 1 on an unknown node",
        "not for a server as they are: GPU 1",
    ]
    assert entry(text, "Links") == ["unknown: 0+1"]


def test_a_level_without_word_of_nvlink_is_marked() -> None:
    unasked = GpuLink("SYS", None)
    two = [BOARD, replace(BOARD, index=1)]
    assert entry(lines(machine(two, [[SAME, unasked], [unasked, SAME]])), "Links") == ["SYS, NVLink unknown: 0+1"]
    known = replace(unasked, route="host")
    assert entry(lines(machine(two, [[SAME, known], [known, SAME]])), "Links") == ["SYS, through the host: 0+1"]


def test_the_closest_links_come_first_and_many_are_counted() -> None:
    gpus = [replace(BOARD, index=index) for index in range(6)]
    near = {(0, 1), (2, 3)}
    links = [
        [
            SAME
            if one == two
            else GpuLink("PIX", "ok", 0, "redirected")
            if (min(one, two), max(one, two)) in near
            else GpuLink("SYS", "chipset_not_supported", 0, "host")
            for two in range(6)
        ]
        for one in range(6)
    ]
    assert entry(lines(machine(gpus, links)), "Links") == [
        "PIX, up to the host, as ACS redirects it, peer access ok: 0+1 2+3",
        "SYS, through the host, peer access chipset_not_supported: 13 pairs",
    ]


def test_nodes_say_what_they_hold_and_lack() -> None:
    nodes = (
        NumaNode(0, "0-7", True, memory_total_bytes=64 * 10**9, memory_available_bytes=60 * 10**9, gpus=(0,)),
        NumaNode(1, "8-15", True, kind="cpus", memory_total_bytes=0, usable=False),
        NumaNode(2, "", False, kind="memory", memory_total_bytes=256 * 10**9),
        NumaNode(3, "", False, kind="empty"),
        NumaNode(4, "", False, kind="empty"),
    )
    assert entry(lines(machine([BOARD], [[SAME]], numa_nodes=nodes)), "NUMA") == [
        "node 0: CPUs 0-7, 64.0 GB, 60.0 GB available, GPU 0",
        "node 1, no memory: CPUs 8-15, 0.0 GB, closed to services by a cpuset",
        "node 2, no CPUs: 256.0 GB",
        "2 empty nodes: 3-4",
    ]


def test_limits_are_told_only_where_there_are_some() -> None:
    free = Host(cpus="0-15", cpus_usable="0-15")
    assert entry(lines(machine([BOARD], [[SAME]], host=free)), "Service") == []
    limited = Host(
        cpus="0-15", cpus_usable="0-3", cpu_quota=2.5, cgroup_limit_bytes=32 * 10**9, memory_nodes_usable="0"
    )
    assert entry(lines(machine([BOARD], [[SAME]], host=limited)), "Service") == [
        "may use CPUs 0-3, the time of 2.5 CPUs, 32.0 GB of memory, memory of node 0"
    ]


def test_problems_of_both_surveys_come_last_the_worst_first() -> None:
    own = (Problem("a", "info", "Fact.", "Nothing."), Problem("b", "error", "Broken.", "Mend it."))
    stack = {"problems": [{"code": "c", "severity": "warning", "message": "Old.", "remedy": "Update."}]}
    text = lines(machine([BOARD], [[SAME]], problems=own), stack)
    assert text[-3:] == [
        "Error      Broken. Mend it. [b]",
        "Warning    Old. Update. [c]",
        "Info       Fact. Nothing. [a]",
    ]


def test_a_host_without_anything_is_told_without_a_word_too_many() -> None:
    nothing = machine([], [], driver=Driver())
    assert lines(nothing) == ["Host       memory unknown", "Driver     none loaded, no GPU"]


def test_the_flavour_of_the_module_is_told_where_it_is_known() -> None:
    found = machine([BOARD], [[SAME]], driver=Driver("595.58.03", "13.595.58.03", "13.2", "nvml"))
    stack = {"driver": {"loaded": {"version": "595.58.03", "flavour": "open"}}, "problems": []}
    assert entry(lines(found, stack), "Driver") == ["595.58.03 (open kernel module), CUDA up to 13.2, NVML answered"]
