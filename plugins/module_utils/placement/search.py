# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs go together: the best sets for all instances of a node at once.

What counts, the first most:

1. GPUs whose board is known; 2. GPUs that nobody else uses; 3. one kind of GPU in a set; 4. the worst link in a set,
as a collective is as fast as its slowest hop; 5. few NUMA nodes; 6. host pools that fit these nodes; 7. nodes that are
near one another; 8. good links throughout. Instances with more ranks come first; those of one size are weighed
together, so that none is served at the cost of its like. Among equals, what stays free shall stay whole: GPUs of one
node, of near nodes, then those that are closely joined. The rest is settled by index, so the same machine always gives
the same answer.

GPUs that could be swapped without any difference are tried in one order only, and so are instances that ask for the
same. With that the search is exact while the machine is small (8 GPUs, but for many single ranks with pools of
different sizes that are too large); beyond that it keeps a limited number of the best beginnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import comb

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts, MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import home_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.ways import UNKNOWN_COST, distances, link_cost

# The number of ways to take 8 of 16; beyond it sets are grown from each GPU instead of being listed.
_MOST_SETS = 12_870
# No host has more; what claims to have is served in order, without a search.
_MOST_GPUS = 64
# Sets that are looked at for all instances together, over all beginnings that are kept.
_EFFORT = 60_000

