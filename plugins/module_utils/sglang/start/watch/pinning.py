# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bytes that the ranks pin: what lay there before, what is there, what is to come. Pure."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, GIB, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import COUNTERS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import (
    STAGES,
    LogEvent,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.readings import (
    counter_of,
    raw_bytes,
    value_at,
    with_fitting_counters,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    Pool,
    RankState,
    Span,
    StartupState,
    log_is_trusted,
    steady_time,
    with_rank,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.wide import (
    counts_by_rank,
    wide_pinned_bytes,
)

# Pinned so far that only rounding is missing.
COMPLETE = 0.999
# Lines print sizes with two decimals.
ROUNDING_BYTES = GB // 100
# A busy journal stamps a line so much after it was printed.
STAMPED_LATE_SECONDS = 3.0
# Without a line that says so, a rank counts as pinning once this much of its pools (and so many bytes) is there.
# Private memory also holds much else, so there it takes more, and a log that is known to be broken.
INFERRED = {"shmem": (0.05, 64 * MIB), "hugetlb": (0.05, 64 * MIB), "anon": (0.5, 2 * GIB)}


def with_pinned(state: StartupState) -> StartupState:
    """The pinned bytes of each rank after a reading."""
    state = with_fitting_counters(state, INFERRED["shmem"][1])
    for rank in state.ranks:
        raw, baseline = raw_bytes(state, rank), baseline_bytes(state, rank)
        if raw is not None and baseline is not None and rank.alive:
            state = with_rank(state, _filled(state, replace(rank, pinned_bytes=max(0, raw - baseline))))
    return state


def baseline_bytes(state: StartupState, rank: RankState) -> int | None:
    """What lay in the rank's counter before it pinned, None before that."""
    return dict(rank.baselines).get(counter_of(state, rank))


def _filled(state: StartupState, rank: RankState) -> RankState:
    """Notes when the bytes of each announced pool were there."""
    pools: list[Pool] = []
    upto = 0
    baseline = baseline_bytes(state, rank) or 0
    for pool in rank.pools:
        upto += pool.bytes
        if pool.filled_at is None and (rank.pinned_bytes or 0) >= upto * COMPLETE - ROUNDING_BYTES:
            least = baseline + upto * COMPLETE - ROUNDING_BYTES
            reached = next((at for at, size in rank.history if size >= least), state.now)
            pool = replace(pool, filled_at=max(reached, pool.announced_at or reached))
        pools.append(pool)
    return replace(rank, pools=tuple(pools))


def with_inferred(state: StartupState) -> StartupState:
    """Bytes alone, for releases whose lines are not known and for lines that were lost."""
    if state.expected.meter not in COUNTERS:
        return state
    for rank in state.ranks:
        target = state.expected.bytes_of(rank.rank)
        counter, raw = counter_of(state, rank), raw_bytes(state, rank)
        first = None if rank.first is None else rank.first.pinned_bytes(counter)
        before = rank.level_bytes if rank.level_bytes is not None else first
        if not target or raw is None or before is None or rank.baselines:
            continue
        if STAGES.index(rank.stage) >= STAGES.index("host_pool") or (counter == "anon" and log_is_trusted(state)):
            continue
        share, least = INFERRED[counter]
        if raw - before >= max(least, share * target):
            span = Span("host_pool", rank.rank, growth_began_at(state, rank, before), clock=state.clock_jumps)
            state = replace(state, spans=(*state.spans, replace(span, by="meter")))
            rank = replace(rank, stage="host_pool", stage_ended=False, inferred=True, baselines=((counter, before),))
            state = with_rank(state, _filled(state, replace(rank, pinned_bytes=max(0, raw - before))))
    return state


def growth_began_at(state: StartupState, rank: RankState, before: int | None = None) -> float | None:
    """When the counter began to grow, UNIX seconds of the node. C(before): what lay there, or what is known of it."""
    level = baseline_bytes(state, rank) if before is None else before
    if level is None or state.clock_offset is None:
        return None
    place = next(
        (place for place, (_at, size) in reversed(tuple(enumerate(rank.history))) if size <= level + MIB), None
    )
    if place is None:
        return None
    began = rank.history[place][0]
    if place + 2 < len(rank.history):
        # Between two looks: as far back as its speed after them says.
        (first_at, first), (next_at, more) = rank.history[place + 1], rank.history[place + 2]
        if more > first:
            began = max(began, first_at - (first - level) * (next_at - first_at) / (more - first))
    return began - state.clock_offset


def with_pool(state: StartupState, rank: RankState, event: LogEvent) -> RankState:
    """The rank after a line about one of its pools."""
    after = event.after_allocating
    at = steady_time(state, event.timestamp)
    pool = Pool(event.label or "kv", event.bytes or 0, event.tokens, after, state.now if at is None else at)
    if not rank.baselines:
        rank = replace(rank, baselines=_baselines(state, rank, pool, at))
    elif rank.inferred:
        # The first reading of a watcher that came late may have shown some of the pool.
        told, guessed = dict(_baselines(state, rank, pool, at)), dict(rank.baselines)
        least = {name: min(size, guessed.get(name, size)) for name, size in told.items()}
        rank = replace(rank, baselines=tuple(sorted({**guessed, **least}.items())))
    rank = replace(rank, pools=(*rank.pools, pool), pools_ended_at=None, inferred=False)
    raw, baseline = raw_bytes(state, rank), baseline_bytes(state, rank)
    if raw is None or baseline is None:
        return rank
    return _filled(state, replace(rank, pinned_bytes=max(0, raw - baseline)))


def _baselines(state: StartupState, rank: RankState, pool: Pool, at: float | None) -> tuple[tuple[str, int], ...]:
    """What the rank held by each counter just before it began to pin."""
    present = counter_of(state, rank)
    found: dict[str, int] = {}
    fresh = at is None or not rank.history or at >= rank.history[-1][0]
    for name in COUNTERS:
        # Of the other counters there are only the readings of the last two looks.
        reading = rank.last if fresh else rank.earlier
        size = None if reading is None else reading.pinned_bytes(name)
        if size is not None:
            found[name] = size
    before = _before(state, rank, pool, at)
    if before is None:
        found.pop(present, None)
    else:
        found[present] = before
    return tuple(sorted(found.items()))


def _before(state: StartupState, rank: RankState, pool: Pool, at: float | None) -> int | None:
    counter = counter_of(state, rank)
    shown = value_at(rank.history, at)
    if shown is not None and not pool.after:
        return _without_early_bytes(rank, pool, at, shown, counter)
    if shown is not None:
        # The pool is there already, or so much of it as the reading has seen; of the next one nothing counts.
        recent = shown if at is None else value_at(rank.history, at - STAMPED_LATE_SECONDS)
        least = 0 if recent is None else max(0, recent - pool.bytes)
        return least if rank.level_bytes is None else max(min(rank.level_bytes, shown), least)
    if counter != "anon":
        # A watcher that comes late: nothing else of that size is shared.
        return 0
    now = raw_bytes(state, rank)
    return None if now is None else max(0, now - (state.expected.bytes_of(rank.rank) or pool.bytes))


def level_by(rank: RankState, at: float | None) -> int | None:
    """What lay in the counter when a stage before pinning changed; None where no reading is as old."""
    early = None if at is None else value_at(rank.history, at - STAMPED_LATE_SECONDS)
    level = value_at(rank.history, at) if early is None else early
    return rank.level_bytes if level is None else level


def _without_early_bytes(rank: RankState, pool: Pool, at: float | None, shown: int, counter: str) -> int:
    """What was there before, where the log stamped the line late: by then some of the pool is there already.

    Nothing but pools makes shared memory grow much after the last stage before them; private memory grows for other
    reasons too, so there it is only what came just before the line.
    """
    recent = None if at is None else value_at(rank.history, at - STAMPED_LATE_SECONDS)
    before = recent if counter == "anon" else rank.level_bytes
    if before is None or not INFERRED["shmem"][1] <= shown - before <= pool.bytes + ROUNDING_BYTES:
        return shown
    return before


def target_bytes(state: StartupState, rank: RankState) -> int | None:
    """What the rank will pin: the plan, or what the rank announced where that is more (printed to two decimals)."""
    planned = 0 if rank.keeps_none else state.expected.bytes_of(rank.rank)
    announced = rank.announced_bytes
    return (announced if announced > planned + ROUNDING_BYTES * max(1, len(rank.pools)) else planned) or None


def pinned_bytes(state: StartupState) -> int | None:
    """Pinned by all ranks together, None while nothing is known of it."""
    if not counts_by_rank(state):
        return wide_pinned_bytes(state)
    known = [rank.pinned_bytes for rank in state.ranks if rank.pinned_bytes is not None]
    return sum(known) if known else None


def planned_bytes(state: StartupState) -> int | None:
    """What all ranks together will pin."""
    targets = [target_bytes(state, rank) for rank in state.ranks]
    known = [one for one in targets if one is not None]
    seen = sum(state.expected.bytes_of(rank.rank) for rank in state.ranks)
    return sum(known) + max(0, (state.expected.bytes_total or 0) - seen) or None


def all_pinned(state: StartupState) -> bool:
    """Whether the bytes of all ranks are there; memory that is there may still have to be registered."""
    pinned, planned = pinned_bytes(state), planned_bytes(state)
    return bool(planned) and pinned is not None and pinned >= COMPLETE * (planned or 0)


def is_filled(state: StartupState, rank: RankState) -> bool:
    """Whether the bytes of one rank are there."""
    target = target_bytes(state, rank)
    if target is None:
        return rank.keeps_none
    return rank.pinned_bytes is not None and rank.pinned_bytes >= COMPLETE * target


def has_left_pools(rank: RankState) -> bool:
    """Whether its lines say that its host pools are done: the line of their end, or a later stage."""
    later = STAGES.index(rank.stage) > STAGES.index("host_pool")
    return later or (rank.stage == "host_pool" and rank.stage_ended)
