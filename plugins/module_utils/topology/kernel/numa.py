# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NUMA nodes as the kernel shows them: CPUs, memory, huge pages, distances.

Ids may have gaps and need not begin at 0. A node may be without CPUs (expanders, the memory of GPUs), without memory
or without both: a Grace machine keeps empty nodes for slices of its GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import names_in, read_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_memory_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    MAX_ID,
    MAX_MEMORY_BYTES,
    format_cpu_list,
    parse_count,
    parse_cpu_list,
    parse_meminfo,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host, Hugepages, NumaNode

NODES = "sys/devices/system/node"
_NODE_FOLDER = re.compile(r"^node(\d{1,5})$", re.ASCII)
_HUGEPAGES_FOLDER = re.compile(r"^hugepages-(\d{1,12})kB$", re.ASCII)
# The kernel keeps a distance in one byte; 10 is a node's distance to itself (ACPI, SLIT).
_DISTANCES = range(10, 256)


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
        total = parse_count(read_text(root, f"{relative}/{name}/nr_hugepages")) if match else None
        size = int(match.group(1)) * KIB if match else 0
        if total is not None and size * total <= MAX_MEMORY_BYTES:
            free = parse_count(read_text(root, f"{relative}/{name}/free_hugepages"))
            found.append(Hugepages(size, total, total if free is None else min(free, total)))
    return tuple(sorted(found, key=lambda pages: pages.size_bytes))


def reclaimable_of(memory: dict[str, int]) -> int | None:
    """What a node has free or could free, from its meminfo."""
    if "MemFree" not in memory:
        return None
    slabs = memory.get("KReclaimable", memory.get("SReclaimable", 0))
    return memory["MemFree"] + memory.get("Active(file)", 0) + memory.get("Inactive(file)", 0) + slabs


def parse_distances(text: str | None, online: Sequence[int], possible: Sequence[int]) -> tuple[int, ...]:
    """A node's distances to the nodes that are online; nothing where the list fits no list of nodes.

    The kernel lists those that are online. Recordings also hold lists of all possible nodes.
    """
    words = (text or "").split()
    if not all(re.match(r"^\d{1,3}$", word, re.ASCII) and int(word) in _DISTANCES for word in words):
        return ()
    for nodes in (online, possible):
        if len(words) == len(nodes) and set(online) <= set(nodes):
            by_node = dict(zip(nodes, words))
            return tuple(int(by_node[node]) for node in online)
    return ()


def name_kind(has_cpus: bool, memory_bytes: int | None, of_gpu: bool) -> str:
    if of_gpu:
        return "gpu_memory"
    if memory_bytes == 0:
        return "cpus" if has_cpus else "empty"
    return "general" if has_cpus else "memory"


def read_node_ids(root: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Nodes that are online and nodes whose folders are there all the same."""
    matches = map(_NODE_FOLDER.match, names_in(root, NODES))
    ids = sorted({number for number in (int(match.group(1)) for match in matches if match) if number < MAX_ID})
    online = frozenset(parse_cpu_list(read_text(root, f"{NODES}/online")))
    here = tuple(node for node in ids if not online or node in online)
    return here, tuple(node for node in ids if online and node not in online)


def read_numa_nodes(root: Path, host: Host) -> tuple[NumaNode, ...]:
    """The nodes that are online, by id, with the CPUs that are online: kernels of old list the others as well.

    A node that is the only possible one holds all of the host's memory, so the host's numbers are given for it: in
    guests whose memory was added after the boot the kernel's account of the node lags behind.
    """
    ids, _offline = read_node_ids(root)
    possible = parse_cpu_list(read_text(root, f"{NODES}/possible"))
    memories = [parse_meminfo(read_text(root, f"{NODES}/node{node}/meminfo")) for node in ids]
    shares = share_available(host.memory_available_bytes, [reclaimable_of(memory) for memory in memories])
    of_gpus = set(read_memory_nodes(root).values())
    online, usable_cpus, usable_nodes = map(_allowed, (host.cpus, host.cpus_usable, host.memory_nodes_usable))
    nodes = []
    taken: set[int] = set()
    for node, memory, share in zip(ids, memories, shares):
        here = f"{NODES}/node{node}"
        listed = _among(parse_cpu_list(read_text(root, f"{here}/cpulist")), online)
        # A list that is not the kernel's could claim a CPU for a second node.
        cpus = tuple(cpu for cpu in listed if cpu not in taken)
        taken.update(cpus)
        size = memory.get("MemTotal")
        nodes.append(
            NumaNode(
                id=node,
                cpus=format_cpu_list(cpus),
                has_cpus=bool(cpus),
                kind=name_kind(bool(cpus), size, node in of_gpus),
                cpus_usable=format_cpu_list(_among(cpus, usable_cpus)),
                usable=usable_nodes is None or node in usable_nodes,
                memory_total_bytes=size,
                memory_free_bytes=memory.get("MemFree"),
                memory_available_bytes=share,
                # Where there is no memory there are no pages in it: Grace machines have dozens of such nodes.
                hugepages=() if size == 0 else read_hugepages(root, f"{here}/hugepages"),
                distances=parse_distances(read_text(root, f"{here}/distance"), ids, possible),
            )
        )
    if len(nodes) == 1 and len(possible) <= 1 and host.memory_total_bytes is not None:
        nodes[0] = replace(
            nodes[0],
            kind=name_kind(nodes[0].has_cpus, host.memory_total_bytes, False),
            memory_total_bytes=host.memory_total_bytes,
            memory_free_bytes=host.memory_free_bytes,
            memory_available_bytes=host.memory_available_bytes,
        )
    return tuple(nodes)


def _allowed(listed: str | None) -> frozenset[int] | None:
    return None if listed is None else frozenset(parse_cpu_list(listed))


def _among(numbers: Sequence[int], allowed: frozenset[int] | None) -> tuple[int, ...]:
    """What is left of C(numbers) where only C(allowed) count; None allows all."""
    return tuple(number for number in numbers if allowed is None or number in allowed)
