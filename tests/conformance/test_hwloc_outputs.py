# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The outputs that hwloc's own tests expect of a machine whose GPUs' memory forms NUMA nodes, against the probe.

These were written by a newer hwloc than the one that is installed, and are checked in by its authors.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_memory_nodes, read_place
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_cpu_list
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.places import node_of
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import TOPOLOGY, read_machine

pytestmark = needs_recorded_data

GIB = 1 << 30
NODE = re.compile(
    r"NUMANode(?P<gpu>\(GPUMemory\))? L#\d+ \(P#(?P<id>\d+) local=(?P<gib>\d+)GiB .*?(?:PCIBusID=(?P<bus>\S+))?\)$"
)


@pytest.fixture(name="root")
def _root(recorded: Callable[[str], Path]) -> Path:
    return recorded("nvidiagpunumanodes")


def expected(name: str) -> str:
    return (TOPOLOGY / "hwloc-linux" / name).read_text(encoding="utf-8")


def nodes_in(text: str) -> dict[int, re.Match[str]]:
    found = (NODE.search(line) for line in text.splitlines())
    return {int(match["id"]): match for match in found if match}


def test_the_nodes_with_those_of_gpus(root: Path) -> None:
    told = nodes_in(expected("nvidiagpunumanodes-kept.console"))
    machine = read_machine(root)
    assert [node.id for node in machine.numa_nodes] == sorted(told)
    for node in machine.numa_nodes:
        # hwloc rounds to whole GiB, the nearest.
        assert abs((node.memory_total_bytes or 0) / GIB - int(told[node.id]["gib"])) <= 1
        assert (node.kind == "gpu_memory") == bool(told[node.id]["gpu"])
    gpus = {int(match["id"]): match["bus"] for match in told.values() if match["gpu"]}
    assert {node: address for address, node in read_memory_nodes(root).items()} == gpus
    assert len(gpus) == 6


def test_without_them_the_nodes_that_host_memory_may_go_to_are_left(root: Path) -> None:
    told = nodes_in(expected("nvidiagpunumanodes.console"))
    assert sorted(told) == [node.id for node in read_machine(root).numa_nodes if node.kind == "general"]


def test_cpus_and_devices_are_below_the_same_node(root: Path) -> None:
    machine = read_machine(root)
    cpus: dict[int, list[int]] = {}
    devices: dict[str, int] = {}
    package = -1
    for line in expected("nvidiagpunumanodes.console").splitlines():
        if match := re.search(r"NUMANode L#\d+ \(P#(\d+)", line):
            package = int(match.group(1))
        if match := re.search(r"PU L#\d+ \(P#(\d+)\)", line):
            cpus.setdefault(package, []).append(int(match.group(1)))
        if match := re.search(r"PCI L#\d+ \(busid=(\S+)", line):
            devices[match.group(1)] = package
    assert {node.id: list(parse_cpu_list(node.cpus)) for node in machine.numa_nodes if node.has_cpus} == cpus
    places = {device: read_place(root, device) for device in devices}
    found = {device: node_of(one.numa_node, one.cpu_list, machine.numa_nodes) for device, one in places.items()}
    assert found == devices
    assert len(devices) == 6


def test_distances(root: Path) -> None:
    text = expected("nvidiagpunumanodes-kept.console")
    matrix = re.search(r"index +([\d ]+)\n((?: +\d+[ \d]+\n)+)", text)
    assert matrix
    order = [int(number) for number in matrix.group(1).split()]
    rows = [[int(number) for number in row.split()][1:] for row in matrix.group(2).splitlines()]
    # By logical index, which is the place among hwloc's nodes in the order of the listing.
    logical = [int(match["id"]) for match in map(NODE.search, text.splitlines()) if match]
    told = {(logical[one], logical[two]): rows[at][to] for at, one in enumerate(order) for to, two in enumerate(order)}
    machine = read_machine(root)
    ids = [node.id for node in machine.numa_nodes]
    assert {(node.id, other): far for node in machine.numa_nodes for other, far in zip(ids, node.distances)} == told
