# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server's check of host memory, played in every order in which the pools of several ranks can arrive.

Nothing here knows a formula. A rank does one step after the other: it checks a pool, which reads what is available and
divides it as its release does, then populates it, which takes it away. All interleavings of all ranks' steps are walked
(states that were seen are not walked twice), and a start is good when every check of it was passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

RESERVE = 10 * (1 << 30)
CHECK, POPULATE = "check", "populate"

Step = tuple[int, str, int]  # rank, what it does, which of its pools


@dataclass(frozen=True)
class Pools:
    """The pools of one rank in the order it builds them: what each asks for, and what it takes."""

    requested: tuple[int, ...]
    taken: tuple[int, ...]


def allowed(guard: str, available: int, ranks: int) -> int:
    """What one check allows a pool (memory_pool_host.py, pool_host/base.py C(host_memory_budget_bytes))."""
    free = available - RESERVE
    return free if guard == "A" else free // ranks


def play(guard: str, ranks: Sequence[Pools], available: int, order: Sequence[Step]) -> bool:
    """Whether every check of one order is passed."""
    for rank, action, pool in order:
        if action == CHECK and ranks[rank].requested[pool] > allowed(guard, available, len(ranks)):
            return False
        if action == POPULATE:
            available -= ranks[rank].taken[pool]
    return True


def book(ranks: Sequence[Pools], available: int, fraction: float) -> bool:
    """Guard D by a fraction: every rank reads before any pool is built, and books against its own reading."""
    for pools in ranks:
        budget = int((available - RESERVE) // len(ranks) * fraction)
        for requested in pools.requested:
            if requested > budget:
                return False
            budget -= requested
    return True


def orders(ranks: Sequence[Pools]) -> Iterator[tuple[Step, ...]]:
    """Every interleaving of the ranks' steps."""
    steps = [
        [(rank, action, pool) for pool in range(len(pools.requested)) for action in (CHECK, POPULATE)]
        for rank, pools in enumerate(ranks)
    ]

    def extend(done: list[int], so_far: list[Step]) -> Iterator[tuple[Step, ...]]:
        if len(so_far) == sum(len(one) for one in steps):
            yield tuple(so_far)
            return
        for rank, one in enumerate(steps):
            if done[rank] < len(one):
                so_far.append(one[done[rank]])
                done[rank] += 1
                yield from extend(done, so_far)
                done[rank] -= 1
                so_far.pop()

    yield from extend([0] * len(ranks), [])


def verdict(guard: str, ranks: Sequence[Pools], available: int) -> str:
    """C(passes) in all orders, C(refuses) in all, or C(depends_on_arrival_order)."""
    seen: dict[tuple[int, ...], tuple[bool, bool]] = {}

    def walk(done: tuple[int, ...], left: int) -> tuple[bool, bool]:
        """Whether some order from here on is good, and whether some is bad."""
        if done in seen:
            return seen[done]
        some_good, some_bad, ended = False, False, True
        for rank, pools in enumerate(ranks):
            pool, populates = divmod(done[rank], 2)
            if pool == len(pools.requested):
                continue
            ended = False
            after = (*done[:rank], done[rank] + 1, *done[rank + 1 :])
            if populates:
                good, bad = walk(after, left - pools.taken[pool])
            elif pools.requested[pool] > allowed(guard, left, len(ranks)):
                good, bad = False, True
            else:
                good, bad = walk(after, left)
            some_good, some_bad = some_good or good, some_bad or bad
        seen[done] = (True, False) if ended else (some_good, some_bad)
        return seen[done]

    good, bad = walk((0,) * len(ranks), available)
    if good:
        return "depends_on_arrival_order" if bad else "passes"
    return "refuses"
