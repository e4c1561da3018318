# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel says that a start fails of: the OOM killer, and errors of NVIDIA's driver.

Lines of Linux mm/oom_kill.c: dump_oom_summary (from 4.19 or 5.0 on) and __oom_kill_process. Xid: NVIDIA's "Xid Errors".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent

_SUMMARY = re.compile(
    r"oom-kill:constraint=(?P<constraint>\w+),.*?(?:oom_memcg=(?P<limit_group>[^,]*),)?"
    r"(?:global_oom,)?task_memcg=(?P<group>[^,]*),task=(?P<task>.*),pid=(?P<pid>\d+),uid=\d+"
)
_KILLED = re.compile(
    r"(?P<memcg>Memory cgroup out of memory: )?Killed process (?P<pid>\d+) \(.*\),? (?:UID \d+, )?total-vm:\d+kB, "
    r"anon-rss:(?P<anon>\d+)kB, file-rss:\d+kB(?:, shmem-rss:(?P<shmem>\d+)kB)?"
)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9A-Fa-f:.]+)\): (?P<xid>\d+)(?:, pid='?(?P<pid>\d+)'?)?")
# What a line of interest contains, for a cheap first look.
WORDS = ("oom-kill:", "Killed process", "NVRM: Xid")


@dataclass(frozen=True)
class _Summary:
    constraint: str
    group: str
    limit_group: str | None


class KernelLog:
    """Takes the kernel's lines in order and keeps the events; whose they are is judged at the end of the look."""

    def __init__(self) -> None:
        self._summaries: dict[int, _Summary] = {}
        self._found: list[LogEvent] = []

    @property
    def noted(self) -> bool:
        return bool(self._found)

    def take(self, message: str, timestamp: float | None) -> None:
        if not any(word in message for word in WORDS):
            return
        summary = _SUMMARY.search(message)
        if summary is not None:
            self._summaries[int(summary["pid"])] = _Summary(
                summary["constraint"], summary["group"], summary["limit_group"]
            )
            return
        event = _killed(message) or _xid(message)
        if event is not None:
            self._found.append(replace(event, timestamp=timestamp))

    def events(
        self,
        group: str | None,
        pids: Iterable[int],
        ranks: Iterable[RankReading],
        lives: Callable[[int], bool],
    ) -> list[LogEvent]:
        """Those that concern the unit: by control group, by process, or by a GPU that no other process stands for.

        C(pids): every process of the unit that is or was known.
        """
        own = frozenset(pids)
        rank_of = {one.pid: one.rank for one in ranks}
        kept = []
        for event in self._found:
            pid = event.value("dead_pid") if event.label == "oom_killer" else event.value("pid")
            if event.label == "gpu_error":
                if pid is None or pid in own or not lives(pid):
                    kept.append(replace(event, rank=rank_of.get(pid)))
                continue
            summary = self._summaries.get(pid)
            if pid in own or (summary is not None and _is_in(summary.group, group)):
                kept.append(_with_summary(replace(event, rank=rank_of.get(pid)), summary))
        return kept


def _is_in(path: str, group: str | None) -> bool:
    """The kernel names groups from the very top, systemd from its own root, which lies deeper in a container."""
    wanted = (group or "").rstrip("/")
    return bool(wanted) and f"{path}/".find(f"{wanted}/") >= 0


def _with_summary(event: LogEvent, summary: _Summary | None) -> LogEvent:
    if summary is None:
        return event
    values = {**dict(event.values), "constraint": summary.constraint}
    if summary.limit_group:
        values["limit_group"] = summary.limit_group
    return replace(event, values=tuple(sorted(values.items())))


def _killed(message: str) -> LogEvent | None:
    match = _KILLED.search(message)
    if match is None:
        return None
    values: dict[str, int | str] = {"dead_pid": int(match["pid"]), "anon_bytes": int(match["anon"]) * 1024}
    if match["shmem"] is not None:
        values["shmem_bytes"] = int(match["shmem"]) * 1024
    if match["memcg"] is not None:
        values["constraint"] = "CONSTRAINT_MEMCG"
    return LogEvent(kind="failure", label="oom_killer", text=message, values=tuple(sorted(values.items())))


def _xid(message: str) -> LogEvent | None:
    match = _XID.search(message)
    if match is None:
        return None
    values: dict[str, int | str] = {"xid": int(match["xid"]), "pci_address": match["address"].lower()}
    if match["pid"] is not None:
        values["pid"] = int(match["pid"])
    return LogEvent(kind="failure", label="gpu_error", text=message, values=tuple(sorted(values.items())))
