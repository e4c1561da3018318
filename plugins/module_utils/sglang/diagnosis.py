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

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import largest_ratio
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.log_lines import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.startup import (
    WORDS,
    RankState,
    StartupState,
    dead_ranks,
    pinned_bytes,
    planned_bytes,
    quiet_limit_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import version_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import signal_name

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


@dataclass(frozen=True)
class Case:
    """What a rule looks at. C(line): the line that told, None where the state alone did."""

    state: StartupState
    plan: Mapping[str, Any]
    line: LogEvent | None
    rank: str | None

    @property
    def text(self) -> str:
        return self.line.text if self.line is not None else ""

    def value(self, name: str) -> Any:
        return self.line.value(name) if self.line is not None else None

    @property
    def who(self) -> str:
        return f"rank {self.rank}" if self.rank else "the server"


@dataclass(frozen=True)
class Rule:
    """How one code is put into words."""

    code: str
    message: Callable[[Case], str]
    remedy: Callable[[Case], str]
    evidence: Callable[[Case], dict[str, Any]] = lambda case: {}


def _quoted(words: str) -> Callable[[Case], str]:
    """A sentence with who, then the server's own line."""
    return lambda case: f"{words.format(who=case.who[0].upper() + case.who[1:])}: {case.text}"


def _always(words: str) -> Callable[[Case], str]:
    return lambda case: words


# Host memory


def fitting_ratio(plan: Mapping[str, Any], available_bytes: int | None) -> float | None:
    """The largest ratio that passes the server's check, from what it said was free and from the plan.

    Guard A compares one rank with the whole machine, so what is free has to do for all ranks. B and explicit sizes
    under D divide by the ranks and read live memory; the last rank then sees its peers' pools twice (memory/host.py).
    """
    host: Mapping[str, Any] = plan.get("host") or {}
    device: Mapping[str, Any] = plan.get("device") or {}
    candidates = [host["largest_ratio"]] if host.get("largest_ratio") else []
    ranks, guard = host.get("ranks"), (host.get("guard") or {}).get("variant")
    needed = (plan.get("sglang_version"), device.get("max_total_num_tokens"), device.get("bytes_per_token"), ranks)
    if available_bytes is not None and all(needed):
        if guard == "A":
            bound = available_bytes // int(ranks or 1)
        elif guard == "D" and host.get("sizing") == "fraction":
            bound = available_bytes
        else:
            bound = available_bytes * int(ranks or 1) // (2 * int(ranks or 1) - 1)
        try:
            facts = version_facts(str(plan["sglang_version"]))
        except Refusal:
            return min(candidates, default=None)
        found = largest_ratio(
            facts,
            int(device["max_total_num_tokens"]),
            int(device.get("page_size") or 1),
            int(device["bytes_per_token"]),
            bound,
        )
        if found is None:
            return None
        candidates.append(found)
    return min(candidates, default=None)


def _guard_message(case: Case) -> str:
    requested, available = case.value("requested_bytes"), case.value("available_bytes")
    if requested is None:
        return f"SGLang refused to allocate the host pool of {case.who}: {case.text}"
    return (
        f"SGLang refused to allocate the host pool of {case.who}: it asks for {format_gb(requested)} and its check "
        f"lets it have {format_gb(available)}."
    )


def _guard_remedy(case: Case) -> str:
    ratio = fitting_ratio(case.plan, case.value("available_bytes"))
    if ratio is not None:
        return f"Set hicache.ratio to {ratio} or less, or free host memory."
    requested, available = case.value("requested_bytes"), case.value("available_bytes")
    if requested and available and available > 0 and not case.plan:
        return f"Ask for at most {available / requested:.0%} of it, or free host memory."
    return "No ratio fits: free host memory, lower max_total_tokens, or set hicache.enabled to false."


def _guard_evidence(case: Case) -> dict[str, Any]:
    return {
        "requested_bytes": case.value("requested_bytes"),
        "available_bytes": case.value("available_bytes"),
        "largest_ratio": fitting_ratio(case.plan, case.value("available_bytes")),
    }


def _registration_message(case: Case) -> str:
    size, reason = case.value("requested_bytes"), case.value("reason")
    detail = f" {format_gb(size)}" if size else ""
    return f"The driver refused to pin{detail} of host memory for {case.who}" + (f" ({reason})" if reason else "") + "."


def _exit_words(code: int | None) -> str:
    if code is None:
        return "vanished; its exit status is not known"
    if code < 0:
        return f"was killed by {signal_name(-code)}"
    return f"ended with exit status {code}"


def _died_message(case: Case) -> str:
    code = case.value("exit_code")
    if code is None and case.rank is not None:
        dead = case.state.rank(case.rank)
        code = dead.exit_code if dead is not None else None
    who = f"Rank {case.rank}" if case.rank else f"The scheduler number {case.value('index')}"
    return f"{who} {_exit_words(code)} while {_doing(case)}."


def _doing(case: Case) -> str:
    dead = case.state.rank(case.rank) if case.rank else None
    stage = dead.stage if dead is not None else case.state.stage
    words = WORDS[stage]
    if stage == "host_pool" and dead is not None and dead.pinned_bytes:
        words += f" (it had {format_gb(dead.pinned_bytes)})"
    return words


def _died_remedy(case: Case) -> str:
    code = _exit_of(case)
    if code == -9:
        return (
            "SIGKILL comes from the kernel when memory runs out, or from a person: see `journalctl -k` for "
            "'Out of memory' and compare the plan with what is available."
        )
    if code in (-11, -7, -6, -4):
        return "The process crashed in native code: see its traceback in the journal and `coredumpctl`."
    return "See the last lines below and the rank's traceback in the journal."


def _exit_of(case: Case) -> int | None:
    code = case.value("exit_code")
    if code is None and case.rank is not None:
        dead = case.state.rank(case.rank)
        code = dead.exit_code if dead is not None else None
    return code


def _died_evidence(case: Case) -> dict[str, Any]:
    code = _exit_of(case)
    dead = case.state.rank(case.rank) if case.rank else None
    return {
        "exit_code": code,
        "signal": signal_name(-code) if code is not None and code < 0 else None,
        "pid": case.value("dead_pid") or (dead.pid if dead is not None else None),
        "stage": dead.stage if dead is not None else case.state.stage,
        "pinned_bytes": dead.pinned_bytes if dead is not None else None,
    }


def _memory_evidence(case: Case) -> dict[str, Any]:
    return {"pinned_bytes": pinned_bytes(case.state), "planned_bytes": planned_bytes(case.state)}


def _port(case: Case) -> str:
    argument = (case.plan.get("arguments") or {}).get("port")
    port = case.value("port") or argument
    return f"Port {port}" if port else "A port of the server"


def _oom_remedy(case: Case) -> str:
    host: Mapping[str, Any] = case.plan.get("host") or {}
    ratio = host.get("largest_ratio")
    limit = f"Set hicache.ratio to {ratio} or less" if ratio else "Lower hicache.ratio"
    return f"{limit}, or raise the memory limit of the unit; see `journalctl -k` for who held what."


_RULES = {
    rule.code: rule
    for rule in (
        Rule("host_memory_guard", _guard_message, _guard_remedy, _guard_evidence),
        Rule(
            "host_pool_smaller_than_device",
            _quoted("{who} wants a host pool larger than the device pool"),
            _always("Set hicache.ratio above 1."),
        ),
        Rule(
            "registration_failed",
            _registration_message,
            _always(
                "Check that LimitMEMLOCK of the unit is infinity and that the NUMA node has the memory; lower "
                "hicache.ratio if it has not."
            ),
            lambda case: {"requested_bytes": case.value("requested_bytes"), "return_code": case.value("rc")},
        ),
        Rule(
            "no_cuda",
            _quoted("{who} needs CUDA and this PyTorch has none"),
            _always("Install the CUDA build of PyTorch, or serve with device cpu."),
        ),
        Rule(
            "gpu_out_of_memory",
            _quoted("The GPU of a rank has no memory left"),
            _always("Lower mem_fraction_static, or see which other process holds memory of that GPU."),
        ),
        Rule(
            "kv_pool_too_small",
            _quoted("No memory is left for the KV cache after the weights"),
            _always("Raise mem_fraction_static, use more GPUs or a smaller quantisation."),
        ),
        Rule(
            "bad_argument",
            _quoted("SGLang rejected its arguments"),
            _always("Correct the variables of the role; this is not a matter of memory or time."),
        ),
        Rule(
            "port_in_use",
            lambda case: f"{_port(case)} is taken by another process: {case.text}",
            _always("Stop the process that holds it (`ss -ltnp`), or choose another port."),
        ),
        Rule(
            "model_files",
            _quoted("Model files are missing, damaged or not readable by the service user"),
            _always("Compare the model folder with its manifest, and its owner and mode with the unit's User."),
        ),
        Rule(
            "missing_compiler",
            _quoted("SGLang compiles kernels at run time and found no compiler"),
            _always("Install g++ and the Python headers (and the CUDA toolkit on a GPU host)."),
        ),
        Rule(
            "warm_up_failed",
            _quoted("Every pool is there, but the server's own first request failed"),
            _always("See the error of the request in the journal; the memory plan is not at fault."),
        ),
        Rule(
            "watchdog_timeout",
            _quoted("SGLang's watchdog found a rank that no longer moves"),
            _always("See the stacks that it printed in the journal."),
        ),
        Rule(
            "oom_killer",
            lambda case: (
                "The kernel ran out of memory and killed a process of the unit"
                + (f" (rank {case.rank})" if case.rank else "")
                + f" while {_doing(case)}."
            ),
            _oom_remedy,
            _memory_evidence,
        ),
        Rule("scheduler_died", _died_message, _died_remedy, _died_evidence),
        Rule(
            "scheduler_exception",
            lambda case: f"An exception ended {case.who}: {case.text}",
            _always("See the traceback in the journal."),
            lambda case: {"exception": case.line.label if case.line is not None else None},
        ),
        Rule(
            "exception",
            lambda case: f"An exception ended {case.who}: {case.text}",
            _always("See the traceback in the journal."),
            lambda case: {"exception": case.line.label if case.line is not None else None},
        ),
    )
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
_CAUSES = frozenset(_RULES) - {"scheduler_died", "warm_up_failed", "scheduler_exception", "exception"}


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
    rule, case = _RULES[code], Case(state, plan, line, rank)
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
