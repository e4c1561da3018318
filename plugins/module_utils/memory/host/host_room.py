# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine lets the host pools of all ranks take: every bound, and whether given pools stay within them.

A bound compares what is needed with what there is. Pools in reserved huge pages take no available memory; the
server's own check asks for it all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import DRAFT
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.guard import (
    Claim,
    ClaimingRanks,
    GuardNeed,
    guard_need,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    BY_FRACTION,
    Limit,
    Pool,
    Sizing,
    largest_fitting,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import Allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_nodes import NodeRoom
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import STRICT
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

HOST, CONTROL_GROUP, GUARD, NUMA_NODE, HUGE_PAGES = "host", "control group", "guard", "NUMA node", "huge pages"


@dataclass(frozen=True)
class RankPools:
    """Ranks that hold the same host pools, as those of one pipeline stage do, in the order in which they build them."""

    ranks: tuple[int, ...]
    pools: tuple[Pool, ...]

    @property
    def bytes_per_rank(self) -> int:
        return sum(pool.bytes_per_rank for pool in self.pools)

    @property
    def pinned_per_rank(self) -> int:
        return sum(pool.pinned_bytes for pool in self.pools)


@dataclass(frozen=True)
class HostRoom:
    """What is there before any pool is built, with what a running instance of the same plan holds given back.

    C(draft_packed) says whether a draft's layers lie in the first pool of a rank, and are checked with it.
    C(available_bytes) is that of the machine, C(group_bytes) what the control group leaves of it; None where unknown
    or not limited.
    """

    facts: VersionFacts
    allocation: Allocation
    available_bytes: int | None
    group_bytes: int | None
    held_by_device_bytes: int
    reserve_bytes: int
    nodes: tuple[NodeRoom, ...]
    binding: str
    draft_packed: bool = False

    @property
    def usable_bytes(self) -> int | None:
        """What the pools and the reserve can have in truth."""
        return _less(_smaller(self.available_bytes, self.group_bytes), self.held_by_device_bytes)

    @property
    def guard_bytes(self) -> int | None:
        """What the release's own check takes for available."""
        seen = self.available_bytes
        if seen is not None and host_memory_facts(self.facts.version).sees_control_groups:
            seen = _smaller(seen, self.group_bytes)
        return _less(seen, self.held_by_device_bytes)

    @property
    def group_binds(self) -> bool:
        """Whether the control group leaves less than the machine has."""
        if self.group_bytes is None:
            return False
        return self.available_bytes is None or self.group_bytes < self.available_bytes


@dataclass(frozen=True)
class Bound:
    """C(needed_bytes) of all ranks together against C(available_bytes); C(node) is that of a NUMA node's bound."""

    name: str
    needed_bytes: int
    available_bytes: int
    node: NodeRoom | None = None

    @property
    def holds(self) -> bool:
        return self.needed_bytes <= self.available_bytes


def _less(size_bytes: int | None, other_bytes: int) -> int | None:
    return None if size_bytes is None else size_bytes - other_bytes


def _smaller(one: int | None, two: int | None) -> int | None:
    return one if two is None else two if one is None else min(one, two)


def control_group_bytes(machine: MachineFacts, own_pinned_bytes: int) -> int | None:
    """What the control groups that the service lives under leave it."""
    return _smaller(
        machine.cgroup_limit_bytes,
        None if machine.cgroup_available_bytes is None else machine.cgroup_available_bytes + own_pinned_bytes,
    )


def guard_need_of(room: HostRoom, sizing: Sizing, groups: Sequence[RankPools]) -> GuardNeed:
    """What the release's own check of these pools needs."""
    claiming = [ClaimingRanks(len(group.ranks), _claims(room, group.pools)) for group in groups]
    return guard_need(room.facts, claiming, sizing.fraction if sizing.mode == BY_FRACTION else None)


def _claims(room: HostRoom, pools: Sequence[Pool]) -> tuple[Claim, ...]:
    """What each pool is checked for; a draft that is packed into the first pool is checked with it."""
    packed = [pool for pool in pools if pool.kind == DRAFT] if room.draft_packed else []
    claims = []
    for number, pool in enumerate(pools):
        if pool in packed:
            continue
        together = [pool, *packed] if number == 0 else [pool]
        claims.append(
            Claim(
                sum(one.bytes_per_rank for one in together),
                sum(room.allocation.drawn(one.pinned_bytes) for one in together),
            )
        )
    return tuple(claims)


def pinned_on(node: NodeRoom, groups: Sequence[RankPools]) -> int:
    """What the ranks of one NUMA node pin there."""
    return sum(group.pinned_per_rank * len(node.ranks & frozenset(group.ranks)) for group in groups)


def bounds(room: HostRoom, sizing: Sizing, groups: Sequence[RankPools]) -> list[Bound]:
    """Every bound on these pools."""
    found = []
    pinned = sum(group.pinned_per_rank * len(group.ranks) for group in groups)
    drawn, huge = room.allocation.drawn(pinned), room.allocation.hugepage_bytes
    usable, seen = room.usable_bytes, room.guard_bytes
    if usable is not None:
        found.append(Bound(CONTROL_GROUP if room.group_binds else HOST, drawn, usable - room.reserve_bytes))
    if seen is not None:
        kept = room.facts.guard_reserve_bytes
        need = guard_need_of(room, sizing, groups).worst_order_bytes - kept
        found.append(Bound(f"{GUARD} {room.facts.guard}", need, seen - kept))
    if huge is not None and room.binding != STRICT:
        free = [node.huge_free_bytes for node in room.nodes]
        if free and None not in free:
            found.append(Bound(HUGE_PAGES, pinned, sum(size or 0 for size in free)))
    if room.binding == STRICT:
        for node in room.nodes:
            limit = node.limit_bytes if huge is None else node.huge_free_bytes
            if node.ranks and limit is not None:
                name = f"{NUMA_NODE} {node.node}" if huge is None else f"{HUGE_PAGES} of {NUMA_NODE} {node.node}"
                found.append(Bound(name, pinned_on(node, groups), limit, node))
    return found


def limits(room: HostRoom, sizing: Sizing, groups: Sequence[RankPools]) -> tuple[Limit, ...]:
    """The bounds as what one rank may pin, tightest first.

    It is that of the rank with the largest pools, in the proportions that the pools have in this plan.
    """
    largest = max(group.bytes_per_rank for group in groups)
    found = []
    for bound in bounds(room, sizing, groups):
        if bound.needed_bytes > 0 and room.allocation.powers_of_two:
            allowed = _allowed_in_powers(room, sizing, groups, bound)
        elif bound.needed_bytes > 0:
            allowed = bound.available_bytes * largest // bound.needed_bytes
        elif bound.holds:
            # Pools in huge pages take no available memory, however large they are.
            continue
        else:
            allowed = bound.available_bytes
        # Where less is there than has to stay, nothing may be pinned.
        found.append(Limit(bound.name, max(0, allowed), _explanation(room, sizing, groups, bound), bound.holds))
    return tuple(sorted(found, key=lambda limit: limit.bytes_per_rank))


def _allowed_in_powers(room: HostRoom, sizing: Sizing, groups: Sequence[RankPools], bound: Bound) -> int:
    """What a rank's pools may come to where each of them pins the next power of two: no proportion, so it is sought."""
    largest = max(group.bytes_per_rank for group in groups)

    def resized(pool: Pool, size: int) -> Pool:
        # A byte a row, so that any size can be tried.
        scaled = pool.bytes_per_rank * size // largest
        spare = pool.spare_bytes * size // largest
        return replace(pool, tokens=scaled, bytes_per_token=1, pinned_bytes=room.allocation.pinned(scaled + spare, 1))

    def fits(size: int) -> bool:
        tried = [replace(group, pools=tuple(resized(pool, size) for pool in group.pools)) for group in groups]
        return all(other.holds for other in bounds(room, sizing, tried) if other.name == bound.name)

    return largest_fitting(max(0, bound.available_bytes), fits)


def _explanation(room: HostRoom, sizing: Sizing, groups: Sequence[RankPools], bound: Bound) -> str:
    ranks = sum(len(group.ranks) for group in groups)
    alike = len(groups) == 1 and all(pool.pinned_bytes == pool.bytes_per_rank for pool in groups[0].pools)
    if bound.name in (HOST, CONTROL_GROUP):
        there = "available" if bound.name == HOST else "that the control group leaves"
        usable = max(0, room.usable_bytes or 0)
        text = f"({usable / GB:,.2f} GB {there} - {room.reserve_bytes / GB:,.2f} GB reserve)"
        if bound.needed_bytes == 0:
            return f"{text}, before the pools, which lie in huge pages"
        return (
            f"{text} / {_ranks(ranks)}" if alike else f"{text} for {format_gb(bound.needed_bytes)} of {_ranks(ranks)}"
        )
    if bound.name.startswith(GUARD):
        kept = room.facts.guard_reserve_bytes
        largest = max(group.bytes_per_rank for group in groups)
        return f"({max(0, room.guard_bytes or 0) / GB:,.2f} GB available - {kept / GB:,.2f} GB) / " + _divisor(
            room, sizing, groups, bound, largest
        )
    if bound.node is None:
        return _huge_words(room, bound.available_bytes, "") + f" / {_ranks(ranks)}"
    where = f"of node {bound.node.node}"
    count = f"{_ranks(len(bound.node.ranks))} bound to it"
    if room.allocation.hugepage_bytes is not None:
        return f"{_huge_words(room, bound.available_bytes, where)} / {count}"
    left = max(0, bound.available_bytes)
    if not alike:
        return f"{left / GB:,.2f} GB {where} for {format_gb(bound.needed_bytes)} of {count}"
    return f"{left / GB:,.2f} GB {where} / {count}"


def _ranks(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"


def _huge_words(room: HostRoom, free_bytes: int, where: str) -> str:
    page = room.allocation.hugepage_bytes or 1
    pages = f"{format_count(free_bytes // page)} free huge pages of {room.allocation.hugepage_size}"
    return f"{free_bytes / GB:,.2f} GB in {pages}{' ' if where else ''}{where}"


def _divisor(room: HostRoom, sizing: Sizing, groups: Sequence[RankPools], bound: Bound, largest: int) -> str:
    ranks = sum(len(group.ranks) for group in groups)
    if room.facts.guard == "D" and sizing.mode == BY_FRACTION:
        return f"{_ranks(ranks)} x fraction {sizing.fraction}"
    if room.allocation.hugepage_bytes is not None:
        share = "" if room.facts.guard == "A" else f"{_ranks(ranks)}, "
        return f"{share}the largest pool, which the check asks for although it lies in huge pages"
    if len(groups) > 1 or len(groups[0].pools) > 1 or room.allocation.powers_of_two:
        scale = "" if room.allocation.powers_of_two else f" x {format_gb(largest)}"
        return (
            f"{format_gb(bound.needed_bytes)}{scale}, what the check counts when the worst pool comes last: its "
            f"peers' pools, and its request {'once' if room.facts.guard == 'A' else f'x {_ranks(ranks)}'}"
        )
    if room.facts.guard == "A":
        return f"{_ranks(ranks)}, the last one's check counting its peers' pools"
    return f"(2 x {_ranks(ranks)} - 1), the last rank's check counting pools twice"
