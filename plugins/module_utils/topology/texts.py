# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The formats in which the kernel writes numbers, lists and names below /sys and /proc.

Functions on texts: what is absent or not as expected gives None or nothing, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB

# A link speed in GT/s and the PCIe generation that brought it.
GENERATION_OF_SPEED = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
LINK_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
# The domain has four digits or more: hypervisors and Intel VMD number beyond 16 bits.
_PCI_ADDRESS = re.compile(r"^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$", re.IGNORECASE)
_MEMINFO_LINE = re.compile(r"^(?:Node\s+\d+\s+)?([^:\s]+):\s+(\d+)(\s+kB)?\s*$")


def parse_int(text: str | None) -> int | None:
    """A decimal number, or None for anything else."""
    stripped = (text or "").strip()
    return int(stripped) if re.match(r"^-?\d+$", stripped) else None


def parse_cpu_list(text: str | None) -> tuple[int, ...]:
    """The kernel's list format to numbers: C(0-2,5) -> C((0, 1, 2, 5)); what is no number is left out."""
    found: set[int] = set()
    for part in (text or "").strip().split(","):
        match = re.match(r"^(\d+)(?:-(\d+))?$", part.strip())
        if match:
            first = int(match.group(1))
            found.update(range(first, int(match.group(2) or first) + 1))
    return tuple(sorted(found))


def format_cpu_list(numbers: Sequence[int]) -> str:
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
    return found


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
    node = parse_int(text)
    return node if node is not None and node >= 0 else None
