# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The formats in which the kernel writes numbers, lists and names below /sys and /proc.

Functions on texts: what is absent or not as expected gives None or nothing, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB

# Beyond what any kernel can be built for (8192 CPUs, 1024 nodes): a list that names more is no list of ours, and
# spelling it out would fill the memory.
MAX_ID = 1 << 16
# As many as a list of every second number has.
_MAX_RANGES = MAX_ID // 2
# 64 PiB: more memory than any machine has.
MAX_MEMORY_BYTES = 1 << 56
# No number that the kernel writes has more digits (2^64); Python refuses to read thousands of them.
_NUMBER = re.compile(r"^-?\d{1,20}$", re.ASCII)
_RANGE = re.compile(r"^(\d{1,20})(?:-(\d{1,20}))?$", re.ASCII)
_MASK_WORD = re.compile(r"^[0-9a-f]{1,8}$", re.IGNORECASE)
# A link speed in GT/s and the PCIe generation that brought it.
GENERATION_OF_SPEED = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
LINK_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
# The domain has four digits or more: hypervisors and Intel VMD number beyond 16 bits.
_PCI_ADDRESS = re.compile(r"^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$", re.IGNORECASE)
_MEMINFO_LINE = re.compile(r"^(?:Node\s+\d+\s+)?([^:\s]+):\s+(\d{1,20})(\s+kB)?\s*$", re.ASCII)
# Control group v1 writes "no limit" as the largest multiple of a page; all above is meant as none.
_V1_NO_LIMIT = 1 << 62


def parse_int(text: str | None) -> int | None:
    """A decimal number, or None for anything else."""
    stripped = (text or "").strip()
    return int(stripped) if _NUMBER.match(stripped) else None


def parse_count(text: str | None) -> int | None:
    """A number of things, so never a negative one."""
    number = parse_int(text)
    return number if number is not None and number >= 0 else None


def parse_cpu_list(text: str | None) -> tuple[int, ...]:
    """The kernel's list format to numbers: C(0-2,5) -> C((0, 1, 2, 5)); what is no number is left out, and so is
    what no kernel counts up to."""
    ranges = []
    for part in (text or "").split(",", _MAX_RANGES)[:_MAX_RANGES]:
        match = _RANGE.match(part.strip())
        if match:
            first = int(match.group(1))
            ranges.append((first, min(int(match.group(2) or first) + 1, MAX_ID)))
    # Each number is spelled out once, however many ranges hold it.
    found: list[int] = []
    reached = 0
    for first, end in sorted(ranges):
        found.extend(range(max(first, reached), end))
        reached = max(reached, end)
    return tuple(found)


def normal_cpu_list(text: str | None) -> str | None:
    """The same list in its shortest form, None for an empty one."""
    return format_cpu_list(parse_cpu_list(text)) or None


def parse_cpu_mask(text: str | None) -> tuple[int, ...]:
    """The kernel's mask format, the same list in words of 32 bits, highest first: C(1,00000003) -> C((0, 1, 32))."""
    words = (text or "").strip().split(",")
    if len(words) > MAX_ID // 32 or not all(_MASK_WORD.match(word) for word in words):
        return ()
    mask = int("".join(word.zfill(8) for word in words), 16)
    return tuple(number for number, bit in enumerate(reversed(f"{mask:b}")) if bit == "1")


def format_cpu_list(numbers: Iterable[int]) -> str:
    """Numbers to the kernel's list format: C((0, 1, 2, 5)) -> C(0-2,5)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_meminfo(text: str | None) -> dict[str, int]:
    """/proc/meminfo or a node's meminfo: bytes by name, and counts for the lines without a unit (HugePages_*)."""
    found = {}
    for line in (text or "").splitlines():
        match = _MEMINFO_LINE.match(line.strip())
        if match:
            found[match.group(1)] = int(match.group(2)) * (KIB if match.group(3) else 1)
    return {name: value for name, value in found.items() if value <= MAX_MEMORY_BYTES}


def parse_cgroup_limit(text: str | None) -> int | None:
    """memory.max, memory.high or memory.limit_in_bytes: bytes, None where there is no limit."""
    limit = parse_count(text)
    return limit if limit is not None and limit < _V1_NO_LIMIT else None


def parse_pci_address(text: str | None) -> str | None:
    """One spelling for one device: lower case, the domain without needless zeros but with four digits at least."""
    match = _PCI_ADDRESS.match((text or "").strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def parse_link_speed(text: str | None) -> int | None:
    """C(32.0 GT/s PCIe) -> C(5), the PCIe generation; None for C(Unknown)."""
    match = re.match(r"^\s*(\d+(?:\.\d+)?)\s*GT/s", text or "")
    return GENERATION_OF_SPEED.get(float(match.group(1))) if match else None


def parse_link_width(text: str | None) -> int | None:
    """Lanes; None for what no link can have (0, 63 and 255 stand for unknown)."""
    width = parse_int(text)
    return width if width in LINK_WIDTHS else None


def parse_numa_node(text: str | None) -> int | None:
    """The kernel's -1 is "not known", so it becomes None."""
    node = parse_count(text)
    return node if node is not None and node < MAX_ID else None
