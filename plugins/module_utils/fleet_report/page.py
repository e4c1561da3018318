# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a fleet: one file of HTML that needs nothing from outside. Pure.

Texts of others are escaped one by one, and only the script whose digest the page names may run in it. What a row holds
when it is opened lies beside the table where there are many, as a browser takes text faster than elements.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.detail import detail_of, severity
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.facts import checked
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.html import Markup, prose, tag
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import STATES, Row, rows_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.script import SCRIPT
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.style import style
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.verdict import (
    BAD,
    GOOD,
    Group,
    Verdict,
    verdict_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_count

# Up to so many rows are whole without the script.
INLINE_ROWS = 25
MOST_GROUPS = 15
NOTHING = "–"
MARKS = {
    "failed": ("✕", "failed"),
    "unreachable": ("✕", "unreachable"),
    "unread": ("✕", "not read"),
    "degraded": ("▲", "with errors"),
    "unproven": ("▲", "unproven"),
    "starting": ("◔", "starting"),
    "stopped": ("■", "stopped"),
    "empty": ("○", "no instance"),
    "serves": ("✓", "serves"),
}
# Where the text of a row is cut into pieces.
_ENDS = ("</td>", "</th>", "</tr>", "</p>", "</li>", "</dt>", "</dd>", "</table>")
_VERDICT_MARKS = {BAD: "✕", GOOD: "✓"}


@dataclass(frozen=True)
class Column:
    key: str
    title: str
    kind: str = "text"
    hint: str | None = None


COLUMNS = (
    Column("node", "Node"),
    Column("state", "State", "state"),
    Column("gpus", "GPUs"),
    Column("model", "Model"),
    Column("release", "SGLang"),
    Column("tokens", "Tokens", "number", "Tokens that the KV cache of the device holds"),
    Column("planned_tokens", "planned", "number", "Tokens that were planned"),
    Column("pinned", "Pinned, GB", "number", "Host memory that is pinned for the cache, in GB of 1e9 bytes"),
    Column("planned_pinned", "planned, GB", "number", "Host memory that was planned to be pinned"),
    Column("start", "Start, s", "number", "Seconds from the start of the process to ready"),
    Column("planned_start", "planned, s", "number", "Seconds that were planned"),
    Column("problems", "Problems", "number", "Errors and warnings"),
)


def fleet_page(document: Mapping[str, Any], title: str = "SGLang fleet") -> str:
    """C(document) is what report_facts gives, as it is or redacted."""
    rows = rows_of(checked(document))
    verdict = verdict_of(rows)
    inline = len(rows) <= INLINE_ROWS
    several = {row.node for row in rows if row.instance not in (None, "main")}
    bodies = [_body(place, row, row.node in several, inline) for place, row in enumerate(rows)]
    details = None if inline else _stored(detail_of(row) for row in rows)
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(style())),
    ]
    main = [
        _wrong(verdict.groups),
        tag("h2", "Nodes", id="list"),
        _form(rows),
        tag("div", tag("table", tag("thead", tag("tr", _heads())), Markup("\n"), bodies, id="nodes"), class_="scroll"),
    ]
    foot = ["Made by gpufleet.sglang. GB is 1e9 bytes, GiB is 2^30 bytes. ", tag("span", id="opened")]
    if details is not None:
        foot.insert(1, tag("noscript", "Opening a node takes JavaScript, which is off. "))
    body = [
        tag("header", tag("h1", title, tag("span", _when(rows))), _verdict(verdict)),
        tag("main", main),
        tag("footer", foot),
        details,
        tag("script", Markup(SCRIPT)),
    ]
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _stored(details: Iterable[str]) -> Markup:
    """What rows hold, as numbers of pieces that are kept once: most of it is the same for all nodes of a plan.

    No end of a script, and no comment, can begin in it.
    """
    known: dict[str, int] = {}
    rows = [[known.setdefault(piece, len(known)) for piece in _pieces(detail)] for detail in details]
    text = json.dumps({"pieces": list(known), "rows": rows}, ensure_ascii=False, separators=(",", ":"))
    return tag("script", Markup(text.replace("<", "\\u003c")), type="application/json", id="details")


def _pieces(text: str) -> list[str]:
    # No text of a page holds a control character.
    for end in _ENDS:
        text = text.replace(end, f"{end}\0")
    return text.split("\0")


def _when(rows: Sequence[Row]) -> str:
    times = [at for at in (number((row.facts or {}).get("taken_at")) for row in rows) if at is not None]
    if not times:
        return ", read at an unknown time"
    first, last = (datetime.fromtimestamp(at, timezone.utc) for at in (min(times), max(times)))
    span = f" to {last:%H:%M}" if f"{first:%d %H:%M}" != f"{last:%d %H:%M}" else ""
    return f", read {first:%Y-%m-%d %H:%M}{span} UTC"


