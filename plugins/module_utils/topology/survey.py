# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One machine out of what the kernel and the driver say about it, with what is wrong stated.

Pure: the readings come from sysfs.py and nvml.py. Where the two speak of the same thing, the kernel is believed about
places (NUMA nodes, CPU lists, bridges) and the driver about the boards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import nvlink_count, pci_level
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Gpu,
    GpuLink,
    Host,
    Machine,
    NumaNode,
    Pcie,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml import Failure, NvmlGpu, NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.sysfs import PciGpu

_INIT_CODES = {
    "driver_not_loaded": "nvml_driver_not_loaded",
    "version_mismatch": "nvml_version_mismatch",
    "no_permission": "nvml_no_permission",
    "library_not_found": "nvml_library_not_found",
}
_CALL_CODES = {"function_not_found": "nvml_function_missing", "not_supported": "nvml_not_supported"}
_LOST_CODES = {"gpu_is_lost": "gpu_lost", "reset_required": "gpu_reset_required"}


def survey(
    host: Host,
    nodes: Sequence[NumaNode],
    pci_gpus: Sequence[PciGpu],
    nvml: NvmlReading | None,
    driver_version: str | None = None,
    beforehand: Sequence[Problem] = (),
) -> Machine:
    """Put the readings together. C(nvml) is None where NVML was not asked; C(beforehand) says why."""
    answered = nvml is not None and nvml.driver.source == "nvml"
    pairs: list[tuple[Gpu, PciGpu | None, NvmlGpu | None]]
    if nvml is not None and answered:
        pairs = _from_nvml(nvml, pci_gpus)
        driver = nvml.driver
    else:
        pairs = [(_from_catalogue(index, pci), pci, None) for index, pci in enumerate(pci_gpus)]
        driver = Driver(version=driver_version, source="pci" if pairs else "none")
    gpus = tuple(gpu for gpu, _pci, _nvml in pairs)
    placed = tuple(replace(node, gpus=tuple(gpu.index for gpu in gpus if gpu.numa_node == node.id)) for node in nodes)
    problems = [
        *beforehand,
        *_nvml_problems(nvml),
        *_inventory_problems(pairs, pci_gpus, answered),
        *_gpu_problems(pairs, host),
        *_node_problems(gpus, placed, host),
    ]
    return Machine(gpus, placed, _links(pairs, nvml if answered else None, placed, host), host, driver, tuple(problems))


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


def _from_nvml(nvml: NvmlReading, pci_gpus: Sequence[PciGpu]) -> list[tuple[Gpu, PciGpu | None, NvmlGpu | None]]:
    by_address = {pci.address: pci for pci in pci_gpus}
    claimed = {entry.gpu.pci_address for entry in nvml.gpus}
    unclaimed = [pci for pci in pci_gpus if pci.address not in claimed]
    nameless = [entry for entry in nvml.gpus if entry.gpu.pci_address is None]
    # A lost GPU often cannot even tell its address: by elimination, where that leaves no choice.
    eliminated = unclaimed[0] if len(unclaimed) == len(nameless) == 1 else None
    joined: list[tuple[Gpu, PciGpu | None, NvmlGpu | None]] = []
    for entry in nvml.gpus:
        address = entry.gpu.pci_address
        pci = by_address.get(address) if address is not None else eliminated
        joined.append((_joined(entry, pci), pci, entry))
    return joined


def _joined(entry: NvmlGpu, pci: PciGpu | None) -> Gpu:
    gpu = replace(entry.gpu, memory_source="nvml" if entry.gpu.memory_total_bytes is not None else None)
    if pci is None:
        # Without the kernel's word the driver's must do, where it names one node.
        only = entry.numa_nodes[0] if len(entry.numa_nodes) == 1 else None
        return replace(gpu, numa_node=only)
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
        pcie=Pcie(
            generation_max=told.generation_max or seen.generation_max,
            width_max=told.width_max or seen.width_max,
            generation=told.generation or seen.generation,
            width=told.width or seen.width,
        ),
    )


def _links(
    pairs: Sequence[tuple[Gpu, PciGpu | None, NvmlGpu | None]],
    nvml: NvmlReading | None,
    nodes: Sequence[NumaNode],
    host: Host,
) -> tuple[tuple[GpuLink, ...], ...]:
    node_count = len([node for node in nodes if node.has_cpus])
    rows = []
    for one, (gpu, pci, told) in enumerate(pairs):
        row = []
        for two, (peer, peer_pci, peer_told) in enumerate(pairs):
            if one == two:
                row.append(GpuLink("SELF", None))
                continue
            level = nvml.levels[one][two] if nvml else None
            if level is None and pci is not None and peer_pci is not None:
                level = pci_level(pci.bridges, peer_pci.bridges, (gpu.numa_node, peer.numa_node), node_count)
            if told is not None and peer_told is not None:
                ends, peer_ends = told.link_ends, peer_told.link_ends
                count = nvlink_count(ends.to_gpus, peer.pci_address, ends.to_switches, peer_ends.to_switches)
                level = f"NV{count}" if count else level
            row.append(GpuLink(level, nvml.p2p[one][two] if nvml else None))
        rows.append(tuple(row))
    return tuple(rows)


