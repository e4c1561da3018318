# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host part of one plan: what the pools of all ranks come to on this machine.

The terms and the rules behind them are in host.py, host_room.py and guard.py; the arithmetic in words is in
host_words.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_host import check_compressed_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.guard import GuardNeed
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    BY_FRACTION,
    BY_SIZE,
    DISABLED,
    Limit,
    Pool,
    Sizing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import (
    Allocation,
    resolve_allocation,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_candidate import (
    Candidate,
    candidate_of,
    largest_fraction_for,
    largest_ratio_for,
    largest_size_for,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_nodes import NodeShare, node_rooms
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_pools import (
    check_host_pools,
    copies_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_room import (
    Bound,
    HostRoom,
    RankPools,
    bounds,
    control_group_bytes,
    guard_need_of,
    limits,
    pinned_on,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


@dataclass(frozen=True)
class HostPlan:
    """Host pools of all ranks and what they ask of the machine; see host.py and host_room.py for each term.

    C(groups) are the ranks by their pools, one for each pipeline stage, empty without HiCache; C(copies) are, for each
    pool of each group, the ranks with one of their own.
    """

    sizing: Sizing
    effective_ratio: float | None
    groups: tuple[RankPools, ...]
    copies: tuple[tuple[int, ...], ...]
    room: HostRoom
    nodes: tuple[NodeShare, ...]
    guard: GuardNeed | None
    limits: tuple[Limit, ...]
    io_backend: str | None
    mem_layout: str | None
    write_policy: str | None
    ranks: int
    candidate: Candidate | None

    @cached_property
    def largest_ratio(self) -> float | None:
        """The largest ratio, in hundredths, that every bound allows; None if there is none or nothing is bounded."""
        if self.candidate is None or not self.limits:
            return None
        return largest_ratio_for(self.candidate, self.limits[0].bytes_per_rank)

    @cached_property
    def largest_size_gb(self) -> int | None:
        if self.candidate is None or not self.limits:
            return None
        return largest_size_for(self.candidate, self.limits[0].bytes_per_rank)

    @cached_property
    def largest_fraction(self) -> float | None:
        """None where the server does not size its pools by a fraction in this plan."""
        if self.candidate is None or not self.limits or self.sizing.mode != BY_FRACTION:
            return None
        return largest_fraction_for(self.candidate)

    @property
    def largest_group(self) -> RankPools | None:
        """The ranks with the largest pools: what has to fit a rank."""
        return max(self.groups, key=lambda group: group.bytes_per_rank, default=None)

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self.largest_group.pools if self.largest_group is not None else ()

    @property
    def tokens(self) -> int:
        return self.pools[0].tokens if self.pools else 0

    @property
    def bounds(self) -> list[Bound]:
        """Every bound on the pools, held or not."""
        return bounds(self.room, self.sizing, self.groups) if self.groups else []

    @property
    def bytes_per_rank(self) -> int:
        return sum(pool.bytes_per_rank for pool in self.pools)

    @property
    def bytes_total(self) -> int:
        return sum(group.bytes_per_rank * len(group.ranks) for group in self.groups)

    @property
    def pinned_bytes_total(self) -> int:
        """What is pinned for them: more where the allocator rounds up."""
        return sum(group.pinned_per_rank * len(group.ranks) for group in self.groups)

    @property
    def drawn_bytes(self) -> int:
        """What the pools take of the available memory: nothing where they lie in reserved huge pages."""
        return self.room.allocation.drawn(self.pinned_bytes_total)

    @property
    def unique_bytes(self) -> int:
        return sum(
            pool.bytes_per_rank * copies
            for group, counts in zip(self.groups, self.copies)
            for pool, copies in zip(group.pools, counts)
        )

    @property
    def duplication_factor(self) -> float:
        return self.bytes_total / self.unique_bytes if self.unique_bytes else 1.0

    @property
    def numa_binding(self) -> str:
        return self.room.binding

    @property
    def reserve_bytes(self) -> int:
        return self.room.reserve_bytes

    @property
    def held_by_device_bytes(self) -> int:
        return self.room.held_by_device_bytes

    @property
    def meter(self) -> str:
        return self.room.allocation.meter

    @property
    def available_bytes(self) -> int | None:
        """What pools, reserve and, on a CPU, the device's own memory can have."""
        usable = self.room.usable_bytes
        return None if usable is None else usable + self.held_by_device_bytes

    @property
    def required_available_bytes(self) -> int:
        """What has to be available before the start, so that every pool fits and the reserve stays."""
        return self.drawn_bytes + self.held_by_device_bytes + self.reserve_bytes

    @property
    def left_bytes(self) -> int | None:
        usable = self.room.usable_bytes
        return None if usable is None else usable - self.drawn_bytes


def host_room(
    request: PlanRequest,
    facts: VersionFacts,
    allocation: Allocation,
    device: DevicePlan,
    seats: Sequence[Seat],
    binding: str,
    assumptions: list[str],
) -> HostRoom:
    """What the machine has for host pools, with what the running instance of this plan holds given back."""
    machine, own = request.machine, request.observed.own_pinned_bytes or 0
    # Pools in huge pages give their pages back, and no available memory.
    freed = 0 if allocation.hugepage_bytes is not None else own
    # On a CPU the "device" pool and the weights are host memory as well.
    held = 0
    if device.device == "cpu":
        kept = sum(pool.used_bytes for stage in device.stages for pool in stage.pools)
        held = request.server.tensor_parallel_size * kept + (request.model.weights_bytes or 0)
    available = machine.memory_available_bytes
    return HostRoom(
        facts=facts,
        allocation=allocation,
        draft_packed=draft_is_packed(facts, device),
        available_bytes=None if available is None else available + freed,
        group_bytes=control_group_bytes(machine, freed),
        held_by_device_bytes=held,
        reserve_bytes=request.host_reserve_bytes,
        nodes=node_rooms(machine, seats, allocation, request.host_reserve_bytes, own, assumptions),
        binding=binding,
    )


def draft_is_packed(facts: VersionFacts, device: DevicePlan) -> bool:
    """Whether the draft's layers lie in the target's host pool, so that one check is of both.

    base_spec_worker.py C(_can_pack_hicache_mtp): layers of the target's own checkpoint that predict further tokens.
    """
    speculation = device.division.speculation
    if speculation is None or not host_memory_facts(facts.version).packs_drafts:
        return False
    predicts = speculation.own_layers > 0 or bool(speculation.model is not None and speculation.model.nextn_layers)
    return predicts and speculation.algorithm in ("EAGLE", "NEXTN")


def plan_host(
    request: PlanRequest,
    facts: VersionFacts,
    sizing: Sizing,
    transfer: tuple[str | None, str | None],
    device: DevicePlan,
    placed: tuple[Seat, ...],
    numa_binding: str,
    assumptions: list[str],
) -> HostPlan:
    allocation = resolve_allocation(facts, request.hicache)
    room = host_room(request, facts, allocation, device, placed, numa_binding, assumptions)
    groups: tuple[RankPools, ...] = ()
    found: tuple[Limit, ...] = ()
    ratio, candidate = sizing.ratio, None
    if sizing.mode != DISABLED:
        check_host_pools(facts, device.division.attention)
        check_compressed_host(facts, device.division.attention, device.division.layout, sizing)
        candidate = candidate_of(room, device)
        ratio, groups = candidate.effective_ratio(sizing), candidate.groups(sizing)
        found = limits(room, sizing, groups)
    return HostPlan(
        sizing=sizing,
        effective_ratio=ratio if sizing.mode != BY_SIZE else None,
        groups=groups,
        copies=tuple(_copies(device, group) for group in groups),
        room=room,
        nodes=tuple(
            NodeShare(
                node=node.node,
                ranks=tuple(sorted(node.ranks)),
                pinned_bytes=pinned_on(node, groups),
                drawn_bytes=allocation.drawn(pinned_on(node, groups)),
                available_bytes=node.available_bytes,
                huge_free_bytes=node.huge_free_bytes,
            )
            for node in room.nodes
        ),
        guard=guard_need_of(room, sizing, groups) if groups else None,
        limits=found,
        io_backend=transfer[0],
        mem_layout=transfer[1],
        write_policy=(request.hicache.write_policy or facts.default_write_policy) if groups else None,
        ranks=request.server.ranks,
        candidate=candidate,
    )


def _copies(device: DevicePlan, group: RankPools) -> tuple[int, ...]:
    layout, attention = device.division.layout, device.division.attention
    return tuple(
        copies_of(attention, pool.kind, layout.tensor_parallel_size, layout.attention_data_parallel_size)
        for pool in group.pools
    )


def asked_for(host: HostPlan) -> str:
    """How the pools were asked for, as a sentence names it."""
    if host.sizing.mode == BY_SIZE:
        return f"HiCache size {host.sizing.size_gb} GB a rank"
    if host.sizing.mode == BY_FRACTION:
        return f"HiCache with host memory fraction {host.sizing.fraction} (ratio {host.effective_ratio:.3f})"
    return f"HiCache ratio {host.sizing.ratio}"
