# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the host pools of a plan can be had: a Refusal with the largest values that can, or None."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    BY_FRACTION,
    BY_RATIO,
    BY_SIZE,
    Limit,
    Sizing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_candidate import largest_ratio_on
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_nodes import NodeRoom
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_plan import HostPlan, asked_for
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_room import (
    CONTROL_GROUP,
    GUARD,
    HUGE_PAGES,
    NUMA_NODE,
    Bound,
    bounds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_words import rank_words
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# Above what the releases take that insist on more tokens than the device has.
SMALL_RATIO = 1.1

# The code of a refusal by the beginning of the bound's name; host_memory_short where it is none of these.
_CODES = (
    (GUARD, "guard_refuses"),
    (NUMA_NODE, "numa_node_short"),
    (HUGE_PAGES, "hugepages_short"),
    (CONTROL_GROUP, "control_group_short"),
)


def nothing_to_size(host: HostPlan) -> bool:
    """Whether the server finds nothing to take its share of, and ends (hicache_auto_size.py: C(ratio <= 0))."""
    return host.sizing.mode == BY_FRACTION and (host.effective_ratio or 0.0) <= 0


def judge_host(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> Refusal | None:
    """Why the host pools cannot be had, or None. The remedy names the largest value that fits every bound."""
    if not host.pools:
        return _without_pools(host)
    asked = asked_for(host)
    if nothing_to_size(host):
        held = host.held_by_device_bytes
        # 1 GB a rank is room for a page of any model.
        missing = facts.guard_reserve_bytes - (host.room.guard_bytes or 0) + host.ranks * GB
        missing = max(missing, _missing_for(host, Sizing(BY_SIZE, size_gb=1)))
        of_device = f", the CPU's own KV cache and weights take {format_gb(held)} of them" if held else ""
        return Refusal(
            "host_memory_short",
            f"No host memory is left for HiCache: {format_gb((host.room.guard_bytes or 0) + held)} are "
            f"available{of_device}, and SGLang keeps {format_gb(facts.guard_reserve_bytes)}.",
            f"Free host memory, at least {format_gb(missing)}, or set hicache.enabled to false.",
            {**_evidence(host), "missing_bytes": missing},
        )
    if host.tokens <= 0:
        return Refusal(
            "host_pool_empty",
            f"{asked} gives a host pool of no tokens.",
            "Ask for more, or set hicache.enabled to false.",
            _evidence(host),
        )
    if facts.smaller_than_device_is_fatal and host.tokens <= device.max_total_num_tokens:
        missing = 0 if host.largest_ratio else _missing_for(host, Sizing(BY_RATIO, ratio=SMALL_RATIO))
        return Refusal(
            "host_pool_below_device",
            f"{asked} gives {format_count(host.tokens)} host tokens, and SGLang {facts.version} insists on more than "
            f"the {format_count(device.max_total_num_tokens)} of the device.",
            "Set hicache.ratio above 1"
            + (
                f"; up to {host.largest_ratio} fits."
                if host.largest_ratio
                else f"; no ratio fits this machine as it is: {SMALL_RATIO} does with {format_gb(missing)} more of "
                "host memory."
            ),
            {**_evidence(host), "missing_bytes": missing, "ratio_then": None if host.largest_ratio else SMALL_RATIO},
        )
    limit = next((limit for limit in host.limits if not limit.holds), None)
    if limit is None:
        return None
    code = next((code for name, code in _CODES if limit.name.startswith(name)), "host_memory_short")
    short = [
        _node_evidence(host, bound.node, bound) for bound in host.bounds if bound.node is not None and not bound.holds
    ]
    evidence = _evidence(host)
    if short:
        evidence["nodes"] = short
    return Refusal(code, _message(facts, host, limit, short), _remedy(facts, host, code), evidence)


def _evidence(host: HostPlan) -> dict[str, Any]:
    return {
        "largest_ratio": host.largest_ratio,
        "largest_size_gb": host.largest_size_gb,
        "largest_host_memory_fraction": host.largest_fraction,
        "bytes_per_rank": host.bytes_per_rank,
        "bytes_total": host.bytes_total,
        "required_available_bytes": host.required_available_bytes,
        "available_bytes": host.available_bytes,
        "missing_bytes": _missing(host.bounds),
        "limits": {limit.name: limit.bytes_per_rank for limit in host.limits},
    }


def _without_pools(host: HostPlan) -> Refusal | None:
    short = host.left_bytes is not None and host.left_bytes < host.reserve_bytes
    if not short or not host.held_by_device_bytes:
        return None
    return Refusal(
        "host_memory_short",
        f"On a CPU the KV cache and the weights take {format_gb(host.held_by_device_bytes)} of host memory; "
        f"{format_gb(host.available_bytes or 0)} are available, and {format_gb(host.reserve_bytes)} of them "
        "stay reserved.",
        "Lower max_total_tokens.",
        {"required_available_bytes": host.required_available_bytes, "available_bytes": host.available_bytes},
    )


def _node_evidence(host: HostPlan, node: NodeRoom, bound: Bound) -> dict[str, Any]:
    """A node that is short, its ranks, and the largest ratio that it alone would allow."""
    return {
        "node": node.node,
        "ranks": sorted(node.ranks),
        "needed_bytes": bound.needed_bytes,
        "available_bytes": bound.available_bytes,
        "largest_ratio": (
            largest_ratio_on(host.candidate, node, bound.available_bytes) if host.candidate is not None else None
        ),
    }


def _message(facts: VersionFacts, host: HostPlan, limit: Limit, short: list[dict[str, Any]]) -> str:
    words = (
        f"{asked_for(host)} pins {format_gb(host.bytes_per_rank)} a rank, {format_gb(host.bytes_total)} with "
        f"{host.ranks} rank{'s' if host.ranks > 1 else ''}; {limit.allowing} "
        f"{format_gb(limit.bytes_per_rank)} a rank: {limit.explanation}."
    )
    for node in short:
        ratio = node["largest_ratio"]
        lives = f"{rank_words(node['ranks'])} live{'s' if len(node['ranks']) == 1 else ''}"
        words += f" NUMA node {node['node']}, where {lives}, "
        words += f"has room for ratio {ratio}." if ratio is not None else "has room for no ratio."
    if limit.name == CONTROL_GROUP and not host_memory_facts(facts.version).sees_control_groups:
        words += (
            f" SGLang {facts.version} does not look at control groups: its own check would look at the whole machine, "
            "and the kernel would stall or kill the ranks."
        )
    return words


def _missing_for(host: HostPlan, sizing: Sizing) -> int:
    """The available memory that is missing for pools of another size."""
    if host.candidate is None:
        return 0
    return _missing(bounds(host.room, sizing, host.candidate.groups(sizing)))


def _missing(found: Sequence[Bound]) -> int:
    """What has to become available so that every bound holds: on each node that was measured, what that node lacks.

    A node that was not measured has only its share of what becomes available on the machine.
    """
    on_nodes, on_host = 0, 0
    for bound in found:
        short = bound.needed_bytes - bound.available_bytes
        if short <= 0:
            continue
        share = None if bound.node is None or not bound.name.startswith(NUMA_NODE) else bound.node.host_share
        if bound.node is not None and share is None:
            on_nodes += short
        else:
            # A byte more, as the share of a node is rounded down.
            on_host = max(on_host, short if share is None else math.ceil((short + 1) / share))
    return max(on_nodes, on_host)


def _to_free(host: HostPlan) -> str:
    """What is missing for the pools that were asked for."""
    missing = _missing(host.bounds)
    # Rounded up, so that what is said is enough.
    return f"free {format_gb(missing + GB // 200)} of host memory for what is asked" if missing else "free host memory"


def _remedy(facts: VersionFacts, host: HostPlan, code: str) -> str:
    size = f" (or hicache.size_gb {host.largest_size_gb})" if host.largest_size_gb else ""
    if host.sizing.mode == BY_FRACTION and host.largest_fraction is not None:
        remedy = f"Set hicache.host_memory_fraction to {host.largest_fraction} or less."
    elif host.largest_ratio is not None:
        remedy = f"Set hicache.ratio to {host.largest_ratio} or less{size}."
    elif host.largest_size_gb is not None:
        remedy = f"Set hicache.size_gb to {host.largest_size_gb} or less."
    else:
        remedy = f"No ratio fits: {_to_free(host)}, lower server.max_total_tokens, or set hicache.enabled to false."
    if code == "guard_refuses" and facts.auto_sizes_host_pool and host.sizing.mode != BY_FRACTION:
        remedy += " With hicache.host_memory_fraction instead, the server books all pools against one snapshot."
    page = host.room.allocation.hugepage_bytes
    if code == "hugepages_short" and page is not None:
        missing = [bound for bound in host.bounds if bound.name.startswith(HUGE_PAGES) and not bound.holds]
        remedy += (
            " Or reserve more huge pages of "
            + f"{host.room.allocation.hugepage_size}: "
            + ", ".join(
                f"{format_count(-(-(bound.needed_bytes - bound.available_bytes) // page))} more"
                + (f" on node {bound.node.node}" if bound.node is not None else "")
                for bound in missing
            )
            + "."
        )
    return remedy
