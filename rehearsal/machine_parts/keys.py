# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys that a profile may have: a slip of the pen is refused by its name instead of being passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from .entries import Profile, ProfileError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BOARD = _words("kind id subsystem class driver speed speed_now width width_now nvml config_bytes")
DEVICE = BOARD | _words("board path minor numa_node iommu_group off_bus physical_function")
BRIDGE = _words("id speed speed_now width width_now acs config_bytes")
SECTIONS: dict[str, frozenset[str]] = {
    "host": _words(
        "vendor product architecture cpu_vendor cpu_model hypervisor kernel cmdline iommu cpus_present cpus_offline "
        "memory_available_kib nodes_possible"
    ),
    "driver": _words("version nvml cuda flavour"),
    "cgroup": _words("layout path mount_root limits"),
    "bridges": _words("root_port switch_port"),
    "stack": _words(
        "os kernels boots_next packages held user_space fabric_manager persistenced secure_boot nouveau_blacklisted "
        "tuned unattended_upgrades reboot_required transparent_hugepage swap_kib overcommit_memory memlock governor"
    ),
}
PROFILE = frozenset(SECTIONS) | _words(
    "format name summary sources assumptions like gpus numa_nodes distances host_bridges bridge_overrides boards "
    "devices nvlink nvml_affinity p2p faults processes"
)
NODE = _words("id cpus memory_total_kib memory_free_kib memory_file_kib memory_slab_reclaimable_kib hugepages")
NVML = _words(
    "name serial memory_total_mib memory_reserved_mib memory_used_mib memory_node memory_affinity compute_capability "
    "architecture persistence compute_mode ecc mig mig_devices mig_devices_max power_limit_watts fabric processes "
    "nvlink performance_state utilization virtualization ecc_volatile ecc_aggregate remapped_rows retired_pages"
)
LIMIT = _words("memory_max_bytes memory_high_bytes memory_used_bytes cpus memory_nodes cpu_quota")
GPU_PROCESS = _words("pid name used_mib kind")
PROCESS = _words("pid name command")
NVLINK = _words("to remote links down")
KERNEL = _words("headers nvidia dkms")
MODULE = _words("version flavour signer")
DAEMON = _words("version running enabled")
SECURE_BOOT = _words("enabled setup_mode lockdown keys")


def _refuse(name: str, place: str, found: object, known: Iterable[str]) -> None:
    if not isinstance(found, Mapping):
        raise ProfileError(f"{name}: {place or 'the profile'} is no mapping of keys.")
    for key in sorted(set(map(str, found)) - set(known)):
        close = get_close_matches(key, list(known), 1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise ProfileError(f"{name}: unknown key {place + '.' if place else ''}{key}{hint}")


def refuse_unknown_keys(profile: Profile) -> None:
    name = str(profile.get("name"))
    _refuse(name, "", profile, PROFILE)

    def each(place: str, found: Mapping[Any, Any] | list[Any] | None, known: frozenset[str]) -> None:
        pairs = found.items() if isinstance(found, Mapping) else enumerate(found or ())
        for key, entry in pairs:
            _refuse(name, f"{place}.{key}", entry, known)

    for section, known in SECTIONS.items():
        if profile.get(section) is not None:
            _refuse(name, section, profile[section], known)
    each("numa_nodes", profile.get("numa_nodes"), NODE)
    each("boards", profile.get("boards"), BOARD)
    each("devices", profile.get("devices"), DEVICE)
    each("gpus", profile.get("gpus"), DEVICE)
    each("bridges", profile.get("bridges"), BRIDGE)
    each("bridge_overrides", profile.get("bridge_overrides"), BRIDGE)
    each("processes", profile.get("processes"), PROCESS)
    each("nvlink", profile.get("nvlink"), NVLINK)
    each("cgroup.limits", (profile.get("cgroup") or {}).get("limits"), LIMIT)
    stack = profile.get("stack") or {}
    each("stack.kernels", stack.get("kernels"), KERNEL)
    modules = {release: own.get("nvidia") for release, own in (stack.get("kernels") or {}).items()}
    each("stack.kernels.nvidia", {release: own for release, own in modules.items() if own}, MODULE)
    for part, known in (("fabric_manager", DAEMON), ("persistenced", DAEMON), ("secure_boot", SECURE_BOOT)):
        if stack.get(part) is not None:
            _refuse(name, f"stack.{part}", stack[part], known)
    for section in ("boards", "devices", "gpus"):
        found = profile.get(section) or {}
        for key, entry in found.items() if isinstance(found, Mapping) else enumerate(found):
            if entry.get("nvml") is not None:
                place = f"{section}.{key}.nvml"
                _refuse(name, place, entry["nvml"], NVML)
                each(f"{place}.processes", entry["nvml"].get("processes"), GPU_PROCESS)
                each(f"{place}.nvlink", entry["nvml"].get("nvlink"), NVLINK)
