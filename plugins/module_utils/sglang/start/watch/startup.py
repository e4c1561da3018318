# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One start of an instance as a state machine: C(advance(state, observation) -> state), pure.

Stages are timed by the journal's own timestamps, so they are measured however seldom one looks. Two clocks never mix:
C(at) is the waiter's monotonic clock, C(timestamp), C(began) and C(ended) are UNIX seconds of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import (
    SOLE_RANK,
    STAGES,
    LogEvent,
    is_rank_scoped,
    pipeline_stage,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus

# Lines after which the server cannot come up any more. Other failures count once it has died of them.
FATAL = frozenset(
    (
        "host_memory_guard",
        "host_pool_smaller_than_device",
        "registration_failed",
        "kv_pool_too_small",
        "scheduler_died",
        "warm_up_failed",
        "bad_argument",
        "oom_killer",
        "scheduler_exception",
        "sigquit",
    )
)
# A dying server is given this long to say why and with what status: while booting its main process looks after its
# ranks every 5 s (entrypoints/engine.py, _wait_for_scheduler_ready).
DEATH_GRACE_SECONDS = 6.0
# The last lines of a process may reach the journal after systemd has seen it die.
JOURNAL_GRACE_SECONDS = 1.0
# In these stages SGLang neither prints lines nor moves bytes for long, and bounds itself: graphs are compiled and
# captured, memory that is already there is registered, the warm-up has 120 s + 600 s (entrypoints/http_server.py).
QUIET_SECONDS = {"capture": 900.0, "registering": 600.0, "warm_up": 720.0}
RATE_WINDOW_SECONDS = 20.0
# Growth below this is noise of a process that does nothing.
PROGRESS_BYTES = MIB
# Pinned so far that only rounding is missing.
COMPLETE = 0.999
# Without a line that says so, a rank counts as pinning once this much of its pools (and 64 MiB) is there.
INFERRED_SHARE = 0.05
INFERRED_BYTES = 64 * MIB


@dataclass(frozen=True)
class Expectation:
    """What is waited for. C(bytes_by_stage): what each rank of a pipeline stage will pin, a number for each stage.

    It is empty where that is not known or not wanted. All stages have equally many ranks.
    """

    ranks: int | None = None
    bytes_by_stage: tuple[int, ...] = ()
    meter: str = "shmem"
    timeout_seconds: float = 3600.0
    stall_seconds: float = 120.0

    def bytes_of(self, rank: str) -> int:
        """What a rank will pin, 0 where that is not known."""
        stage = pipeline_stage(rank)
        return self.bytes_by_stage[stage] if stage < len(self.bytes_by_stage) else 0

    @property
    def bytes_total(self) -> int | None:
        """What all ranks together will pin."""
        if not self.ranks or not self.bytes_by_stage:
            return None
        return sum(self.bytes_by_stage) * self.ranks // len(self.bytes_by_stage) or None


@dataclass(frozen=True)
class RankState:
    """One rank.

    C(raw_bytes) is the last reading of the meter, C(earlier_bytes) the one before, C(baseline_bytes) what lay there
    before pinning began, C(announced_bytes) the sum of the pools that it said it would allocate.
    C(memory): what its lines said was free of its GPU, by the end of what (see C(_with_memory)).
    """

    rank: str
    pid: int | None = None
    alive: bool = True
    exit_code: int | None = None
    state: str | None = None
    stage: str = "boot"
    stage_ended: bool = False
    first_bytes: int | None = None
    earlier_bytes: int | None = None
    raw_bytes: int | None = None
    baseline_bytes: int | None = None
    pinned_bytes: int | None = None
    announced_bytes: int = 0
    start_ticks: int | None = None
    memory: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Span:
    """A stage of one rank, or of the server (C(rank) None)."""

    stage: str
    rank: str | None
    began: float | None
    ended: float | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class StartupState:
    """Everything that is known of a start. C(verdict): ready, failed, stalled or None; C(reason) says by what rule."""

    expected: Expectation
    began_at: float
    now: float
    unit: UnitStatus | None = None
    invocation_id: str | None = None
    n_restarts: int | None = None
    ranks: tuple[RankState, ...] = ()
    spans: tuple[Span, ...] = ()
    troubles: tuple[LogEvent, ...] = ()
    stage: str = "boot"
    max_total_num_tokens: int | None = None
    available_at_end_bytes: int | None = None
    mem_fraction_static: float | None = None
    host_tokens: int | None = None
    host_available_bytes: int | None = None
    read_at: float | None = None
    first_read_at: float | None = None
    first_available_bytes: int | None = None
    baseline_available_bytes: int | None = None
    samples: tuple[tuple[float, int], ...] = ()
    high_water: tuple[int, int, int] = (0, 0, 0)
    last_progress_at: float = 0.0
    dying_since: float | None = None
    ready_at: float | None = None
    tail: tuple[str, ...] = ()
    verdict: str | None = None
    reason: str | None = None

    @property
    def elapsed_seconds(self) -> float:
        return self.now - self.began_at

    def rank(self, label: str) -> RankState | None:
        return next((one for one in self.ranks if one.rank == label), None)


