# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who listens on this node's TCP ports, with the process and the unit behind each socket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.held_sockets import holders_of, text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import (
    Listener,
    listening,
    overlapping,
    unit_of,
)

PROC = Path("/proc")


def with_owners(listeners: list[Listener]) -> list[Listener]:
    owners: dict[int, Path] = {}
    for inode, process in holders_of(PROC, {one.inode for one in listeners}):
        owners.setdefault(inode, process)
    return [
        replace(
            one,
            pid=int(owners[one.inode].name),
            command=text_of(owners[one.inode] / "comm").strip() or None,
            unit=unit_of(text_of(owners[one.inode] / "cgroup")),
        )
        if one.inode in owners
        else one
        for one in listeners
    ]


def find_listeners(ranges: list[dict[str, Any]]) -> list[Listener]:
    """Sockets in the way of any range, each once."""
    tables = [text_of(PROC / "net" / table) for table in ("tcp", "tcp6")]
    found: dict[Listener, None] = {}
    for wanted in ranges:
        there = [one for table in tables for one in listening(table, wanted["first"], wanted["last"])]
        found.update(dict.fromkeys(overlapping(there, wanted["address"])))
    return list(found)
