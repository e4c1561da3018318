# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the control groups leave to a system service on this host."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.files import read_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.texts import parse_int

# Control group v1 writes "no limit" as the largest multiple of a page; all above is meant as none.
_V1_NO_LIMIT = 1 << 62


def parse_cgroup_paths(text: str | None) -> tuple[str | None, str | None]:
    """/proc/self/cgroup: the path in the unified hierarchy and the path of v1's memory controller."""
    unified: str | None = None
    memory: str | None = None
    for line in (text or "").splitlines():
        number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if number == "0" and not controllers:
            unified = path
        elif "memory" in controllers.split(","):
            memory = path
    return unified, memory


def parse_cgroup_limit(text: str | None) -> int | None:
    """memory.max, memory.high or memory.limit_in_bytes: bytes, None where there is no limit."""
    limit = parse_int(text)
    return limit if limit is not None and limit < _V1_NO_LIMIT else None


def _cgroup_folders(path: str) -> list[str]:
    """A path and all above it: C(/a/b) -> C(['a/b', 'a', ''])."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]


def read_cgroup_limit(root: Path) -> int | None:
    """The smallest memory limit that a system service would live under, None without one.

    Looked at are the system slice, where services start, and the groups above this process, as in a container that
    sees the host's hierarchy; but not a user's session, whose limits do not hold for services.
    """
    unified, memory = parse_cgroup_paths(read_text(root, "proc/self/cgroup"))
    limits = []
    for base, own, files in (
        ("sys/fs/cgroup", unified, ("memory.max", "memory.high")),
        ("sys/fs/cgroup/memory", memory, ("memory.limit_in_bytes",)),
    ):
        paths = ["/system.slice"] + ([own] if own and not own.startswith("/user.slice") else [])
        for folder in {folder for path in paths for folder in _cgroup_folders(path)}:
            limits += [parse_cgroup_limit(read_text(root, f"{base}/{folder}/{file}")) for file in files]
    return min((limit for limit in limits if limit is not None), default=None)
