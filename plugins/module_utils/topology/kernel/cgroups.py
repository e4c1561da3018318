# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the control groups leave to a system service on this host: memory, CPUs, CPU time, memory nodes.

Looked at are the system slice, where services start, and the groups above this process, as in a container that sees
the host's hierarchy; but not a user's session, whose limits do not hold for services.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.cgroup_mounts import (
    Hierarchy,
    read_hierarchies,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import read_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    parse_cgroup_limit,
    parse_count,
    parse_cpu_list,
)

# Memory that the kernel takes back from a group when the group needs it: page cache and reclaimable slabs.
_RECLAIMABLE = {
    2: ("inactive_file", "active_file", "slab_reclaimable"),
    1: ("total_inactive_file", "total_active_file"),
}
# Files with limits of memory, and the file that tells the use.
_MEMORY_FILES = {
    2: (("memory.max", "memory.high"), "memory.current"),
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes"),
}


@dataclass(frozen=True)
class Limits:
    """None is no limit. C(memory_available_bytes) is what can still be had below the limits: each without what its
    group holds already and could not give back. C(cpu_quota) is CPU time per time."""

    version: int | None = None
    memory_limit_bytes: int | None = None
    memory_available_bytes: int | None = None
    cpu_quota: float | None = None
    cpus: tuple[int, ...] | None = None
    memory_nodes: tuple[int, ...] | None = None


def parse_cpu_max(text: str | None) -> float | None:
    """cpu.max, time and period in microseconds: C(400000 100000) -> C(4.0); None for C(max 100000)."""
    words = (text or "").split()
    quota = parse_count(words[0]) if words else None
    period = parse_count(words[1]) if len(words) > 1 else 100_000
    return quota / period if quota and period else None


def held_bytes(usage: str | None, stat: str | None, version: int) -> int:
    """memory.current or memory.usage_in_bytes without what memory.stat says can be reclaimed; 0 where unknown."""
    rows = [line.split() for line in (stat or "").splitlines()]
    counted = {row[0]: parse_count(row[1]) or 0 for row in rows if len(row) == 2}
    return max(0, (parse_count(usage) or 0) - sum(counted.get(name, 0) for name in _RECLAIMABLE[version]))


def _all_folders(hierarchy: Hierarchy) -> list[str]:
    return list(dict.fromkeys(folder for line in hierarchy.lines for folder in line))


def _memory(root: Path, hierarchy: Hierarchy) -> tuple[int | None, int | None]:
    """The smallest limit, and the least that any limit still leaves: a wider one can be used up more."""
    version = hierarchy.mount.version
    names, usage = _MEMORY_FILES[version]
    limits, left = [], []
    for folder in _all_folders(hierarchy):
        told = [parse_cgroup_limit(read_text(root, f"{folder}/{name}")) for name in names]
        limit = min((limit for limit in told if limit is not None), default=None)
        if limit is not None:
            stat = read_text(root, f"{folder}/memory.stat")
            limits.append(limit)
            left.append(max(0, limit - held_bytes(read_text(root, f"{folder}/{usage}"), stat, version)))
    return min(limits, default=None), min(left, default=None)


def _quota(root: Path, hierarchy: Hierarchy) -> float | None:
    quotas: list[float | None] = []
    for folder in _all_folders(hierarchy):
        if hierarchy.mount.version == 2:
            quotas.append(parse_cpu_max(read_text(root, f"{folder}/cpu.max")))
        else:
            quota = read_text(root, f"{folder}/cpu.cfs_quota_us")
            if quota is not None:
                quotas.append(parse_cpu_max(f"{quota} {read_text(root, f'{folder}/cpu.cfs_period_us') or ''}"))
    return min((quota for quota in quotas if quota is not None), default=None)


def _closest(root: Path, line: Iterable[str], names: tuple[str, ...]) -> tuple[int, ...] | None:
    """The list of the group closest to the service that tells one. What is effective comes first: it heeds the groups
    above, which the setting of a group does not."""
    for folder in reversed(tuple(line)):
        for name in names:
            numbers = parse_cpu_list(read_text(root, f"{folder}/{name}"))
            if numbers:
                return numbers
    return None


def _set(root: Path, hierarchy: Hierarchy, what: str) -> tuple[int, ...] | None:
    """CPUs or memory nodes that all lines of descent allow. Where they have none in common, as when this process has
    CPUs of its own, the first counts: that of the system slice."""
    prefix = hierarchy.mount.prefix
    v2 = hierarchy.mount.version == 2
    names = (f"cpuset.{what}.effective",) if v2 else (f"{prefix}effective_{what}", f"{prefix}{what}")
    told = [numbers for numbers in (_closest(root, line, names) for line in hierarchy.lines) if numbers is not None]
    if not told:
        return None
    shared = frozenset(told[0]).intersection(*told[1:])
    return tuple(sorted(shared)) or told[0]


def read_limits(root: Path) -> Limits:
    hierarchies = read_hierarchies(root)
    memory, cpu, cpuset = (hierarchies.get(name) for name in ("memory", "cpu", "cpuset"))
    limit, left = _memory(root, memory) if memory else (None, None)
    first = memory or cpuset or cpu
    return Limits(
        version=first.mount.version if first else None,
        memory_limit_bytes=limit,
        memory_available_bytes=left,
        cpu_quota=_quota(root, cpu) if cpu else None,
        cpus=_set(root, cpuset, "cpus") if cpuset else None,
        memory_nodes=_set(root, cpuset, "mems") if cpuset else None,
    )
