# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the process that was started is the one that listens: another server, or an older start, answers as well."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.held_sockets import holders_of, text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import parse_stat
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check
from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import (
    Listener,
    listening,
    overlapping,
)

PROC = Path("/proc")
# From a process up to init.
DEEPEST = 64


@dataclass(frozen=True)
class Holder:
    """Who holds a listening socket, with the processes that it descends from."""

    pid: int
    command: str
    ancestors: tuple[int, ...]


def find_holders(port: int, host: str, proc: Path = PROC) -> list[Holder]:
    """Who listens on the port at the address of C(host), as far as it may be seen; workers share one socket."""
    tables = [text_of(proc / "net" / table) for table in ("tcp", "tcp6")]
    there = _at([one for table in tables for one in listening(table, port)], host)
    processes = dict.fromkeys(process for _inode, process in holders_of(proc, {one.inode for one in there}))
    return [
        Holder(int(process.name), text_of(process / "comm").strip(), tuple(_ancestors(int(process.name), proc)))
        for process in processes
    ]


def _at(found: list[Listener], host: str) -> list[Listener]:
    try:
        return overlapping(found, str(ipaddress.ip_address(host)))
    except ValueError:
        return found  # a name: whatever it means, the port is the same


def _ancestors(pid: int, proc: Path) -> Iterator[int]:
    for _unused in range(DEEPEST):
        stat = parse_stat(text_of(proc / str(pid) / "stat"))
        if stat is None or stat.parent <= 0:
            return
        yield stat.parent
        pid = stat.parent


def judge_owner(holders: list[Holder], main_pid: int, port: int) -> Check:
    """C(ok) None where nobody is seen to listen: in another network namespace, or without the right to look."""
    name = "listener"
    if any(one.pid == main_pid or main_pid in one.ancestors for one in holders):
        return Check(name, True, main_pid, main_pid)
    if not holders:
        return Check(name, None, None, main_pid)
    first = holders[0]
    values: Mapping[str, object] = {"pid": first.pid, "command": first.command, "main_pid": main_pid, "port": port}
    return Check(
        name,
        False,
        first.pid,
        main_pid,
        "listener_is_another",
        f"Process {first.pid} ({first.command}) listens on port {port}, and process {main_pid} was started for it: "
        "another server answers, or the unit has started anew meanwhile.",
        "Look at who that is (listener_info), end it, and let the instance start again.",
        values=values,
    )
