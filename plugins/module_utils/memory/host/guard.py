# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the server's own check of host memory needs, by the order in which the pools of all ranks arrive.

Every rank builds its pools one after the other, and every pool asks for itself: C(requested > allowed) ends the start.
What is allowed is read at that moment, and falls as other pools are populated:

A (to 0.5.18)        allowed = available - 10 GiB
B (0.5.19, 0.5.20)   allowed = (available - 10 GiB) // ranks on the host
D (from 0.5.21 on)   as B for an explicit ratio or size, with the control group's headroom for an upper bound of what is
                     available. By a fraction, every rank takes one reading before any pool is built, and books its
                     pools against C(int((available - 10 GiB) // ranks x fraction)).

The check and the population are two steps, so a peer may be checked between them. That leaves two orders that matter.
In the worst one for a pool, all its peers have populated theirs. In the best one every pool is populated as late as its
own rank allows, that is before that rank's next check, and the checks come in the order that asks for least. Which one
that is says Lawler's rule for jobs with tails in chains: from the last check backwards, the smallest request among
those that nothing has to follow.

Source: SGLang, mem_cache/memory_pool_host.py (to 0.5.18), mem_cache/pool_host/base.py (0.5.19 on),
mem_cache/hicache_auto_size.py (0.5.21 on).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

PASSES, DEPENDS, REFUSES, UNKNOWN = "passes", "depends_on_arrival_order", "refuses", "unknown"


@dataclass(frozen=True)
class Claim:
    """One pool of one rank as its check sees it.

    C(drawn_bytes) is what the available memory falls by once it is populated: nothing in reserved huge pages, more than
    what was asked for where the allocator rounds up.
    """

    requested_bytes: int
    drawn_bytes: int


@dataclass(frozen=True)
class ClaimingRanks:
    """So many ranks that claim the same pools in the same sequence, as those of one pipeline stage do."""

    ranks: int
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class GuardNeed:
    """Available host memory in bytes that the server's check needs, by the order in which the pools arrive."""

    variant: str
    best_order_bytes: int
    worst_order_bytes: int

    @property
    def required_bytes(self) -> int:
        """What the check asks for. Variant A only ever looks at one rank's request; the others count peers."""
        return self.best_order_bytes if self.variant == "A" else self.worst_order_bytes

    def verdict(self, available_bytes: int | None) -> str:
        if available_bytes is None:
            return UNKNOWN
        if available_bytes >= self.worst_order_bytes:
            return PASSES
        return DEPENDS if available_bytes >= self.best_order_bytes else REFUSES


def guard_need(facts: VersionFacts, groups: Sequence[ClaimingRanks], fraction: float | None = None) -> GuardNeed:
    """What the release's own check needs; C(fraction) where the pools are sized by one."""
    reserve = facts.guard_reserve_bytes
    ranks = sum(group.ranks for group in groups)
    if facts.guard == "D" and fraction is not None:
        booked = max(sum(claim.requested_bytes for claim in group.claims) for group in groups)
        needed = smallest_budget(booked, fraction) * ranks + reserve
        return GuardNeed("D", needed, needed)
    # requested <= (available - reserve) // ranks is ranks x requested <= available - reserve, in whole numbers too.
    share = 1 if facts.guard == "A" else ranks
    return GuardNeed(facts.guard, _best_order(groups, share) + reserve, _worst_order(groups, share) + reserve)


def smallest_budget(booked_bytes: int, fraction: float) -> int:
    """The smallest whole budget of which C(int(budget * fraction)) covers what is booked."""
    budget = int(booked_bytes / fraction)
    while int(budget * fraction) < booked_bytes:
        budget += 1
    while budget > 0 and int((budget - 1) * fraction) >= booked_bytes:
        budget -= 1
    return budget


def _worst_order(groups: Sequence[ClaimingRanks], share: int) -> int:
    """Every check after all pools of all peers, and after its own rank's earlier ones."""
    everything = sum(group.ranks * claim.drawn_bytes for group in groups for claim in group.claims)
    most = 0
    for group in groups:
        drawn = everything - sum(claim.drawn_bytes for claim in group.claims)
        for claim in group.claims:
            most = max(most, drawn + share * claim.requested_bytes)
            drawn += claim.drawn_bytes
    return most


def _best_order(groups: Sequence[ClaimingRanks], share: int) -> int:
    # Before a rank's last check, all its other pools have been populated.
    drawn = sum(group.ranks * claim.drawn_bytes for group in groups for claim in group.claims[:-1])
    waiting = [
        (group.claims[-1].requested_bytes, number, len(group.claims) - 1)
        for number, group in enumerate(groups)
        if group.claims
    ]
    heapq.heapify(waiting)
    most = 0
    while waiting:
        requested, number, place = heapq.heappop(waiting)
        # Alike ranks one after the other: the first of them, which is the last in time, asks for most.
        most = max(most, drawn + share * requested)
        if place:
            group = groups[number]
            drawn -= group.ranks * group.claims[place - 1].drawn_bytes
            heapq.heappush(waiting, (group.claims[place - 1].requested_bytes, number, place - 1))
    return most