# What is wrong --------------------------------------------------------------------------------------------------------


def _spelled(numbers: Iterable[object]) -> str:
    return ", ".join(str(number) for number in numbers)


def _nvml_problems(nvml: NvmlReading | None) -> list[Problem]:
    if nvml is None:
        return []
    if nvml.driver.source != "nvml":
        first = nvml.failures[0]
        return [problem(_INIT_CODES.get(first.error, "nvml_unusable"), f"NVML did not start: {first.text}.")]
    lost: dict[tuple[str, int], Failure] = {}
    for failure in nvml.failures:
        if failure.error in _LOST_CODES and failure.gpu is not None:
            lost.setdefault((_LOST_CODES[failure.error], failure.gpu), failure)
    found = [
        problem(code, f"GPU {gpu}: {failure.text} (first said by {failure.function}).")
        for (code, gpu), failure in lost.items()
    ]
    # What a lost GPU does not answer beyond that needs no line of its own.
    silent = {gpu for _code, gpu in lost}
    grouped: dict[tuple[str, str], list[Failure]] = {}
    for failure in nvml.failures:
        if failure.gpu not in silent and failure.error not in _LOST_CODES:
            grouped.setdefault((failure.function, failure.text), []).append(failure)
    for (function, text), failures in grouped.items():
        gpus = sorted({failure.gpu for failure in failures if failure.gpu is not None})
        where = f" for GPU {_spelled(gpus)}" if gpus else ""
        found.append(problem(_CALL_CODES.get(failures[0].error, "nvml_call_failed"), f"{function}{where}: {text}."))
    return found


def _inventory_problems(
    pairs: Sequence[tuple[Gpu, PciGpu | None, NvmlGpu | None]], pci_gpus: Sequence[PciGpu], answered: bool
) -> list[Problem]:
    """Which GPUs there are and who knows of them."""
    found = []
    if not pairs and not pci_gpus:
        found.append(problem("no_gpu", "No NVIDIA GPU was found."))
    seen = {id(pci) for _gpu, pci, _nvml in pairs}
    for pci in pci_gpus:
        holder = f"kernel driver {pci.kernel_driver}" if pci.kernel_driver else "no kernel driver"
        if answered and id(pci) not in seen:
            found.append(
                problem("gpu_not_in_nvml", f"{pci.address} ({pci.pci_id}, {holder}) is not among NVML's GPUs.")
            )
        elif pci.kernel_driver not in (None, "nvidia"):
            found.append(problem("gpu_foreign_driver", f"{pci.address} is held by {holder}."))
    if answered and pci_gpus:
        unseen = [gpu.index for gpu, pci, _nvml in pairs if pci is None]
        if unseen:
            found.append(
                problem("gpu_not_on_pci", f"GPU {_spelled(unseen)} is not among the PCI devices of the kernel.")
            )
    if not answered:
        known = [gpu.index for gpu, _pci, _nvml in pairs if gpu.memory_source == "catalogue"]
        if known:
            names = sorted({gpu.name or "" for gpu, _pci, _nvml in pairs if gpu.index in known})
            found.append(problem("gpu_memory_from_catalogue", f"GPU {_spelled(known)}: taken to be {_spelled(names)}."))
        unknown = [gpu for gpu, _pci, _nvml in pairs if gpu.memory_source is None]
        if unknown:
            ids = _spelled(sorted({gpu.pci_device_id or "" for gpu in unknown}))
            indexes = _spelled(gpu.index for gpu in unknown)
            found.append(problem("gpu_board_unknown", f"GPU {indexes}: the catalogue does not hold {ids}."))
    return found