def _verdict(verdict: Verdict) -> Markup:
    mark = tag("b", f"{_VERDICT_MARKS.get(verdict.level, '▲')} ", aria_hidden="true")
    parts: list[Markup] = [tag("p", mark, verdict.sentence, class_="says")]
    if verdict.details:
        told = [tag("a", words, href=f"#state={state}") for state, words in verdict.details]
        parts.append(tag("p", told, class_="counts"))
    if verdict.groups:
        first = verdict.groups[0]
        parts += [
            tag("p", tag("b", f"Next, on {first.names}: "), prose(first.message), class_="next"),
            tag("p", tag("b", "→ "), prose(first.remedy), class_="do") if first.remedy else Markup(),
        ]
    elif verdict.level == GOOD:
        parts.append(tag("p", "Nothing is to be done.", class_="next"))
    return tag("div", parts, class_=f"verdict {verdict.level}")


def _wrong(groups: Sequence[Group]) -> Markup | None:
    if not groups:
        return None
    rows = [
        tag(
            "tr",
            tag("td", severity(group.severity)),
            tag("td", format_count(len(group.rows)), class_="n"),
            tag("td", group.names, tag("br"), tag("a", tag("code", group.code), href=f"#q={group.code}")),
            tag(
                "td", prose(group.message), None if group.alike else tag("small", "(the first of them; others differ)")
            ),
            tag("td", prose(group.remedy)),
        )
        for group in groups[:MOST_GROUPS]
    ]
    head = ("severity", "nodes", "where", "what was found", "what to do")
    heads = [tag("th", words, scope="col", class_="n" if words == "nodes" else None) for words in head]
    more = len(groups) - MOST_GROUPS
    return tag(
        "section",
        tag("h2", "What is wrong, most urgent first"),
        tag("div", tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), id="wrong"), class_="scroll"),
        tag("p", f"{more} more kinds of problems are told at the nodes.", class_="dim") if more > 0 else None,
    )


def _form(rows: Sequence[Row]) -> Markup:
    counts = {state: sum(row.state == state for row in rows) for state in STATES}
    options = [tag("option", "all", value="")]
    options += [
        tag("option", f"{MARKS[state][1]} ({format_count(counts[state])})", value=state, disabled=not counts[state])
        for state in STATES
    ]
    return tag(
        "form",
        tag(
            "label",
            "Search node, GPU, model, release, problem",
            tag("input", id="q", type="search", autocomplete="off"),
        ),
        tag("label", "State", tag("select", options, id="state")),
        tag("button", "Show all", type="button", id="clear"),
        tag("output", id="shown", aria_live="polite"),
        class_="js-only",
        role="search",
        hidden=len(rows) == 1,
    )


def _heads() -> list[Markup]:
    return [
        tag(
            "th",
            tag("button", column.title, type="button", title=column.hint),
            scope="col",
            class_="n" if column.kind == "number" else None,
            data_key=column.key,
            data_kind=column.kind,
        )
        for column in COLUMNS
    ]


def _body(place: int, row: Row, named: bool, inline: bool) -> Markup:
    mark, word = MARKS[row.state]
    problems = row.count("error") * 1000 + row.count("warning")
    cells = [
        tag(
            "th",
            tag("button", row.node, type="button", aria_expanded="false"),
            tag("small", row.instance) if named and row.instance else None,
            scope="row",
        ),
        tag("td", tag("b", mark, aria_hidden="true"), f" {word}", class_=f"state {row.state}"),
        tag("td", row.gpus or NOTHING),
        tag("td", row.model or NOTHING),
        tag("td", row.release or NOTHING),
        *_pair(row.tokens, row.planned_tokens, format_count),
        *_pair(row.pinned_bytes, row.planned_bytes, _gb),
        *_pair(row.start_seconds, row.planned_seconds, _seconds),
        tag("td", _counted(row), class_="n", data_v=str(problems)),
    ]
    codes = " ".join(dict.fromkeys(problem.code for problem in row.problems if problem.severity != "info"))
    shown = [tag("tr", cells)]
    if inline:
        shown.append(tag("tr", tag("td", detail_of(row), colspan=len(COLUMNS)), class_="more"))
    body = tag(
        "tbody",
        shown,
        class_="row",
        data_place=None if inline else place,
        data_state=row.state,
        data_node=row.node,
        data_codes=codes or None,
    )
    return Markup(f"{body}\n")


def _gb(size: float) -> str:
    return f"{size / GB:,.1f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f}"


def _pair(actual: Any, planned: Any, told: Any) -> tuple[Markup, Markup]:
    return (
        tag("td", NOTHING if actual is None else told(actual), class_="n"),
        tag("td", NOTHING if planned is None else told(planned), class_="n q"),
    )


def _counted(row: Row) -> Markup | str:
    parts = []
    for name in ("error", "warning"):
        count = row.count(name)
        if count:
            parts.append(tag("span", f"{count} {name}{'' if count == 1 else 's'}", class_=name))
    return tag("span", parts[0], ", ", parts[1]) if len(parts) == 2 else parts[0] if parts else NOTHING
