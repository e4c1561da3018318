# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import (
    name_kind,
    parse_distances,
    read_numa_nodes,
    share_available,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host, Hugepages
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import GIB, NODES, node, write


def test_available_memory_is_shared_by_what_nodes_can_free() -> None:
    assert share_available(396_000_000_000, [198, 198]) == [198_000_000_000, 198_000_000_000]
    assert share_available(90, [10, None, 20]) == [30, None, 60]
    assert share_available(None, [1, 2]) == [None, None]
    assert share_available(5, [0, 0]) == [None, None]
    assert share_available(5, []) == []


def test_nodes_may_have_gaps_and_some_be_offline(tmp_path: Path) -> None:
    files = {f"{NODES}/online": "1,33,72"}
    for number, cpus in ((1, "0-5"), (33, "6-11"), (72, ""), (99, "12-17")):
        files.update(node(number, cpus, distance="10 20 20"))
    nodes = read_numa_nodes(write(tmp_path, files), Host(memory_available_bytes=3 * GIB // 2))
    assert [(one.id, one.cpus, one.has_cpus, one.kind) for one in nodes] == [
        (1, "0-5", True, "general"),
        (33, "6-11", True, "general"),
        (72, "", False, "memory"),
    ]
    assert {one.memory_total_bytes for one in nodes} == {GIB}
    assert [one.memory_available_bytes for one in nodes] == [GIB // 2] * 3
    assert nodes[0].distances == (10, 20, 20)


def test_folders_that_are_no_nodes_are_left_out(tmp_path: Path) -> None:
    strays = {f"{NODES}/node99999999/cpulist": "4", f"{NODES}/nodex/cpulist": "5", f"{NODES}/power": ""}
    assert [one.id for one in read_numa_nodes(write(tmp_path, {**node(0, "0-3"), **strays}), Host())] == [0]


def test_cpus_of_a_node_are_those_online(tmp_path: Path) -> None:
    root = write(tmp_path, {**node(0, "0-3"), **node(1, "4-7")})
    nodes = read_numa_nodes(root, Host(cpus="0-1,3"))
    assert [(one.cpus, one.has_cpus) for one in nodes] == [("0-1,3", True), ("", False)]


def test_what_control_groups_leave_of_a_node(tmp_path: Path) -> None:
    root = write(tmp_path, {**node(0, "0-3"), **node(1, "4-7"), **node(2, "8-11")})
    nodes = read_numa_nodes(root, Host(cpus="0-11", cpus_usable="2-5", memory_nodes_usable="1"))
    assert [(one.cpus_usable, one.usable) for one in nodes] == [("2-3", False), ("4-5", True), ("", False)]
    assert [(one.cpus_usable, one.usable) for one in read_numa_nodes(root, Host())] == [
        ("0-3", True),
        ("4-7", True),
        ("8-11", True),
    ]


@pytest.mark.parametrize(
    ("has_cpus", "size", "of_gpu", "kind"),
    [
        (True, GIB, False, "general"),
        (True, 0, False, "cpus"),
        (False, GIB, False, "memory"),
        (False, GIB, True, "gpu_memory"),
        # A GPU whose memory is offline still owns the node.
        (False, 0, True, "gpu_memory"),
        (False, 0, False, "empty"),
        (True, None, False, "general"),
        (False, None, False, "memory"),
    ],
)
def test_kinds_of_nodes(has_cpus: bool, size: int | None, of_gpu: bool, kind: str) -> None:
    assert name_kind(has_cpus, size, of_gpu) == kind


def test_a_grace_machine_with_34_nodes(tmp_path: Path) -> None:
    files = {f"{NODES}/online": "0-33", **node(0, "0-71"), **node(1, "72-143")}
    gpu_nodes = {2: "0008:01:00.0", 10: "0009:01:00.0", 18: "0018:01:00.0", 26: "0019:01:00.0"}
    for number in range(2, 34):
        files.update(node(number, "", total_kib=189 << 20 if number in gpu_nodes else 0))
    files[f"{NODES}/node3/hugepages/hugepages-2048kB/nr_hugepages"] = "0"
    for number, address in gpu_nodes.items():
        files[f"proc/driver/nvidia/gpus/{address}/numa_status"] = f"Node:      {number}\nStatus:    online"
    nodes = read_numa_nodes(write(tmp_path, files), Host())
    assert [one.id for one in nodes if one.kind == "general"] == [0, 1]
    assert [one.id for one in nodes if one.kind == "gpu_memory"] == [2, 10, 18, 26]
    empty = [one for one in nodes if one.kind == "empty"]
    assert len(empty) == 28
    assert {one.hugepages for one in empty} == {()}


def test_a_node_of_a_gpu_whose_memory_is_offline_is_not_named(tmp_path: Path) -> None:
    offline = {"proc/driver/nvidia/gpus/0004:05:00.0/numa_status": "Node: -1\nStatus: offline"}
    files = {**node(0, "0"), **node(1, ""), **offline}
    assert [one.kind for one in read_numa_nodes(write(tmp_path, files), Host())] == ["general", "memory"]


@pytest.mark.parametrize(
    ("text", "online", "possible", "distances"),
    [
        ("10 21", [0, 1], [0, 1], (10, 21)),
        ("21 10", [1], [0, 1], (10,)),
        ("10 20 30", [0, 2], [0, 1, 2], (10, 30)),
        ("10 20 30", [0, 1], [0, 1], ()),
        ("10 -1", [0, 1], [], ()),
        ("10 4294967295", [0, 1], [], ()),
        ("ten", [0], [], ()),
        ("", [0], [], ()),
        (None, [0], [], ()),
    ],
)
def test_distances_fit_the_nodes_or_are_left_out(
    text: str | None, online: list[int], possible: list[int], distances: tuple[int, ...]
) -> None:
    assert parse_distances(text, online, possible) == distances


def test_huge_pages_by_size(tmp_path: Path) -> None:
    pages = f"{NODES}/node0/hugepages"
    files = {
        **node(0, "0"),
        f"{pages}/hugepages-1048576kB/nr_hugepages": "4",
        f"{pages}/hugepages-1048576kB/free_hugepages": "3",
        f"{pages}/hugepages-2048kB/nr_hugepages": "5",
        f"{pages}/hugepages-64kB/nr_hugepages": "-1",
        f"{pages}/hugepages-32kB/nr_hugepages": "2",
        f"{pages}/hugepages-32kB/free_hugepages": "9",
        f"{pages}/hugepages-999999999999kB/nr_hugepages": "99999999999",
        f"{pages}/rubbish/nr_hugepages": "1",
    }
    (one,) = read_numa_nodes(write(tmp_path, files), Host())
    assert one.hugepages == (Hugepages(32 << 10, 2, 2), Hugepages(2 << 20, 5, 5), Hugepages(GIB, 4, 3))


def test_the_only_node_holds_the_hosts_memory(tmp_path: Path) -> None:
    host = Host(memory_total_bytes=8 * GIB, memory_available_bytes=6 * GIB, memory_free_bytes=5 * GIB)
    (one,) = read_numa_nodes(write(tmp_path, node(0, "0-3", total_kib=0)), host)
    assert (one.memory_total_bytes, one.memory_available_bytes, one.memory_free_bytes) == (8 * GIB, 6 * GIB, 5 * GIB)
    assert one.kind == "general"


def test_the_only_node_online_of_several_holds_its_own(tmp_path: Path) -> None:
    root = write(tmp_path, {f"{NODES}/possible": "0-1", f"{NODES}/online": "1", **node(1, "0-3")})
    (one,) = read_numa_nodes(root, Host(memory_total_bytes=8 * GIB, memory_available_bytes=6 * GIB))
    assert (one.memory_total_bytes, one.memory_available_bytes) == (GIB, 6 * GIB)


def test_a_node_whose_memory_cannot_be_read_has_unknown_memory(tmp_path: Path) -> None:
    files = {**node(0, "0-3"), f"{NODES}/node1/cpulist": "4-7"}
    nodes = read_numa_nodes(write(tmp_path, files), Host(memory_available_bytes=1000))
    assert (nodes[1].memory_total_bytes, nodes[1].memory_available_bytes, nodes[1].kind) == (None, None, "general")
    assert nodes[0].memory_available_bytes == 1000


def test_hostile_texts_neither_crash_nor_fill_the_memory(tmp_path: Path) -> None:
    files = {
        f"{NODES}/online": "0-4294967295",
        f"{NODES}/possible": "0-99999999999",
        f"{NODES}/node0/cpulist": "0-4294967295,-5,9-2",
        f"{NODES}/node0/distance": "10 " * 100_000,
        f"{NODES}/node0/meminfo": "Node 0 MemTotal: " + "9" * 5000 + " kB",
    }
    (one,) = read_numa_nodes(write(tmp_path, files), Host(cpus="0-3", cpus_usable="0-4294967295"))
    assert (one.cpus, one.cpus_usable, one.distances, one.memory_total_bytes) == ("0-3", "0-3", (), None)
