# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a start failed or stalled: the first real cause, not what followed from it, with a remedy that is computed.

Pure. A cause is looked for in this order: a line that names one, systemd's or the control group's account of an
out-of-memory kill, a rank that was killed, what only says that something failed, a rank that died, what systemd says of
the main process. What only follows from another death (broken pipes, closed connections, signals from the parent) and
what servers survive count last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
    FATAL,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import Case, known
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.computed import finding_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.stalls import Suspect, suspects
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.troubles import (
    first,
    general_cause,
    hint,
    named_cause,
    rank_of,
    said_by_main,
    speaker,
    survived_cause,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.unit_failures import (
    by_unit,
    exec_failure,
    is_start_limited,
    start_limited,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.victims import victim, victims
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import WORDS, doing
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    pinned_bytes,
    planned_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stall import (
    busy_limit_seconds,
    quiet_limit_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    RankState,
    StartupState,
    dead_ranks,
)

_SIGKILL = -9
# What stands in the commands of a remedy for the unit's name.
_UNIT = re.compile(r"\bUNIT\b")
# Before there is any rank nothing but arguments has been looked at.
_OF_ARGUMENTS = ("ValueError", "AssertionError", "NotImplementedError")
# A timeout is told with its suspects where one of them was measured.
_MEASURED_WEIGHT = 50


def diagnose(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis:
    """The cause of a failed or stalled start, with commands that can be run as they are."""
    found = _diagnosed(state, plan)
    return found if state.unit is None else replace(found, remedy=_UNIT.sub(state.unit.name, found.remedy))


def _diagnosed(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis:
    if state.verdict == "stalled":
        return _stalled(state, plan)
    name = state.unit.name if state.unit is not None else "the unit"
    if state.reason == "unit_not_found":
        failure = CATALOGUE["unit_not_found"]
        return Diagnosis("unit_not_found", f"systemd knows no unit {name}.", failure.remedy)
    if state.unit is not None and is_start_limited(state):
        return start_limited(state, state.unit, _by_line(state, plan) or by_unit(state))
    if state.awaits_start:
        return _timed_out(state, plan)
    if state.reason == "unit_stopped" and (state.invocation_id is None or _had_served(state)):
        return _not_started(state, name)
    found = _by_line(state, plan) or by_unit(state) or _by_hint(state, plan)
    found = found or _by_earlier(state, plan)
    if found is not None:
        return _with_restart(state, found)
    if state.reason == "restarted_meanwhile":
        return _restarted(state)
    if state.reason == "timeout":
        return _timed_out(state, plan)
    return Diagnosis(
        "unknown",
        "The server ended and neither it nor systemd named a cause.",
        CATALOGUE["unknown"].remedy,
    )


def _not_started(state: StartupState, name: str) -> Diagnosis:
    """Some units cannot be started, whoever tries."""
    load_state = state.unit.load_state if state.unit is not None else "loaded"
    message, remedy = f"{name} does not run, and nobody starts it.", CATALOGUE["not_started"].remedy
    if load_state == "masked":
        message = f"{name} does not run, and is masked, so that systemd refuses to start it."
        remedy = f"Run `systemctl unmask {name}` if it shall run, then start it."
    elif load_state in ("bad-setting", "error"):
        message = f"{name} does not run, and systemd refuses its unit file ({load_state})."
        remedy = f"See `systemctl status {name}` for the line, correct it, then start it."
    return Diagnosis("not_started", message, remedy, evidence={"load_state": load_state})


def _had_served(state: StartupState) -> bool:
    """Whether a unit that does not run was ready before, and ended of nothing that its log names."""
    return state.ready_said and not any(line.label in FATAL for line in state.troubles[state.forgiven :])


def _told(
    code: str, state: StartupState, plan: Mapping[str, Any], line: LogEvent | None, rank: str | None
) -> Diagnosis:
    found = finding_of(Case(code, state, plan, line, rank))
    lines = {"lines": [line.text]} if line is not None else {}
    return Diagnosis(
        found.code or code, found.message, found.remedy, rank, {**lines, **found.facts}, values=dict(found.values)
    )


def _by_line(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis | None:
    cause = named_cause(state)
    if cause is not None and cause.label is not None:
        rank = None if said_by_main(cause) else rank_of(state, cause) or speaker(state) or victim(state)
        return _told(cause.label, state, plan, cause, rank)
    if _was_oom_killed(state):
        return _told("oom_killer", state, plan, None, victim(state))
    # A signal from outside has no line of its own; the exceptions around it are its consequences.
    dead = victims(state)
    died = first(state, lambda line: line.label == "scheduler_died" and line.kind == "failure")
    if died is not None and (died.value("exit_code") or 0) < 0 and rank_of(state, died) in [one.rank for one in dead]:
        return _died(state, plan, died)
    said = general_cause(state)
    killed = [rank for rank in dead if (rank.exit_code or 0) < 0]
    # A rank that reports an exception makes the main process kill the others.
    if killed and not (said is not None and _was_reported(state, said, killed)):
        return _told("scheduler_died", state, plan, None, victim(state))
    warm_up = first(state, lambda line: line.label == "warm_up_failed")
    if said is not None and not (warm_up is not None and _is_of_warm_up(state, said, warm_up)):
        return _general(state, plan, said)
    if warm_up is not None:
        return _told("warm_up_failed", state, plan, warm_up, None)
    if died is not None:
        return _died(state, plan, died)
    if dead:
        return _told("scheduler_died", state, plan, None, victim(state))
    if state.unit is not None and exec_failure(state.unit) is not None:
        return None
    weak = survived_cause(state)
    if weak is not None and weak.label is not None:
        return _told(weak.label, state, plan, weak, rank_of(state, weak))
    follow_up = first(state, lambda line: line.kind == "exception")
    return None if follow_up is None else _general(state, plan, follow_up)


def _died(state: StartupState, plan: Mapping[str, Any], line: LogEvent) -> Diagnosis:
    """The dead rank by its process, where that was seen to die in the way that the line tells."""
    return _told("scheduler_died", state, plan, line, rank_of(state, line))


def _was_reported(state: StartupState, said: LogEvent, killed: list[RankState]) -> bool:
    """Whether a rank told of an exception before the main process told the others to end."""
    report = first(state, lambda line: line.label == "scheduler_exception")
    if report is None:
        return False
    return rank_of(state, report) in [one.rank for one in killed] or any(
        line.label == "sigquit" for line in state.troubles
    )


def _is_of_warm_up(state: StartupState, said: LogEvent, warm_up: LogEvent) -> bool:
    """Whether an exception is that of the warm-up itself, whose traceback follows its line."""
    in_scheduler = rank_of(state, said) is not None or speaker(state) is not None
    return said.kind == "exception" and not in_scheduler and (said.timestamp or 0.0) >= (warm_up.timestamp or 0.0)


def _was_oom_killed(state: StartupState) -> bool:
    """By systemd's account, or by the control group's where a rank was killed."""
    if state.unit is not None and state.unit.result == "oom-kill":
        return True
    kills, before = state.cgroup.oom_kills, state.first_oom_kills
    counted = kills is not None and before is not None and kills > before
    return counted and any(rank.exit_code in (_SIGKILL, None) for rank in dead_ranks(state))


def _general(state: StartupState, plan: Mapping[str, Any], line: LogEvent) -> Diagnosis:
    rank = rank_of(state, line)
    if line.kind == "failure" and line.label is not None:
        return _told(line.label, state, plan, line, rank or speaker(state))
    in_scheduler = rank is not None or any(one.label == "scheduler_exception" for one in state.troubles)
    if not in_scheduler and not state.ranks and line.label in _OF_ARGUMENTS:
        return _told("bad_argument", state, plan, line, None)
    if in_scheduler:
        return _told("scheduler_exception", state, plan, line, rank or speaker(state))
    return _told("exception", state, plan, line, None)


def _by_hint(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis | None:
    """What servers that come up also say counts when nothing else is known of one that ended."""
    if state.reason in ("restarted_meanwhile", "timeout"):
        return None
    line = hint(state)
    return None if line is None or line.label is None else _told(line.label, state, plan, line, rank_of(state, line))


def _by_earlier(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis | None:
    """A unit that systemd restarts again and again fails for the cause of its first end, whoever tells it."""
    if state.reason == "timeout" or not state.earlier:
        return None
    found = _by_line(replace(state, troubles=state.earlier, forgiven=0, ranks=()), plan)
    return None if found is None else replace(found, message=f"The start before ended of this: {found.message}")


def _restarted(state: StartupState) -> Diagnosis:
    unit = state.unit
    now = unit.invocation_id if unit is not None else None
    return Diagnosis(
        "restarted_meanwhile",
        f"Another start replaced the one that was followed: invocation {state.invocation_id} became {now}.",
        CATALOGUE["restarted_meanwhile"].remedy,
        evidence={
            "invocation_id": state.invocation_id,
            "new_invocation_id": now,
            "n_restarts": unit.n_restarts if unit is not None else None,
        },
    )


def _with_restart(state: StartupState, found: Diagnosis) -> Diagnosis:
    """A server that systemd starts again and again fails for the cause of its first death."""
    unit = state.unit
    again = unit is not None and (unit.sub_state == "auto-restart" or state.reason == "restarted_meanwhile")
    if not again or unit is None:
        return found
    evidence = {**found.evidence, "n_restarts": unit.n_restarts, "restarts": True}
    return replace(found, message=f"{found.message} systemd starts the unit again by itself.", evidence=evidence)


def _measured(state: StartupState) -> dict[str, Any]:
    return known(
        stage=state.stage,
        pinned_bytes=pinned_bytes(state),
        planned_bytes=planned_bytes(state),
        host_available_bytes=state.host_available_bytes,
        memory_some_avg10=state.host.memory_some_avg10,
        memory_full_avg10=state.host.memory_full_avg10,
        io_full_avg10=state.host.io_full_avg10,
        swap_used_bytes=state.host.swap_used_bytes,
        cgroup_current_bytes=state.cgroup.current_bytes,
        cgroup_limit_bytes=state.cgroup.limit_bytes,
    )


def _ranked(found: tuple[Suspect, ...]) -> dict[str, Any]:
    return {"suspects": [{"code": one.code, "weight": one.weight} for one in found]}


def _timed_out(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis:
    """Something still moves; what slows it down is told where it was measured."""
    slow = tuple(one for one in suspects(state, plan) if one.weight >= _MEASURED_WEIGHT)
    return Diagnosis(
        "timeout",
        f"The server was not ready after {format_seconds(state.elapsed_seconds)}; it was {doing(state)}.",
        (f"Most likely it is slow because {slow[0].words}. " if slow else "") + CATALOGUE["timeout"].remedy,
        evidence={"elapsed_seconds": round(state.elapsed_seconds, 1), **_measured(state)},
        values=_ranked(slow),
        causes=tuple(one.words for one in slow),
    )


def _stalled(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis:
    """Ranked causes of a start in which nothing moves."""
    found = suspects(state, plan)
    quiet = state.now - state.last_progress_at
    busy = state.reason == "busy"
    pinned, planned = pinned_bytes(state), planned_bytes(state)
    amount = (
        f" ({format_gb(pinned)} of {format_gb(planned)})" if state.stage == "host_pool" and planned and pinned else ""
    )
    return Diagnosis(
        "stalled",
        f"No byte and no line for {format_seconds(quiet)} while {WORDS[state.stage]}{amount}"
        + (", though its processes use CPU time." if busy else "."),
        f"Most likely: {found[0].words}." if found else CATALOGUE["stalled"].remedy,
        rank=next((one.rank for one in found if one.rank is not None), None),
        evidence={
            "quiet_seconds": round(quiet, 1),
            "limit_seconds": busy_limit_seconds(state) if busy else quiet_limit_seconds(state),
            "uses_cpu": busy,
            **_measured(state),
        },
        values=_ranked(found),
        causes=tuple(one.words for one in found),
    )


# What fills the end of a log and tells nothing: marks under a traceback, systemd's accounts of killing and of time.
_FILLING = re.compile(r"^\s*[~^]+\s*$|: (?:Killing process \d+ |Consumed .* CPU time)|leaked |^\s*$")


def last_lines(state: StartupState, count: int = 12) -> list[str]:
    """The end of what the server said, without the parts that only fill."""
    return [line for line in state.tail if not _FILLING.search(line)][-count:]
