# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host side of a plan: HiCache pools, the memory they need in truth, and what the server's own check asks for.

Source: SGLang, mem_cache/memory_pool_host.py (to 0.5.18), mem_cache/pool_host/base.py and
mem_cache/hicache_auto_size.py (0.5.23).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding import STRICT
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts

BY_RATIO, BY_SIZE, BY_FRACTION, DISABLED = "ratio", "size", "fraction", "disabled"

# Auto-sizing keeps this share of its budget for page rounding and staging (hicache_auto_size.py).
AUTO_SIZE_SLACK = 0.05

PASSES, DEPENDS, REFUSES, UNKNOWN = "passes", "depends_on_arrival_order", "refuses", "unknown"

RATIO_STEP = 100  # largest ratios are given in hundredths


@dataclass(frozen=True)
class Sizing:
    """How the host pool is sized: by a ratio, by whole GB a rank, or by a share of the free host memory.

    C(size_bytes) is one pool's part of a size that several pools share.
    """

    mode: str
    ratio: float | None = None
    size_gb: int | None = None
    fraction: float | None = None
    size_bytes: float | None = None


@dataclass(frozen=True)
class Pool:
    """One pinned allocation of one rank."""

    kind: str
    tokens: int
    bytes_per_token: int

    @property
    def bytes_per_rank(self) -> int:
        return self.tokens * self.bytes_per_token


@dataclass(frozen=True)
class GuardNeed:
    """Available host memory in bytes that the server's check needs, by the order in which the ranks arrive."""

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


@dataclass(frozen=True)
class NodeShare:
    """What the ranks of one NUMA node pin there; C(limit_bytes) is a hard one only under strict binding."""

    node: int
    ranks: tuple[int, ...]
    pinned_bytes: int
    available_bytes: int | None
    limit_bytes: int | None

    @property
    def left_bytes(self) -> int | None:
        return None if self.available_bytes is None else self.available_bytes - self.pinned_bytes


@dataclass(frozen=True)
class Limit:
    """One reason why a rank cannot pin more than C(bytes_per_rank)."""

    name: str
    bytes_per_rank: int
    explanation: str


