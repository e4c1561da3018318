# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The largest host pools that fit the memory that was really there, reckoned from a plan in its JSON form. Pure.

The plan's pools and layout are put back into the planner's own terms, and the planner's own bounds decide: the
release's check in its worst order, what has to stay free, and what the plan itself found to be the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import DRAFT, KV
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePool
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import Allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_candidate import (
    Candidate,
    largest_ratio_for,
    largest_size_for,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_nodes import NodeRoom
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_room import HostRoom
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import NONE, STRICT
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    VersionFacts,
    version_facts,
)

# host_plan.py draft_is_packed: of other drafts no layer lies in the target's pool.
_PACKED = ("EAGLE", "NEXTN")


@dataclass(frozen=True)
class HostFit:
    """The largest ratio (hundredths) and the largest size (whole GB a rank and pool) that fit; None where none does."""

    largest_ratio: float | None = None
    largest_size_gb: int | None = None


def facts_of(plan: Mapping[str, Any]) -> VersionFacts | None:
    try:
        return version_facts(str(plan.get("sglang_version")))
    except Refusal:
        return None


def available_from_check(plan: Mapping[str, Any], allowed_bytes: int) -> int | None:
    """What was available on the host when the release's check let a pool have C(allowed_bytes).

    The line gives two decimals of GB, so half of the last one less.
    """
    facts = facts_of(plan)
    ranks = (plan.get("host") or {}).get("ranks")
    if facts is None or not ranks:
        return None
    share = 1 if facts.guard == "A" else ranks
    return int((allowed_bytes - GB // 200) * share + facts.guard_reserve_bytes)


def host_fit(
    plan: Mapping[str, Any],
    available_bytes: int | None,
    group_bytes: int | None = None,
    reserve_bytes: int | None = None,
    node_bytes: Mapping[int, int] | None = None,
) -> HostFit:
    """What fits C(available_bytes), which is before any pool is built; what the plan found where that is not known.

    C(group_bytes): what the control group leaves of it. C(reserve_bytes): what has to stay, the plan's if not given.
    C(node_bytes): what NUMA nodes have available to which the plan binds ranks strictly.
    """
    host: Mapping[str, Any] = plan.get("host") or {}
    planned = HostFit(host.get("largest_ratio"), host.get("largest_size_gb"))
    reserve = host.get("reserve_bytes") or 0 if reserve_bytes is None else reserve_bytes
    nodes = _node_rooms(host, node_bytes or {}, reserve)
    if available_bytes is None and group_bytes is None and not nodes:
        return planned
    candidate = _candidate(plan, available_bytes, group_bytes, reserve, nodes)
    if candidate is None:
        return planned
    guess = max(1, int(host["bytes_per_rank"]))
    ratio, size = largest_ratio_for(candidate, guess), largest_size_for(candidate, guess)
    return HostFit(_least(ratio, planned.largest_ratio), _least(size, planned.largest_size_gb))


def needed_available(plan: Mapping[str, Any]) -> int | None:
    """What has to be available before the pools of this plan are built."""
    host: Mapping[str, Any] = plan.get("host") or {}
    guard: Mapping[str, Any] = host.get("guard") or {}
    needs = [guard.get("worst_order_bytes"), host.get("required_available_bytes")]
    known = [int(size) for size in needs if size is not None]
    return max(known) if known else None


def _least(found: Any, planned: Any) -> Any:
    return found if found is None or planned is None else min(found, planned)


def _node_rooms(host: Mapping[str, Any], node_bytes: Mapping[int, int], reserve_bytes: int) -> tuple[NodeRoom, ...]:
    """Each node keeps its part of the reserve, as host_nodes.py has it."""
    homes = host.get("numa") or ()
    if host.get("numa_binding") != STRICT:
        return ()
    return tuple(
        NodeRoom(
            home["node"],
            frozenset(home.get("ranks") or ()),
            node_bytes[home["node"]],
            node_bytes[home["node"]] - reserve_bytes // len(homes),
        )
        for home in homes
        if home["node"] in node_bytes
    )


def _candidate(
    plan: Mapping[str, Any],
    available_bytes: int | None,
    group_bytes: int | None,
    reserve_bytes: int,
    nodes: tuple[NodeRoom, ...],
) -> Candidate | None:
    host, device = plan.get("host") or {}, plan.get("device") or {}
    facts, ranks = facts_of(plan), host.get("ranks")
    if facts is None or not (ranks and host.get("bytes_per_rank") and device.get("max_total_num_tokens")):
        return None
    rules = host_memory_facts(facts.version)
    on_host = {pool["kind"]: pool for pool in host.get("pools") or ()}
    stages = tuple(_stage(stage["pools"], on_host) for stage in device.get("stages") or ())
    if not stages:
        size = device.get("bytes_per_token") or 0
        stages = ((DevicePool(KV, device["max_total_num_tokens"], size, 0),),)
    seats = tuple(tuple(stage.get("ranks") or ()) for stage in host.get("stages") or ())
    if not all(seats) or len(seats) != len(stages):
        # A plan that does not say who sits where: as many ranks in each stage.
        share = ranks // len(stages)
        seats = tuple(tuple(range(first, first + share)) for first in range(0, share * len(stages), share))
    hugepage_size = host.get("hugepage_size")
    room = HostRoom(
        facts=facts,
        allocation=Allocation(
            str(host.get("meter") or facts.meter),
            hugepage_size,
            hugepage_size is None and rules.rounds_to_powers_of_two,
        ),
        available_bytes=available_bytes,
        group_bytes=group_bytes,
        held_by_device_bytes=0,
        reserve_bytes=reserve_bytes,
        nodes=nodes,
        binding=STRICT if nodes else NONE,
        # Whether it really is depends on the draft's checkpoint too; checked together they ask for more.
        draft_packed=rules.packs_drafts and DRAFT in on_host and _algorithm(plan) in _PACKED,
    )
    return Candidate(room, stages, seats, device.get("page_size") or 1)


def _algorithm(plan: Mapping[str, Any]) -> str | None:
    return (plan.get("arguments") or {}).get("speculative-algorithm")


def _stage(pools: Any, on_host: Mapping[str, Mapping[str, Any]]) -> tuple[DevicePool, ...]:
    """Device pools as host pools are built for them (host_candidate.py): a draft's rows may be others on the host."""
    found = []
    for pool in pools:
        kind, size, slots = str(pool["kind"]), pool["bytes_per_slot"], pool["slots"]
        padding = pool["allocated_bytes"] // size - slots if size else 0
        mirrored = on_host.get(kind)
        if kind == DRAFT:
            if mirrored is None:
                continue
            size = mirrored["bytes_per_token"]
        spare = 0 if mirrored is None else mirrored["pinned_bytes"] - mirrored["bytes_per_rank"]
        # Index keys of latent attention have a page or two beyond the tokens.
        keys = size if spare > 0 and kind not in (KV, DRAFT) else 0
        found.append(DevicePool(kind, slots, size, padding, keys))
    return tuple(found)