# (unidentified, users, kinds beyond one, worst links in descending order, nodes spanned, bytes of pools that do not fit
# the nodes, largest distances between nodes, distances between nodes in all, links in all)
Cost = tuple[int, int, int, tuple[int, ...], int, int, int, int, int]
_NO_COST: Cost = (0, 0, 0, (), 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Wish:
    """GPUs that one instance needs, and the host memory of each rank where that depends on the GPU."""

    name: str
    ranks: int
    pool_bytes_per_rank: int = 0


@dataclass(frozen=True)
class Room:
    """What is C(there) for host pools by NUMA node (None where that is not known), and what is C(taken) of it."""

    there: Mapping[int, int | None] = field(default_factory=dict)
    taken: Mapping[int, int] = field(default_factory=dict)

    def is_tight(self, wishes: Sequence[Wish]) -> bool:
        """Whether it matters on which node the pools lie."""
        needed = sum(wish.pool_bytes_per_rank * wish.ranks for wish in wishes)
        return needed > 0 and any(
            there is not None and self.taken.get(node, 0) + needed > there for node, there in self.there.items()
        )


@dataclass(frozen=True)
class _Beginning:
    """Sets chosen so far, as masks over the GPUs, in the order of the wishes.

    C(pools) are the bytes on each node of the board's, nothing where pools fit wherever they lie.
    """

    cost: Cost
    taken: int
    sets: tuple[int, ...]
    pools: tuple[int, ...]


class _Board:
    """The GPUs to choose from and the cost of any set of them. A class, as what was computed is kept."""

    def __init__(
        self, machine: MachineFacts, gpus: Sequence[GpuFacts], in_use: frozenset[int], room: Room | None
    ) -> None:
        self.gpus = gpus
        self._unidentified = [gpu.index in machine.unidentified for gpu in gpus]
        self._kinds = [(gpu.name, gpu.memory_total_bytes) for gpu in gpus]
        self._in_use = [gpu.index in in_use for gpu in gpus]
        self._links = [[link_cost(machine, one, two) for two in gpus] for one in gpus]
        self._apart = distances(machine, gpus)
        self.twins = self._twins()
        self._room = [] if room is None else sorted(room.there.items())
        self.pools = () if room is None else tuple(room.taken.get(node, 0) for node, _there in self._room)
        self._homes = [home_of(machine, gpu.numa_node) for gpu in gpus]
        self.ranks = lru_cache(maxsize=None)(self._ranks)
        self.cost = lru_cache(maxsize=None)(self._cost)
        self.rest = lru_cache(maxsize=None)(self._rest)

    def _cost(self, mask: int) -> Cost:
        members = positions(mask)
        pairs = [self._links[one][two] for one, two in combinations(members, 2)]
        # One GPU stands for its node.
        nodes = {self.gpus[place].numa_node: place for place in members}
        apart = [self._apart[one][two] for one, two in combinations(nodes.values(), 2)]
        return (
            sum(self._unidentified[place] for place in members),
            sum(self._in_use[place] for place in members),
            len({self._kinds[place] for place in members}) - 1,
            (max(pairs),) if pairs else (),
            len(nodes),
            0,
            max(apart, default=0),
            sum(apart),
            sum(pairs),
        )

    def _ranks(self, mask: int) -> tuple[int, ...]:
        """How many of the GPUs in C(mask) have their ranks on each node."""
        homes = [self._homes[place] for place in positions(mask)]
        return tuple(homes.count(node) for node, _there in self._room)

    def overflow(self, pools: Sequence[int]) -> int:
        """Bytes of pools beyond what their nodes hold."""
        return sum(
            max(0, size - there) for size, (_node, there) in zip(pools, self._room) if there is not None and size
        )

    def _rest(self, mask: int) -> tuple[int, int, int]:
        """How torn the GPUs of C(mask) are; the lower, the more of them are still together."""
        free = positions(mask)
        pairs = list(combinations(free, 2))
        together = sum(self._same_node(one, two) for one, two in pairs)
        apart = sum(self._apart[one][two] for one, two in pairs)
        return -together, apart, -sum(UNKNOWN_COST - self._links[one][two] for one, two in pairs)

    def _same_node(self, one: int, two: int) -> bool:
        node = self.gpus[one].numa_node
        return node is not None and node == self.gpus[two].numa_node

    def _twins(self) -> list[int]:
        """For each GPU, a mask of those before it that it could be swapped with: nothing tells them apart."""
        masks = []
        for two, links in enumerate(self._links):
            alike = 0
            for one in range(two):
                same = self._kinds[one] == self._kinds[two] and self._in_use[one] == self._in_use[two]
                same = same and self.gpus[one].numa_node == self.gpus[two].numa_node
                others = [place for place in range(len(links)) if place not in (one, two)]
                if same and all(self._links[one][place] == links[place] for place in others):
                    alike |= 1 << one
            masks.append(alike)
        return masks


def choose(
    machine: MachineFacts,
    gpus: Sequence[GpuFacts],
    wishes: Sequence[Wish],
    in_use: frozenset[int] = frozenset(),
    room: Room | None = None,
) -> dict[str, tuple[GpuFacts, ...]]:
    """A set out of C(gpus) for each wish, by the wish's name; there have to be enough of them."""
    ordered = sorted(gpus, key=lambda gpu: gpu.index)
    sizes = sorted({wish.ranks for wish in wishes}, reverse=True)
    queue = [wish for size in sizes for wish in wishes if wish.ranks == size]
    if len(ordered) > _MOST_GPUS:
        return _in_order(machine, ordered, queue, in_use)
    board = _Board(machine, ordered, in_use, room if room is not None and room.is_tight(wishes) else None)
    everything = (1 << len(ordered)) - 1
    beginnings = [_Beginning(_NO_COST, 0, (), board.pools)]
    for place, wish in enumerate(queue):
        first_of_size = place == 0 or queue[place - 1].ranks != wish.ranks
        if first_of_size:
            # What larger instances got is settled; only ties among them are left to be decided by the smaller.
            best = min(beginning.cost for beginning in beginnings)
            beginnings = [
                _Beginning(_NO_COST, beginning.taken, beginning.sets, beginning.pools)
                for beginning in beginnings
                if beginning.cost == best
            ]
        alike = not first_of_size and (
            not board.pools or queue[place - 1].pool_bytes_per_rank == wish.pool_bytes_per_rank
        )
        ways = min(_MOST_SETS, comb(len(ordered) - bin(beginnings[0].taken).count("1"), wish.ranks))
        beginnings = _best(board, everything, beginnings, max(1, _EFFORT // len(queue) // ways))
        beginnings = [
            longer for beginning in beginnings for longer in _continued(board, everything, beginning, wish, alike)
        ]
    (chosen,) = _best(board, everything, beginnings, 1)
    return {wish.name: tuple(ordered[place] for place in positions(mask)) for wish, mask in zip(queue, chosen.sets)}


def _in_order(
    machine: MachineFacts, gpus: Sequence[GpuFacts], queue: Sequence[Wish], in_use: frozenset[int]
) -> dict[str, tuple[GpuFacts, ...]]:
    unidentified = machine.unidentified

    def neighbours(gpu: GpuFacts) -> tuple[bool, bool, str, int, bool, int, int]:
        kind = gpu.name or "", gpu.memory_total_bytes or 0
        node = gpu.numa_node is None, gpu.numa_node or 0
        return gpu.index in unidentified, gpu.index in in_use, *kind, *node, gpu.index

    line = sorted(gpus, key=neighbours)
    starts = [sum(wish.ranks for wish in queue[:place]) for place in range(len(queue))]
    return {wish.name: tuple(line[start : start + wish.ranks]) for wish, start in zip(queue, starts)}


def positions(mask: int) -> list[int]:
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def added(one: Cost, two: Cost) -> Cost:
    """The cost of both; the worst links are held against one another, the worst of them first."""
    worst = tuple(sorted((*one[3], *two[3]), reverse=True))
    return (
        one[0] + two[0],
        one[1] + two[1],
        one[2] + two[2],
        worst,
        one[4] + two[4],
        one[5] + two[5],
        one[6] + two[6],
        one[7] + two[7],
        one[8] + two[8],
    )


def _best(board: _Board, everything: int, beginnings: Sequence[_Beginning], keep: int) -> list[_Beginning]:
    if len(beginnings) <= keep:
        return list(beginnings)
    limit = sorted(beginning.cost for beginning in beginnings)[keep - 1]
    sure = [beginning for beginning in beginnings if beginning.cost < limit]
    # What stays free is only worth a look among equals.
    equal = sorted(
        (beginning for beginning in beginnings if beginning.cost == limit),
        key=lambda one: (board.rest(everything & ~one.taken), [positions(mask) for mask in one.sets]),
    )
    return [*sure, *equal][:keep]


def _continued(board: _Board, everything: int, beginning: _Beginning, wish: Wish, alike: bool) -> Iterator[_Beginning]:
    """Every way to give the next instance its GPUs.

    An instance that is C(alike) to the one before it begins behind the first GPU of that: each division is looked at
    once and not in every order.
    """
    free = positions(everything & ~beginning.taken)
    if alike:
        first = positions(beginning.sets[-1])[0]
        behind = [place for place in free if place > first]
        free = behind if len(behind) >= wish.ranks else free
    for mask in _sets(board, free, wish.ranks):
        cost, pools = added(beginning.cost, board.cost(mask)), beginning.pools
        if pools:
            size = wish.pool_bytes_per_rank
            pools = tuple(before + size * ranks for before, ranks in zip(pools, board.ranks(mask)))
            cost = (*cost[:5], board.overflow(pools), *cost[6:])
        yield _Beginning(cost, beginning.taken | mask, (*beginning.sets, mask), pools)


def _sets(board: _Board, free: Sequence[int], ranks: int) -> Iterator[int]:
    if comb(len(free), ranks) <= _MOST_SETS:
        yield from _longer(board, free, sum(1 << place for place in free), 0, 0, ranks)
        return
    for seed in free:
        mask = 1 << seed
        while bin(mask).count("1") < ranks:
            mask |= min((1 << place for place in free if not mask >> place & 1), key=lambda bit: board.cost(mask | bit))
        yield mask


def _longer(board: _Board, free: Sequence[int], open_mask: int, mask: int, start: int, missing: int) -> Iterator[int]:
    """C(mask) with so many more of C(free), from C(start) on, in the order of itertools.combinations.

    Of GPUs that are alike the first are taken first; any other set is one of these under another name, and is left out
    where it begins to differ: of 16 alike GPUs there is one set of 8 and not 12,870.
    """
    if not missing:
        yield mask
        return
    for index in range(start, len(free) - missing + 1):
        place = free[index]
        if not board.twins[place] & open_mask & ~mask:
            yield from _longer(board, free, open_mask, mask | 1 << place, index + 1, missing - 1)