def _gpu_problems(pairs: Sequence[tuple[Gpu, PciGpu | None, NvmlGpu | None]], host: Host) -> list[Problem]:
    """The state of each GPU, one problem a kind."""
    gpus = [gpu for gpu, _pci, _nvml in pairs]
    found: list[Problem] = []

    def state(code: str, indexes: Sequence[int], what: str) -> None:
        if indexes:
            found.append(problem(code, f"GPU {_spelled(indexes)}: {what}."))

    state("gpu_mig_enabled", [gpu.index for gpu in gpus if gpu.mig and gpu.mig.enabled], "MIG is enabled")
    pending = [gpu.index for gpu in gpus if any(mode and mode.enabled != mode.pending for mode in (gpu.mig, gpu.ecc))]
    state("gpu_mode_pending", pending, "ECC or MIG will change at the next reset")
    for mode in sorted({gpu.compute_mode or "default" for gpu in gpus} - {"default"}):
        state("gpu_compute_mode", [gpu.index for gpu in gpus if gpu.compute_mode == mode], f"compute mode {mode}")
    state("gpu_persistence_off", [gpu.index for gpu in gpus if gpu.persistence is False], "persistence mode is off")
    for gpu in gpus:
        if gpu.processes:
            used = sum(process.memory_used_bytes or 0 for process in gpu.processes)
            pids = _spelled(process.pid for process in gpu.processes)
            state("gpu_busy", [gpu.index], f"{format_gib(used)} held by process {pids}")
        width, width_max = gpu.pcie.width, gpu.pcie.width_max
        if width and width_max and width < width_max:
            state("pcie_width_reduced", [gpu.index], f"{width} of {width_max} PCIe lanes")
        if gpu.nvlinks and gpu.nvlinks.active < gpu.nvlinks.total:
            down = gpu.nvlinks.total - gpu.nvlinks.active
            state("nvlink_down", [gpu.index], f"{down} of {gpu.nvlinks.total} NVLinks are down")
        if gpu.fabric and (gpu.fabric.state != "completed" or gpu.fabric.status != 0):
            state("fabric_not_ready", [gpu.index], f"fabric state {gpu.fabric.state}, status {gpu.fabric.status}")
    for gpu, pci, told in pairs:
        slot = told.slot_generation_max if told else pci.slot_generation_max if pci else None
        fastest = gpu.pcie.generation_max
        # In a guest the slot is an invention of the hypervisor.
        if slot and fastest and slot < fastest and host.virtualization in (None, "none"):
            state("pcie_slot_slower", [gpu.index], f"PCIe {fastest} board in a slot of PCIe {slot}")
    kinds = {(gpu.name, gpu.memory_total_bytes) for gpu in gpus if gpu.memory_total_bytes is not None}
    if len(kinds) > 1:
        sizes = (f"{name} with {format_gib(size or 0)}" for name, size in sorted(kinds, key=str))
        found.append(problem("gpus_differ", f"The GPUs are of {len(kinds)} kinds: {_spelled(sizes)}."))
    bare_metal = host.virtualization in (None, "none")
    if host.iommu == "on" and bare_metal and len(gpus) > 1 and not any(gpu.nvlinks for gpu in gpus):
        found.append(problem("iommu_translates", "The IOMMU translates addresses and the GPUs have no NVLink."))
    return found


def _node_problems(gpus: Sequence[Gpu], nodes: Sequence[NumaNode], host: Host) -> list[Problem]:
    """Memory, NUMA nodes and CPUs."""
    found = []
    homes = [node for node in nodes if node.has_cpus]
    if host.memory_total_bytes is None:
        found.append(problem("memory_not_reported", "There is no MemTotal in /proc/meminfo."))
    if not nodes:
        found.append(problem("numa_not_reported", "There are no NUMA nodes below /sys/devices/system/node."))
    unknown = [gpu.index for gpu in gpus if gpu.numa_node is None]
    if unknown and len(homes) > 1:
        found.append(
            problem("gpu_numa_unknown", f"GPU {_spelled(unknown)}: NUMA node unknown, the host has {len(homes)}.")
        )
    used = {gpu.numa_node for gpu in gpus}
    if len(gpus) > 1 and len(homes) > 1 and len(used) == 1 and None not in used:
        only = next(node for node in used)
        found.append(problem("gpus_on_one_numa_node", f"All {len(gpus)} GPUs are on node {only} of {len(homes)}."))
    bare = [node.id for node in nodes if not node.has_cpus]
    if bare:
        found.append(problem("gpu_memory_as_numa_node", f"Node {_spelled(bare)} has no CPUs."))
    if host.hugepages_total_bytes:
        found.append(problem("hugepages_reserved", f"{format_gb(host.hugepages_total_bytes)} lie in huge pages."))
    limit, total = host.cgroup_limit_bytes, host.memory_total_bytes
    if limit is not None and (total is None or limit < total):
        found.append(problem("cgroup_memory_limited", f"Control groups allow {format_gb(limit)}."))
    if host.cpus_offline:
        found.append(problem("cpus_offline", f"Offline CPUs: {host.cpus_offline}."))
    return found
