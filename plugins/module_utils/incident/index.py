# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an incident was, in a few lines: what, when, why, what to do next, and what lies in the bundle. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import refusal_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.page import MARKS
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import Row
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

_WIDTH = 10


@dataclass(frozen=True)
class Reason:
    code: str
    message: str
    remedy: str


def reasons_of(rows: Sequence[Row], failure: Mapping[str, Any] | None) -> list[Reason]:
    """What the task that failed said, then what is wrong on the node, the gravest first."""
    found = []
    if failure:
        told = refusal_of(failure)
        found.append(Reason(told["code"], told["message"], told["remedy"]))
    for row in rows:
        found += [
            Reason(problem.code, problem.message, problem.remedy)
            for problem in row.problems
            if problem.severity != "info"
        ]
    unique: dict[str, Reason] = {}
    for reason in found:
        unique.setdefault(reason.code, reason)
    return list(unique.values())


def index_of(
    node: str,
    rows: Sequence[Row],
    at: float,
    failure: Mapping[str, Any] | None,
    task: str | None,
) -> dict[str, Any]:
    """JSON-safe; C(at) in UNIX seconds is when the node was read, or was tried to be."""
    reasons = reasons_of(rows, failure)
    following = next((reason.remedy for reason in reasons if reason.remedy), "")
    return {
        "schema": 1,
        "kind": "gpufleet.sglang.incident",
        "node": node,
        "read_at": _time(at),
        "states": [{"instance": row.instance, "state": row.state} for row in rows],
        "starts": [start for start in map(_start, rows) if start is not None],
        "task": task,
        "reasons": [vars(reason) for reason in reasons],
        "next": following or "Look at the journal of the start, and at what the play said.",
        "versions": _versions(rows),
    }


def index_lines(index: Mapping[str, Any], files: Mapping[str, str], redacted: bool) -> list[str]:
    """The index for a person; C(files) are told with what is in them."""
    states = ", ".join(
        f"{one['instance'] + ' ' if one['instance'] else ''}{MARKS[one['state']][1]}" for one in index["states"]
    )
    lines = [
        f"Incident of {index['node']}",
        "",
        _labelled("What", states or "the node was not read"),
        _labelled("When", f"{index['read_at']} (read)"),
        *(
            _labelled(
                "", f"{one['began_at'] or 'at an unknown time'} start {one['invocation_id']} of {one['instance']}"
            )
            for one in index["starts"]
        ),
    ]
    if index["task"]:
        lines.append(_labelled("Task", str(index["task"])))
    lines += [_labelled("" if place else "Why", f"{one['code']}: {one['message']}") for place, one in _numbered(index)]
    lines += [_labelled("Next", str(index["next"])), ""]
    lines += [_labelled(name, str(value)) for name, value in index["versions"].items()]
    lines += ["", "Files"]
    width = max((len(name) for name in files), default=0)
    lines += [f"  {name:<{width}}  {what}".rstrip() for name, what in files.items()]
    hidden = "Keys, tokens and passwords are replaced by ***"
    also = (
        "; names, addresses and serial numbers by numbered words." if redacted else "; names and addresses are shown."
    )
    return [*lines, "", hidden + also]


def _numbered(index: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    return list(enumerate(index["reasons"]))


def _labelled(label: str, text: str) -> str:
    return f"{label:<{_WIDTH}}{one_line(text)}".rstrip()


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _start(row: Row) -> dict[str, Any] | None:
    """The start whose log is in the bundle."""
    entry = row.entry or {}
    unit = (entry.get("look") or {}).get("unit") or {}
    followed = (entry.get("journal") or {}).get("invocation_id") or unit.get("invocation_id")
    if not followed:
        return None
    began = number(unit.get("started_at")) if unit.get("invocation_id") == followed else None
    return {
        "instance": row.instance,
        "invocation_id": followed,
        "began_at": None if began is None else _time(began),
    }


def _versions(rows: Sequence[Row]) -> dict[str, str]:
    facts = next((row.facts for row in rows if row.facts is not None), {})
    topology, stack = facts.get("topology") or {}, facts.get("stack") or {}
    system = stack.get("os") or {}
    driver = (stack.get("driver") or {}).get("releases") or {}
    told = {
        "SGLang": ", ".join(dict.fromkeys(row.release for row in rows if row.release)),
        "Driver": driver.get("loaded") or (topology.get("driver") or {}).get("version"),
        "CUDA": (topology.get("driver") or {}).get("cuda_version"),
        "Kernel": stack.get("running_kernel"),
        "System": " ".join(str(part) for part in (system.get("id"), system.get("version_id")) if part),
        "GPUs": next((row.gpus for row in rows if row.gpus), None),
    }
    return {name: str(value) for name, value in told.items() if value}
