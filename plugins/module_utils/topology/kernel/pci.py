# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and NVSwitches on the PCI bus, with the bridges above them.

Of the hundreds of devices that a host may have only the vendor is read; the rest only of NVIDIA's and of the bridges
above GPUs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.acs import acs_control, redirects
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import (
    link_name,
    link_parts,
    names_in,
    read_bytes,
    read_line,
    read_text,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    format_cpu_list,
    normal_cpu_list,
    parse_count,
    parse_cpu_mask,
    parse_link_speed,
    parse_link_width,
    parse_numa_node,
    parse_pci_address,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Pcie

NVIDIA_VENDOR = "10de"
# PCI classes (PCI Code and ID Assignment): VGA and 3D controllers are GPUs, "other bridge" is what NVSwitches show.
DISPLAY_CLASS = "0300"
COMPUTE_CLASS = "0302"
GPU_CLASSES = (DISPLAY_CLASS, COMPUTE_CLASS)
NVSWITCH_CLASS = "0680"
DEVICES = "sys/bus/pci/devices"
CONFIG_BYTES = 4096
# In a device's way down: the host bridge, then the root port. Traffic between what hangs below different root ports
# goes through the host anyway, so only the ports from here on can redirect any.
FIRST_SWITCH_PORT = 2


@dataclass(frozen=True)
class NvidiaFunction:
    """One function of an NVIDIA board; C(name) is its folder's."""

    name: str
    address: str
    pci_class: str


@dataclass(frozen=True)
class PciPlace:
    """C(bridges) is the way from the host bridge down to the device, from where its link below sys/bus/pci leads."""

    bridges: tuple[str, ...]
    numa_node: int | None
    cpu_list: str | None


@dataclass(frozen=True)
class PciGpu:
    """A GPU as the bus shows it. C(bridges) leads from the host bridge down to the port it hangs on.

    C(acs) tells of each of these bridges whether ACS makes it send peer traffic up to the host, None where unknown.
    C(iommu_type) is the mode of the GPU's IOMMU group, in the kernel's word. C(memory_node) is the NUMA node that the
    driver has made of the GPU's own memory.
    """

    address: str
    pci_id: str
    bridges: tuple[str, ...]
    numa_node: int | None
    cpu_list: str | None
    kernel_driver: str | None
    pcie: Pcie
    slot_generation_max: int | None
    acs: tuple[bool | None, ...] = ()
    iommu_group: int | None = None
    iommu_type: str | None = None
    memory_node: int | None = None
    pci_class: str = COMPUTE_CLASS


def nvidia_functions(root: Path) -> tuple[NvidiaFunction, ...]:
    """NVIDIA's functions in the order of the bus."""
    found = []
    for name in names_in(root, DEVICES):
        address = parse_pci_address(name)
        if address is None or (read_text(root, f"{DEVICES}/{name}/vendor") or "")[2:] != NVIDIA_VENDOR:
            continue
        # A virtual function is a slice of a GPU for a guest, not a GPU of this host.
        if not os.path.lexists(root / DEVICES / name / "physfn"):
            pci_class = (read_text(root, f"{DEVICES}/{name}/class") or "")[2:6]
            found.append(NvidiaFunction(name, address, pci_class))
    return tuple(sorted(found, key=lambda one: [int(part, 16) for part in re.split(r"[:.]", one.address)]))


def is_held_by_other(pci: PciGpu) -> bool:
    return pci.kernel_driver not in (None, "nvidia")


def count_nvswitches(functions: Sequence[NvidiaFunction]) -> int:
    return sum(1 for function in functions if function.pci_class == NVSWITCH_CLASS)


def parse_numa_status(text: str | None) -> int | None:
    """The node in /proc/driver/nvidia/gpus/*/numa_status, of boards whose memory the CPUs can use as their own."""
    match = re.search(r"^Node:\s*(-?\d+)\s*$", text or "", re.MULTILINE)
    return parse_numa_node(match.group(1)) if match else None


def read_memory_nodes(root: Path) -> dict[str, int]:
    """NUMA nodes that are the memory of a GPU, by the GPU's PCI address."""
    base = "proc/driver/nvidia/gpus"
    found = {}
    for name in names_in(root, base):
        address, node = parse_pci_address(name), parse_numa_status(read_text(root, f"{base}/{name}/numa_status"))
        if address is not None and node is not None:
            found[address] = node
    return found


def _bridges(root: Path, name: str) -> tuple[str, ...]:
    parts = link_parts(root, f"{DEVICES}/{name}")
    starts = [place for place, part in enumerate(parts) if re.match(r"^pci[0-9a-f]{4,8}:[0-9a-f]{2}$", part)]
    return parts[starts[-1] : -1] if starts else ()


def read_place(root: Path, name: str) -> PciPlace:
    """Where a device is. Kernels of old have the CPUs nearby as a mask only."""
    here = f"{DEVICES}/{name}"
    listed = normal_cpu_list(read_text(root, f"{here}/local_cpulist"))
    return PciPlace(
        bridges=_bridges(root, name),
        numa_node=parse_numa_node(read_text(root, f"{here}/numa_node")),
        cpu_list=listed or format_cpu_list(parse_cpu_mask(read_text(root, f"{here}/local_cpus"))) or None,
    )


def _redirecting(root: Path, bridges: Sequence[str], known: dict[str, bool | None]) -> tuple[bool | None, ...]:
    """Of each bridge whether it redirects; C(known) remembers those that GPUs share."""
    found: list[bool | None] = []
    for place, bridge in enumerate(bridges):
        if place < FIRST_SWITCH_PORT:
            found.append(False)
            continue
        if bridge not in known:
            known[bridge] = redirects(acs_control(read_bytes(root, f"{DEVICES}/{bridge}/config", CONFIG_BYTES)))
        found.append(known[bridge])
    return tuple(found)


def _pcie(root: Path, here: str, slot: str | None) -> Pcie:
    def speed(where: str, name: str) -> int | None:
        return parse_link_speed(read_text(root, f"{where}/{name}"))

    def width(where: str, name: str) -> int | None:
        return parse_link_width(read_text(root, f"{where}/{name}"))

    return Pcie(
        generation_max=speed(here, "max_link_speed"),
        width_max=width(here, "max_link_width"),
        generation=speed(here, "current_link_speed"),
        width=width(here, "current_link_width"),
        slot_generation_max=speed(slot, "max_link_speed") if slot else None,
        slot_width_max=width(slot, "max_link_width") if slot else None,
    )


def read_pci_gpus(root: Path, functions: Sequence[NvidiaFunction] | None = None) -> tuple[PciGpu, ...]:
    """C(functions) spares the search of the bus where that was done before."""
    searched = nvidia_functions(root) if functions is None else functions
    memory_nodes = read_memory_nodes(root)
    ports: dict[str, bool | None] = {}
    gpus = []
    for function in searched:
        if function.pci_class not in GPU_CLASSES:
            continue
        here = f"{DEVICES}/{function.name}"
        place = read_place(root, function.name)
        pcie = _pcie(root, here, f"{DEVICES}/{place.bridges[-1]}" if len(place.bridges) > 1 else None)
        group = parse_count(link_name(root, f"{here}/iommu_group"))
        gpus.append(
            PciGpu(
                address=function.address,
                pci_id=f"{NVIDIA_VENDOR}:{(read_line(root, f'{here}/device') or '')[2:6]}",
                bridges=place.bridges,
                numa_node=place.numa_node,
                cpu_list=place.cpu_list,
                kernel_driver=link_name(root, f"{here}/driver"),
                pcie=pcie,
                slot_generation_max=pcie.slot_generation_max,
                acs=_redirecting(root, place.bridges, ports),
                iommu_group=group,
                iommu_type=read_text(root, f"sys/kernel/iommu_groups/{group}/type") if group is not None else None,
                memory_node=memory_nodes.get(function.address),
                pci_class=function.pci_class,
            )
        )
    return tuple(gpus)
