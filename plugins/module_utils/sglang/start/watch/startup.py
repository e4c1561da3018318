# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One start of an instance as a state machine: C(advance(state, observation) -> state), pure."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.clock import with_clock
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    CgroupReading,
    Observation,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    with_inferred,
    with_pinned,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.progress import with_samples
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.readings import with_readings
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.spans import span_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stages import overall_stage, with_event
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stall import with_signs
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    Span,
    StartupState,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import (
    time_limit_seconds,
    with_verdict,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.wide import with_wide

TAIL_LINES = 200
# Stamps of a log that has them from its own lines are whole seconds.
STAMP_SECONDS = 2.0
OOM_TEXT = "The control group of the unit counts a kill by the OOM killer (memory.events, oom_kill)."


def advance(state: StartupState, seen: Observation) -> StartupState:
    """The state after one more look. A verdict is final."""
    if state.verdict is not None:
        return state
    if state.invocation_id is None and seen.unit.awaits_start:
        return _awaiting(state, seen)
    before_it = state.invocation_before
    if before_it is not None and seen.unit.invocation_id == before_it and not seen.unit.runs:
        # Nobody makes the start any more that was awaited. What the one before said tells nothing of it.
        seen = replace(seen, unit=replace(seen.unit, invocation_id=None), events=(), ranks=(), tail=())
    foreign = state.invocation_id is not None and seen.unit.invocation_id not in (None, state.invocation_id)
    before = state.read_at
    state = with_clock(replace(state, now=max(state.now, seen.at)), seen)
    state = replace(
        state,
        unit=seen.unit,
        awaits_start=False,
        last_progress_at=state.now if state.awaits_start else state.last_progress_at,
        last_busy_at=state.now if state.awaits_start else state.last_busy_at,
        invocation_id=state.invocation_id or seen.unit.invocation_id,
        earlier=state.earlier or seen.earlier,
        n_restarts=seen.unit.n_restarts if state.n_restarts is None else state.n_restarts,
        read_at=state.read_at if seen.read_at is None else seen.read_at,
        host_available_bytes=seen.host.memory_available_bytes,
        host=seen.host,
        # That of a unit that has ended is gone; its last figures tell of its end.
        cgroup=state.cgroup if seen.cgroup == CgroupReading() else seen.cgroup,
        boot_id=state.boot_id or seen.boot_id,
        rebooted=state.rebooted or (None not in (state.boot_id, seen.boot_id) and state.boot_id != seen.boot_id),
        tail=(state.tail + seen.tail)[-TAIL_LINES:],
    )
    state = _with_log(state, seen)
    if state.stage == "boot" and seen.started_at is not None and not span_of(state, "boot", None) and not foreign:
        state = replace(state, spans=(*state.spans, Span("boot", None, seen.started_at, clock=state.clock_jumps)))
    if not foreign:
        state = with_pinned(with_readings(with_wide(state, seen), seen, before))
    for event in seen.events:
        if not _is_older(state, seen, event):
            state = with_event(state, event)
    state = with_inferred(_with_oom_kills(state, seen))
    state = replace(state, stage=overall_stage(state))
    state = with_signs(with_samples(state), seen)
    return with_verdict(state, seen, foreign)


def _awaiting(state: StartupState, seen: Observation) -> StartupState:
    """Before systemd makes the start: the server before it may take its time to stop. Nothing of that one counts."""
    state = with_clock(replace(state, now=max(state.now, seen.at)), seen)
    state = replace(
        state,
        unit=seen.unit,
        awaits_start=True,
        invocation_before=seen.unit.invocation_id or state.invocation_before,
        last_progress_at=state.now,
        last_busy_at=state.now,
        host_available_bytes=seen.host.memory_available_bytes,
        host=seen.host,
        boot_id=state.boot_id or seen.boot_id,
    )
    late = state.elapsed_seconds >= time_limit_seconds(state)
    return replace(state, verdict="failed", reason="timeout") if late else state


def _with_log(state: StartupState, seen: Observation) -> StartupState:
    """What is known to be missing of the log. One that can be read again is whole again; what was dropped is gone."""
    return replace(
        state,
        log=seen.log,
        log_lost=state.log_lost + max(0, seen.log.suppressed),
        log_gap=state.log_gap or seen.log.gap,
        log_unreadable=not seen.log.readable,
    )


def _is_older(state: StartupState, seen: Observation, event: LogEvent) -> bool:
    """Whether a line says of an earlier start that it is ready. Only the journal knows which start a line is of."""
    boot = span_of(state, "boot", None)
    if event.kind != "ready" or seen.log.source == "journal" or boot is None or state.clock_jumps:
        return False
    return event.timestamp is not None and boot.began is not None and event.timestamp < boot.began - STAMP_SECONDS


def _with_oom_kills(state: StartupState, seen: Observation) -> StartupState:
    """A kill that the control group counts is known before the kernel's own line, which may never come."""
    kills = seen.cgroup.oom_kills
    if kills is None:
        return state
    if state.first_oom_kills is None:
        return replace(state, first_oom_kills=kills)
    told = any(event.label == "oom_killer" for event in state.troubles)
    if kills <= state.first_oom_kills or told:
        return state
    event = LogEvent(kind="failure", label="oom_killer", text=OOM_TEXT, timestamp=seen.read_at)
    return replace(state, troubles=(*state.troubles, event))
