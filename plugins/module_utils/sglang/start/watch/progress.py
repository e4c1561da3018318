# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast the ranks pin, and how long it will take. Pure.

The slowest rank decides: nothing that the others have done makes it faster. A rank is reckoned with its own speed, one
that has not begun with that of those that have, and ranks that wait for each other add up. Time that registering takes
once the bytes are there is added as soon as a pool of this start has shown it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    all_pinned,
    baseline_bytes,
    has_left_pools,
    is_filled,
    pinned_bytes,
    planned_bytes,
    target_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.readings import appended
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.speed import speed
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import RankState, StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.wide import counts_by_rank

# A rank that has done so little says nothing about its speed yet.
LEAST_SECONDS = 0.5


def with_samples(state: StartupState) -> StartupState:
    """What all ranks together have pinned by now."""
    pinned = pinned_bytes(state)
    if pinned is None:
        return state
    since = state.all_there_since
    if since is None and all_pinned(state):
        since = state.now
    return replace(state, samples=appended(state.samples, [(state.now, pinned)]), all_there_since=since)


def rank_rate(state: StartupState, rank: RankState) -> float | None:
    """Bytes a second that the rank pins now, None where that is not known or nothing is left to pin."""
    baseline = baseline_bytes(state, rank)
    if baseline is None or is_filled(state, rank) or has_left_pools(rank) or not rank.alive:
        return None
    return _speed_above(rank, baseline)


def _speed_above(rank: RankState, baseline: int) -> float | None:
    """The speed since it began to pin; the counter is followed from the last point that shows nothing of it."""
    begin = 0
    for index, (_at, size) in enumerate(rank.history):
        if size <= baseline:
            begin = index
    points = _without(rank.history[begin:], _pauses(rank))
    if len(points) < 2 or points[-1][0] - points[0][0] < LEAST_SECONDS:
        return None
    return speed(points)


def _pauses(rank: RankState) -> list[tuple[float, float]]:
    """When it registered a pool that was there, before it went on to the next: no bytes come then."""
    return [
        (pool.filled_at, following.announced_at)
        for pool, following in zip(rank.pools, rank.pools[1:])
        if pool.filled_at is not None
        and following.announced_at is not None
        and not following.after
        and pool.filled_at < following.announced_at
    ]


def _without(points: Sequence[tuple[float, int]], pauses: Sequence[tuple[float, float]]) -> Sequence[tuple[float, int]]:
    """The points on a clock that stands still in the pauses."""
    if not pauses:
        return points
    return [
        (at - sum(end - begin for begin, end in pauses if end <= at), size)
        for at, size in points
        if not any(begin < at < end for begin, end in pauses)
    ]


def rank_eta_seconds(state: StartupState, rank: RankState) -> float | None:
    """How long the rank will take to be done with its pools, 0 once it is, None where that is not known."""
    if has_left_pools(rank) or (rank.keeps_none and not rank.pools):
        return 0.0
    target = target_bytes(state, rank)
    if target is None or not rank.alive:
        return None
    left = max(0, target - (rank.pinned_bytes or 0))
    rate = rank_rate(state, rank) or _usual_rate(state)
    if left and not is_filled(state, rank):
        return None if rate is None else left / rate + _registering_seconds(state, rank, target)
    return _registering_seconds(state, rank, target)


def _usual_rate(state: StartupState) -> float | None:
    """The speed of those that pin, or that have pinned."""
    present = [rate for rate in (rank_rate(state, rank) for rank in state.ranks) if rate is not None]
    if present:
        return median(present)
    past: list[float] = []
    for rank in state.ranks:
        filled = [pool.filled_at for pool in rank.pools]
        began = rank.pools[0].announced_at if rank.pools else None
        ended = filled[-1] if filled else None
        if began is not None and ended is not None and ended > began and rank.pinned_bytes:
            past.append(rank.pinned_bytes / (ended - began))
    return median(past) if past else None


def _registering_seconds(state: StartupState, rank: RankState, target: int) -> float:
    """What is left of registering: what it took for each byte of the pools that are done, times what is not done."""
    each = _registering_seconds_per_byte(state)
    if each is None:
        return 0.0
    done = sum(pool.bytes for pool in rank.pools[:-1] if pool.filled_at is not None)
    left = each * max(0, target - done)
    last = rank.pools[-1] if rank.pools else None
    if last is not None and last.filled_at is not None:
        left -= max(0.0, state.now - last.filled_at)
    return max(0.0, left)


def _registering_seconds_per_byte(state: StartupState) -> float | None:
    found: list[float] = []
    for rank in state.ranks:
        nexts = [None if pool.after else pool.announced_at for pool in rank.pools[1:]] + [rank.pools_ended_at]
        for pool, ended in zip(rank.pools, nexts):
            if pool.filled_at is not None and ended is not None and pool.bytes and not pool.after:
                found.append(max(0.0, ended - pool.filled_at) / pool.bytes)
    return median(found) if found else None


def rate_bytes_per_second(state: StartupState) -> float | None:
    """What all ranks pin together in a second now, None where that is not known or nothing is left to pin."""
    if counts_by_rank(state):
        rates = [rate for rate in (rank_rate(state, rank) for rank in state.ranks) if rate is not None]
        return sum(rates) if rates else None
    return None if _wide_left(state) == 0 else speed(state.samples)


def _wide_left(state: StartupState) -> int | None:
    pinned, planned = pinned_bytes(state), planned_bytes(state)
    return None if pinned is None or planned is None else max(0, planned - pinned)


def eta_seconds(state: StartupState) -> float | None:
    """How long until the last rank is done with its pools, None before one has begun and where it is not known."""
    if not counts_by_rank(state):
        left, rate = _wide_left(state), speed(state.samples)
        return None if left is None or rate is None else left / rate
    if not any(rank.baselines for rank in state.ranks):
        return None
    each = [rank_eta_seconds(state, rank) for rank in state.ranks]
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return None
    missing = (state.expected.ranks or 0) - len(state.ranks)
    if missing > 0 and state.expected.bytes_total:
        rate = _usual_rate(state)
        known.append(max(state.expected.bytes_by_stage) / rate if rate else 0.0)
    return max([*known, _one_after_the_other(state)], default=None)


def _one_after_the_other(state: StartupState) -> float:
    """The time left where ranks wait for others to be done: as many at a time as pin now, until all of them have.

    That some wait is known once one is done while another has not begun; 0 before.
    """
    waiting = [rank for rank in state.ranks if not rank.baselines and not has_left_pools(rank) and not rank.keeps_none]
    if not waiting or not any(rank.pools and has_left_pools(rank) for rank in state.ranks):
        return 0.0
    pinning = [rank for rank in state.ranks if rank.baselines and not has_left_pools(rank)]
    present = max((rank_eta_seconds(state, rank) or 0.0 for rank in pinning), default=0.0)
    rounds = math.ceil(len(waiting) / max(1, len(pinning)))
    return present + rounds * max(rank_eta_seconds(state, rank) or 0.0 for rank in waiting)
