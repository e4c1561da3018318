# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What follows from the readings of one GPU: how its PCIe link is, and whether a server can have it."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, Host, Pcie

# Performance states from here on are those of a GPU at rest; 0 to 2 those of one at work (NVML, nvmlPstates_t). Many
# boards for data centres rest in state 0 all the same.
RESTING_STATE = 8
# Percent of utilisation from which on a GPU is at work. The driver's own doings show as a few percent.
WORKING_UTILIZATION = 10


def at_rest(gpu: Gpu, utilization: int | None) -> bool | None:
    """None where the readings do not tell, above all without a driver."""
    if gpu.performance_state is not None and gpu.performance_state >= RESTING_STATE:
        return True
    if utilization is None:
        return None
    if utilization >= WORKING_UTILIZATION and gpu.processes:
        return False
    return True if utilization == 0 and not gpu.processes else None


def _least(one: int | None, two: int | None) -> int | None:
    known = [number for number in (one, two) if number is not None]
    return min(known, default=None)


def is_slot_limited(pcie: Pcie) -> bool:
    return any(
        board is not None and slot is not None and slot < board
        for board, slot in (
            (pcie.generation_max, pcie.slot_generation_max),
            (pcie.width_max, pcie.slot_width_max),
        )
    )


def has_lost_lanes(pcie: Pcie) -> bool:
    """Fewer lanes than board and slot have: their number does not drop to save power."""
    reachable = _least(pcie.width_max, pcie.slot_width_max)
    return pcie.width is not None and reachable is not None and pcie.width < reachable


def is_slow_under_load(pcie: Pcie, rest: bool | None) -> bool:
    reachable = _least(pcie.generation_max, pcie.slot_generation_max)
    return rest is False and pcie.generation is not None and reachable is not None and pcie.generation < reachable


def link_state(pcie: Pcie, rest: bool | None) -> str | None:
    """full, idle, slot_limited, degraded or None; what is worse outranks what is not."""
    if has_lost_lanes(pcie) or is_slow_under_load(pcie, rest):
        return "degraded"
    if is_slot_limited(pcie):
        return "slot_limited"
    reachable = _least(pcie.generation_max, pcie.slot_generation_max)
    if pcie.generation is None or reachable is None or pcie.width is None or pcie.width_max is None:
        return None
    if pcie.generation >= reachable:
        return "full"
    return "idle" if rest else None


def is_usable(gpu: Gpu) -> bool:
    """Whether a server can have the whole GPU; what uses it already does not count here."""
    return (
        gpu.state in (None, "ok")
        and not (gpu.mig and gpu.mig.enabled)
        and gpu.compute_mode != "prohibited"
        and gpu.kernel_driver in (None, "nvidia")
        and gpu.virtualization not in ("host_vgpu", "host_vsga")
    )


def is_guests(gpu: Gpu, host: Host) -> bool:
    """Whether the GPU was passed to a guest, by what the host's firmware or the driver says."""
    return host.virtualization not in (None, "none") or gpu.virtualization in ("passthrough", "vgpu")


def seen_link(gpu: Gpu, host: Host) -> Pcie:
    """The link as far as it is real: in a guest the slot is an invention of the hypervisor.

    Lanes that a guest does not have are therefore taken as the slot's: machines of clouds have boards on half of
    their lanes by design, and nobody in the guest could reseat one.
    """
    if not is_guests(gpu, host):
        return gpu.pcie
    return replace(gpu.pcie, slot_generation_max=None, slot_width_max=gpu.pcie.width)


def judged(one: Joined, host: Host) -> Joined:
    """The same GPU with C(pcie.state) and C(usable)."""
    gpu = one.gpu
    rest = at_rest(gpu, one.nvml.utilization if one.nvml else None)
    pcie = replace(gpu.pcie, state=link_state(seen_link(gpu, host), rest))
    return replace(one, gpu=replace(gpu, pcie=pcie, usable=is_usable(gpu)))
