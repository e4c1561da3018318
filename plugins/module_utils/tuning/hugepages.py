# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reserved huge pages: how many a plan asks for on each NUMA node, and whether the rest of the host can live. Pure.

Sources: Linux, admin-guide/mm/hugetlbpage.rst (sysfs, fragmentation) and admin-guide/kernel-parameters.txt (hugepages=
with a node each, since 5.14).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import HUGEPAGE_SIZES, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

NODES = "/sys/devices/system/node"
COMPACT = "/proc/sys/vm/compact_memory"


@dataclass(frozen=True)
class Wanted:
    """C(pages) of C(size), a name of HUGEPAGE_SIZES, on one NUMA node."""

    size: str
    numa_node: int
    pages: int

    @property
    def page_bytes(self) -> int:
        return HUGEPAGE_SIZES[self.size]

    @property
    def bytes(self) -> int:
        return self.pages * self.page_bytes


@dataclass(frozen=True)
class NodeMemory:
    """C(huge_bytes): what lies in huge pages of the node now, of all sizes; C(huge): pages by their size in bytes."""

    total_bytes: int
    huge: Mapping[int, int]

    @property
    def huge_bytes(self) -> int:
        return sum(size * pages for size, pages in self.huge.items())


def path_of(size_bytes: int, numa_node: int) -> str:
    return f"{NODES}/node{numa_node}/hugepages/hugepages-{size_bytes // 1024}kB/nr_hugepages"


def pages_for(size: str, size_bytes: int) -> int:
    """Whole pages that hold so many bytes."""
    return -(-size_bytes // HUGEPAGE_SIZES[size])


def of_plans(plans: Iterable[Mapping[str, Any]], size: str) -> list[dict[str, Any]]:
    """What the host pools of these plans, as memory_plan gives them, take of each NUMA node.

    Each pool begins a page of its own on every rank, so a plan of ordinary memory gets a page more a pool and rank.
    """
    taken: dict[int, int] = {}
    page = HUGEPAGE_SIZES[size]
    for plan in plans:
        host = plan["host"]
        rounded = host.get("hugepage_size") == size
        for share in host["numa"]:
            more = 0 if rounded else len(host["pools"]) * len(share["ranks"]) * page
            node = share["node"]
            if node is None:
                raise Refusal(
                    "hugepages_node_unknown",
                    f"The plan says of {format_gb(share['pinned_bytes'])} of its pools no NUMA node.",
                    "Give node_tuning_hugepages with a numa_node each.",
                )
            taken[node] = taken.get(node, 0) + pages_for(size, share["pinned_bytes"] + more)
    return [{"size": size, "numa_node": node, "pages": pages} for node, pages in sorted(taken.items()) if pages]


def refuse_too_many(
    wanted: Sequence[Wanted],
    nodes: Mapping[int, NodeMemory],
    available_bytes: int,
    total_bytes: int,
    leave_bytes: int,
) -> None:
    """C(available_bytes): MemAvailable, which has no huge pages in it. C(leave_bytes) is what the rest of the host, and
    SGLang's own check of available memory, shall find."""
    more = 0
    for node in sorted({one.numa_node for one in wanted}):
        memory = nodes.get(node)
        if memory is None:
            there = ", ".join(str(number) for number in sorted(nodes)) or "none"
            raise Refusal(
                "hugepages_node_missing",
                f"Huge pages are asked for on NUMA node {node}; nodes with memory are: {there}.",
                "Correct numa_node in node_tuning_hugepages.",
                {"numa_node": node, "numa_nodes": sorted(nodes)},
            )
        then = dict(memory.huge)
        for one in wanted:
            if one.numa_node == node:
                if one.page_bytes not in memory.huge:
                    raise Refusal(
                        "hugepages_size_missing",
                        f"NUMA node {node} offers no huge pages of {one.size}.",
                        "Use the other size; pages of 1GB need a processor that has them (pdpe1gb in /proc/cpuinfo).",
                        {"numa_node": node, "size": one.size},
                    )
                then[one.page_bytes] = max(one.pages, 0)
        huge = sum(size * pages for size, pages in then.items())
        share = leave_bytes * memory.total_bytes // total_bytes if total_bytes else 0
        if huge > memory.total_bytes - share:
            fits = max(0, memory.total_bytes - share)
            raise Refusal(
                "hugepages_too_many",
                f"NUMA node {node} has {format_gb(memory.total_bytes)}; {format_gb(huge)} in huge pages would leave "
                f"{format_gb(memory.total_bytes - huge)} of it for everything else.",
                f"Expected {format_gb(share)} to be left there, its share of the {format_gb(leave_bytes)} that "
                f"node_tuning_leave_bytes asks for; ask for {format_gb(fits)} at most.",
                {"numa_node": node, "asked_bytes": huge, "total_bytes": memory.total_bytes, "largest_bytes": fits},
            )
        more += huge - memory.huge_bytes
    if more > 0 and more > available_bytes - leave_bytes:
        fits = max(0, available_bytes - leave_bytes)
        raise Refusal(
            "hugepages_no_room",
            f"{format_gb(more)} more in huge pages, and {format_gb(available_bytes)} of memory are available now.",
            f"Expected {format_gb(leave_bytes)} to be left (node_tuning_leave_bytes): at most {format_gb(fits)} more "
            "can be reserved. Stop what holds the memory, or reserve less.",
            {"more_bytes": more, "available_bytes": available_bytes, "largest_bytes": fits},
        )


def kernel_words(wanted: Iterable[Wanted], size: str) -> tuple[str, ...]:
    """What makes the kernel reserve pages of one size before anything runs: C(hugepagesz=1G hugepages=0:4,1:4)."""
    counts = {one.numa_node: one.pages for one in wanted if one.size == size and one.pages > 0}
    if not counts:
        return ()
    spelled = {"2MB": "2M", "1GB": "1G"}[size]
    return (f"hugepagesz={spelled}", "hugepages=" + ",".join(f"{node}:{counts[node]}" for node in sorted(counts)))


def shortfall(size_bytes: int, numa_node: int, asked: int, got: int) -> str:
    """Why fewer pages came than were asked for."""
    name = next((name for name, size in HUGEPAGE_SIZES.items() if size == size_bytes), f"{size_bytes} bytes")
    return (
        f"NUMA node {numa_node}: {got} of {asked} huge pages of {name} could be reserved "
        f"({format_gb(got * size_bytes)} of {format_gb(asked * size_bytes)}), although that much memory was available: "
        "it is fragmented, so that there are not enough whole pieces of this size, even after it was compacted."
    )
