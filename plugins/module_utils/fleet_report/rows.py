# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of each instance of a fleet, judged: a row of the report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.table import short_board
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.followed import Followed, followed
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import natural_order

# In the order in which somebody has to look at them.
FAILED, UNREACHABLE, UNREAD, DEGRADED = "failed", "unreachable", "unread", "degraded"
UNPROVEN, STARTING, STOPPED, EMPTY, SERVES = "unproven", "starting", "stopped", "empty", "serves"
STATES = (FAILED, UNREACHABLE, UNREAD, DEGRADED, UNPROVEN, STARTING, STOPPED, EMPTY, SERVES)
# Clients are answered.
SERVING = frozenset({SERVES, DEGRADED, UNPROVEN})
_NUMBERED = re.compile(r"(\D*)(\d*)", re.ASCII)
_SEVERITIES = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Row:
    """One instance of a node, or a node that has none or told nothing.

    C(plan) is the one that its numbers are held against, C(started) whether it is that of the start. C(followed): the
    start that is not the proven one.
    """

    node: str
    instance: str | None
    state: str
    gpus: str | None = None
    gpu_count: int = 0
    model: str | None = None
    release: str | None = None
    tokens: int | None = None
    planned_tokens: int | None = None
    host_tokens: int | None = None
    pinned_bytes: int | None = None
    planned_bytes: int | None = None
    start_seconds: float | None = None
    planned_seconds: float | None = None
    problems: tuple[Problem, ...] = ()
    facts: Mapping[str, Any] | None = None
    entry: Mapping[str, Any] | None = None
    plan: Mapping[str, Any] | None = None
    started: bool = False
    followed: Followed | None = None

    def count(self, severity: str) -> int:
        return sum(problem.severity == severity for problem in self.problems)


def rows_of(document: Mapping[str, Any]) -> list[Row]:
    """Every node is in it, whatever became of it: those that need somebody first, then by their names."""
    rows = [row for node in document["nodes"] for row in _rows(node)]
    return sorted(rows, key=lambda row: (STATES.index(row.state), natural_name(row.node), row.instance or ""))


def natural_name(name: str) -> list[tuple[str, int]]:
    """C(gpu-10) after C(gpu-9)."""
    return [(text, int(digits or 0)) for text, digits in _NUMBERED.findall(name)]


def _rows(node: Mapping[str, Any]) -> list[Row]:
    name, facts = one_line(str(node.get("node") or "")), node.get("facts")
    if not isinstance(facts, Mapping):
        code, state = ("node_unread", UNREAD) if node.get("state") == UNREAD else ("node_unreachable", UNREACHABLE)
        message = _sentence(one_line(str(node.get("failure") or "")) or "The node gave no answer.")
        return [Row(name, None, state, problems=(CODES[code].of(code, message),))]
    gpus = [gpu for gpu in facts["topology"].get("gpus") or [] if isinstance(gpu, Mapping)]
    of_node = (*_problems(facts["topology"].get("problems")), *_problems(facts["stack"].get("problems")))
    common: dict[str, Any] = {"gpus": _gpus(gpus), "gpu_count": len(gpus), "facts": facts}
    entries = facts.get("instances") or []
    if not entries:
        return [Row(name, None, EMPTY, problems=_sorted(of_node), **common)]
    plans = node.get("plans") or {}
    return [_instance(name, entry, plans.get(entry.get("instance")), of_node, common) for entry in entries]


def _instance(
    node: str,
    entry: Mapping[str, Any],
    given: Mapping[str, Any] | None,
    of_node: Sequence[Problem],
    common: Mapping[str, Any],
) -> Row:
    look, ledger = entry.get("look"), entry.get("ledger") or {}
    in_force = bool(entry.get("ledger_in_force"))
    kept = ledger.get("plan") or None
    # What a run of the same play has planned is what it started; else only a proven start has left its plan.
    plan = kept if in_force or given is None else given
    # Of another release or with other settings the plan on the node tells nothing of this start.
    started = in_force or given is not None
    start = None
    if isinstance(look, Mapping) and not in_force and look["unit"].get("load_state") != "not-found":
        start = followed(look, plan if plan and started else {}, entry.get("sglang_version"))
    state, own = _state(look, in_force, start)
    told = [*own, *_of_instance(entry, look, ledger, in_force, plan if started else None)]
    problems = _sorted((*told, *of_node))
    if state == SERVES and any(problem.severity == "error" for problem in problems):
        state = DEGRADED
    settings = entry.get("settings") or {}
    report: Mapping[str, Any] = ledger.get("startup") or {} if in_force else (start.report if start is not None else {})
    device, host, timing = ((plan or {}).get(part) or {} for part in ("device", "host", "timing"))
    served = ((ledger.get("proof") or {}).get("server") or {}).get("served_model_name") if in_force else None
    model = served or settings.get("served-model-name") or _tail(settings.get("model-path"))
    return Row(
        node=node,
        instance=one_line(str(entry.get("instance") or "")),
        state=state,
        model=one_line(str(model)) if model else ((plan or {}).get("model") or {}).get("name"),
        release=entry.get("sglang_version") or ledger.get("sglang_version"),
        tokens=_whole(report.get("max_total_num_tokens")),
        planned_tokens=_whole(device.get("max_total_num_tokens")),
        host_tokens=_whole(report.get("host_tokens")),
        pinned_bytes=_pinned(look, report, in_force),
        planned_bytes=_whole(host.get("pinned_bytes_total", host.get("bytes_total"))),
        start_seconds=number((report.get("figures") or {}).get("start_seconds")),
        planned_seconds=number(timing.get("start_seconds")),
        problems=problems,
        entry=entry,
        plan=plan,
        started=started,
        followed=start,
        **common,
    )


