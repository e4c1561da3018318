# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a start failed or stalled: the first real cause, not what followed from it, with a remedy that is computed.

Pure. A cause is looked for in this order: a line that names one, systemd's account of an out-of-memory kill, a rank
that was killed or died, an exception that nobody handled, what systemd says of the main process. What only follows
from another death (broken pipes, closed connections, signals from the parent) counts last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.failures import RULES, Case
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import WORDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import (
    RankState,
    StartupState,
    dead_ranks,
    pinned_bytes,
    planned_bytes,
    quiet_limit_seconds,
)

# Exceptions of a process whose peer or parent went away before it.
FOLLOW_UPS = ("BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "EOFError", "DistNetworkError")
_CLOSED = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "terminated or timed out")


@dataclass(frozen=True)
class Diagnosis:
    """C(code) is stable and documented; C(evidence) holds the numbers behind message and remedy."""

    code: str
    message: str
    remedy: str
    rank: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    causes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
            "rank": self.rank,
            "evidence": dict(self.evidence),
            "causes": list(self.causes),
        }


# Which line, which rank


def _rank_of(state: StartupState, line: LogEvent) -> str | None:
    """The rank a line is about: named in it, by number, or by the process that said it."""
    for pid in (line.value("dead_pid"), line.pid):
        found = next((rank.rank for rank in state.ranks if pid is not None and rank.pid == pid), None)
        if found is not None:
            return found
    if line.rank is not None:
        return line.rank
    index = line.value("index")
    if index is None:
        return None
    # Schedulers are numbered in the order of their ranks (entrypoints/engine.py).
    return state.ranks[index].rank if index < len(state.ranks) else f"TP{index}"


def _is_follow_up(line: LogEvent) -> bool:
    name = (line.label or "").rsplit(".", 1)[-1]
    return name in FOLLOW_UPS or any(words in line.text for words in _CLOSED)


def _first(state: StartupState, wanted: Callable[[LogEvent], bool]) -> LogEvent | None:
    """The earliest such line; the journal's order decides between equal times."""
    found = [line for line in state.troubles if wanted(line)]
    return min(found, key=lambda line: line.timestamp or 0.0) if found else None


# Codes whose line is the cause itself. A warm-up that fails because a rank died is not among them.
_CAUSES = frozenset(RULES) - {"scheduler_died", "warm_up_failed", "scheduler_exception", "exception"}


