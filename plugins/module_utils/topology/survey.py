# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One machine out of what the kernel and the driver say about it, with what is wrong stated.

Pure: the readings come from kernel/ and nvml/, what is wrong is decided in findings/. Where kernel and driver speak of
the same thing, the kernel is believed about places (NUMA nodes, CPU lists, bridges), the driver about the boards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.findings.driver import (
    affinity_problems,
    inventory_problems,
    nvml_problems,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.findings.gpus import gpu_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.findings.nodes import node_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.findings.paths import (
    level_problems,
    path_problems,
    unknown_access_problems,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.gpu_links import gpu_links, level_conflicts
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.gpu_state import judged
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu, is_held_by_other
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Gpu,
    Host,
    Machine,
    NumaNode,
    Pcie,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import NvmlGpu, NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.places import host_of, placed, placed_nodes


def survey(
    host: Host,
    nodes: Sequence[NumaNode],
    pci_gpus: Sequence[PciGpu],
    nvml: NvmlReading | None,
    driver_version: str | None = None,
    beforehand: Sequence[Problem] = (),
) -> Machine:
    """Put the readings together. C(nvml) is None where NVML was not asked; C(beforehand) says why."""
    answered = nvml is not None and nvml.driver.source == "nvml" and nvml.counted
    pairs: list[Joined]
    if nvml is not None and answered:
        pairs = _from_nvml(nvml, pci_gpus)
        driver = nvml.driver
    else:
        pairs = [Joined(_from_catalogue(index, pci), pci, None) for index, pci in enumerate(pci_gpus)]
        told = nvml.driver if nvml is not None else Driver()
        driver = replace(told, version=driver_version or told.version, source="pci" if pairs else "none")
    pairs = [judged(placed(one, nodes), host) for one in pairs]
    gpus = tuple(one.gpu for one in pairs)
    homes = placed_nodes(nodes, gpus)
    host = host_of(host, pci_gpus)
    links = gpu_links(pairs, nvml if answered else None, homes, host)
    problems = [
        *beforehand,
        *nvml_problems(nvml, driver_version),
        *inventory_problems(pairs, pci_gpus, answered),
        *affinity_problems(pairs),
        *gpu_problems(pairs, host),
        *level_problems(level_conflicts(pairs, nvml if answered else None, homes, host), links),
        *path_problems(links, host),
        *unknown_access_problems(pairs, links, host),
        *node_problems(pairs, homes, host),
    ]
    return Machine(gpus, homes, links, host, driver, tuple(problems))


# Joining the kernel's and the driver's GPUs ---------------------------------------------------------------------------


def _from_catalogue(index: int, pci: PciGpu) -> Gpu:
    board = board_of(pci.pci_id)
    return Gpu(
        index=index,
        name=board.name if board else None,
        pci_address=pci.address,
        pci_device_id=pci.pci_id,
        kernel_driver=pci.kernel_driver,
        memory_total_bytes=board.memory_bytes if board else None,
        memory_source="catalogue" if board else None,
        compute_capability=board.compute_capability if board else None,
        architecture=board.architecture if board else None,
        numa_node=pci.numa_node,
        cpu_list=pci.cpu_list,
        pcie=pci.pcie,
    )


def _from_nvml(nvml: NvmlReading, pci_gpus: Sequence[PciGpu]) -> list[Joined]:
    by_address = {pci.address: pci for pci in pci_gpus}
    claimed = {entry.gpu.pci_address for entry in nvml.gpus}
    unclaimed = [pci for pci in pci_gpus if pci.address not in claimed and not is_held_by_other(pci)]
    nameless = [entry for entry in nvml.gpus if entry.gpu.pci_address is None]
    # A lost GPU often cannot even tell its address: by elimination, where that leaves no choice.
    eliminated = unclaimed[0] if len(unclaimed) == len(nameless) == 1 else None
    joined: list[Joined] = []
    for entry in nvml.gpus:
        address = entry.gpu.pci_address
        pci = by_address.get(address) if address is not None else eliminated
        joined.append(Joined(_joined(entry, pci), pci, entry))
    return joined


def _joined(entry: NvmlGpu, pci: PciGpu | None) -> Gpu:
    gpu = replace(entry.gpu, memory_source="nvml" if entry.gpu.memory_total_bytes is not None else None)
    if pci is None:
        # Without the kernel's word the driver's must do, where it names one node.
        only = entry.numa_nodes[0] if len(entry.numa_nodes) == 1 else None
        return replace(gpu, numa_node=only, pcie=_with_slot(gpu.pcie, entry.slot_generation_max))
    board = board_of(pci.pci_id)
    told, seen = gpu.pcie, pci.pcie
    return replace(
        gpu,
        name=gpu.name or (board.name if board else None),
        pci_address=pci.address,
        pci_device_id=pci.pci_id,
        kernel_driver=pci.kernel_driver,
        numa_node=pci.numa_node,
        cpu_list=pci.cpu_list,
        pcie=_with_slot(
            Pcie(
                generation_max=told.generation_max or seen.generation_max,
                width_max=told.width_max or seen.width_max,
                generation=told.generation or seen.generation,
                width=told.width or seen.width,
                slot_generation_max=seen.slot_generation_max,
                slot_width_max=seen.slot_width_max,
            ),
            entry.slot_generation_max,
        ),
    )


def _with_slot(pcie: Pcie, reached: int | None) -> Pcie:
    """What GPU and slot reach together tells the slot only where that is less than the GPU can."""
    if pcie.slot_generation_max is not None or reached is None or reached >= (pcie.generation_max or 0):
        return pcie
    return replace(pcie, slot_generation_max=reached)