def initial(expected: Expectation, at: float, invocation_id: str | None = None) -> StartupState:
    """Nothing seen yet; C(invocation_id) None means the first one that is seen."""
    return StartupState(expected=expected, began_at=at, now=at, invocation_id=invocation_id, last_progress_at=at)


def advance(state: StartupState, seen: Observation) -> StartupState:
    """The state after one more look. A verdict is final."""
    if state.verdict is not None:
        return state
    foreign = state.invocation_id is not None and seen.unit.invocation_id not in (None, state.invocation_id)
    state = replace(
        state,
        now=seen.at,
        unit=seen.unit,
        invocation_id=state.invocation_id or seen.unit.invocation_id,
        n_restarts=seen.unit.n_restarts if state.n_restarts is None else state.n_restarts,
        read_at=seen.read_at,
        first_read_at=seen.read_at if state.first_read_at is None else state.first_read_at,
        host_available_bytes=seen.host.memory_available_bytes,
        first_available_bytes=(
            seen.host.memory_available_bytes if state.first_available_bytes is None else state.first_available_bytes
        ),
        tail=(state.tail + seen.tail)[-200:],
    )
    if state.stage == "boot" and seen.started_at is not None and not span_of(state, "boot", None) and not foreign:
        state = _with_span(state, Span("boot", None, seen.started_at))
    if not foreign:
        state = _with_readings(state, seen.ranks)
    for event in seen.events:
        state = _with_event(state, event)
    state = _with_inferred(state)
    state = replace(state, stage=_overall_stage(state))
    state = _with_samples(state, seen)
    return _with_verdict(state, seen, foreign)


# Ranks and their bytes


def natural_order(label: str) -> tuple[tuple[str, int], ...]:
    """C(DP0 TP10) after C(DP0 TP9)."""
    parts = []
    for part in label.split():
        letters = part.rstrip("0123456789")
        parts.append((letters, int(part[len(letters) :] or 0)))
    return tuple(parts)


def _with_rank(state: StartupState, rank: RankState) -> StartupState:
    others = [one for one in state.ranks if one.rank != rank.rank]
    return replace(state, ranks=tuple(sorted([*others, rank], key=lambda one: natural_order(one.rank))))


def _with_readings(state: StartupState, readings: Iterable[RankReading]) -> StartupState:
    for reading in readings:
        rank = state.rank(reading.rank) or RankState(rank=reading.rank)
        if reading.alive:
            raw = reading.pinned_bytes(state.expected.meter)
            rank = replace(rank, pid=reading.pid, alive=True, state=reading.state, start_ticks=reading.start_ticks)
            if raw is not None:
                first = raw if rank.first_bytes is None else rank.first_bytes
                rank = replace(rank, first_bytes=first, earlier_bytes=rank.raw_bytes, raw_bytes=raw)
                if rank.baseline_bytes is not None:
                    rank = replace(rank, pinned_bytes=max(0, raw - rank.baseline_bytes))
        elif rank.pid in (None, reading.pid):
            rank = replace(
                rank,
                pid=reading.pid,
                alive=False,
                state=reading.state,
                exit_code=rank.exit_code if reading.exit_code is None else reading.exit_code,
            )
        state = _with_rank(state, rank)
    return state