def diagnose(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis:
    """The cause of a failed or stalled start."""
    if state.verdict == "stalled":
        return _stalled(state)
    if state.reason == "unit_not_found":
        name = state.unit.name if state.unit is not None else "the unit"
        return Diagnosis(
            "unit_not_found", f"systemd knows no unit {name}.", "Install and configure the instance first."
        )
    if state.reason == "unit_stopped" and state.invocation_id is None:
        name = state.unit.name if state.unit is not None else "the unit"
        return Diagnosis("not_started", f"{name} does not run, and nobody starts it.", "Start it, then wait for it.")
    found = _by_line(state, plan) or _by_unit(state)
    if found is not None:
        return _with_restart(state, found)
    if state.reason == "restarted_meanwhile":
        return _restarted(state)
    if state.reason == "timeout":
        return Diagnosis(
            "timeout",
            f"The server was not ready after {format_seconds(state.elapsed_seconds)}; it was {WORDS[state.stage]}.",
            "Raise timeout_seconds if it still moves; the stages so far show where the time went.",
            evidence={"elapsed_seconds": round(state.elapsed_seconds, 1), "stage": state.stage},
        )
    return Diagnosis(
        "unknown",
        "The server ended and neither it nor systemd named a cause.",
        "See the last lines below and the journal of the unit.",
    )


def _apply(
    code: str, state: StartupState, plan: Mapping[str, Any], line: LogEvent | None, rank: str | None
) -> Diagnosis:
    rule, case = RULES[code], Case(state, plan, line, rank)
    return Diagnosis(rule.code, rule.message(case), rule.remedy(case), rank, rule.evidence(case))


def _by_line(state: StartupState, plan: Mapping[str, Any]) -> Diagnosis | None:
    cause = _first(state, lambda line: line.kind == "failure" and line.label in _CAUSES)
    if cause is not None and cause.label is not None:
        return _apply(cause.label, state, plan, cause, _rank_of(state, cause) or _speaker(state) or _first_dead(state))
    if state.unit is not None and state.unit.result == "oom-kill":
        return _apply("oom_killer", state, plan, None, _first_dead(state))
    # A signal from outside has no line of its own; the exceptions around it are its consequences.
    died = _first(state, lambda line: line.label == "scheduler_died" and line.kind == "failure")
    killed = next((rank for rank in dead_ranks(state) if (rank.exit_code or 0) < 0), None)
    if killed is not None:
        return _apply("scheduler_died", state, plan, None, killed.rank)
    if died is not None and (died.value("exit_code") or 0) < 0:
        return _apply("scheduler_died", state, plan, died, _rank_of(state, died))
    exception = _first(state, lambda line: line.kind == "exception" and not _is_follow_up(line) and not _rewords(line))
    if exception is not None:
        return _exception(state, plan, exception)
    warm_up = _first(state, lambda line: line.label == "warm_up_failed")
    if warm_up is not None:
        return _apply("warm_up_failed", state, plan, warm_up, None)
    if died is not None:
        return _apply("scheduler_died", state, plan, died, _rank_of(state, died))
    if dead_ranks(state):
        return _apply("scheduler_died", state, plan, None, _first_dead(state))
    follow_up = _first(state, lambda line: line.kind == "exception")
    return None if follow_up is None else _exception(state, plan, follow_up)


def _rewords(line: LogEvent) -> bool:
    """The launcher's own exception about a rank that failed before it."""
    return "Please see the error messages above" in line.text


def _first_dead(state: StartupState) -> str | None:
    dead = dead_ranks(state)
    return dead[0].rank if dead else None


def _exception(state: StartupState, plan: Mapping[str, Any], line: LogEvent) -> Diagnosis:
    rank = _rank_of(state, line)
    in_scheduler = rank is not None or any(one.label == "scheduler_exception" for one in state.troubles)
    if not in_scheduler and not state.ranks and line.label in ("ValueError", "AssertionError", "NotImplementedError"):
        # Nothing but arguments has been looked at before there is any rank.
        return _apply("bad_argument", state, plan, line, None)
    if in_scheduler:
        return _apply("scheduler_exception", state, plan, line, rank or _speaker(state))
    return _apply("exception", state, plan, line, None)


def _speaker(state: StartupState) -> str | None:
    """The rank that first reported an exception; its traceback is made of lines that name no rank."""
    report = _first(state, lambda line: line.label == "scheduler_exception")
    if report is None:
        return None
    return _rank_of(state, report) or (state.ranks[0].rank if len(state.ranks) == 1 else None)


# What systemd says


def _by_unit(state: StartupState) -> Diagnosis | None:
    unit = state.unit
    if unit is None or state.reason == "restarted_meanwhile":
        return None
    evidence = {
        "result": unit.result,
        "exit_status": unit.exec_main_status,
        "signal": unit.signal_name,
        "n_restarts": unit.n_restarts,
    }
    if any(line.label == "sigterm" for line in state.troubles) or state.reason == "unit_stopped":
        return Diagnosis(
            "stopped_meanwhile",
            f"{unit.name} was stopped while it was {WORDS[state.stage]}.",
            "See who stopped it (`journalctl -u`), then run the play again.",
            evidence=evidence,
        )
    if unit.signal_name is not None:
        return Diagnosis(
            "server_killed",
            f"The main process of {unit.name} was killed by {unit.signal_name} while it was {WORDS[state.stage]}.",
            "See the last lines below; SIGKILL is also what SGLang does to itself after an error.",
            evidence=evidence,
        )
    if unit.result == "start-limit-hit":
        return Diagnosis(
            "start_limit",
            f"{unit.name} failed so often that systemd no longer starts it.",
            "Find the cause in the journal, then `systemctl reset-failed` the unit.",
            evidence=evidence,
        )
    if unit.exec_main_status == 2:
        return Diagnosis(
            "bad_argument",
            f"SGLang rejected its arguments (exit status 2 of {unit.name}).",
            "Correct the variables of the role; this is not a matter of memory or time.",
            evidence=evidence,
        )
    if unit.exec_main_status == 203:
        return Diagnosis(
            "cannot_execute",
            f"systemd could not execute the program of {unit.name} (status 203/EXEC).",
            "Check that the environment of this version is installed and executable for the service user.",
            evidence=evidence,
        )
    if unit.exec_main_status:
        return Diagnosis(
            "server_exited",
            f"The main process of {unit.name} ended with exit status {unit.exec_main_status} while it was "
            f"{WORDS[state.stage]}.",
            "See the last lines below.",
            evidence=evidence,
        )
    return None


def _restarted(state: StartupState) -> Diagnosis:
    unit = state.unit
    now = unit.invocation_id if unit is not None else None
    return Diagnosis(
        "restarted_meanwhile",
        f"Another start replaced the one that was followed: invocation {state.invocation_id} became {now}.",
        "See who restarted the unit (`journalctl -u`), then run the play again; it follows the newest start.",
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


# Stalls


def _stalled(state: StartupState) -> Diagnosis:
    """Ranked causes of a start in which nothing moves."""
    causes: list[str] = []
    stopped = [rank.rank for rank in state.ranks if rank.state in ("T", "t")]
    waiting = [rank.rank for rank in state.ranks if rank.state == "D"]
    if stopped:
        causes.append(f"{', '.join(stopped)} stopped by a signal (SIGSTOP or a debugger); SIGCONT lets it go on")
    if waiting:
        causes.append(f"{', '.join(waiting)} waiting in the kernel: a disk, a network file system or memory reclaim")
    pinned, planned, available = pinned_bytes(state), planned_bytes(state), state.host_available_bytes
    missing = max(0, (planned or 0) - (pinned or 0))
    if state.stage == "host_pool" and available is not None and missing > available:
        causes.append(
            f"host memory is short: {format_gb(missing)} still to be pinned and {format_gb(available)} available"
        )
    causes += _STALL_CAUSES.get(state.stage, ())
    behind = _behind(state)
    if behind:
        causes.append(f"the other ranks wait for {', '.join(rank.rank for rank in behind)}")
    quiet = state.now - state.last_progress_at
    return Diagnosis(
        "stalled",
        f"No byte and no line for {format_seconds(quiet)} while {WORDS[state.stage]}"
        + (
            f" ({format_gb(pinned)} of {format_gb(planned)})"
            if state.stage == "host_pool" and planned and pinned
            else ""
        )
        + ".",
        f"Most likely: {causes[0]}." if causes else "See the stacks of the ranks (`py-spy dump`).",
        rank=next(iter([*stopped, *waiting, *(rank.rank for rank in behind)]), None),
        evidence={
            "stage": state.stage,
            "quiet_seconds": round(quiet, 1),
            "limit_seconds": quiet_limit_seconds(state),
            "pinned_bytes": pinned,
            "planned_bytes": planned,
            "host_available_bytes": available,
        },
        causes=tuple(causes),
    )


_STALL_CAUSES: dict[str, tuple[str, ...]] = {
    "boot": (
        "the ranks do not reach each other (collectives: interface, firewall, a missing rank)",
        "the model or tokenizer is fetched from a network that does not answer",
    ),
    "load": ("the weights come from a slow or hanging file system",),
    "device_pool": ("the driver does not answer: see `nvidia-smi` and Xid lines in `journalctl -k`",),
    "capture": ("kernels are being compiled for the first time", "the driver hangs: see Xid lines in `journalctl -k`"),
    "host_pool": (
        "memory is fragmented, so that pages are found slowly",
        "memory of an earlier server is still being given back",
        "the driver hangs while it registers memory: see Xid lines in `journalctl -k`",
    ),
    "warm_up": ("the first request compiles kernels", "the ranks wait for each other in a collective"),
}


def _behind(state: StartupState) -> list[RankState]:
    """Ranks in an earlier stage, or with clearly fewer bytes, than the furthest one."""
    if len(state.ranks) < 2:
        return []
    if state.stage != "host_pool":
        slow = [rank for rank in state.ranks if rank.stage == state.stage]
        return slow if len(slow) < len(state.ranks) else []
    most = max(rank.pinned_bytes or 0 for rank in state.ranks)
    return [rank for rank in state.ranks if (rank.pinned_bytes or 0) < most - max(GB // 10, most // 20)]


# What fills the end of a log and tells nothing: marks under a traceback, systemd's accounts of killing and of time.
_FILLING = re.compile(r"^\s*[~^]+\s*$|: (?:Killing process \d+ |Consumed .* CPU time)|leaked |^\s*$")


def last_lines(state: StartupState, count: int = 12) -> list[str]:
    """The end of what the server said, without the parts that only fill."""
    return [line for line in state.tail if not _FILLING.search(line)][-count:]
