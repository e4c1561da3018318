# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which process holds which socket, read from a /proc. What is gone or may not be read is left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import socket_inode


def text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def holders_of(proc: Path, inodes: Collection[int], pids: Iterable[int] | None = None) -> Iterator[tuple[int, Path]]:
    """Each wanted socket with the folder of a process that holds it; workers share one socket.

    C(pids): the processes to look at, in order; all of them by number if not given.
    """
    if not inodes:
        return
    if pids is None:
        pids = sorted(int(path.name) for path in proc.iterdir() if path.name.isdecimal())
    for process in (proc / str(pid) for pid in pids):
        for inode in sorted(set(_sockets(process)).intersection(inodes)):
            yield inode, process


def _sockets(process: Path) -> Iterator[int]:
    try:
        links = list((process / "fd").iterdir())
    except OSError:
        return
    for link in links:
        try:
            inode = socket_inode(str(link.readlink()))
        except OSError:
            continue
        if inode is not None:
            yield inode
