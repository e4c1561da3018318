# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""A machine with 8 x H100 and 4 NVSwitches, of which only lspci was recorded: its PCI tree against the bus numbers that
lspci printed, against hwloc, and against what nvidia-smi prints on its class of machine."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.acs import acs_control, redirects
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import (
    DEVICES,
    NVSWITCH_CLASS,
    nvidia_functions,
    read_pci_gpus,
    read_place,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Driver, Gpu, Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import (
    LinkEnds,
    NvmlGpu,
    NvmlReading,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.tests.conformance.lspci import Printed, read_lspci, way_down, write_configs
from ansible_collections.gpufleet.sglang.tests.conformance.lstopo import complete_for_lstopo, read_lstopo
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import TOPOLOGY, read_machine, tar_named, unpack

pytestmark = needs_recorded_data

NVLINKS = 18


@pytest.fixture(name="machine")
def _machine(recorded: Callable[[str], Path]) -> Machine:
    return read_machine(recorded("8xh100-hgx"))


@pytest.fixture(name="printed", scope="module")
def _printed() -> dict[str, Printed]:
    return read_lspci(TOPOLOGY / "gpud-hgx-h100" / "lspci-vvv")


@pytest.fixture(name="root")
def _root(tmp_path: Path, printed: dict[str, Printed]) -> Path:
    root = unpack(tar_named("8xh100-hgx"), tmp_path)
    write_configs(root, printed)
    return root


def of_its_class() -> list[list[list[str]]]:
    """Rows of the matrices of machines with 8 x H100: the cells after the GPU's name."""
    found = []
    for entry in json.loads((TOPOLOGY / "smi-topo-matrices.json").read_text(encoding="utf-8")):
        if entry["n_gpu"] == 8 and any("H100" in line for line in entry["gpu_lines"]):
            rows = [line.split() for line in entry["topo"].splitlines() if re.match(r"\s*GPU\d+\s+.*\bX\b", line)]
            found.append([row[1:] for row in rows])
    assert len(found) > 10
    return found


def test_boards(machine: Machine) -> None:
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA H100 80GB HBM3"] * 8
    assert {(gpu.pcie.width, gpu.pcie.generation, gpu.pcie.slot_generation_max) for gpu in machine.gpus} == {(16, 5, 5)}
    assert machine.host.nvswitches == 4


def test_nodes_of_gpus_as_its_class_has_them(machine: Machine, printed: dict[str, Printed]) -> None:
    found = [gpu.numa_node for gpu in machine.gpus]
    assert found == [printed[gpu.pci_address or ""].numa_node for gpu in machine.gpus]
    # The column before "GPU NUMA ID"; machines with more nodes a socket (SNC) have others.
    splits = [[row[-2] for row in rows] for rows in of_its_class()]
    of_two = [split for split in splits if set(split) == {"0", "1"}]
    assert len(of_two) > 10
    assert all(split == [str(node) for node in found] for split in of_two)


def test_links_as_its_class_prints_them(recorded: Callable[[str], Path]) -> None:
    """With the links of each GPU into the switches, which only a driver tells."""
    root = recorded("8xh100-hgx")
    buses = read_pci_gpus(root)
    told = tuple(NvmlGpu(Gpu(index, pci_address=pci.address), LinkEnds((), NVLINKS)) for index, pci in enumerate(buses))
    unknown = tuple((None,) * len(told) for _gpu in told)
    nvml = NvmlReading(Driver(source="nvml"), told, unknown, unknown, ())
    machine = survey(read_host(root), (), buses, nvml)
    mine = [["X" if link.level == "SELF" else str(link.level) for link in row] for row in machine.gpu_links]
    assert {link.route for row in machine.gpu_links for link in row} == {None, "nvlink"}
    # One of these has lost links on some GPUs.
    matching = [rows for rows in of_its_class() if [row[:8] for row in rows] == mine]
    assert len(matching) >= len(of_its_class()) - 1


def test_each_gpu_has_a_root_port_of_its_own(machine: Machine) -> None:
    levels = [[link.level for link in row] for row in machine.gpu_links]
    near, far = ["NODE"] * 4, ["SYS"] * 4
    assert levels[0] == ["SELF", *near[1:], *far]
    assert levels[7] == [*far, *near[1:], "SELF"]
    # The way over PCIe is not theirs where NVLink may join them, and the driver was not asked.
    pairs = [link for row in machine.gpu_links for link in row if link.level != "SELF"]
    assert {(link.nvlinks, link.route) for link in pairs} == {(None, None)}


def test_the_way_down_by_bus_numbers(recorded: Callable[[str], Path], printed: dict[str, Printed]) -> None:
    root = recorded("8xh100-hgx")
    assert len(printed) == 517
    for address in printed:
        assert read_place(root, address).bridges[1:] == way_down(address, printed), address


def test_access_control_as_lspci_reads_it(root: Path, printed: dict[str, Printed]) -> None:
    assert len([one for one in printed.values() if one.acs is not None]) == 55
    for one in printed.values():
        assert acs_control((root / DEVICES / one.address / "config").read_bytes()) == (one.acs or 0), one.address


def test_only_the_ports_above_the_nvswitches_redirect(root: Path, printed: dict[str, Printed]) -> None:
    redirecting = {one.address for one in printed.values() if redirects(one.acs)}
    switches = [one for one in nvidia_functions(root) if one.pci_class == NVSWITCH_CLASS]
    assert redirecting == {way_down(switch.address, printed)[-1] for switch in switches}
    machine = read_machine(root)
    assert machine.host.acs_redirecting == ()
    assert not {problem.code for problem in machine.problems} & {"acs_redirects_peers", "acs_redirects_ports"}


def test_lstopo_agrees_about_the_tree(root: Path, printed: dict[str, Printed]) -> None:
    """No CPUs were recorded, so hwloc gets one for each node; which devices are near it comes from lspci."""
    places = {one.address: one.numa_node for one in printed.values() if one.numa_node is not None}
    complete_for_lstopo(root, {0: (0,), 1: (1,)}, places)
    seen = read_lstopo(root)
    for address in (one.address for one in nvidia_functions(root)):
        place, told = read_place(root, address), seen.devices[address]
        assert (place.bridges[1:], (place.numa_node,)) == (told.bridges, told.cpus), address
    assert {address for address in printed if address not in seen.devices} == set()
