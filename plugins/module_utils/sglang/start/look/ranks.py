# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of an instance, which of them are ranks, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import (
    RankReading,
    cgroup_procs_paths,
    exit_code,
    parse_cgroup_procs,
    parse_io,
    parse_stat,
    parse_status,
    title_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import rank_from_title
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node

# Podman splits the group of a unit in two, a container with systemd in it nests further.
DEEPEST_GROUP = 6
# A process is given this long to take its title; afterwards it is asked again only now and then.
TITLE_SECONDS = 10.0
TITLE_AGAIN_SECONDS = 5.0


def _below(node: Node, folder: str, depth: int) -> list[int]:
    text = node.text(f"{folder}/cgroup.procs")
    pids = parse_cgroup_procs(text) if text else []
    if depth:
        for inner in node.folders(folder):
            pids += _below(node, inner, depth - 1)
    return pids


def pids_of_group(node: Node, control_group: str | None) -> list[int]:
    """The living processes of a control group and of those in it."""
    for path in cgroup_procs_paths(control_group) if control_group else []:
        if node.path(path).exists():
            return _below(node, path.rsplit("/", 1)[0], DEEPEST_GROUP)
    return []


def descendants(node: Node, pid: int) -> list[int]:
    """A process and all that it started, as far as the kernel lists children (CONFIG_PROC_CHILDREN)."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        if one in found or not node.path(f"proc/{one}").exists():
            continue
        found.append(one)
        for thread in node.folders(f"proc/{one}/task"):
            waiting += parse_cgroup_procs(node.text(f"{thread}/children") or "")
    return sorted(found)


class RankReader:
    """Reads the ranks again and again, and remembers which processes are none so as not to ask each every time."""

    def __init__(self, node: Node, known: Iterable[RankReading]) -> None:
        self._node = node
        self._known = tuple(known)
        # Of a process that is no rank: when it was first seen, and when it was last asked.
        self._others: dict[int, tuple[float, float]] = {}
        self._titles: dict[int, tuple[str, int]] = {}

    def _title(self, pid: int) -> str | None:
        now = self._node.clock()
        first, last = self._others.get(pid, (now, None))
        if last is not None and now - first > TITLE_SECONDS and now - last < TITLE_AGAIN_SECONDS:
            return None
        self._others[pid] = (first, now)
        return rank_from_title(title_of(self._node.data(f"proc/{pid}/cmdline") or b""))

    def _reading(self, pid: int, label: str | None) -> RankReading | None:
        """A scheduler's reading; None if the process is none or is gone."""
        cached = self._titles.get(pid)
        rank = label or (cached[0] if cached else self._title(pid))
        if rank is None:
            return None
        stat = parse_stat(self._node.text(f"proc/{pid}/stat") or "")
        if stat is None or (label is None and cached and cached[1] != stat.start_ticks):
            self._titles.pop(pid, None)
            return None
        alive = stat.state not in ("Z", "X", "x")
        status = parse_status(self._node.text(f"proc/{pid}/status") or "") if alive else {}
        if alive and label is None:
            self._titles[pid] = (rank, stat.start_ticks)
        return RankReading(
            rank=rank,
            pid=pid,
            alive=alive,
            start_ticks=stat.start_ticks,
            state=stat.state,
            shmem_bytes=status.get("RssShmem"),
            anon_bytes=status.get("RssAnon"),
            hugetlb_bytes=status.get("HugetlbPages"),
            resident_bytes=status.get("VmRSS"),
            exit_code=exit_code(stat.exit_status) if stat.exit_status is not None else None,
        )

    def read(self, pids: Iterable[int]) -> list[RankReading]:
        """The ranks among the processes, and the known ones that are no longer there."""
        oldest: dict[str, RankReading] = {}
        for one in (self._reading(pid, None) for pid in pids):
            # A process that a rank forks bears its title until it takes another.
            if one is not None and _age(one) < _age(oldest.get(one.rank)):
                oldest[one.rank] = one
        found = {one.pid: one for one in oldest.values()}
        for before in self._known:
            if before.pid in found and found[before.pid].start_ticks == before.start_ticks:
                continue
            # A dead rank stays a zombie, which tells its exit code, until the main process looks after it.
            now = self._reading(before.pid, before.rank)
            if now is None or now.start_ticks != before.start_ticks:
                now = RankReading(before.rank, before.pid, False, before.start_ticks, exit_code=before.exit_code)
            if now.rank not in {one.rank for one in found.values()}:
                found[before.pid] = now
        # What was seen to live is missed from now on.
        living = {one.pid: one for one in self._known}
        living.update({one.pid: one for one in found.values()})
        self._known = tuple(living.values())
        return sorted(found.values(), key=lambda one: one.pid)


def _age(reading: RankReading | None) -> float:
    return float("inf") if reading is None or reading.start_ticks is None else reading.start_ticks


def held_bytes(node: Node, pids: Iterable[int]) -> tuple[int, int]:
    """Memory held and bytes read by all processes together: signs of life before there is any rank."""
    resident = read = 0
    for pid in pids:
        resident += parse_status(node.text(f"proc/{pid}/status") or "").get("VmRSS", 0)
        read += parse_io(node.text(f"proc/{pid}/io") or "") or 0
    return resident, read
