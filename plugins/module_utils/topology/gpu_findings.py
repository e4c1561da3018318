# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the state of the GPUs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined, spelled
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem


def gpu_problems(pairs: Sequence[Joined], host: Host) -> list[Problem]:
    """The state of each GPU, one problem a kind."""
    gpus = [one.gpu for one in pairs]
    found: list[Problem] = []

    def state(code: str, indexes: Sequence[int], what: str) -> None:
        if indexes:
            found.append(problem(code, f"GPU {spelled(indexes)}: {what}."))

    state("gpu_mig_enabled", [gpu.index for gpu in gpus if gpu.mig and gpu.mig.enabled], "MIG is enabled")
    pending = [gpu.index for gpu in gpus if any(mode and mode.enabled != mode.pending for mode in (gpu.mig, gpu.ecc))]
    state("gpu_mode_pending", pending, "ECC or MIG will change at the next reset")
    for mode in sorted({gpu.compute_mode or "default" for gpu in gpus} - {"default"}):
        state("gpu_compute_mode", [gpu.index for gpu in gpus if gpu.compute_mode == mode], f"compute mode {mode}")
    state("gpu_persistence_off", [gpu.index for gpu in gpus if gpu.persistence is False], "persistence mode is off")
    for gpu in gpus:
        if gpu.processes:
            used = sum(process.memory_used_bytes or 0 for process in gpu.processes)
            pids = spelled(process.pid for process in gpu.processes)
            state("gpu_busy", [gpu.index], f"{format_gib(used)} held by process {pids}")
        width, width_max = gpu.pcie.width, gpu.pcie.width_max
        if width and width_max and width < width_max:
            state("pcie_width_reduced", [gpu.index], f"{width} of {width_max} PCIe lanes")
        if gpu.nvlinks and gpu.nvlinks.active < gpu.nvlinks.total:
            down = gpu.nvlinks.total - gpu.nvlinks.active
            state("nvlink_down", [gpu.index], f"{down} of {gpu.nvlinks.total} NVLinks are down")
        if gpu.fabric and (gpu.fabric.state != "completed" or gpu.fabric.status != 0):
            state("fabric_not_ready", [gpu.index], f"fabric state {gpu.fabric.state}, status {gpu.fabric.status}")
    for gpu, pci, told in ((one.gpu, one.pci, one.nvml) for one in pairs):
        slot = told.slot_generation_max if told else pci.slot_generation_max if pci else None
        fastest = gpu.pcie.generation_max
        # In a guest the slot is an invention of the hypervisor.
        if slot and fastest and slot < fastest and host.virtualization in (None, "none"):
            state("pcie_slot_slower", [gpu.index], f"PCIe {fastest} board in a slot of PCIe {slot}")
    kinds = {(gpu.name, gpu.memory_total_bytes) for gpu in gpus if gpu.memory_total_bytes is not None}
    if len(kinds) > 1:
        sizes = (f"{name} with {format_gib(size or 0)}" for name, size in sorted(kinds, key=str))
        found.append(problem("gpus_differ", f"The GPUs are of {len(kinds)} kinds: {spelled(sizes)}."))
    bare_metal = host.virtualization in (None, "none")
    if host.iommu == "on" and bare_metal and len(gpus) > 1 and not any(gpu.nvlinks for gpu in gpus):
        found.append(problem("iommu_translates", "The IOMMU translates addresses and the GPUs have no NVLink."))
    return found
