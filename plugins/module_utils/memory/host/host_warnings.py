# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator should know of host pools that can be had."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.guard import DEPENDS, PASSES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_candidate import largest_ratio_on
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_nodes import NodeShare
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_plan import HostPlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_words import rank_words
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import STRICT
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    HUGEPAGES_BEGIN,
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# Huge pages that lie unused below this are not worth a word.
WORTH_BYTES = GB


def host_warnings(machine: MachineFacts, facts: VersionFacts, host: HostPlan) -> list[Problem]:
    """Of a plan with host pools; what cannot be had is in host_verdict.py."""
    found = [*_unknown(machine, host), *_overflowing(host), *_idle_huge_pages(machine, facts, host)]
    if _guard_is_blind(host):
        found.append(
            Problem(
                "guard_blind",
                "warning",
                f"SGLang {facts.version} checks one rank's request at a time and would let this start; the pools "
                "do not fit.",
                "Do not rely on the server's own check.",
            )
        )
    return found


def _guard_is_blind(host: HostPlan) -> bool:
    """Whether the server's own check can let pass what does not fit."""
    guard = host.guard
    if guard is None or host.room.guard_bytes is None or host.room.usable_bytes is None:
        return False
    verdict = guard.verdict(host.room.guard_bytes)
    if guard.variant == "A" and verdict == DEPENDS:
        return True
    return verdict == PASSES and host.drawn_bytes > host.room.usable_bytes


def _unknown(machine: MachineFacts, host: HostPlan) -> Iterator[Problem]:
    if host.available_bytes is None:
        yield Problem(
            "host_memory_unknown",
            "warning",
            "The available host memory is not known, so nothing was checked against it.",
            "Give topology.host.memory_available_bytes.",
        )
    if host.room.allocation.hugepage_size is not None and (
        not host.nodes or any(share.huge_free_bytes is None for share in host.nodes)
    ):
        yield Problem(
            "hugepages_unknown",
            "warning",
            f"The pools are to lie in huge pages of {host.room.allocation.hugepage_size}, and how many are free on "
            "which node is not known. Where they are short, SGLang takes ordinary memory instead.",
            "Give topology.numa_nodes[].hugepages, as gpu_topology_info does.",
        )


def _overflowing(host: HostPlan) -> Iterator[Problem]:
    # Where the machine as a whole is short, its nodes are no news.
    if host.numa_binding == STRICT or (host.left_bytes or 0) < 0:
        return
    for share in host.nodes:
        if not share.ranks or share.left_bytes is None or share.left_bytes >= 0:
            continue
        ratio = _ratio_of_node(host, share)
        yield Problem(
            "numa_node_overflows",
            "warning",
            f"The ranks of NUMA node {share.node} ({rank_words(share.ranks)}) pin {format_gb(share.pinned_bytes)} "
            f"where {format_gb(share.available_bytes or 0)} are available; the rest comes from other nodes.",
            (f"Lower hicache.ratio to {ratio}" if ratio is not None else "Lower hicache.ratio")
            + ", or spread the ranks over the nodes.",
        )


def _ratio_of_node(host: HostPlan, share: NodeShare) -> float | None:
    """The largest ratio with which a node's ranks stay on it."""
    node = next(one for one in host.room.nodes if one.node == share.node)
    if node.available_bytes is None or host.candidate is None:
        return None
    return largest_ratio_on(host.candidate, node, node.available_bytes)


def _idle_huge_pages(machine: MachineFacts, facts: VersionFacts, host: HostPlan) -> Iterator[Problem]:
    size = host.room.allocation.hugepage_bytes
    idle: dict[int, int] = {}
    for node in machine.nodes:
        free = sum(pages.free * pages.size_bytes for pages in node.hugepages or () if pages.size_bytes != size)
        share = next((one for one in host.nodes if one.node == node.id), None)
        if share is not None and share.huge_free_bytes is not None:
            taken = share.pinned_bytes if host.numa_binding == STRICT else 0
            free += max(0, share.huge_free_bytes - taken)
        idle[node.id] = free
    if size is not None and host.numa_binding != STRICT:
        # Not bound to nodes, the pools take their pages from any of them.
        idle = {-1: max(0, sum(idle.values()) - host.pinned_bytes_total)}
    if sum(idle.values()) < WORTH_BYTES:
        return
    where = ", ".join(f"{format_gb(free)} on node {node}" for node, free in idle.items() if free and node >= 0)
    remedy = "Release them (vm.nr_hugepages=0)."
    if size is None and host_memory_facts(facts.version).hugepages:
        remedy = "Set hicache.hugepage_size to their size, or release them (vm.nr_hugepages=0)."
    elif size is None:
        remedy += f" SGLang takes pools from huge pages from {HUGEPAGES_BEGIN} on."
    elif size is not None:
        remedy = "Reserve fewer, or ask for larger pools."
    yield Problem(
        "hugepages_unused",
        "warning",
        f"{format_gb(sum(idle.values()))} lie in free huge pages that this plan does not use"
        + (f" ({where})" if where else "")
        + "; they are no available memory.",
        remedy,
    )
