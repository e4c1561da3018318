# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts of the kernel that tell who holds memory. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import SharedSegment

# cgroups of docker (docker-ID.scope, /docker/ID), podman (libpod-ID.scope), Kubernetes (cri-containerd-ID.scope,
# crio-ID.scope, /kubepods/.../ID), nspawn and LXC by their names.
_HASHED = re.compile(r"(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_NAMED = re.compile(r"(?:^|/)(?:lxc(?:\.payload)?[./]|machine-)([\w.@\\-]+?)(?:\.scope)?(?:/|$)")
IDENTITY = 12
# C(7f0c3c000000-7f0c3e000000 rw-s 00000000 00:1b 1234 /dev/shm/name): device and inode of a mapping (proc(5)).
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) +/", re.MULTILINE)
_UID = re.compile(r"^Uid:\s+(\d+)", re.MULTILINE)
_BOOT = re.compile(r"^btime (\d+)$", re.MULTILINE)
# Together with MemFree they account for all memory, but for what drivers took in pages (Documentation/filesystems/
# proc.rst of Linux: meminfo). Shmem is part of Cached.
_ACCOUNTED = (
    "MemFree",
    "Buffers",
    "Cached",
    "SwapCached",
    "AnonPages",
    "Slab",
    "KernelStack",
    "PageTables",
    "SecPageTables",
    "VmallocUsed",
    "Percpu",
    "Hugetlb",
)


def container_of(cgroup: str) -> str | None:
    """The container in the text of /proc/PID/cgroup, None outside any."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        found = _HASHED.search(path)
        if found is not None:
            return found.group(1)[:IDENTITY]
        named = _NAMED.search(path)
        if named is not None:
            return named.group(1)
    return None


def user_id(status: str) -> int | None:
    found = _UID.search(status)
    return int(found.group(1)) if found else None


def boot_time(stat: str) -> float | None:
    found = _BOOT.search(stat)
    return float(found.group(1)) if found else None


def mapped_files(maps: str) -> set[tuple[int, int, int]]:
    """Major and minor number of the device, and the inode, of every file that a process maps."""
    return {(int(major, 16), int(minor, 16), int(inode)) for major, minor, inode in _MAPPING.findall(maps)}


def shared_segments(table: str, user_names: Mapping[int, str | None]) -> tuple[SharedSegment, ...]:
    """The rows of /proc/sysvipc/shm, by the names in its head; largest first."""
    lines = table.splitlines()
    head = lines[0].split() if lines else []
    found = []
    for line in lines[1:]:
        fields = line.split()
        if len(fields) != len(head):
            continue
        row = dict(zip(head, fields))
        try:
            size = int(row["size"])
            found.append(
                SharedSegment(
                    id=int(row["shmid"]),
                    # Resident bytes; kernels before 2.6.33 had no such column.
                    bytes=int(row.get("rss", size)),
                    size_bytes=size,
                    attached=int(row["nattch"]),
                    creator_pid=int(row["cpid"]) or None,
                    user=user_names.get(int(row["uid"]), row["uid"]),
                )
            )
        except (KeyError, ValueError):
            continue
    return tuple(sorted(found, key=lambda segment: -segment.bytes))


def unaccounted_bytes(memory: Mapping[str, int]) -> int | None:
    """Memory that no counter of /proc/meminfo names; None where it has not enough of them."""
    if any(name not in memory for name in ("MemTotal", "MemFree", "Cached", "AnonPages", "Slab")):
        return None
    return max(0, memory["MemTotal"] - sum(memory.get(name, 0) for name in _ACCOUNTED))


def slice_path(name: str) -> str:
    """C(a-b.slice) -> C(a.slice/a-b.slice), as systemd nests them (systemd.slice(5)); -.slice is the root."""
    stem = name.removesuffix(".slice")
    parts = [part for part in stem.split("-") if part]
    return "/".join(f"{'-'.join(parts[: count + 1])}.slice" for count in range(len(parts)))
