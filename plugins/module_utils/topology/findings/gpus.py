# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the state of the GPUs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.gpu_state import (
    at_rest,
    has_lost_lanes,
    is_guests,
    is_slow_under_load,
    seen_link,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import INDEXES_DIFFER, Joined, spelled
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, GpuProcess, Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem

# Compute capability of the first boards that tell the state of their NVSwitch fabric.
FABRIC_SINCE = 9
MOST_NAMED = 8
_GIVING_AWAY = {"host_vgpu": "vGPU", "host_vsga": "vSGA"}


# Code of the problem, index of the GPU, what is wrong with it.
Finding = tuple[str, int, str]


def gpu_problems(pairs: Sequence[Joined], host: Host) -> list[Problem]:
    """The state of each GPU; what holds of several GPUs alike is said once."""
    gpus = [one.gpu for one in pairs]
    alike: dict[tuple[str, str], list[int]] = {}
    for one in pairs:
        for code, index, what in _settings(one.gpu) + _use(one.gpu) + _health(one.gpu) + _bus(one, host):
            alike.setdefault((code, what), []).append(index)
    for gpu in gpus:
        for code, index, what in _switched(gpu, host):
            alike.setdefault((code, what), []).append(index)
    found = [problem(code, f"GPU {spelled(indexes)}: {what}.") for (code, what), indexes in alike.items()]
    return found + _kinds(pairs) + _twins(gpus)


def _kinds(pairs: Sequence[Joined]) -> list[Problem]:
    """Boards of other sizes or names, and such as nothing is known of beside those or beside each other."""
    known = [one.gpu for one in pairs if one.gpu.memory_total_bytes is not None]
    sizes = {(gpu.name, gpu.memory_total_bytes) for gpu in known}
    kinds = [f"{name} with {format_gib(size or 0)}" for name, size in sorted(sizes, key=str)]
    # A GPU that does not answer is of the kind that its PCI id names.
    told = {gpu.pci_device_id for gpu in known}
    unknown = [
        one for one in pairs if one.gpu.memory_total_bytes is None and one.gpu.pci_device_id not in (None, *told)
    ]
    boards = sorted({one.gpu.pci_device_id or "" for one in unknown})
    kinds += [f"board {board} with memory of unknown size" for board in boards]
    if len(kinds) < 2:
        return []
    numbered = f"; {INDEXES_DIFFER}" if any(one.nvml is None for one in unknown) else ""
    return [problem("gpus_differ", f"The GPUs are of {len(kinds)} kinds: {spelled(kinds)}{numbered}.")]


def _twins(gpus: Sequence[Gpu]) -> list[Problem]:
    """GPUs that the driver gives one identity to."""
    alike: dict[tuple[str, str], list[int]] = {}
    for gpu in gpus:
        for what, value in (("PCI address", gpu.pci_address), ("UUID", gpu.uuid)):
            if value is not None:
                alike.setdefault((what, value), []).append(gpu.index)
    return [
        problem("nvml_answer_implausible", f"GPU {spelled(indexes)} have the same {what}, {value}.")
        for (what, value), indexes in alike.items()
        if len(indexes) > 1
    ]


def _settings(gpu: Gpu) -> list[Finding]:
    found = []
    if gpu.mig and gpu.mig.enabled:
        parts = f"{len(gpu.mig_devices) or 'no'} MIG device{'' if len(gpu.mig_devices) == 1 else 's'}"
        found.append(("gpu_mig_enabled", gpu.index, f"MIG is enabled, with {parts}"))
    if any(mode and mode.enabled != mode.pending for mode in (gpu.mig, gpu.ecc)):
        found.append(("gpu_mode_pending", gpu.index, "ECC or MIG will change at the next reset"))
    if gpu.compute_mode not in (None, "default"):
        found.append(("gpu_compute_mode", gpu.index, f"compute mode {gpu.compute_mode}"))
    if gpu.persistence is False:
        found.append(("gpu_persistence_off", gpu.index, "persistence mode is off"))
    if gpu.virtualization == "vgpu":
        found.append(("gpu_is_vgpu", gpu.index, "this is a vGPU"))
    if gpu.virtualization in _GIVING_AWAY:
        name = _GIVING_AWAY[gpu.virtualization]
        found.append(("gpu_given_to_guests", gpu.index, f"the driver hands it out to guests as {name}"))
    return found


