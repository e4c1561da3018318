# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a wait returns, and what it would wait for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.grammar import (
    grammar_is_read,
    grammar_read_as,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_figures import figures
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import (
    live_line,
    ranks_as_dicts,
    timeline,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.notes import notes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    pinned_bytes,
    planned_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.wide import meter_in_use


def release_problems(version: str) -> list[dict[str, str]]:
    """What is to be said of a release before anything is seen."""
    if grammar_is_read(version):
        return []
    code = CODES["release_not_read"]
    message = (
        f"The log lines of SGLang {version} have not been read; they are taken for those of {grammar_read_as(version)}."
    )
    return [code.of("release_not_read", message).as_dict()]


def joined(problems: Iterable[Mapping[str, str]], more: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """Each problem once, as it was last told."""
    by_code = {problem["code"]: dict(problem) for problem in (*problems, *more)}
    return list(by_code.values())


def report_of(state: StartupState, problems: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """The result of a wait, however it ended; the figures are those of a start that came up.

    C(problems): what the looks told, beside what the state itself knows.
    """
    meter, reason = meter_in_use(state)
    report = {
        "outcome": state.verdict,
        "reason": state.reason,
        "stages": timeline(state),
        "invocation_id": state.invocation_id,
        "main_pid": state.unit.main_pid if state.unit is not None else None,
        "n_restarts": state.unit.n_restarts if state.unit is not None else None,
        "meter": meter,
        "meter_reason": reason,
        "pinned_bytes": pinned_bytes(state),
        "planned_bytes": planned_bytes(state),
        "ranks": ranks_as_dicts(state),
        "max_total_num_tokens": state.max_total_num_tokens,
        "host_tokens": state.host_tokens,
        "log": {
            "source": state.log.source,
            "readable": not state.log_unreadable,
            "suppressed": state.log_lost,
            "gap": state.log_gap,
        },
        "problems": joined(problems, (problem.as_dict() for problem in notes(state))),
        "elapsed_seconds": round(state.elapsed_seconds, 3),
    }
    return {**report, "figures": figures(state)} if state.verdict == "ready" else report


def failure_message(host: str, unit: str, state: StartupState, words: str, lines: Sequence[str]) -> str:
    """Who and why in the first line, so that several failures at once can be told apart; the log's last lines below."""
    message = f"{host + ': ' if host else ''}{unit} {state.verdict}: {words}"
    return message + ("\nLast lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else "")


def given_up_message(host: str, unit: str, state: StartupState, words: str, remedy: str) -> str:
    """What is known of a start that could not be watched to its end."""
    known = f"When it was last seen, it was {live_line(state)}. " if state.unit is not None else ""
    return f"{host + ': ' if host else ''}{unit}: {words} {known}{remedy}"


def would_wait_for(
    expected: Expectation, plan: Mapping[str, Any], version: str, watched: Mapping[str, Any]
) -> dict[str, Any]:
    """What a check says. C(watched): the unit and the log that would be read, and the start that would be followed."""
    device: Mapping[str, Any] = plan.get("device") or {}
    timing: Mapping[str, Any] = plan.get("timing") or {}
    weights, ranks = device.get("weights_bytes"), expected.ranks
    return {
        **watched,
        "ranks": ranks,
        "planned_bytes": expected.bytes_total,
        "bytes_by_stage": list(expected.bytes_by_stage),
        "meter": expected.meter,
        "stages": [
            {
                "stage": "load",
                "seconds": timing.get("load_seconds"),
                "bytes": weights * ranks if isinstance(weights, int) and ranks else None,
            },
            {"stage": "host_pool", "seconds": timing.get("pin_seconds"), "bytes": expected.bytes_total},
        ],
        "start_seconds": timing.get("start_seconds"),
        "timeout_seconds": expected.timeout_seconds,
        "stall_seconds": expected.stall_seconds,
        "release_read": grammar_read_as(version),
    }


def would_wait_line(would: Mapping[str, Any]) -> str:
    """The same for a person: C(would follow 8 ranks that pin 358.17 GB in about 89 s; ...)."""
    ranks, size = would["ranks"], would["planned_bytes"]
    pin = next(row["seconds"] for row in would["stages"] if row["stage"] == "host_pool")
    line = "would follow the start"
    if ranks and size:
        line += f" of {ranks} ranks that pin {format_gb(size)}" + (f" in about {format_seconds(pin)}" if pin else "")
    if would["start_seconds"]:
        line += f", about {format_seconds(would['start_seconds'])} in all"
    return f"{line}, for at most {format_seconds(would['timeout_seconds'])}"
