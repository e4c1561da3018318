# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the processes show: which process is which rank, and its counter over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import COUNTERS, RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    RankState,
    StartupState,
    with_rank,
)

# What is kept of the past: enough to see a change of speed, and to know what a rank held when it announced a pool.
HISTORY_SECONDS = 120.0
HISTORY_POINTS = 480
_GONE = ("Z", "X", "x")


def counter_of(state: StartupState, rank: RankState) -> str:
    """Where the pinned bytes of the rank show."""
    return rank.counter or state.expected.meter


def raw_bytes(state: StartupState, rank: RankState) -> int | None:
    """What its counter shows, with what lay there before."""
    return None if rank.last is None else rank.last.pinned_bytes(counter_of(state, rank))


def with_readings(state: StartupState, seen: Observation, before: float | None) -> StartupState:
    """The ranks as they were read; C(before): when they were read the last time, UNIX seconds of the node."""
    for label in dict.fromkeys(one.rank for one in seen.ranks):
        rank = state.rank(label) or RankState(rank=label)
        reading = _of_rank([one for one in seen.ranks if one.rank == label], rank)
        if reading.alive and reading.state not in _GONE:
            if _is_another(rank, reading):
                state = replace(state, replaced=tuple(dict.fromkeys((*state.replaced, label))))
                rank = RankState(rank=label, stage=rank.stage, stage_ended=rank.stage_ended, memory=rank.memory)
            rank = replace(
                rank,
                pid=reading.pid,
                alive=True,
                state=reading.state,
                start_ticks=reading.start_ticks,
                first=rank.first or reading,
                earlier=rank.last,
                last=reading,
            )
            rank = replace(rank, history=_history(state, rank, seen, before))
        elif rank.pid in (None, reading.pid):
            code = rank.exit_code if reading.exit_code is None else reading.exit_code
            rank = replace(rank, pid=reading.pid, alive=False, state=reading.state, exit_code=code)
        state = with_rank(state, rank)
    return state


def _of_rank(readings: list[RankReading], rank: RankState) -> RankReading:
    """The rank itself among the processes of its name: what it forks, such as compilers, inherits the name."""
    return min(
        readings,
        key=lambda one: (one.pid != rank.pid, not one.alive, one.start_ticks is None, one.start_ticks or 0, one.pid),
    )


def _is_another(rank: RankState, reading: RankReading) -> bool:
    """Whether another process took the rank's place. A PID that only a line told may be of another namespace."""
    if rank.last is None or rank.start_ticks is None or reading.start_ticks is None:
        return False
    return (rank.pid, rank.start_ticks) != (reading.pid, reading.start_ticks)


def _history(
    state: StartupState, rank: RankState, seen: Observation, before: float | None
) -> tuple[tuple[float, int], ...]:
    """What the counter showed since the last look, behind what is known of before."""
    counter = counter_of(state, rank)
    points: list[tuple[float, int]] = []
    if state.clock_offset is not None and seen.read_at is not None and seen.meter in (None, counter):
        since = seen.read_at - HISTORY_SECONDS if before is None else before
        for sample in sorted(seen.samples, key=lambda one: one.at):
            size = dict(sample.rank_bytes).get(rank.rank)
            # Around a jump of the clock only what lies between the two readings can be placed.
            if size is not None and since < sample.at < seen.read_at:
                points.append((sample.at + state.clock_offset, size))
    raw = raw_bytes(state, rank)
    if raw is not None:
        points.append((seen.at if state.clock_offset is None or seen.read_at is None else _at(state, seen), raw))
    return appended(rank.history, points)


def _at(state: StartupState, seen: Observation) -> float:
    return (seen.read_at or 0.0) + (state.clock_offset or 0.0)


def appended(
    history: tuple[tuple[float, int], ...], points: Iterable[tuple[float, int]]
) -> tuple[tuple[float, int], ...]:
    """The history with newer points; what is older than the newest one, or long ago, is left out."""
    kept = list(history)
    for point in points:
        if not kept or point[0] > kept[-1][0]:
            kept.append(point)
    since = kept[-1][0] - HISTORY_SECONDS if kept else 0.0
    return tuple(point for point in kept[-HISTORY_POINTS:] if point[0] >= since)


def value_at(history: tuple[tuple[float, int], ...], at: float | None) -> int | None:
    """What the history showed last by a moment, or shows now if the moment is not known; None if it begins later."""
    return next((size for when, size in reversed(history) if at is None or when <= at), None)


def with_fitting_counters(state: StartupState, least_bytes: int) -> StartupState:
    """A rank whose pools grow by another counter than the expected one is metered by that.

    SGLang takes ordinary shared memory where huge pages or private memory are refused (mmap_allocator.py, alloc_mmap),
    and an environment variable that no plan knows of can turn it to private memory.
    """
    if state.expected.meter not in COUNTERS:
        return state
    for rank in state.ranks:
        if rank.last is None or not rank.baselines or rank.stage != "host_pool":
            continue
        grown = {name: _growth(rank, name) for name in COUNTERS}
        present = counter_of(state, rank)
        best = max(COUNTERS, key=lambda name: grown[name] or 0)
        size = grown[best] or 0
        enough = max(least_bytes, rank.announced_bytes // 4)
        if best != present and size >= enough and (grown[present] or 0) < min(least_bytes, size // 4):
            state = with_rank(state, replace(rank, counter=best, history=()))
    return state


def _growth(rank: RankState, counter: str) -> int | None:
    now = None if rank.last is None else rank.last.pinned_bytes(counter)
    before = dict(rank.baselines).get(counter)
    return None if now is None or before is None else now - before