def _named(process: GpuProcess) -> str:
    return f"{process.name} ({process.pid})" if process.name else f"process {process.pid}"


def _use(gpu: Gpu) -> list[Finding]:
    if not gpu.processes:
        return []
    told = [process.memory_used_bytes for process in gpu.processes if process.memory_used_bytes is not None]
    held = format_gib(sum(told)) if told else "memory of unknown size"
    names = spelled(_named(process) for process in gpu.processes[:MOST_NAMED])
    more = len(gpu.processes) - MOST_NAMED
    return [("gpu_busy", gpu.index, f"{held} held by {names}{f' and {more} more' if more > 0 else ''}")]


def _health(gpu: Gpu) -> list[Finding]:
    found = []
    errors, rows = gpu.ecc_errors, gpu.remapped_rows
    if errors and errors.uncorrected_volatile:
        life = f", {errors.uncorrected_aggregate} in its life" if errors.uncorrected_aggregate is not None else ""
        several = "" if errors.uncorrected_volatile == 1 else "s"
        count = f"{errors.uncorrected_volatile} uncorrected memory error{several} since the driver was loaded{life}"
        found.append(("gpu_ecc_uncorrected", gpu.index, count))
    if rows and rows.failure:
        what = "a row of memory could not be replaced, as no spare row was left"
        found.append(("gpu_remap_failed", gpu.index, what))
    if rows and rows.pending:
        what = "rows of memory wait to be remapped" if rows.unit == "row" else "pages of memory wait to be retired"
        found.append(("gpu_remap_pending", gpu.index, f"{what} at the next reset"))
    return found


def _bus(one: Joined, host: Host) -> list[Finding]:
    gpu, pcie = one.gpu, one.gpu.pcie
    found = []
    # In a guest the slot is an invention of the hypervisor.
    real = not is_guests(gpu, host)
    link = seen_link(gpu, host)
    if has_lost_lanes(link):
        found.append(("pcie_width_reduced", gpu.index, f"{pcie.width} of {pcie.width_max} PCIe lanes"))
    if is_slow_under_load(link, at_rest(gpu, one.nvml.utilization if one.nvml else None)):
        now = f"PCIe {pcie.generation} of {pcie.generation_max} under load"
        found.append(("pcie_speed_reduced", gpu.index, now))
    if link.width_max and link.slot_width_max and link.slot_width_max < link.width_max:
        lanes = f"{link.width_max} PCIe lanes in a slot of {link.slot_width_max}"
        found.append(("pcie_slot_narrower", gpu.index, lanes))
    reached = one.nvml.slot_generation_max if one.nvml else None
    slot = min((speed for speed in (pcie.slot_generation_max, reached) if speed), default=None)
    if real and slot and pcie.generation_max and slot < pcie.generation_max:
        boards = f"PCIe {pcie.generation_max} board in a slot of PCIe {slot}"
        found.append(("pcie_slot_slower", gpu.index, boards))
    return found


def _switched(gpu: Gpu, host: Host) -> list[Finding]:
    """NVLink and the fabric of NVSwitches."""
    found = []
    links, fabric = gpu.nvlinks, gpu.fabric
    if links and links.active == 0 and not host.nvswitches:
        found.append(("nvlink_unused", gpu.index, f"none of {links.total} NVLinks is up"))
    elif links and links.active < links.total:
        down = f"{links.total - links.active} of {links.total} NVLinks are down"
        found.append(("nvlink_down", gpu.index, down))
    # The status counts from when the state is completed.
    if fabric and fabric.state != "completed":
        found.append(("fabric_not_ready", gpu.index, f"fabric state {fabric.state}"))
    elif fabric and fabric.status != 0:
        found.append(("fabric_not_ready", gpu.index, f"fabric state completed with status {fabric.status}"))
    elif fabric and fabric.health in ("unhealthy", "limited_capacity"):
        found.append(("fabric_unhealthy", gpu.index, f"fabric health {fabric.health}"))
    elif fabric is None and host.nvswitches and gpu.state == "ok" and _tells_fabric(gpu):
        what = f"no fabric state, with {host.nvswitches} NVSwitches in the host"
        found.append(("fabric_unknown", gpu.index, what))
    return found


def _tells_fabric(gpu: Gpu) -> bool:
    major = (gpu.compute_capability or "0").split(".")[0]
    return major.isdigit() and int(major) >= FABRIC_SINCE
