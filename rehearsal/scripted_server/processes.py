# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes as SGLang shows them: titles, the fork of a rank, the table by which they know each other."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NAME = 15
_PR_SET_PDEATHSIG = 1


def rank_title(rank: str | None) -> str:
    """managers/scheduler.py, setproctitle: the blanks of the prefix become underscores."""
    return "sglang::scheduler" + (f"_{rank.replace(' ', '_')}" if rank else "")


def set_title(title: str) -> None:
    """Writes over the area in which the kernel keeps the arguments, as setproctitle does, and pads it with NULs."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    # Fields 48 and 49 of proc(5): arg_start and arg_end; the list begins with field 3.
    begin, end = int(fields[45]), int(fields[46])
    data = title.encode()[: end - begin - 1]
    ctypes.memmove(begin, data + bytes(end - begin - len(data)), end - begin)
    _LIBC.prctl(_PR_SET_NAME, title.encode()[:15] + b"\0", 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """utils/common.py, kill_itself_when_parent_died; a parent that is gone by now sends nothing any more."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class ProcessTable:
    """Who has which process id, shared by all processes of a server: number 0 is the main process.

    It is not mapped, so that no page of it is among the shared memory that a meter reads.
    """

    def __init__(self, size: int) -> None:
        self._file = os.memfd_create("processes")
        os.ftruncate(self._file, 4 * size)

    def put(self, number: int, pid: int) -> None:
        os.pwrite(self._file, struct.pack("i", pid), 4 * number)

    def get(self, number: int) -> int:
        return int(struct.unpack("i", os.pread(self._file, 4, 4 * number))[0])


def fork(work: Callable[[], None], title: str) -> int:
    """The process id of a child that does C(work) and ends with 0, or with 1 where it raised."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        die_with_parent(parent)
        set_title(title)
        work()
        status = 0
    finally:
        os._exit(status)
    raise AssertionError("not reached")
