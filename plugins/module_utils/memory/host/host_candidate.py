# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host pools of any size for the same device pools and the same machine, and the largest of them that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import DRAFT, INDEXER
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_host import keeps_compressed
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePool
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.draft_host import (
    draft_host_bytes,
    draft_index_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    BY_FRACTION,
    BY_RATIO,
    BY_SIZE,
    RATIO_STEP,
    Sizing,
    auto_ratio,
    largest_near,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_nodes import NodeRoom
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_pools import (
    larger_than_device,
    mirrored_bytes,
    stages_of_host,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_room import (
    HostRoom,
    RankPools,
    bounds,
    pinned_on,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB


@dataclass(frozen=True)
class Candidate:
    """Device pools of each pipeline stage, and the ranks of each: what host pools of any size are built for."""

    room: HostRoom
    stages: tuple[tuple[DevicePool, ...], ...]
    ranks: tuple[tuple[int, ...], ...]
    page_size: int

    def groups(self, sizing: Sizing) -> tuple[RankPools, ...]:
        ratio = self.effective_ratio(sizing)
        effective = Sizing(sizing.mode, ratio=ratio, size_gb=sizing.size_gb, fraction=sizing.fraction)
        built = stages_of_host(self.room.facts, self.stages, self.page_size, effective, self.room.allocation)
        return tuple(RankPools(ranks, pools) for ranks, pools in zip(self.ranks, built))

    def effective_ratio(self, sizing: Sizing) -> float | None:
        """What a fraction comes to: by the rank whose pools are the largest, as all ranks take the smallest ratio."""
        if sizing.mode != BY_FRACTION:
            return sizing.ratio
        facts, seen = self.room.facts, self.room.guard_bytes
        if seen is None:
            return facts.default_ratio
        largest = max(mirrored_bytes(stage) for stage in self.stages)
        everyone = sum(len(ranks) for ranks in self.ranks)
        return auto_ratio(facts, largest, everyone, seen, sizing.fraction or 1.0)

    def fits(self, sizing: Sizing) -> bool:
        return all(bound.holds for bound in bounds(self.room, sizing, self.groups(sizing)))

    def taken(self, sizing: Sizing) -> bool:
        """Whether the release takes pools of this size, beside having room for them."""
        return all(
            larger_than_device(self.room.facts, stage, group.pools)
            for stage, group in zip(self.stages, self.groups(sizing))
        )


def candidate_of(room: HostRoom, device: DevicePlan, stages: Sequence[Sequence[DevicePool]] = ()) -> Candidate:
    """What host pools are built for; C(stages) are device pools in the place of the plan's own."""
    layout = device.division.layout
    built_for = [_with_host_pool(device, stage) for stage in stages or [stage.pools for stage in device.stages]]
    ranks = [
        tuple(rank for rank in range(layout.ranks) if layout.stage_of(rank) == stage) for stage in range(len(built_for))
    ]
    return Candidate(room, tuple(built_for), tuple(ranks), device.page_size)


def _with_host_pool(device: DevicePlan, pools: Sequence[DevicePool]) -> tuple[DevicePool, ...]:
    """Device pools that have one on the host, with what a row takes there: a draft's need not, and may be another."""
    draft = draft_host_bytes(device.division)
    found: list[DevicePool] = []
    for pool in pools:
        if pool.kind == INDEXER and device.division.attention.latent:
            found.append(replace(pool, index_bytes_per_slot=pool.bytes_per_slot))
        elif pool.kind != DRAFT:
            found.append(pool)
        elif draft is not None:
            keys = draft_index_bytes(device.division)
            found.append(replace(pool, bytes_per_slot=draft, index_bytes_per_slot=keys))
    return tuple(found)


def largest_ratio_for(candidate: Candidate, bytes_per_rank: int) -> float | None:
    """The largest ratio, in hundredths, that every bound allows; None if the release takes none that fits.

    It is looked for around what would take C(bytes_per_rank).
    """
    # Pools without a slot are of one page at any ratio.
    if not any(pool.used_bytes for stage in candidate.stages for pool in stage):
        return None
    mirrored = max(mirrored_bytes(stage) for stage in candidate.stages)

    def sized(hundredths: int) -> Sizing:
        return Sizing(BY_RATIO, ratio=hundredths / RATIO_STEP)

    guess = bytes_per_rank * RATIO_STEP // mirrored if mirrored else RATIO_STEP
    found = largest_near(guess, lambda hundredths: candidate.fits(sized(hundredths)))
    return found / RATIO_STEP if found and candidate.taken(sized(found)) else None


def largest_ratio_on(candidate: Candidate, node: NodeRoom, limit_bytes: int) -> float | None:
    """The largest ratio, in hundredths, with which the ranks of one node pin no more than C(limit_bytes) there."""

    def allowed(hundredths: int) -> bool:
        groups = candidate.groups(Sizing(BY_RATIO, ratio=hundredths / RATIO_STEP))
        return pinned_on(node, groups) <= limit_bytes

    found = largest_near(1, allowed)
    return found / RATIO_STEP if found else None


def largest_size_for(candidate: Candidate, bytes_per_rank: int) -> int | None:
    """The largest whole C(--hicache-size) that every bound allows, looked for around C(bytes_per_rank)."""
    if any(keeps_compressed(stage) for stage in candidate.stages):
        return None

    def sized(size_gb: int) -> Sizing:
        return Sizing(BY_SIZE, size_gb=size_gb)

    found = largest_near(bytes_per_rank // GB, lambda size_gb: candidate.fits(sized(size_gb)))
    return found if found and candidate.taken(sized(found)) else None


def largest_fraction_for(candidate: Candidate) -> float | None:
    """The largest share of the host memory, in hundredths, whose pools every bound allows."""

    def sized(hundredths: int) -> Sizing:
        return Sizing(BY_FRACTION, fraction=hundredths / RATIO_STEP)

    # Not by halving: a small share can fail where a large one fits, when a page more is above the server's slack.
    for hundredths in range(RATIO_STEP, 0, -1):
        share = sized(hundredths)
        if (candidate.effective_ratio(share) or 0.0) <= 0:
            return None
        if candidate.fits(share) and candidate.taken(share):
            return hundredths / RATIO_STEP
    return None
