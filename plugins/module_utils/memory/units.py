# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bytes and their names. GB is 1e9 bytes, GiB is 2^30 bytes; the two are never mixed.

SGLang prints GiB under the letters GB for the device and true GB for the host; what this collection
prints is always labelled for what it is.
"""

from __future__ import annotations

import math

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
MB = 10**6
GB = 10**9
# By the names that SGLang gives them (mem_cache/storage/mmap/mmap_allocator.py).
HUGEPAGE_SIZES = {"2MB": 2 * MIB, "1GB": GIB}


def format_gb(size_bytes: float, digits: int = 2) -> str:
    """C(44770853376) -> C(44.77 GB)."""
    return f"{size_bytes / GB:,.{digits}f} GB"


def format_gb_to_free(size_bytes: float, digits: int = 2) -> str:
    """Rounded up, so that what is freed by it suffices: C(1) -> C(0.01 GB)."""
    return f"{math.ceil(size_bytes / GB * 10**digits) / 10**digits:,.{digits}f} GB"


def format_gib(size_bytes: float, digits: int = 2) -> str:
    """C(11192713344) -> C(10.42 GiB)."""
    return f"{size_bytes / GIB:,.{digits}f} GiB"


def format_rate(bytes_per_second: float) -> str:
    """C(2896000000) -> C(2.90 GB/s); C(4200000) -> C(0.0042 GB/s), since slow is not nothing."""
    rate = bytes_per_second / GB
    return f"{rate:.2f} GB/s" if rate >= 0.01 or rate <= 0 else f"{rate:.2g} GB/s"


def format_count(number: int) -> str:
    """C(159277) -> C(159,277)."""
    return f"{number:,}"


def format_seconds(seconds: float) -> str:
    """C(8.25) -> C(8.2 s); C(184) -> C(3 min 04 s)."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
