# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person has to know first: how the fleet is, and what to do next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.names import in_short
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.facts import checked
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import (
    DEGRADED,
    EMPTY,
    FAILED,
    SERVES,
    SERVING,
    STARTING,
    STATES,
    STOPPED,
    UNPROVEN,
    UNREACHABLE,
    UNREAD,
    Row,
    rows_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count

# State -> what is said of several, what is said of one.
_WORDS = {
    FAILED: ("have failed", "has failed"),
    UNREACHABLE: ("cannot be reached", "cannot be reached"),
    UNREAD: ("could not be read", "could not be read"),
    DEGRADED: ("serve with errors", "serves with errors"),
    UNPROVEN: ("serve unproven", "serves unproven"),
    STARTING: ("are starting", "is starting"),
    STOPPED: ("are stopped", "is stopped"),
    EMPTY: ("have no instance", "has no instance"),
}
GOOD, WATCH, BAD = "good", "watch", "bad"


@dataclass(frozen=True)
class Group:
    """A problem with all the rows that have it. C(message) is that of the first of them."""

    code: str
    severity: str
    message: str
    remedy: str
    rows: tuple[Row, ...]
    alike: bool

    @property
    def names(self) -> str:
        return in_short(dict.fromkeys(row.node for row in self.rows), 3)


@dataclass(frozen=True)
class Verdict:
    level: str
    sentence: str
    # State, and what is said of those in it.
    details: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]


def verdict_of(rows: Sequence[Row]) -> Verdict:
    counts = {state: sum(row.state == state for row in rows) for state in STATES}
    whole, serving = len(rows), sum(counts[state] for state in SERVING)
    noun = "node" if len({row.node for row in rows}) == whole else "instance"
    if not whole:
        return Verdict(WATCH, "There is no node in this report.", (), ())
    plural = noun if whole == 1 else f"{noun}s"
    if counts[SERVES] == whole:
        sentence = f"The {noun} serves." if whole == 1 else f"All {format_count(whole)} {plural} serve."
    else:
        verb = "serves" if serving == 1 else "serve"
        sentence = f"{format_count(serving)} of {format_count(whole)} {plural} {verb}."
    details = tuple(
        (state, f"{format_count(counts[state])} {words[counts[state] == 1]}")
        for state, words in _WORDS.items()
        if counts[state]
    )
    grave = counts[FAILED] + counts[UNREACHABLE] + counts[UNREAD]
    level = BAD if grave else GOOD if counts[SERVES] == whole else WATCH
    return Verdict(level, sentence, details, _groups(rows))


def _groups(rows: Sequence[Row]) -> tuple[Group, ...]:
    """Problems by code and remedy, what stops most from serving first; what is only worth knowing is left out."""
    found: dict[tuple[str, str, str], list[tuple[Row, str]]] = {}
    for row in rows:
        for problem in row.problems:
            if problem.severity != "info":
                key = (problem.severity, problem.code, problem.remedy)
                found.setdefault(key, []).append((row, problem.message))
    groups = []
    for (severity, code, remedy), told in found.items():
        rows_with_it, messages = zip(*told)
        groups.append(Group(code, severity, messages[0], remedy, rows_with_it, len(set(messages)) == 1))
    return tuple(sorted(groups, key=_urgency))


def _urgency(group: Group) -> tuple[int, int, int]:
    """Errors before warnings, on nodes that do not serve before others, then by how many have it."""
    worst = min(STATES.index(row.state) for row in group.rows)
    return (group.severity != "error", 0 if worst <= STATES.index(UNREAD) else 1, -len(group.rows))


def summary_lines(document: Mapping[str, Any], most: int = 5) -> list[str]:
    """The same for a terminal. C(document) is what report_facts gives."""
    verdict = verdict_of(rows_of(checked(document)))
    lines = [verdict.sentence]
    if verdict.details:
        lines.append(", ".join(words for _state, words in verdict.details))
    for place, group in enumerate(verdict.groups[:most]):
        lines += ["", f"{'Next, on' if place == 0 else 'Then, on'} {group.names}: {group.message}"]
        lines += [f"  {group.remedy}"] if group.remedy else []
    more = len(verdict.groups) - most
    return [*lines, "", f"{more} more kinds of problems are in the page."] if more > 0 else lines
