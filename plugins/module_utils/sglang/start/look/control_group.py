# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory and CPU time of a control group, version 2 or 1, where systemd mounts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import parse_cpu_ticks
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import CgroupReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_cgroup_limit

BASE = "sys/fs/cgroup"


def _table(text: str | None) -> dict[str, int]:
    """C(name number) lines, as memory.stat and memory.events have them."""
    rows = (line.split() for line in (text or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdigit() else None


def _upwards(group: str) -> Iterator[str]:
    """The group and those above it, without the root, which has no limit."""
    parts = [part for part in group.split("/") if part]
    for length in range(len(parts), 0, -1):
        yield "/".join(parts[:length])


def _tightest(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def read_control_group(node: Node, group: str | None) -> CgroupReading:
    """All None where the group has no memory controller."""
    if not group:
        return CgroupReading()
    name = group.strip("/")
    if node.path(f"{BASE}/{name}/memory.current").exists():
        folder = f"{BASE}/{name}"
        stat, events = _table(node.text(f"{folder}/memory.stat")), _table(node.text(f"{folder}/memory.events"))
        return CgroupReading(
            current_bytes=_number(node.text(f"{folder}/memory.current")),
            limit_bytes=_tightest(
                parse_cgroup_limit(node.text(f"{BASE}/{above}/{file}"))
                for above in _upwards(name)
                for file in ("memory.max", "memory.high")
            ),
            shmem_bytes=stat.get("shmem"),
            anon_bytes=stat.get("anon"),
            oom_kills=events.get("oom_kill"),
        )
    folder = f"{BASE}/memory/{name}"
    # total_ counts the groups below as well, as version 2 always does. oom_kill: since Linux 4.13.
    stat, control = _table(node.text(f"{folder}/memory.stat")), _table(node.text(f"{folder}/memory.oom_control"))
    return CgroupReading(
        current_bytes=_number(node.text(f"{folder}/memory.usage_in_bytes")),
        limit_bytes=_tightest(
            parse_cgroup_limit(node.text(f"{BASE}/memory/{above}/memory.limit_in_bytes")) for above in _upwards(name)
        ),
        shmem_bytes=stat.get("total_shmem", stat.get("shmem")),
        anon_bytes=stat.get("total_rss", stat.get("rss")),
        oom_kills=control.get("oom_kill"),
    )


def read_cpu_seconds(node: Node, group: str | None, pids: Iterable[int], ticks_per_second: int) -> float | None:
    """User and system time: of the group, which also counts what has ended, else of the processes that are there."""
    name = group.strip("/") if group else ""
    if name:
        usage = _table(node.text(f"{BASE}/{name}/cpu.stat")).get("usage_usec")
        if usage is not None:
            return usage / 1e6
        for controller in ("cpuacct", "cpu,cpuacct"):
            spent = _number(node.text(f"{BASE}/{controller}/{name}/cpuacct.usage"))
            if spent is not None:
                return spent / 1e9
    spent_ticks = [parse_cpu_ticks(node.text(f"proc/{pid}/stat") or "") for pid in pids]
    known = [ticks for ticks in spent_ticks if ticks is not None]
    return sum(known) / ticks_per_second if known else None
