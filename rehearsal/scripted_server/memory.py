# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast memory is taken, and real memory of the kinds that SGLang's host pools were made of over time."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

GB = 1_000_000_000
CHUNK_BYTES = 1 << 20
# So often does a pool grow: finer than any meter looks, coarse enough to cost little.
TICK_SECONDS = 0.05
_MAP_HUGETLB = 0x40000
_HUGE_PAGE_BYTES = 2 << 20
# What must not be given back while the process lives.
_held: list[object] = []


def knots(
    total: int,
    gb_per_second: float,
    speeds: Sequence[tuple[float, float]] = (),
    pauses: Sequence[tuple[float, float]] = (),
) -> list[tuple[float, float]]:
    """(seconds, bytes) between which memory grows evenly; two of equal bytes are a pause."""
    marks = sorted({0.0, 1.0, *(share for share, _gb in speeds), *(share for share, _seconds in pauses)})
    found = [(0.0, 0.0)]
    at, speed = 0.0, gb_per_second
    for mark, following in zip(marks, [*marks[1:], 1.0]):
        speed = next((gb for share, gb in speeds if share == mark), speed)
        rest = sum(seconds for share, seconds in pauses if share == mark)
        if rest:
            at += rest
            found.append((at, mark * total))
        if following > mark:
            at += (following - mark) * total / (speed * GB)
            found.append((at, following * total))
    return found


def bytes_at(curve: Sequence[tuple[float, float]], seconds: float) -> int:
    """How many bytes are to be there after so many seconds."""
    for (from_seconds, from_bytes), (to_seconds, to_bytes) in zip(curve, curve[1:]):
        if seconds < to_seconds:
            return int(from_bytes + (to_bytes - from_bytes) * (seconds - from_seconds) / (to_seconds - from_seconds))
    return int(curve[-1][1])


def region(kind: str, size: int) -> Callable[[int, bytes], None]:
    """Reserves memory that is there only once it is written to; returns what writes at an offset. It stays held."""
    if kind == "driver":
        # No process maps it, like memory of the driver: it is missing from what is available, and that is all.
        descriptor = os.memfd_create("driver")
        os.ftruncate(descriptor, size)
        _held.append(descriptor)
        return lambda offset, data: (os.pwrite(descriptor, data, offset), None)[1]
    flags = mmap.MAP_ANONYMOUS | (mmap.MAP_PRIVATE if kind == "private" else mmap.MAP_SHARED)
    if kind == "hugetlb":
        flags |= _MAP_HUGETLB
        size = -(-size // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    mapping = mmap.mmap(-1, size, flags=flags)
    if kind == "private":
        # A page at a time, so that as much is resident as was written.
        mapping.madvise(mmap.MADV_NOHUGEPAGE)
    _held.append(mapping)

    def write(offset: int, data: bytes) -> None:
        mapping[offset : offset + len(data)] = data

    return write


def fill(
    write: Callable[[int, bytes], None],
    curve: Sequence[tuple[float, float]],
    stops: Sequence[tuple[float, Callable[[], None]]] = (),
) -> None:
    """Writes along the curve; at each share of the bytes in C(stops) calls what stands there, and goes on after it."""
    total = int(curve[-1][1])
    done = 0
    began = time.monotonic()
    for share, call in [*sorted(stops, key=lambda stop: stop[0]), (1.0, None)]:
        goal = int(share * total)
        while done < goal:
            due = min(goal, bytes_at(curve, time.monotonic() - began))
            while done < due:
                size = min(CHUNK_BYTES, due - done)
                write(done, bytes(size))
                done += size
            if done < goal:
                time.sleep(TICK_SECONDS)
        if call is not None:
            stopped = time.monotonic()
            call()
            began += time.monotonic() - stopped


def eat(kind: str, gb_per_second: float, oom_score_adj: int | None = None) -> None:
    """Takes memory until it is refused or the OOM killer comes."""
    if oom_score_adj is not None:
        Path("/proc/self/oom_score_adj").write_text(str(oom_score_adj), encoding="ascii")
    block = 256 << 20
    while True:
        fill(region(kind, block), knots(block, gb_per_second))


def bus_error() -> None:
    """A read behind the end of a mapped file: the kernel's own SIGBUS."""
    descriptor = os.memfd_create("short")
    os.ftruncate(descriptor, 2 * mmap.PAGESIZE)
    mapping = mmap.mmap(descriptor, 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    os.ftruncate(descriptor, 0)
    ctypes.string_at(address, 1)