def pool_tokens(facts: VersionFacts, device_tokens: int, page_size: int, per_token: int, sizing: Sizing) -> int:
    """Tokens of a rank's host pool, rounded to pages as the release does."""
    if sizing.size_bytes is not None:
        wanted = int(sizing.size_bytes // per_token)
    elif sizing.size_gb is not None and sizing.size_gb > 0:
        wanted = int(sizing.size_gb * 1e9 // per_token)
    else:
        wanted = int(device_tokens * (sizing.ratio or 0.0))
    pages = wanted // page_size
    if facts.padding_page:
        pages += 1
    return pages * page_size


def auto_ratio(facts: VersionFacts, device_pool_bytes: int, ranks: int, available_bytes: int, fraction: float) -> float:
    """The ratio that auto-sizing (from 0.5.21) arrives at on a machine with so much available memory."""
    budget = int((available_bytes - facts.guard_reserve_bytes) // ranks * fraction)
    return min(facts.default_ratio, budget * (1 - AUTO_SIZE_SLACK) / device_pool_bytes)


def guard_need(facts: VersionFacts, ranks: int, bytes_per_rank: int, sizing: Sizing) -> GuardNeed:
    """What the release's own check needs.

    A compares one rank's request with all that is available, so the first rank passes on little and the last one,
    arriving when its peers have allocated, needs the whole. B and explicit sizes under D divide what is available
    by the ranks, and read it live: the last rank needs S <= (A - (R-1)S - reserve) / R, which is
    A >= (2R-1)S + reserve. Auto-sizing under D books against one snapshot that precedes every pool.
    """
    reserve = facts.guard_reserve_bytes
    everything = ranks * bytes_per_rank + reserve
    if facts.guard == "A":
        return GuardNeed("A", bytes_per_rank + reserve, everything)
    if facts.guard == "D" and sizing.mode == BY_FRACTION:
        needed = math.ceil(bytes_per_rank / (sizing.fraction or 1.0)) * ranks + reserve
        return GuardNeed("D", needed, needed)
    return GuardNeed(facts.guard, everything, (2 * ranks - 1) * bytes_per_rank + reserve)


def usable_host_bytes(machine: MachineFacts, own_pinned_bytes: int, held_by_device_bytes: int) -> int | None:
    """Host memory that the pools and the reserve can take: available, plus what this instance itself holds now."""
    available = machine.memory_available_bytes
    if available is None:
        return None
    available += own_pinned_bytes
    if machine.cgroup_limit_bytes is not None:
        available = min(available, machine.cgroup_limit_bytes)
    if machine.cgroup_available_bytes is not None:
        available = min(available, machine.cgroup_available_bytes + own_pinned_bytes)
    return available - held_by_device_bytes


def node_available(machine: MachineFacts, assumptions: list[str]) -> dict[int, int | None]:
    """Available memory of each node that pools can lie on; divided evenly where a machine does not say."""
    homes = machine.homes
    known = {node.id: node.memory_available_bytes for node in homes}
    if not known or all(value is not None for value in known.values()):
        return known
    if machine.memory_available_bytes is None:
        return known
    totals = [node.memory_total_bytes for node in homes]
    if all(total is not None for total in totals):
        whole = sum(total or 0 for total in totals)
        assumptions.append("The available memory is spread over the NUMA nodes in proportion to their size.")
        return {node.id: machine.memory_available_bytes * (node.memory_total_bytes or 0) // whole for node in homes}
    assumptions.append(
        f"The {len(known)} NUMA nodes have equal memory, and what is available is divided evenly between them."
    )
    return {identity: machine.memory_available_bytes // len(known) for identity in known}


def shares(
    machine: MachineFacts,
    seats: Sequence[Seat],
    bytes_per_rank: int,
    reserve_bytes: int,
    own_pinned_bytes: int,
    assumptions: list[str],
) -> tuple[NodeShare, ...]:
    """What each NUMA node has to hold when every rank's pool lies on the node of its seat.

    Nodes without CPUs, such as the memory of a GPU, and those closed to services hold none. The machine-wide reserve is
    divided evenly: weights in the page cache, the ranks' own memory and everything else live somewhere too. What a
    running instance holds is added back where its ranks sit.
    """
    homes = machine.homes
    if not homes or any(seat.numa_node is None for seat in seats):
        return ()
    available = node_available(machine, assumptions)
    result = []
    for node in homes:
        ranks = tuple(seat.rank for seat in seats if seat.numa_node == node.id)
        free = available.get(node.id)
        if free is not None:
            free += own_pinned_bytes * len(ranks) // len(seats)
        result.append(
            NodeShare(
                node=node.id,
                ranks=ranks,
                pinned_bytes=len(ranks) * bytes_per_rank,
                available_bytes=free,
                limit_bytes=None if free is None else free - reserve_bytes // len(homes),
            )
        )
    return tuple(result)


def limits(
    facts: VersionFacts,
    ranks: int,
    usable_bytes: int | None,
    reserve_bytes: int,
    nodes: Sequence[NodeShare],
    sizing: Sizing,
    numa_binding: str,
) -> tuple[Limit, ...]:
    """Every bound on what one rank may pin, tightest first."""
    found = []
    if usable_bytes is not None:
        found.append(
            Limit(
                "host",
                (usable_bytes - reserve_bytes) // ranks,
                f"({usable_bytes / GB:,.2f} GB available - {reserve_bytes / GB:,.2f} GB reserve) / {ranks} ranks",
            )
        )
        free = usable_bytes - facts.guard_reserve_bytes
        if facts.guard == "A":
            divisor, text = ranks, f"{ranks} ranks, the last one's check counting its peers' pools"
        elif facts.guard == "D" and sizing.mode == BY_FRACTION:
            divisor, text = ranks, f"{ranks} ranks x fraction {sizing.fraction}"
            free = int(free * (sizing.fraction or 1.0))
        else:
            divisor, text = 2 * ranks - 1, f"(2 x {ranks} ranks - 1), the last rank's check counting pools twice"
        found.append(
            Limit(
                f"guard {facts.guard}",
                free // divisor,
                f"({usable_bytes / GB:,.2f} GB available - {facts.guard_reserve_bytes / GB:,.2f} GB) / {text}",
            )
        )
    if numa_binding == STRICT:
        for node in nodes:
            if node.ranks and node.limit_bytes is not None:
                found.append(
                    Limit(
                        f"numa node {node.node}",
                        node.limit_bytes // len(node.ranks),
                        f"{node.limit_bytes / GB:,.2f} GB of node {node.node} / {len(node.ranks)} ranks bound to it",
                    )
                )
    return tuple(sorted(found, key=lambda limit: limit.bytes_per_rank))


def largest_fitting(upper: int, fits: Callable[[int], bool]) -> int:
    """The largest whole number from 1 to C(upper) that fits, 0 if none does; C(fits) is monotone."""
    low, high = 0, max(0, upper)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def largest_ratio(
    facts: VersionFacts, device_tokens: int, page_size: int, per_token: int, bytes_per_rank: int
) -> float | None:
    """The largest ratio, in hundredths, whose pool stays within C(bytes_per_rank); None if none is possible."""
    smallest = device_tokens if facts.smaller_than_device_is_fatal else 0

    def tokens(hundredths: int) -> int:
        sizing = Sizing(BY_RATIO, ratio=hundredths / RATIO_STEP)
        return pool_tokens(facts, device_tokens, page_size, per_token, sizing)

    # One page more, for the releases that round down.
    reach = max(0, bytes_per_rank) + page_size * per_token
    upper = reach * RATIO_STEP // (device_tokens * per_token) + 1
    found = largest_fitting(upper, lambda hundredths: tokens(hundredths) * per_token <= bytes_per_rank)
    if found == 0 or tokens(found) <= smallest:
        return None
    return found / RATIO_STEP


def largest_size_gb(
    facts: VersionFacts, device_tokens: int, page_size: int, per_token: int, bytes_per_rank: int
) -> int | None:
    """The largest whole C(--hicache-size) whose pool stays within C(bytes_per_rank)."""
    smallest = device_tokens if facts.smaller_than_device_is_fatal else 0

    def tokens(size_gb: int) -> int:
        return pool_tokens(facts, device_tokens, page_size, per_token, Sizing(BY_SIZE, size_gb=size_gb))

    upper = max(0, bytes_per_rank) // GB + 1
    found = largest_fitting(upper, lambda size: tokens(size) * per_token <= bytes_per_rank)
    return found if found and tokens(found) > smallest else None
