# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How hard pressed the machine is for memory: /proc/meminfo, PSI, NUMA nodes, and how fragmented each is."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    HostReading,
    NumaReading,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_meminfo

# Blocks of 2^9 pages and more: 2 MiB where a page has 4 KiB, a huge page of the kernel.
LARGE_ORDER = 9

_AVERAGE = re.compile(r"^(some|full) avg10=(\d+(?:\.\d+)?)", re.MULTILINE)
_BUDDY = re.compile(r"^Node (\d+), zone\s+\S+\s+(.*)$", re.MULTILINE)


def parse_pressure(text: str) -> dict[str, float]:
    """C(some) and C(full) of a PSI file: percent of the last 10 s (Documentation/accounting/psi.rst)."""
    return {name: float(number) for name, number in _AVERAGE.findall(text)}


def parse_large_free(buddyinfo: str, page_bytes: int) -> dict[int, int]:
    """Bytes free in large blocks by NUMA node. Column N of /proc/buddyinfo counts free blocks of 2^N pages."""
    found: dict[int, int] = {}
    for node, counts in _BUDDY.findall(buddyinfo):
        numbers = [int(word) for word in counts.split() if word.isdigit()]
        size = sum(number * (page_bytes << order) for order, number in enumerate(numbers) if order >= LARGE_ORDER)
        found[int(node)] = found.get(int(node), 0) + size
    return found


def _numa_nodes(node: Node, page_bytes: int) -> tuple[NumaReading, ...]:
    large = parse_large_free(node.text("proc/buddyinfo") or "", page_bytes)
    found = []
    for name in node.names("sys/devices/system/node"):
        if not re.fullmatch(r"node\d+", name):
            continue
        number = int(name[4:])
        memory = parse_meminfo(node.text(f"sys/devices/system/node/{name}/meminfo"))
        found.append(NumaReading(number, memory.get("MemTotal"), memory.get("MemFree"), large.get(number)))
    return tuple(sorted(found, key=lambda one: one.node))


def read_host(node: Node, page_bytes: int) -> HostReading:
    memory = parse_meminfo(node.text("proc/meminfo"))
    swap, free = memory.get("SwapTotal"), memory.get("SwapFree")
    pressure = parse_pressure(node.text("proc/pressure/memory") or "")
    return HostReading(
        memory_available_bytes=memory.get("MemAvailable"),
        shmem_bytes=memory.get("Shmem"),
        swap_used_bytes=swap - free if swap is not None and free is not None else None,
        memory_some_avg10=pressure.get("some"),
        memory_full_avg10=pressure.get("full"),
        io_full_avg10=parse_pressure(node.text("proc/pressure/io") or "").get("full"),
        numa_nodes=_numa_nodes(node, page_bytes),
    )