def _state(look: Any, in_force: bool, start: Followed | None) -> tuple[str, list[Problem]]:
    if not isinstance(look, Mapping):
        return UNREAD, []
    unit = look["unit"]
    name, active = unit.get("name"), unit.get("active_state")
    if unit.get("load_state") == "not-found":
        return FAILED, [_of("unit_absent", f"systemd knows no {name}, and something is reserved for it.")]
    gone = [rank["rank"] for rank in look.get("ranks") or () if not rank.get("alive")]
    if in_force:
        if gone:
            return FAILED, [_of("rank_gone", f"{name} runs without {', '.join(gone)}.")]
        return SERVES, []
    if active == "inactive" and unit.get("result") == "success":
        return STOPPED, [_of("unit_stopped", f"{name} was stopped and does not run.")]
    if start is not None and start.verdict == "ready":
        return UNPROVEN, [_of("start_not_proven", f"{name} is ready; its start {_short(unit)} has not been proven.")]
    if start is not None and start.verdict == "failed" and start.cause is not None:
        return FAILED, [start.cause]
    if active in ("failed", "inactive") or unit.get("sub_state") == "auto-restart":
        return FAILED, []
    return (STOPPED if active == "deactivating" else STARTING), []


def _of_instance(
    entry: Mapping[str, Any],
    look: Any,
    ledger: Mapping[str, Any],
    in_force: bool,
    plan: Mapping[str, Any] | None,
) -> list[Problem]:
    """What is to be told of an instance beside its state."""
    found = [*_problems(entry.get("problems"))]
    unit = look["unit"] if isinstance(look, Mapping) else {}
    restarts = unit.get("n_restarts") or 0
    if restarts:
        times = "once" if restarts == 1 else f"{restarts} times"
        found.append(_of("unit_restarted", f"systemd has restarted {unit.get('name')} {times} by itself."))
    if unit.get("need_daemon_reload"):
        found.append(_of("unit_file_changed", f"The file of {unit.get('name')} is newer than what systemd has read."))
    failed = ledger.get("failed") or {}
    if failed.get("message"):
        left = str(failed.get("generation") or "")[:12]
        message = f"Generation {left} failed and was gone back from: {one_line(str(failed['message']), 300)}"
        found.append(_of("went_back", _sentence(message)))
    if in_force:
        found += _problems((ledger.get("startup") or {}).get("problems"))
        found += _problems((ledger.get("proof") or {}).get("problems"))
    return [*found, *_problems((plan or {}).get("warnings"))]


def _of(code: str, message: str) -> Problem:
    return CODES[code].of(code, message)


def _short(unit: Mapping[str, Any]) -> str:
    return str(unit.get("invocation_id") or "")[:8]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _problems(found: Any) -> tuple[Problem, ...]:
    """Of what a module stated; what lacks a part is shown without it."""
    return tuple(
        Problem(
            code=one_line(str(one.get("code") or "unnamed")),
            severity=one["severity"] if one.get("severity") in _SEVERITIES else "warning",
            message=one_line(str(one.get("message") or "")),
            remedy=one_line(str(one.get("remedy") or "")),
        )
        for one in found or ()
        if isinstance(one, Mapping)
    )


def _sorted(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each once, the gravest first."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: _SEVERITIES[problem.severity]))


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> str | None:
    """C(8 x H200); None without any."""
    counts: dict[str, int] = {}
    for gpu in gpus:
        name = short_board(gpu.get("name"))
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or None


def _tail(path: Any) -> str | None:
    return str(path).rstrip("/").rsplit("/", maxsplit=1)[-1] if path else None


def _whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _pinned(look: Any, report: Mapping[str, Any], in_force: bool) -> int | None:
    """By the meter of this start; what its ranks hold now counts where the ledger does not tell."""
    told = _whole((report.get("figures") or {}).get("pinned_bytes", report.get("pinned_bytes")))
    if told is not None or not isinstance(look, Mapping) or not in_force:
        return told
    return _whole(look.get("pinned_bytes"))


def ranks_by_number(ranks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """In the order of their numbers, which is that of a plan's placement: C(PP1 TP0) after C(PP0 TP1)."""
    return sorted(ranks, key=lambda rank: natural_order(str(rank.get("rank") or "")))
