# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each NUMA node can give to the pools of its ranks, and what they pin there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import Allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts, NodeFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat


@dataclass(frozen=True)
class NodeRoom:
    """One node before any pool is built; C(limit_bytes) leaves its part of the reserve.

    C(host_share) is the node's share of what the machine has available, None where the node itself was measured.
    C(huge_free_bytes) are free huge pages of the size that is asked for, None where none is asked for or where it is
    not known.
    """

    node: int
    ranks: frozenset[int]
    available_bytes: int | None
    limit_bytes: int | None
    host_share: Fraction | None = None
    huge_free_bytes: int | None = None


@dataclass(frozen=True)
class NodeShare:
    """What the ranks of one NUMA node pin there, and how much of it comes out of its available memory."""

    node: int
    ranks: tuple[int, ...]
    pinned_bytes: int
    drawn_bytes: int
    available_bytes: int | None
    huge_free_bytes: int | None = None

    @property
    def left_bytes(self) -> int | None:
        return None if self.available_bytes is None else self.available_bytes - self.drawn_bytes


def node_available(machine: MachineFacts, assumptions: list[str]) -> tuple[dict[int, int | None], dict[int, Fraction]]:
    """Available memory of each node that pools can lie on; divided where a machine does not say, by these shares."""
    homes = machine.homes
    known = {node.id: node.memory_available_bytes for node in homes}
    if not known or all(value is not None for value in known.values()):
        return known, {}
    if machine.memory_available_bytes is None:
        return known, {}
    if len(known) == 1:
        assumptions.append("The available memory is all on the one NUMA node.")
        return dict.fromkeys(known, machine.memory_available_bytes), dict.fromkeys(known, Fraction(1))
    totals = [node.memory_total_bytes for node in homes]
    if all(total is not None for total in totals):
        whole = sum(total or 0 for total in totals)
        assumptions.append("The available memory is spread over the NUMA nodes in proportion to their size.")
        shares = {node.id: Fraction(node.memory_total_bytes or 0, whole) for node in homes}
    else:
        assumptions.append(
            f"The {len(known)} NUMA nodes have equal memory, and what is available is divided evenly between them."
        )
        shares = dict.fromkeys(known, Fraction(1, len(known)))
    return {identity: int(machine.memory_available_bytes * share) for identity, share in shares.items()}, shares


def free_hugepage_bytes(node: NodeFacts, size_bytes: int) -> int | None:
    if node.hugepages is None:
        return None
    return sum(pages.free * pages.size_bytes for pages in node.hugepages if pages.size_bytes == size_bytes)


def node_rooms(
    machine: MachineFacts,
    seats: Sequence[Seat],
    allocation: Allocation,
    reserve_bytes: int,
    own_pinned_bytes: int,
    assumptions: list[str],
) -> tuple[NodeRoom, ...]:
    """The nodes that pools can lie on, when every rank's pool lies on the node of its seat.

    Nodes without CPUs, such as the memory of a GPU, and those closed to services hold none. The machine-wide reserve is
    divided evenly: weights in the page cache, the ranks' own memory and everything else live somewhere too. What a
    running instance holds is added back where its ranks sit, to the kind of memory that the plan takes.
    """
    homes = machine.homes
    if not homes or any(seat.numa_node is None for seat in seats):
        return ()
    available, shares = node_available(machine, assumptions)
    huge = allocation.hugepage_bytes
    result = []
    for node in homes:
        ranks = frozenset(seat.rank for seat in seats if seat.numa_node == node.id)
        own = own_pinned_bytes * len(ranks) // len(seats)
        free = available.get(node.id)
        if free is not None and huge is None:
            free += own
        pages = None if huge is None else free_hugepage_bytes(node, huge)
        result.append(
            NodeRoom(
                node=node.id,
                ranks=ranks,
                available_bytes=free,
                limit_bytes=None if free is None else free - reserve_bytes // len(homes),
                host_share=shares.get(node.id),
                huge_free_bytes=None if pages is None else pages + own,
            )
        )
    return tuple(result)
