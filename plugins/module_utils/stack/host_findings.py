# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with packages, boot, limits, memory and processors."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, MIB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Cpu,
    FreeZone,
    Kernel,
    Limits,
    Memory,
    NextBoot,
    OperatingSystem,
    Package,
    Reboot,
    UnattendedUpgrades,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.problem_codes import problem

# dpkg's states of a package that is neither in nor out; triggers that wait are done by the next run.
_HALF = ("half-installed", "half-configured", "unpacked", "reinstall-required")
_SWAP_USED_BYTES = 256 * MIB
_SHM_BYTES = GIB
_HUGE_PAGE_BYTES = 2 * MIB
# A node with less free memory than this says nothing about fragmentation, as the kernel keeps some in reserve.
_FREE_BYTES = 4 * GIB
_LARGE_SHARE = 0.1
# With these drivers the governor powersave means "by the energy preference", which may be performance.
_BY_PREFERENCE = ("intel_pstate", "amd-pstate-epp")


def package_problems(
    packages: Sequence[Package] | None, database: bool, unattended: UnattendedUpgrades
) -> list[Problem]:
    """C(database): whether this host has a database of packages."""
    found = []
    if packages is None and database:
        found.append(problem("packages_unknown", "The packages could not be listed."))
    half = [f"{package.name} ({package.status})" for package in packages or () if package.status in _HALF]
    if half:
        found.append(problem("package_half_installed", f"Not wholly installed: {', '.join(half)}."))
    if unattended.covers_driver and unattended.reason:
        found.append(problem("unattended_upgrade_of_driver", unattended.reason))
    elif unattended.enabled and unattended.covers_driver is None and unattended.reason:
        found.append(problem("unattended_upgrade_unclear", unattended.reason))
    return found


def boot_problems(os: OperatingSystem, kernels: Sequence[Kernel], next_boot: NextBoot, reboot: Reboot) -> list[Problem]:
    found = []
    bootable = [kernel for kernel in kernels if kernel.vmlinuz is not None]
    if next_boot.kernel is None and bootable and os.container is None:
        found.append(problem("next_boot_unknown", f"{len(bootable)} kernels are installed, and none is known to boot."))
    if next_boot.kernel is not None and bootable and next_boot.kernel not in [kernel.release for kernel in bootable]:
        found.append(problem("next_kernel_missing", f"{next_boot.entry} boots {next_boot.kernel}, which has no image."))
    if next_boot.once:
        found.append(problem("next_boot_once", f"{next_boot.entry} boots next, and only once."))
    if reboot.required:
        found.append(problem("reboot_required", " ".join(reboot.reasons)))
    return found


def limit_problems(limits: Limits) -> list[Problem]:
    soft = limits.memlock.services.soft_bytes
    if soft is None:
        return []
    return [problem("memlock_limited", f"By default a service may lock {soft / MIB:,.1f} MiB.")]


def memory_problems(memory: Memory) -> list[Problem]:
    found = []
    swap = memory.swap
    if swap.total_bytes is not None and swap.free_bytes is not None:
        used = swap.total_bytes - swap.free_bytes
        if used >= _SWAP_USED_BYTES:
            message = f"{format_gb(used)} of {format_gb(swap.total_bytes)} of swap are in use."
            found.append(problem("swap_in_use", message))
    overcommit = memory.overcommit
    if overcommit.policy == "never":
        limit = "unknown" if overcommit.limit_bytes is None else format_gb(overcommit.limit_bytes)
        found.append(problem("overcommit_never", f"vm.overcommit_memory is 2; the commit limit is {limit}."))
    if memory.transparent_hugepage.enabled == "never":
        found.append(problem("thp_off", "transparent_hugepage/enabled is never."))
    if memory.shm.size_bytes is not None and memory.shm.size_bytes < _SHM_BYTES:
        found.append(problem("shm_small", f"/dev/shm has {format_gb(memory.shm.size_bytes)}."))
    if memory.zone_reclaim_mode:
        found.append(problem("zone_reclaim_on", f"vm.zone_reclaim_mode is {memory.zone_reclaim_mode}."))
    if memory.numa_balancing and len({zone.node for zone in memory.free_by_order}) > 1:
        found.append(problem("numa_balancing_on", f"kernel.numa_balancing is {memory.numa_balancing}."))
    return found + fragmentation_problems(memory.free_by_order)


def fragmentation_problems(zones: Sequence[FreeZone]) -> list[Problem]:
    found = []
    for node in sorted({zone.node for zone in zones}):
        free = large = 0
        for entry in (entry for zone in zones if zone.node == node for entry in zone.orders):
            free += entry.bytes or 0
            large += (entry.bytes or 0) if (entry.bytes_each or 0) >= _HUGE_PAGE_BYTES else 0
        if free >= _FREE_BYTES and large < free * _LARGE_SHARE:
            message = f"NUMA node {node}: of {format_gb(free)} free, {format_gb(large)} lie in blocks of 2 MiB or more."
            found.append(problem("memory_fragmented", message))
    return found


def cpu_problems(cpu: Cpu) -> list[Problem]:
    slow = {name: count for name, count in (cpu.governors or {}).items() if name != "performance"}
    preferences = set(cpu.energy_preferences or ())
    if not slow or (cpu.driver in _BY_PREFERENCE and preferences == {"performance"}):
        return []
    counted = ", ".join(f"{name} on {count} CPUs" for name, count in slow.items())
    return [problem("governor_not_performance", f"The governor is {counted}.")]


def reading_problems(unreadable: Sequence[str]) -> list[Problem]:
    if not unreadable:
        return []
    shown = ", ".join(unreadable[:8]) + (f" and {len(unreadable) - 8} more" if len(unreadable) > 8 else "")
    return [problem("not_readable", f"May not be read: {shown}.")]
