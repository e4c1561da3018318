# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes of an instance: which is which rank, and what memory each holds. No I/O: texts of /proc come in.

Pinned bytes show in different places by version of SGLang: RssShmem from 0.5.13 (an mmap, MAP_SHARED and anonymous),
RssAnon before (torch.empty, then registered) and where 0.5.23 is told to allocate with several threads (MAP_PRIVATE),
nowhere but in MemAvailable to 0.5.4 (memory of the driver). Pools in reserved huge pages show in HugetlbPages, which is
no resident memory to the kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What a process shows of itself, and all of it with what only the machine shows.
COUNTERS = ("shmem", "anon", "hugetlb")
METERS = (*COUNTERS, "available")

_STATUS = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class ProcessStat:
    """From /proc/PID/stat (proc(5)). C(exit_status) is waitpid(2)'s, of a zombie only."""

    pid: int
    command: str
    state: str
    parent: int
    start_ticks: int
    exit_status: int | None


@dataclass(frozen=True)
class RankReading:
    """One scheduler at one moment. C(exit_code) as Python counts: negative for a signal, None if not known."""

    rank: str
    pid: int
    alive: bool
    start_ticks: int | None = None
    state: str | None = None
    shmem_bytes: int | None = None
    anon_bytes: int | None = None
    hugetlb_bytes: int | None = None
    resident_bytes: int | None = None
    exit_code: int | None = None

    def pinned_bytes(self, meter: str) -> int | None:
        """Raw reading of the meter; what lay there before pinning began is not taken off."""
        held = {"shmem": self.shmem_bytes, "anon": self.anon_bytes, "hugetlb": self.hugetlb_bytes}
        return held.get(meter)

    def as_dict(self, meter: str) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "pid": self.pid,
            "alive": self.alive,
            "state": self.state,
            "start_ticks": self.start_ticks,
            "pinned_bytes": self.pinned_bytes(meter),
            "shmem_bytes": self.shmem_bytes,
            "anon_bytes": self.anon_bytes,
            "hugetlb_bytes": self.hugetlb_bytes,
            "resident_bytes": self.resident_bytes,
            "exit_code": self.exit_code,
        }


def reading_from_dict(data: Mapping[str, Any]) -> RankReading:
    """The inverse of C(RankReading.as_dict)."""
    fields: dict[str, Any] = {name: data.get(name) for name in RankReading.__dataclass_fields__}
    return RankReading(**fields)


def parse_stat(text: str) -> ProcessStat | None:
    """The command may hold spaces and brackets, so the fields are counted from its last bracket."""
    opening, closing = text.find("("), text.rfind(")")
    if opening < 0 or closing < opening:
        return None
    fields = text[closing + 1 :].split()
    try:
        state = fields[0]
        return ProcessStat(
            pid=int(text[:opening]),
            command=text[opening + 1 : closing],
            state=state,
            parent=int(fields[1]),
            start_ticks=int(fields[19]),
            # Field 52; readable for root and the owner. 0 while the process lives.
            exit_status=int(fields[49]) if state == "Z" and len(fields) > 49 else None,
        )
    except (IndexError, ValueError):
        return None


def parse_cpu_ticks(text: str) -> int | None:
    """User and system time of a process so far, in clock ticks (fields 14 and 15 of /proc/PID/stat)."""
    fields = text[text.rfind(")") + 1 :].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 and fields[11].isdigit() else None


def exit_code(status: int) -> int:
    """waitpid(2)'s status -> exit code as Python counts, negative for a signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def parse_status(text: str) -> dict[str, int]:
    """Sizes of /proc/PID/status in bytes, by field."""
    return {name: int(number) * 1024 for name, number in _STATUS.findall(text)}


def parse_io(text: str) -> int | None:
    """Bytes that a process has read, from the page cache or from a disk (rchar of /proc/PID/io)."""
    match = re.search(r"^rchar: (\d+)$", text, re.MULTILINE)
    return int(match.group(1)) if match else None


def parse_cgroup_procs(text: str) -> list[int]:
    return [int(line) for line in text.split() if line.isdigit()]


def cgroup_procs_paths(control_group: str) -> list[str]:
    """Where the processes of a control group are listed: unified hierarchy, then the older ones."""
    group = control_group.strip("/")
    return [
        f"sys/fs/cgroup/{group}/cgroup.procs",
        f"sys/fs/cgroup/systemd/{group}/cgroup.procs",
        f"sys/fs/cgroup/unified/{group}/cgroup.procs",
    ]


def title_of(cmdline: bytes) -> str:
    """What a process shows as its command; setproctitle pads the rest of the area with NULs."""
    return cmdline.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def environment_value(environ: bytes, name: str) -> str | None:
    """A variable of /proc/PID/environ."""
    wanted = f"{name}=".encode()
    for item in environ.split(b"\0"):
        if item.startswith(wanted):
            return item[len(wanted) :].decode("utf-8", "replace")
    return None