def _with_inferred(state: StartupState) -> StartupState:
    """Bytes alone, for releases whose lines are not known and for lines that were lost."""
    if state.expected.meter not in ("shmem", "hugetlb"):
        return state
    for rank in state.ranks:
        target = state.expected.bytes_of(rank.rank)
        if not target or STAGES.index(rank.stage) >= STAGES.index("host_pool") or rank.raw_bytes is None:
            continue
        grown = rank.raw_bytes - (rank.first_bytes or 0)
        if grown >= max(INFERRED_BYTES, INFERRED_SHARE * target):
            state = _with_rank(
                state, replace(rank, stage="host_pool", baseline_bytes=rank.first_bytes, pinned_bytes=grown)
            )
    return state


def _baseline(state: StartupState, rank: RankState, announced_at: float | None) -> int:
    """What the rank held just before it began to pin.

    The last reading from before its announcement. There is none for a watcher that comes late: then all shared memory
    counts as pinned, and of private memory as much as is to be pinned.
    """
    read_at = state.read_at
    fresh = announced_at is None or read_at is None or announced_at > read_at
    before = rank.raw_bytes if fresh else rank.earlier_bytes
    if before is not None:
        return before
    if state.expected.meter == "anon" and rank.raw_bytes is not None:
        return max(0, rank.raw_bytes - (target_bytes(state, rank) or 0))
    return 0


