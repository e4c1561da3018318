# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""A machine with 8 x RTX PRO 6000, of which several programs have told what they saw: lspci, lscpu, numactl,
nvidia-smi. Each against the others and against what the probe reads from sysfs."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.acs import acs_control
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import (
    DEVICES,
    read_pci_gpus,
    read_place,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    parse_cpu_list,
    parse_pci_address,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.tests.conformance.lspci import (
    ACS_BITS,
    Printed,
    config_of,
    read_lspci,
    way_down,
    write_configs,
)
from ansible_collections.gpufleet.sglang.tests.conformance.lstopo import complete_for_lstopo, read_lstopo
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import TOPOLOGY, read_machine, tar_named, unpack

LOGS = TOPOLOGY / "rtx6kpro-asus-8xrtxpro6000"
pytestmark = needs_recorded_data

REQUEST_REDIRECT = 1 << ACS_BITS.index("ReqRedir")
OFFLINE_CPU = 239


def log(name: str) -> str:
    """Without the colours that nvidia-smi puts around its heading."""
    return re.sub(r"\x1b\[[\d;]*m", "", (LOGS / name).read_text(encoding="utf-8"))


@pytest.fixture(name="machine")
def _machine(recorded: Callable[[str], Path]) -> Machine:
    return read_machine(recorded("8xrtxpro6000"))


@pytest.fixture(name="printed", scope="module")
def _printed() -> dict[str, Printed]:
    return read_lspci(LOGS / "lspci_full.log")


@pytest.fixture(name="root")
def _root(tmp_path: Path, printed: dict[str, Printed]) -> Path:
    """The tree with the configuration space that lspci saw."""
    root = unpack(tar_named("8xrtxpro6000"), tmp_path)
    write_configs(root, printed)
    return root


def matrix_of_smi() -> list[list[str]]:
    rows = [line.split("\t") for line in log("nvidia_topo.log").splitlines() if re.match(r"GPU\d+\t", line)]
    assert len(rows) == 8
    return [[cell.strip() for cell in row] for row in rows]


def nodes_of_numactl() -> dict[int, tuple[int, ...]]:
    found = re.findall(r"^node (\d+) cpus: ([\d ]+)$", log("numa.log"), re.MULTILINE)
    return {int(node): tuple(int(cpu) for cpu in cpus.split()) for node, cpus in found}


def gpus_of_smi() -> dict[str, dict[str, str]]:
    """Of nvidia-smi -q what has one value a GPU under a heading that is searched for."""
    found = {}
    for stanza in re.split(r"^GPU (?=[0-9A-F]{8}:)", log("nvidia_smi_full.log"), flags=re.MULTILINE)[1:]:
        wanted = {
            "generation_max": r"Device Max\s*: (\d+)",
            "generation": r"PCIe Generation\n.*\n\s*Current\s*: (\d+)",
            "slot_generation_max": r"Host Max\s*: (\d+)",
            "width_max": r"Link Width\n\s*Max\s*: (\d+)x",
            "width": r"Link Width\n.*\n\s*Current\s*: (\d+)x",
            "mib": r"FB Memory Usage\n\s*Total\s*: (\d+) MiB",
            "device": r"Device Id\s*: 0x(\w{4})10DE",
        }
        matches = {name: re.search(pattern, stanza) for name, pattern in wanted.items()}
        assert all(matches.values()), matches
        address = parse_pci_address(stanza.split()[0])
        assert address is not None
        found[address] = {name: match.group(1) for name, match in matches.items() if match}
    assert len(found) == 8
    return found


def test_nodes_of_gpus(machine: Machine, printed: dict[str, Printed]) -> None:
    found = [gpu.numa_node for gpu in machine.gpus]
    assert found == [printed[gpu.pci_address or ""].numa_node for gpu in machine.gpus]
    assert found == [int(row[10]) for row in matrix_of_smi()]
    assert found == [0, 0, 0, 0, 1, 1, 1, 1]


def test_cpus_of_nodes(machine: Machine) -> None:
    found = {node.id: parse_cpu_list(node.cpus) for node in machine.numa_nodes}
    lscpu = re.findall(r"^NUMA node(\d+) CPU\(s\):\s+(\S+)$", log("lscpu.log"), re.MULTILINE)
    assert found == {int(node): parse_cpu_list(cpus) for node, cpus in lscpu}
    assert found == nodes_of_numactl()
    assert machine.host.cpus == re.findall(r"^On-line CPU\(s\) list:\s+(\S+)$", log("lscpu.log"), re.MULTILINE)[0]


def test_nvidia_smi_stops_at_the_cpu_that_is_offline(machine: Machine) -> None:
    """CPU 239 is offline, and nvidia-smi leaves out all behind it as well; the kernel has 240-255 on node 1."""
    nodes = {node.id: set(parse_cpu_list(node.cpus)) for node in machine.numa_nodes}
    rows = matrix_of_smi()
    for gpu, row in zip(machine.gpus, rows):
        assert set(parse_cpu_list(gpu.cpu_list)) == nodes[gpu.numa_node or 0]
        assert set(parse_cpu_list(row[9])) == {cpu for cpu in nodes[gpu.numa_node or 0] if cpu < OFFLINE_CPU}
    assert set(range(OFFLINE_CPU + 1, 256)) == nodes[1] - set(parse_cpu_list(rows[4][9]))


def test_link_classes_between_all_pairs(machine: Machine) -> None:
    told = [["SELF" if cell == "X" else cell for cell in row[1:9]] for row in matrix_of_smi()]
    assert [[link.level for link in row] for row in machine.gpu_links] == told


def test_links_to_the_slots(machine: Machine, printed: dict[str, Printed]) -> None:
    told = gpus_of_smi()
    assert [gpu.pci_address for gpu in machine.gpus] == list(told)
    for gpu in machine.gpus:
        smi, port = told[gpu.pci_address or ""], printed[way_down(gpu.pci_address or "", printed)[-1]]
        pcie = gpu.pcie
        for name in ("generation_max", "generation", "slot_generation_max", "width_max", "width"):
            assert getattr(pcie, name) == int(smi[name]), name
        # At rest; judged by that alone each would count as degraded.
        assert (pcie.generation, pcie.generation_max) == (1, 5)
        assert (port.speed_max, port.width_max) == ("32GT/s", pcie.slot_width_max)
    assert not {problem.code for problem in machine.problems} & {
        "pcie_width_reduced",
        "pcie_slot_slower",
        "pcie_slot_narrower",
        "pcie_speed_reduced",
    }


def test_memory(machine: Machine) -> None:
    told = gpus_of_smi()
    # No driver was asked, so this is the catalogue's size.
    assert [gpu.memory_total_bytes for gpu in machine.gpus] == [int(one["mib"]) << 20 for one in told.values()]
    sizes = re.findall(r"^node (\d+) size: (\d+) MB$", log("numa.log"), re.MULTILINE)
    assert {node.id: (node.memory_total_bytes or 0) >> 20 for node in machine.numa_nodes} == {
        int(node): int(mib) for node, mib in sizes
    }
    distances = re.findall(r"^ +(\d+): +(\d+) +(\d+) *$", log("numa.log"), re.MULTILINE)
    assert {node.id: node.distances for node in machine.numa_nodes} == {
        int(node): (int(one), int(two)) for node, one, two in distances
    }


def test_the_way_down_by_bus_numbers(recorded: Callable[[str], Path], printed: dict[str, Printed]) -> None:
    root = recorded("8xrtxpro6000")
    assert len(printed) == 202
    for address in printed:
        assert read_place(root, address).bridges[1:] == way_down(address, printed), address


def test_access_control_as_lspci_reads_it(root: Path, printed: dict[str, Printed]) -> None:
    with_services = [one for one in printed.values() if one.acs is not None]
    assert len(with_services) == 40
    for one in printed.values():
        config = (root / DEVICES / one.address / "config").read_bytes()
        assert acs_control(config) == (one.acs or 0), one.address
        assert acs_control(config[:64]) is None


def test_peer_traffic_turns_around_in_the_switches(root: Path) -> None:
    """All ports forward upstream what was redirected below them (UpstreamFwd+), and none redirects."""
    machine = read_machine(root)
    assert machine.host.acs_redirecting == ()
    expected = {"SELF": None, "PIX": "switch", "NODE": "host", "SYS": "host"}
    assert all(link.route == expected[link.level or ""] for row in machine.gpu_links for link in row)


def test_without_configuration_space_the_way_in_a_switch_is_unknown(machine: Machine) -> None:
    assert machine.host.acs_redirecting is None
    expected = {"SELF": None, "PIX": None, "NODE": "host", "SYS": "host"}
    assert all(link.route == expected[link.level or ""] for row in machine.gpu_links for link in row)


def test_one_port_that_redirects_concerns_the_pair_below_its_switch(root: Path, printed: dict[str, Printed]) -> None:
    port = printed[way_down("0000:06:00.0", printed)[-1]]
    changed = replace(port, acs=(port.acs or 0) | REQUEST_REDIRECT)
    (root / DEVICES / port.address / "config").write_bytes(config_of(changed, 0x060400, 0x1000, 0xC030))
    machine = read_machine(root)
    assert machine.host.acs_redirecting == (port.address,)
    routes = {
        (one, two): link.route for one, row in enumerate(machine.gpu_links) for two, link in enumerate(row) if one < two
    }
    assert [pair for pair, route in routes.items() if route == "redirected"] == [(0, 1)]
    assert [pair for pair, route in routes.items() if route == "switch"] == [(2, 3), (4, 5), (6, 7)]
    messages = {problem.code: problem.message for problem in machine.problems}
    assert messages["acs_redirects_peers"] == f"Ports {port.address} send traffic between GPU 0-1 up to the host."


def test_lstopo_agrees(root: Path, printed: dict[str, Printed], machine: Machine) -> None:
    """hwloc gets the CPUs from numactl, the places of devices and the bus numbers from lspci."""
    places = {one.address: one.numa_node for one in printed.values() if one.numa_node is not None}
    complete_for_lstopo(root, nodes_of_numactl(), places)
    seen = read_lstopo(root)
    assert {node.id: parse_cpu_list(node.cpus) for node in machine.numa_nodes} == {
        node: one.cpus for node, one in seen.nodes.items()
    }
    assert [node.memory_total_bytes for node in machine.numa_nodes] == [one.memory_bytes for one in seen.nodes.values()]
    assert seen.distances == {(0, 0): 10, (0, 1): 32, (1, 0): 32, (1, 1): 10}
    for gpu, pci in zip(machine.gpus, read_pci_gpus(root)):
        told = seen.devices[gpu.pci_address or ""]
        assert pci.bridges[1:] == told.bridges
        assert parse_cpu_list(gpu.cpu_list) == told.cpus
    for address, told in seen.devices.items():
        assert read_place(root, address).bridges[1:] == told.bridges, address
