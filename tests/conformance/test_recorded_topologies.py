# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Recordings of real machines, where they lie beside the repository (../shared/data); else skipped.

No recording is part of the project. What is expected of each comes from the notes that lie with them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_cpu_list
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import (
    TARS,
    TOPOLOGY,
    read_machine,
)

pytestmark = needs_recorded_data
# The first test is parametrized over them and would vanish without a word.
assert TARS or not DATA.is_dir(), f"{TOPOLOGY} holds no recorded topology (*/*.tar.*)"


Recorded = Callable[[str], Path]


@pytest.mark.parametrize("archive", TARS, ids=lambda path: path.name.split(".tar")[0])
def test_every_recording_is_read_and_makes_sense(archive: Path, recorded: Recorded) -> None:
    machine = read_machine(recorded(archive.name))
    assert [gpu.index for gpu in machine.gpus] == list(range(len(machine.gpus)))
    assert all(len(row) == len(machine.gpus) for row in machine.gpu_links)
    assert all(
        one == back for row, column in zip(machine.gpu_links, zip(*machine.gpu_links)) for one, back in zip(row, column)
    )
    ids = [node.id for node in machine.numa_nodes]
    assert ids == sorted(set(ids))
    assert {gpu.numa_node for gpu in machine.gpus} <= {*ids, None} or not ids
    cpus = [cpu for node in machine.numa_nodes for cpu in parse_cpu_list(node.cpus)]
    assert len(cpus) == len(set(cpus))
    online = set(parse_cpu_list(machine.host.cpus)) or set(cpus)
    assert set(cpus) <= online
    assert all(set(parse_cpu_list(node.cpus_usable)) <= set(parse_cpu_list(node.cpus)) for node in machine.numa_nodes)
    assert all(
        len(node.distances) == len(ids) and node.distances[ids.index(node.id)] == 10 for node in machine.numa_nodes
    )
    shares = [node.memory_available_bytes for node in machine.numa_nodes if node.memory_available_bytes is not None]
    if shares and machine.host.memory_available_bytes is not None:
        assert 0 <= sum(shares) <= machine.host.memory_available_bytes


@pytest.mark.parametrize(
    ("name", "nodes", "cpus"),
    [
        ("8xrtxpro6000-2xepyc9575f", [0, 1], 255),
        # CPU 4 is offline, which kernels of that age leave in the node's list.
        ("16amd64-8n2c-cpusets", [0, 1, 2, 3, 4, 5, 6, 7], 15),
        ("fakeheteromemtiers", [0, 1, 2, 4, 6, 8, 9], 6),
        ("20em64t-hybrid", [0], 20),
        ("2pa-pcidomain32bits", [0], 2),
        ("32amd64-4s2n4c-cgroup2", [0, 1, 2, 3, 4, 5, 6, 7], 32),
        ("32em64t-2n8c", [0, 1], 16),
        ("32intel64-2p8co2t", [0, 1], 32),
        ("48amd64-4pa2n6c-sparse", [0, 1, 2, 33, 34, 45, 72, 73], 48),
        ("64amd64-4p2n4ca2co", [0, 1, 2, 3, 4, 5, 6, 7], 64),
        ("64amd64-4s2n4ca2co", [0, 1, 2, 3, 4, 5, 6, 7], 64),
        # 0-3 and 21-23 are offline, and so is the node of the even ones.
        ("offline-cpu0-node0", [1], 8),
        ("memorysidecaches", [0, 1, 2, 3], 80),
        # Cut down to 32 CPUs by those who recorded it.
        ("nvidiagpunumanodes", [0, 8, 250, 251, 252, 253, 254, 255], 32),
    ],
)
def test_nodes_and_cpus(name: str, nodes: list[int], cpus: int, recorded: Recorded) -> None:
    machine = read_machine(recorded(name))
    assert [node.id for node in machine.numa_nodes] == nodes
    assert sum(len(parse_cpu_list(node.cpus)) for node in machine.numa_nodes) == cpus


def test_a_guest_with_one_gpu(recorded: Recorded) -> None:
    machine = read_machine(recorded("linux-amd64-accel-nvidia"))
    (gpu,) = machine.gpus
    assert (gpu.pci_device_id, gpu.numa_node, gpu.cpu_list) == ("10de:15f8", None, "0-7")
    assert machine.host.virtualization not in (None, "none")
    assert [problem.code for problem in machine.problems if problem.severity == "error"] == []


def test_memory_of_gpus_is_no_home_for_host_memory(recorded: Recorded) -> None:
    machine = read_machine(recorded("nvidiagpunumanodes"))
    kinds = {node.id: node.kind for node in machine.numa_nodes}
    assert kinds == {0: "general", 8: "general", **dict.fromkeys(range(250, 256), "gpu_memory")}
    assert "gpu_memory_as_numa_node" in {problem.code for problem in machine.problems}


def test_memory_without_cpus_is_told_from_that_of_gpus(recorded: Recorded) -> None:
    machine = read_machine(recorded("fakeheteromemtiers"))
    assert [node.id for node in machine.numa_nodes if node.kind == "memory"] == [4, 6, 8, 9]
    assert "memory_without_cpus" in {problem.code for problem in machine.problems}


@pytest.mark.parametrize(
    ("name", "version", "cpus", "nodes"),
    [
        # cpuset as a file system of its own below /dev/cpuset; CPU 4 would be allowed and is offline.
        ("16amd64-8n2c-cpusets", 1, "0-3,5-6,12-15", "1-4"),
        # Version 2 below /cgroup/unified, the group of a batch system's job.
        ("32amd64-4s2n4c-cgroup2", 2, "0-5", "0-5"),
        # Version 1; the group asks for all and the kernel grants it the first socket.
        ("nvidiagpunumanodes", 1, "0-15", "0"),
        # Groups that leave all there is set no limit.
        ("offline-cpu0-node0", 1, None, None),
        ("2pa-pcidomain32bits", 1, None, None),
        ("memorysidecaches", 1, None, None),
        ("fakeheteromemtiers", 2, None, None),
        # The groups' files were not recorded.
        ("20em64t-hybrid", None, None, None),
    ],
)
def test_what_control_groups_leave(
    name: str, version: int | None, cpus: str | None, nodes: str | None, recorded: Recorded
) -> None:
    host = read_machine(recorded(name)).host
    assert (host.cgroup_version, host.cpus_usable, host.memory_nodes_usable) == (version, cpus, nodes)


def test_offline_nodes_and_cpus(recorded: Recorded) -> None:
    machine = read_machine(recorded("offline-cpu0-node0"))
    # The kernel takes the folder of a node away with it, so only the CPUs tell.
    assert (machine.host.numa_nodes_offline, machine.host.cpus_offline) == (None, "0-3,21-23")
    assert machine.numa_nodes[0].distances == (10,)
    codes = {problem.code: problem.message for problem in machine.problems}
    assert codes["cpus_without_node"].startswith("CPUs 4,6,8,10,12,14,16,18,20 are online")
