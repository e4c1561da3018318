# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Readings of kernel and driver, made by hand, and what comes of joining them."""

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Gpu,
    Host,
    Machine,
    NumaNode,
    Pcie,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import (
    Failure,
    LinkEnds,
    NvmlGpu,
    NvmlReading,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey

HOST = Host(memory_total_bytes=1 << 40, virtualization="none", iommu="off")
GUEST = replace(HOST, virtualization="kvm")
NODES = (NumaNode(0, "0-7", True), NumaNode(1, "8-15", True))
GIB = 1 << 30
NO_LINKS = LinkEnds()


def pci(
    bus: int, node: int | None = 0, driver: str | None = "nvidia", pci_id: str = "10de:2330", **pcie: Any
) -> PciGpu:
    link = replace(Pcie(5, 16, 1, 16), **pcie)
    return PciGpu(
        address=f"0000:{bus:02x}:00.0",
        pci_id=pci_id,
        bridges=("pci0000:00", f"0000:00:{bus:02x}.0"),
        numa_node=node,
        # Where the kernel knows no node, all CPUs are near.
        cpu_list="0-7" if node is not None else "0-15",
        kernel_driver=driver,
        pcie=link,
        slot_generation_max=link.slot_generation_max,
    )


def told(index: int, bus: int | None, ends: LinkEnds | None = NO_LINKS, **facts: Any) -> NvmlGpu:
    """What the driver says of one GPU; C(around) holds what serves to judge it."""
    address = None if bus is None else f"0000:{bus:02x}:00.0"
    gpu = Gpu(index=index, name="NVIDIA H100 80GB HBM3", memory_total_bytes=80 * GIB, pci_address=address, state="ok")
    around = facts.pop("around", {})
    return replace(NvmlGpu(replace(gpu, **facts), ends, 5), **around)


def reading(*gpus: NvmlGpu, failures: tuple[Failure, ...] = (), **driver: Any) -> NvmlReading:
    unknown = tuple((None,) * len(gpus) for _gpu in gpus)
    found = replace(Driver(version="595.58.03", source="nvml"), **driver)
    return NvmlReading(found, gpus, unknown, unknown, failures)


def one(host: Host = HOST, seen: PciGpu | None = None, **facts: Any) -> Machine:
    """A machine with one GPU."""
    return survey(host, NODES, [seen or pci(6)], reading(told(0, 6, **facts)))


def problems(machine: Machine) -> dict[str, str]:
    return {problem.code: problem.message for problem in machine.problems}
