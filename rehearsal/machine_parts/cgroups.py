# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Control groups: what /sys/fs/cgroup, /proc/self/cgroup and /proc/self/mountinfo show to the process that reads."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from .entries import Entries, Profile, ProfileError
from .lists import list_of, numbers_of

CPU_PERIOD_MICROSECONDS = 100000
V1_NO_LIMIT = 0x7FFFFFFFFFFFF000
V1_CONTROLLERS = ("memory", "cpuset", "cpu,cpuacct")
LAYOUTS = ("v1", "v2", "hybrid")
MOUNT = "{number} 23 0:{number} {root} {place} rw,nosuid,nodev,noexec,relatime shared:{number} - {kind}"


def cgroups(profile: Profile) -> Entries:
    settings = profile["cgroup"]
    layout = settings["layout"]
    if layout not in LAYOUTS:
        raise ProfileError(f"{profile['name']}: cgroup.layout is {layout}; known are {', '.join(LAYOUTS)}.")
    path, root = settings["path"], settings["mount_root"]
    groups = _groups(settings)
    mounts = ["22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw", "23 22 0:22 / /sys rw shared:2 - sysfs sysfs rw"]
    lines = []
    if layout == "v2":
        mounts.append(_mount(30, root, "", "cgroup2 cgroup2 rw,nsdelegate"))
        yield "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids"
        for group in groups:
            yield from _unified(profile, group)
    else:
        mounts.append("29 23 0:29 / /sys/fs/cgroup ro shared:3 - tmpfs tmpfs ro,mode=755")
        for number, controllers in enumerate(V1_CONTROLLERS, 31):
            lines.append(f"{number}:{controllers}:{path}")
            mounts.append(_mount(number, root, f"/{controllers}", f"cgroup cgroup rw,{controllers}"))
            for group in groups:
                yield from _split(profile, group, controllers)
        if layout == "hybrid":
            mounts.append(_mount(40, root, "/unified", "cgroup2 cgroup2 rw,nsdelegate"))
            # The controllers are bound to version 1, so none is left for version 2.
            yield "sys/fs/cgroup/unified/cgroup.controllers", ""
        lines.append(f"1:name=systemd:{path}")
    if layout != "v1":
        lines.append(f"0::{path}")
    yield "proc/self/cgroup", "\n".join(lines)
    yield "proc/self/mountinfo", "\n".join(mounts)


def _mount(number: int, root: str, below: str, kind: str) -> str:
    return MOUNT.format(number=number, root=root, place=f"/sys/fs/cgroup{below}", kind=kind)


def _groups(settings: dict[str, Any]) -> list[str]:
    """All groups that the mount shows: those with a limit, the process's own, the system slice, and all above them."""
    named = {"/", "/system.slice", settings["path"], *settings["limits"]}
    found = {str(above) for group in named for above in (PurePosixPath(group), *PurePosixPath(group).parents)}
    root = PurePosixPath(settings["mount_root"])
    return sorted(group for group in found if root in (PurePosixPath(group), *PurePosixPath(group).parents))


def _limit(profile: Profile, group: str, key: str) -> Any:
    return profile["cgroup"]["limits"].get(group, {}).get(key)


def _allowed(profile: Profile, group: str, key: str) -> str:
    """CPUs or nodes that are left to the group by itself and by all above it."""
    if key == "cpus":
        left = set(numbers_of(profile["host"]["cpus_present"])) - set(numbers_of(profile["host"]["cpus_offline"]))
    else:
        # The kernel leaves nodes out that have no memory to give.
        left = {node["id"] for node in profile["numa_nodes"] if node["memory_total_kib"]}
    for above in (PurePosixPath(group), *PurePosixPath(group).parents):
        limit = _limit(profile, str(above), key)
        if limit is not None:
            left &= set(numbers_of(limit))
    return list_of(left)


def _folder(profile: Profile, base: str, group: str) -> str:
    relative = PurePosixPath(group).relative_to(profile["cgroup"]["mount_root"])
    return str(PurePosixPath(base) / relative)


def _unified(profile: Profile, group: str) -> Entries:
    here = _folder(profile, "sys/fs/cgroup", group)
    yield f"{here}/cpuset.cpus.effective", _allowed(profile, group, "cpus")
    yield f"{here}/cpuset.mems.effective", _allowed(profile, group, "memory_nodes")
    if group == "/" and group not in profile["cgroup"]["limits"]:
        # The true root knows no limits; the root that a container sees is a group of its host.
        return
    quota = _limit(profile, group, "cpu_quota")
    allowed = "max" if quota is None else str(round(quota * CPU_PERIOD_MICROSECONDS))
    yield f"{here}/memory.max", str(_limit(profile, group, "memory_max_bytes") or "max")
    yield f"{here}/memory.high", str(_limit(profile, group, "memory_high_bytes") or "max")
    yield f"{here}/memory.current", str(_limit(profile, group, "memory_used_bytes") or 0)
    yield f"{here}/memory.stat", "inactive_file 0\nactive_file 0\nslab_reclaimable 0"
    yield f"{here}/cpu.max", f"{allowed} {CPU_PERIOD_MICROSECONDS}"
    yield f"{here}/cpuset.cpus", str(_limit(profile, group, "cpus") or "")
    yield f"{here}/cpuset.mems", str(_limit(profile, group, "memory_nodes") or "")


def _split(profile: Profile, group: str, controllers: str) -> Entries:
    here = _folder(profile, f"sys/fs/cgroup/{controllers}", group)
    if controllers == "memory":
        yield f"{here}/memory.limit_in_bytes", str(_limit(profile, group, "memory_max_bytes") or V1_NO_LIMIT)
        yield f"{here}/memory.usage_in_bytes", str(_limit(profile, group, "memory_used_bytes") or 0)
        yield f"{here}/memory.stat", "total_inactive_file 0\ntotal_active_file 0"
    elif controllers == "cpuset":
        for key, name in (("cpus", "cpus"), ("memory_nodes", "mems")):
            yield f"{here}/cpuset.{name}", _allowed(profile, group, key)
            yield f"{here}/cpuset.effective_{name}", _allowed(profile, group, key)
    else:
        quota = _limit(profile, group, "cpu_quota")
        yield f"{here}/cpu.cfs_period_us", str(CPU_PERIOD_MICROSECONDS)
        yield f"{here}/cpu.cfs_quota_us", "-1" if quota is None else str(round(quota * CPU_PERIOD_MICROSECONDS))