def target_bytes(state: StartupState, rank: RankState) -> int | None:
    """What the rank will pin: the plan, or what the rank announced where that is more (printed to two decimals)."""
    planned = state.expected.bytes_of(rank.rank)
    announced = rank.announced_bytes
    return (announced if announced > planned + GB // 100 else planned) or None


def pinned_bytes(state: StartupState) -> int | None:
    """Pinned by all ranks together, None while nothing is known of it."""
    if state.expected.meter == "available":
        if state.baseline_available_bytes is None or state.host_available_bytes is None:
            return None
        return max(0, state.baseline_available_bytes - state.host_available_bytes)
    known = [rank.pinned_bytes for rank in state.ranks if rank.pinned_bytes is not None]
    return sum(known) if known else None


def planned_bytes(state: StartupState) -> int | None:
    """What all ranks together will pin."""
    targets = [target_bytes(state, rank) for rank in state.ranks]
    known = [one for one in targets if one is not None]
    seen = sum(state.expected.bytes_of(rank.rank) for rank in state.ranks)
    return sum(known) + max(0, (state.expected.bytes_total or 0) - seen) or None


def _before(one: float | None, other: float | None) -> bool:
    """Whether both are known and the first is earlier."""
    return one is not None and other is not None and one < other


def all_pinned(state: StartupState) -> bool:
    pinned, planned = pinned_bytes(state), planned_bytes(state)
    return bool(planned) and pinned is not None and pinned >= COMPLETE * (planned or 0)


# Lines


def span_of(state: StartupState, stage: str, rank: str | None) -> Span | None:
    return next((one for one in state.spans if one.stage == stage and one.rank == rank), None)


def _with_span(state: StartupState, span: Span) -> StartupState:
    others = [one for one in state.spans if (one.stage, one.rank) != (span.stage, span.rank)]
    return replace(state, spans=(*others, span))


def _opened(state: StartupState, stage: str, rank: str | None, when: float | None) -> StartupState:
    """Begins a stage; whatever the same rank was in before ends with it."""
    for span in state.spans:
        if span.rank == rank and span.stage != stage and span.ended is None:
            state = _with_span(state, replace(span, ended=when))
    existing = span_of(state, stage, rank)
    return _with_span(state, replace(existing, ended=None) if existing else Span(stage, rank, when))


def _closed(state: StartupState, stage: str, rank: str | None, when: float | None) -> StartupState:
    existing = span_of(state, stage, rank)
    return _with_span(state, replace(existing, ended=when)) if existing else state


def _with_event(state: StartupState, event: LogEvent) -> StartupState:
    if event.kind in ("failure", "exception", "consequence"):
        return replace(state, troubles=(*state.troubles, event))
    if event.kind == "settings":
        return replace(state, mem_fraction_static=event.value("mem_fraction_static"))
    if event.kind == "capacity":
        return replace(state, max_total_num_tokens=event.tokens, available_at_end_bytes=event.value("available_bytes"))
    if event.kind == "ready":
        state = _all_closed(state, event.timestamp)
        return replace(state, ready_at=event.timestamp if event.timestamp is not None else state.now)
    if event.stage == "warm_up":
        # Said by the main process when every rank has reported, so every rank has left its stages.
        if span_of(state, "warm_up", None) is None:
            state = _all_closed(state, event.timestamp)
            state = _with_span(state, Span("warm_up", None, event.timestamp))
        ranks = tuple(replace(rank, stage="warm_up", stage_ended=False) for rank in state.ranks)
        return replace(state, ranks=ranks, stage="warm_up")
    if not is_rank_scoped(event) or event.stage is None:
        return state
    return _with_rank_event(state, event, event.rank or SOLE_RANK, event.stage)


def _all_closed(state: StartupState, when: float | None) -> StartupState:
    for span in state.spans:
        if span.ended is None:
            state = _with_span(state, replace(span, ended=when))
    return state


def _with_rank_event(state: StartupState, event: LogEvent, label: str, stage: str) -> StartupState:
    rank = state.rank(label) or RankState(rank=label)
    if event.pid is not None and rank.pid is None:
        rank = replace(rank, pid=event.pid)
    rank = _with_memory(rank, event, stage)
    when = event.timestamp
    if event.kind == "stage_begin":
        state = _opened(state, stage, label, when)
        rank = replace(rank, stage=stage, stage_ended=False)
        if stage == "load":
            # The server has booted when its last rank begins to load.
            state = _closed(state, "boot", None, when)
        if stage == "host_pool":
            rank = replace(rank, announced_bytes=rank.announced_bytes + (event.bytes or 0))
            if rank.baseline_bytes is None:
                baseline = _baseline(state, rank, when)
                pinned = None if rank.raw_bytes is None else max(0, rank.raw_bytes - baseline)
                rank = replace(rank, baseline_bytes=baseline, pinned_bytes=pinned)
            if event.label == "kv" and event.tokens is not None:
                state = replace(state, host_tokens=event.tokens)
            if state.baseline_available_bytes is None and not _before(when, state.first_read_at):
                state = replace(state, baseline_available_bytes=state.first_available_bytes)
    elif event.kind == "stage_end":
        if stage != "boot":  # modules are imported after the collectives are up; booting ends where loading begins
            state = _closed(state, stage, label, when)
        rank = replace(rank, stage=stage, stage_ended=True)
        if stage == "load":
            state = _with_bytes(state, "load", label, event.bytes)
            state = _opened(state, "device_pool", label, when)
            rank = replace(rank, stage="device_pool", stage_ended=False)
    elif stage == "device_pool":
        state = _with_bytes(state, stage, label, event.bytes)
    return _with_rank(state, rank)


def _with_memory(rank: RankState, event: LogEvent, stage: str) -> RankState:
    """What the line says is free of the rank's GPU.

    A draft loads and captures after the target, or before its pools, by the release. Before loading is what the first
    line says, after loading what the last one before any pool says, after the pools and the graphs what the last says.
    """
    available = event.value("available_bytes")
    known = dict(rank.memory)
    name = {"load": "after_load", "device_pool": "after_pool", "capture": "after_capture"}.get(stage)
    if event.kind == "stage_begin" and stage == "load":
        name = "before_load"
    elif event.kind != "stage_end":
        return rank
    pools_seen = "after_pool" in known
    if available is None or name is None or (name == "before_load" and name in known):
        return rank
    if name == "after_load" and pools_seen:
        return rank
    return replace(rank, memory=tuple(sorted({**known, name: int(available)}.items())))


def _with_bytes(state: StartupState, stage: str, rank: str | None, size: int | None) -> StartupState:
    span = span_of(state, stage, rank)
    if span is None or size is None:
        return state
    return _with_span(state, replace(span, bytes=(span.bytes or 0) + size))


def _overall_stage(state: StartupState) -> str:
    """The stage of the slowest rank; the server's own stages come after all of them."""
    if state.ready_at is not None:
        return "ready"
    if state.stage == "warm_up":
        return "warm_up"
    if not state.ranks or len(state.ranks) < (state.expected.ranks or 0):
        return "boot"
    return min((rank.stage for rank in state.ranks), key=STAGES.index)


# Progress and verdict


def _with_samples(state: StartupState, seen: Observation) -> StartupState:
    pinned = pinned_bytes(state)
    samples = state.samples
    if pinned is not None and state.stage == "host_pool":
        kept = [one for one in samples if one[0] >= seen.at - RATE_WINDOW_SECONDS]
        samples = (*kept, (seen.at, pinned))
    reading = (pinned or 0, seen.activity.resident_bytes, seen.activity.read_bytes)
    moved = any(new > old + PROGRESS_BYTES for new, old in zip(reading, state.high_water))
    high_water = (
        max(reading[0], state.high_water[0]),
        max(reading[1], state.high_water[1]),
        max(reading[2], state.high_water[2]),
    )
    if not (moved or seen.lines or seen.events):
        return replace(state, samples=samples)
    return replace(state, samples=samples, high_water=high_water, last_progress_at=seen.at)


def quiet_limit_seconds(state: StartupState) -> float:
    """How long nothing may happen in the present stage."""
    stage = "registering" if state.stage == "host_pool" and all_pinned(state) else state.stage
    return max(state.expected.stall_seconds, QUIET_SECONDS.get(stage, 0.0))


def dead_ranks(state: StartupState) -> tuple[RankState, ...]:
    return tuple(rank for rank in state.ranks if not rank.alive)


def _is_dying(state: StartupState) -> bool:
    fatal = any(
        event.label in FATAL or (event.label == "watchdog_timeout" and "soft=True" not in event.text)
        for event in state.troubles
        if event.kind in ("failure", "consequence")
    )
    leaving = state.unit is not None and state.unit.active_state == "deactivating"
    return fatal or leaving or bool(dead_ranks(state))


def _failed(state: StartupState, reason: str) -> StartupState:
    return replace(state, verdict="failed", reason=reason)


def _knows_cause(state: StartupState) -> bool:
    return any(rank.exit_code is not None for rank in dead_ranks(state)) or any(
        event.value("exit_code") is not None for event in state.troubles
    )


def _with_verdict(state: StartupState, seen: Observation, foreign: bool) -> StartupState:
    unit = seen.unit
    if unit.load_state == "not-found":
        return _failed(state, "unit_not_found")
    if seen.more and state.ready_at is None:
        return state
    if foreign or unit.n_restarts > (state.n_restarts or 0):
        return _failed(state, "restarted_meanwhile")
    if unit.sub_state == "auto-restart" or unit.active_state in ("failed", "inactive"):
        since = seen.at if state.dying_since is None else state.dying_since
        if not state.troubles and seen.at - since < JOURNAL_GRACE_SECONDS:
            return replace(state, dying_since=since)
        return _failed(state, "unit_stopped" if unit.active_state == "inactive" else "unit_died")
    if _is_dying(state):
        since = seen.at if state.dying_since is None else state.dying_since
        state = replace(state, dying_since=since)
        named = bool(dead_ranks(state)) and _knows_cause(state)
        if named or seen.at - since >= DEATH_GRACE_SECONDS:
            return _failed(state, "rank_died" if dead_ranks(state) else "dying")
        return state
    if state.ready_at is not None or seen.serves:
        return replace(state, verdict="ready", reason="log" if state.ready_at is not None else "probe", stage="ready")
    if seen.at - state.last_progress_at >= quiet_limit_seconds(state):
        return replace(state, verdict="stalled", reason="no byte and no line")
    if state.elapsed_seconds >= state.expected.timeout_seconds:
        return _failed(state, "timeout")
    return state


def wants_probe(state: StartupState) -> bool:
    """Whether it is worth asking the server itself: not before it could answer, and always when no line is known."""
    silent = not any(span.stage not in ("boot",) for span in state.spans)
    return state.stage == "warm_up" or silent or all_pinned(state)


# What is expected


def expectation_from_plan(
    plan: Mapping[str, Any],
    timeout_seconds: float | None,
    stall_seconds: float,
    default_timeout_seconds: float = 3600.0,
) -> Expectation:
    """What a plan says about its start; keys that it lacks are unknown."""
    host: Mapping[str, Any] = plan.get("host") or {}
    unit: Mapping[str, Any] = plan.get("unit") or {}
    planned_timeout = unit.get("timeout_start_seconds")
    return Expectation(
        ranks=_int(host.get("ranks")),
        bytes_by_stage=tuple(_int(stage.get("pinned_bytes_per_rank")) or 0 for stage in host.get("stages") or ()),
        meter=str(host.get("meter") or "shmem"),
        timeout_seconds=float(timeout_seconds or planned_timeout or default_timeout_seconds),
        stall_seconds=float(stall_seconds),
    )


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
