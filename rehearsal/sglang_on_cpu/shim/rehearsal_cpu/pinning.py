# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slows the pinning of host pools to a set speed.

SGLang 0.5.23 maps a pool, pre-faults it in one call and then registers it (mem_cache/storage/mmap/mmap_allocator.py,
``_mmap_prefaulted``; mem_cache/pool_host/common.py, ``alloc_with_host_register``). The pre-faulting is what takes
minutes on a real node, and what moves RssShmem. So it is that step that goes chunk by chunk here.

REHEARSAL_PIN_BYTES_PER_SECOND: speed of one rank; unset or 0 leaves SGLang's own function in place.
"""

from __future__ import annotations

import mmap
import os
import time
from types import ModuleType

VARIABLE = "REHEARSAL_PIN_BYTES_PER_SECOND"
# Steps a second: a meter that reads once a second sees the bytes grow every time.
_STEPS_PER_SECOND = 10
_MADV_POPULATE_WRITE = 23  # linux/mman.h, Linux 5.14


def bytes_per_second() -> int:
    text = os.environ.get(VARIABLE, "").strip() or "0"
    if not text.isdecimal():
        raise ValueError(f"{VARIABLE} is {text!r}; it must be a whole number of bytes a second, or 0 for full speed")
    return int(text)


def _populate(mapping: mmap.mmap, start: int, length: int) -> None:
    try:
        mapping.madvise(_MADV_POPULATE_WRITE, start, length)
    except OSError:
        # An older kernel, or no memory: then writing tells, in the way of any process that touches its memory.
        mapping[start : start + length] = bytes(length)


def populate_paced(mapping: mmap.mmap, size_bytes: int, speed: int) -> None:
    """Faults in all pages at ``speed`` bytes a second. A late step is made up for by the next ones."""
    step = max(speed // _STEPS_PER_SECOND // mmap.PAGESIZE, 1) * mmap.PAGESIZE
    began = time.monotonic()
    for start in range(0, size_bytes, step):
        length = min(step, size_bytes - start)
        _populate(mapping, start, length)
        ahead = began + (start + length) / speed - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)


def pace(allocator: ModuleType) -> None:
    """Replaces the allocator's one-call pre-faulting if a speed is set."""
    speed = bytes_per_second()
    if speed == 0:
        return

    def mmap_prefaulted(fileno: int, alloc_bytes: int, flags: int) -> mmap.mmap:
        mapping = mmap.mmap(fileno, alloc_bytes, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        populate_paced(mapping, alloc_bytes, speed)
        return mapping

    # A release that has renamed the function must not be left unpaced in silence.
    if not callable(getattr(allocator, "_mmap_prefaulted", None)):
        raise RuntimeError(f"{allocator.__name__} has no _mmap_prefaulted; {VARIABLE} knows SGLang 0.5.23")
    vars(allocator)["_mmap_prefaulted"] = mmap_prefaulted
