# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NUMA nodes as the kernel shows them: CPUs, memory, huge pages, distances."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.files import names_in, read_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host, Hugepages, NumaNode
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.texts import (
    format_cpu_list,
    parse_cpu_list,
    parse_int,
    parse_meminfo,
)

_HUGEPAGES_FOLDER = re.compile(r"^hugepages-(\d+)kB$")


def share_available(available_bytes: int | None, reclaimable_bytes: Sequence[int | None]) -> list[int | None]:
    """Divide the host's MemAvailable among its NUMA nodes by what each has free or could free.

    The kernel computes MemAvailable for the whole host only. A node's part is taken as proportional to its free
    memory, page cache and reclaimable slabs, so that the parts add up to no more than the whole.
    """
    total = sum(part for part in reclaimable_bytes if part is not None)
    if available_bytes is None or total == 0:
        return [None for _part in reclaimable_bytes]
    return [None if part is None else available_bytes * part // total for part in reclaimable_bytes]


def read_hugepages(root: Path, relative: str) -> tuple[Hugepages, ...]:
    found = []
    for name in names_in(root, relative):
        match = _HUGEPAGES_FOLDER.match(name)
        total = parse_int(read_text(root, f"{relative}/{name}/nr_hugepages"))
        if match and total is not None:
            free = parse_int(read_text(root, f"{relative}/{name}/free_hugepages"))
            found.append(Hugepages(int(match.group(1)) * KIB, total, total if free is None else free))
    return tuple(sorted(found, key=lambda pages: pages.size_bytes))


def _reclaimable(memory: dict[str, int]) -> int | None:
    if "MemFree" not in memory:
        return None
    slabs = memory.get("KReclaimable", memory.get("SReclaimable", 0))
    return memory["MemFree"] + memory.get("Active(file)", 0) + memory.get("Inactive(file)", 0) + slabs


def read_numa_nodes(root: Path, host: Host) -> tuple[NumaNode, ...]:
    """The nodes that are online, by id; ids may have gaps and need not begin at 0.

    A node that is the only one holds all of the host's memory, so the host's numbers are given for it: in guests whose
    memory was added after the boot the kernel's account of the node lags behind.
    """
    base = "sys/devices/system/node"
    ids = sorted(int(match.group(1)) for match in map(re.compile(r"^node(\d+)$").match, names_in(root, base)) if match)
    online = parse_cpu_list(read_text(root, f"{base}/online"))
    ids = [node for node in ids if not online or node in online]
    memories = [parse_meminfo(read_text(root, f"{base}/node{node}/meminfo")) for node in ids]
    shares = share_available(host.memory_available_bytes, [_reclaimable(memory) for memory in memories])
    nodes = []
    for node, memory, share in zip(ids, memories, shares):
        cpus = parse_cpu_list(read_text(root, f"{base}/node{node}/cpulist"))
        distances = (read_text(root, f"{base}/node{node}/distance") or "").split()
        nodes.append(
            NumaNode(
                id=node,
                cpus=format_cpu_list(cpus),
                has_cpus=bool(cpus),
                memory_total_bytes=memory.get("MemTotal"),
                memory_free_bytes=memory.get("MemFree"),
                memory_available_bytes=share,
                hugepages=read_hugepages(root, f"{base}/node{node}/hugepages"),
                distances=tuple(int(distance) for distance in distances if distance.isdigit()),
            )
        )
    if len(nodes) == 1 and host.memory_total_bytes is not None:
        nodes[0] = replace(
            nodes[0],
            memory_total_bytes=host.memory_total_bytes,
            memory_free_bytes=host.memory_free_bytes,
            memory_available_bytes=host.memory_available_bytes,
        )
    return tuple(nodes)
