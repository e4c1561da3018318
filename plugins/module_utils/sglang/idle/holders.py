# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who holds memory of a node, as one look finds it: processes, GPUs, files and segments of shared memory.

Unknown is None throughout. Sizes are what really lies in memory, not what was asked for.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# Why a process is taken for one of the instance.
BY_UNIT, BY_ENVIRONMENT, BY_FOLDER = "unit", "environment", "working_directory"


@dataclass(frozen=True)
class Process:
    """C(belongs) is why it is one of the instance's, None where it is not; C(container) the start of its identity."""

    pid: int
    name: str | None = None
    user: str | None = None
    unit: str | None = None
    container: str | None = None
    state: str | None = None
    parent: int | None = None
    started_at: float | None = None
    start_ticks: int | None = None
    shmem_bytes: int | None = None
    anon_bytes: int | None = None
    hugetlb_bytes: int | None = None
    belongs: str | None = None

    @property
    def held_bytes(self) -> int | None:
        """Host memory that goes when it does, but for shared memory that another maps too."""
        parts = (self.shmem_bytes, self.anon_bytes, self.hugetlb_bytes)
        return None if all(part is None for part in parts) else sum(part or 0 for part in parts)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "held_bytes": self.held_bytes}


@dataclass(frozen=True)
class GpuUser:
    """A process on a GPU; C(memory_used_bytes) is None where the driver does not tell."""

    process: Process
    memory_used_bytes: int | None
    kind: str = "compute"


@dataclass(frozen=True)
class GpuMemory:
    """C(memory_reserved_bytes) is None where the driver counts that as used."""

    index: int
    uuid: str | None = None
    name: str | None = None
    memory_total_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    users: tuple[GpuUser, ...] = ()

    @property
    def unnamed_bytes(self) -> int | None:
        """What is used and no process is named for; None where some process's part is not told."""
        parts = [user.memory_used_bytes for user in self.users]
        if self.memory_used_bytes is None or None in parts:
            return None
        return max(0, self.memory_used_bytes - sum(part or 0 for part in parts))

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: value for name, value in asdict(self).items() if name != "users"},
            "unnamed_bytes": self.unnamed_bytes,
            "processes": [
                {**user.process.as_dict(), "memory_used_bytes": user.memory_used_bytes, "kind": user.kind}
                for user in self.users
            ],
        }


@dataclass(frozen=True)
class MemoryFile:
    """A file that lies in memory. C(kind) is tmpfs, hugetlbfs or memfd; C(used_by) are processes that have it open or
    mapped, None where that could not be seen."""

    path: str
    kind: str
    bytes: int
    user: str | None = None
    used_by: tuple[int, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "used_by": None if self.used_by is None else list(self.used_by)}


@dataclass(frozen=True)
class SharedSegment:
    """A segment of System V shared memory. It outlives its processes; C(attached) counts those that have it."""

    id: int
    bytes: int
    size_bytes: int
    attached: int
    creator_pid: int | None = None
    user: str | None = None


@dataclass(frozen=True)
class HugePages:
    """Pages of one size that were taken out of a node's memory, and those of them that nothing uses."""

    size_bytes: int
    total: int
    free: int

    @property
    def used_bytes(self) -> int:
        return self.size_bytes * (self.total - self.free)

    @property
    def free_bytes(self) -> int:
        return self.size_bytes * self.free

    def as_dict(self) -> dict[str, int]:
        return {**asdict(self), "used_bytes": self.used_bytes}


@dataclass(frozen=True)
class NodeMemory:
    """One NUMA node; C(available_bytes) is its share of what the host has available."""

    node: int
    total_bytes: int | None = None
    free_bytes: int | None = None
    available_bytes: int | None = None
    shmem_bytes: int | None = None
    hugepages: tuple[HugePages, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hugepages": [pages.as_dict() for pages in self.hugepages]}


@dataclass(frozen=True)
class HostMemory:
    """/proc/meminfo. C(unaccounted_bytes) is what no counter of the kernel names: memory of drivers, above all pages
    that are still pinned for a device although their process is gone."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    free_bytes: int | None = None
    shmem_bytes: int | None = None
    mlocked_bytes: int | None = None
    unevictable_bytes: int | None = None
    unaccounted_bytes: int | None = None
    hugepages: tuple[HugePages, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hugepages": [pages.as_dict() for pages in self.hugepages]}


@dataclass(frozen=True)
class Look:
    """What decides whether the memory is given back. C(gpus) is None where NVML could not be asked, and holds only
    those that the instance uses."""

    processes: tuple[Process, ...]
    gpus: tuple[GpuMemory, ...] | None
    host: HostMemory
    nodes: tuple[NodeMemory, ...] = ()

    @property
    def gpu_used_bytes(self) -> int | None:
        known = [gpu.memory_used_bytes for gpu in self.gpus or () if gpu.memory_used_bytes is not None]
        return sum(known) if known else None
