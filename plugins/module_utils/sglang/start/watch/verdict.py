# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a start ends: ready, failed or stalled, and by what rule. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CAUSES,
    FATAL,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import (
    SLOWEST_BYTES_PER_SECOND,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    pinned_bytes,
    planned_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.spans import all_closed
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stall import (
    QUIET_SECONDS,
    quiet_seconds,
    stalled_by,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    dead_ranks,
    log_is_trusted,
)

# A dying server is given this long to say why and with what status: while booting its main process looks after its
# ranks every 5 s (entrypoints/engine.py, _wait_for_scheduler_ready).
DEATH_GRACE_SECONDS = 6.0
# A line that names the cause needs no other; the end of the unit mostly comes before this.
CAUSE_GRACE_SECONDS = 1.5
# The last lines of a process may reach the journal after systemd has seen it die; on a busy node more than 1 s later.
# Where journald is behind, what lies in its sockets comes bit by bit: the grace counts from the last line that came.
JOURNAL_GRACE_SECONDS = 2.0
# The sockets of a unit that has ended hold no more than journald gets through in this time.
DRAINING_SECONDS = 30.0
# Statuses by which systemd tells that a step before the program failed (src/shared/exit-status.h): nothing is to come.
SETUP_STATUSES = range(200, 246)
# Longer than registering and importing take in all but the largest servers.
SETTLED_SECONDS = 300.0
# From this share of the bytes on the server is asked, so that it is known to have refused before it answers.
ASKED_FROM = 0.5
# A log that does not end keeps a start that has failed from being judged for so long and no longer.
READING_SECONDS = 10.0


@dataclass(frozen=True)
class Fault:
    """Something that a start fails of, and how long more may be said about it.

    C(drains): nothing new is said any more, so that every line that still comes was late and others may follow it.
    """

    reason: str
    grace_seconds: float = 0.0
    drains: bool = False


def with_verdict(state: StartupState, seen: Observation, foreign: bool) -> StartupState:
    """C(foreign): the unit runs another start than the one that is followed."""
    if seen.unit.load_state == "not-found":
        return _failed(state, "unit_not_found")
    fault = _fault(state, seen, foreign)
    if fault is not None:
        since = state.now if state.dying_since is None else state.dying_since
        heard = state.now if seen.lines or state.dying_heard_at is None else state.dying_heard_at
        state = replace(state, dying_since=since, dying_heard_at=heard)
        at_most = DRAINING_SECONDS if fault.drains else READING_SECONDS
        may_say_more = seen.more or state.now - (heard if fault.drains else since) < fault.grace_seconds
        return state if may_say_more and state.now - since < at_most else _failed(state, fault.reason)
    state = replace(state, dying_since=None, dying_heard_at=None)
    if state.ready_said:
        return replace(state, verdict="ready", reason="log", stage="ready")
    if seen.serves:
        if _is_answered_by_the_unit(state, seen):
            state = replace(all_closed(state, seen.read_at), ready_at=seen.read_at)
            return replace(state, verdict="ready", reason="probe", stage="ready", probe_doubted=False)
        state = replace(state, probe_doubted=True)
    elif seen.serves is False:
        state = replace(state, probe_refused=True)
    by = stalled_by(state)
    if by is not None and not seen.more:
        return replace(state, verdict="stalled", reason=by)
    return _failed(state, "timeout") if state.elapsed_seconds >= time_limit_seconds(state) else state


def _failed(state: StartupState, reason: str) -> StartupState:
    return replace(state, verdict="failed", reason=reason)


def _fault(state: StartupState, seen: Observation, foreign: bool) -> Fault | None:
    """What the start fails of, the surest first."""
    unit = seen.unit
    if foreign or state.rebooted or state.replaced or (unit.n_restarts or 0) > (state.n_restarts or 0):
        return Fault("restarted_meanwhile")
    stopped = _stopped(state, seen)
    if stopped is not None:
        never_ran = unit.exec_main_code == "exited" and unit.exec_main_status in SETUP_STATUSES
        if state.troubles or never_ran:
            return Fault(stopped)
        return Fault(stopped, JOURNAL_GRACE_SECONDS, drains=True)
    dead = dead_ranks(state)
    if dead:
        return Fault("rank_died", 0.0 if _knows_cause(state) else DEATH_GRACE_SECONDS)
    labels = {event.label for event in _fatal_lines(state)}
    if labels & CAUSES:
        return Fault("dying", CAUSE_GRACE_SECONDS)
    if labels or unit.active_state == "deactivating":
        return Fault("dying", DEATH_GRACE_SECONDS)
    return None


def _stopped(state: StartupState, seen: Observation) -> str | None:
    """Whether systemd says that the start is over. Of sub-states that wait for a restart it has more by version."""
    unit = seen.unit
    if unit.active_state == "inactive" and "auto-restart" not in unit.sub_state:
        return "unit_stopped"
    if unit.active_state in ("failed", "inactive", "maintenance") or "auto-restart" in unit.sub_state:
        return "unit_died"
    # A unit that stays active after its process has ended is over where no rank goes on.
    ended = unit.active_state == "active" and unit.sub_state == "exited"
    return "unit_died" if ended and not any(rank.alive for rank in state.ranks) else None


def _fatal_lines(state: StartupState) -> list[LogEvent]:
    """Lines after which a server does not come up; not those before the line that says that it did."""
    return [
        event
        for event in state.troubles[state.forgiven :]
        if event.kind in ("failure", "consequence") and event.label in FATAL
    ]


def _knows_cause(state: StartupState) -> bool:
    """Whether the log, or the status of the only dead rank, says how it died: of several the log tells the first."""
    dead = dead_ranks(state)
    alone = len(dead) == 1 and dead[0].exit_code is not None
    return alone or any(event.value("exit_code") is not None for event in state.troubles)


def _is_answered_by_the_unit(state: StartupState, seen: Observation) -> bool:
    """Whether it is this start that answers, and no other process that holds the port.

    Where the listener is not known it takes evidence: the port was refused before in this start, or the ranks have said
    that they are done, or all bytes have been there for so long that a server which finds its port taken had died.
    """
    if not seen.unit.runs or seen.listener_in_unit is False or dead_ranks(state):
        return False
    lives = seen.unit.main_pid is not None or any(rank.alive and rank.last is not None for rank in state.ranks)
    there_for = 0.0 if state.all_there_since is None else state.now - state.all_there_since
    shown = state.probe_refused or state.stage == "warm_up" or there_for >= SETTLED_SECONDS
    return lives and (seen.listener_in_unit is True or shown)


def time_limit_seconds(state: StartupState) -> float:
    """How long the start may take in all; a limit that nobody gave grows with the bytes."""
    more = 0.0 if state.expected.timeout_given else (planned_bytes(state) or 0) / SLOWEST_BYTES_PER_SECOND
    return state.expected.timeout_seconds + more


def wants_probe(state: StartupState) -> bool:
    """Whether it is worth asking the server itself.

    Not before it could answer; always when no line is known, when lines may be missing, or when nothing happens.
    """
    silent = all(span.stage == "boot" or span.by == "meter" for span in state.spans)
    quiet = quiet_seconds(state) >= QUIET_SECONDS
    nearly = (pinned_bytes(state) or 0) >= ASKED_FROM * (planned_bytes(state) or float("inf"))
    return state.stage == "warm_up" or silent or quiet or nearly or not log_is_trusted(state)
