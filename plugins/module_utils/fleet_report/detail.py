# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is shown of one row when it is opened: problems, memory, start, proof, versions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.html import Markup, lines_of, prose, tag
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.memory_bars import memory_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import Row
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import (
    deviation_lines,
    deviations,
    number,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    format_gb,
    format_rate,
    format_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.report import proof_lines
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.closing import LABELS

ICONS = {"error": "✕", "warning": "▲", "info": "·"}
# Stage -> key of the plan's timing.
_PLANNED = {"load": "load_seconds", "host_pool": "pin_seconds"}
_LAST_LINES = 12


def detail_of(row: Row) -> Markup:
    parts = [problems_of(row), memory_of(row), _start(row), _proof(row), _last_lines(row), _versions(row)]
    return tag("div", [part for part in parts if part is not None], class_="detail")


def severity(name: str) -> Markup:
    """Told by a mark, a word and a colour."""
    return tag("span", tag("b", ICONS[name], aria_hidden="true"), f" {name}", class_=f"sev {name}")


def problems_of(row: Row) -> Markup | None:
    if not row.problems:
        return None
    rows = [
        tag(
            "tr",
            tag("td", severity(problem.severity)),
            tag("td", tag("code", problem.code)),
            tag(
                "td",
                prose(problem.message),
                tag("p", prose(problem.remedy), class_="remedy") if problem.remedy else None,
            ),
        )
        for problem in row.problems
    ]
    return tag("section", tag("h3", "Problems and what to do"), tag("table", rows, class_="problems"), class_="wide")


def _report(row: Row) -> Mapping[str, Any]:
    if row.followed is not None:
        return row.followed.report
    return ((row.entry or {}).get("ledger") or {}).get("startup") or {}


def _start(row: Row) -> Markup | None:
    stages = [stage for stage in _report(row).get("stages") or () if isinstance(stage, Mapping)]
    if not stages:
        return None
    timing = (row.plan or {}).get("timing") or {} if row.started else {}
    begins = [at for at in (number(stage.get("started_at")) for stage in stages) if at is not None]
    first = min(begins) if begins else 0.0
    ends = [(number(s.get("started_at")) or first) + (number(s.get("seconds")) or 0.0) for s in stages]
    whole = max([row.start_seconds or 0.0, *(end - first for end in ends)]) or 1.0
    rows = []
    for stage in stages:
        seconds, began = number(stage.get("seconds")), number(stage.get("started_at"))
        at = (began - first if began is not None else 0.0) / whole
        width = (seconds or 0.0) / whole
        planned = number(timing.get(_PLANNED.get(str(stage.get("stage")), "")))
        open_end = " open" if seconds is None else ""
        strip = tag("i", class_=f"k-stage{open_end}", style=f"left:{at * 100:.2f}%;width:{max(width * 100, 0.4):.2f}%")
        rows.append(
            tag(
                "tr",
                tag("th", LABELS.get(str(stage.get("stage")), one_line(str(stage.get("stage")), 24)), scope="row"),
                tag("td", tag("div", strip, class_="bar track")),
                tag("td", "did not end" if seconds is None else format_seconds(seconds), class_="n"),
                tag("td", "–" if planned is None else format_seconds(planned), class_="n"),
                tag("td", _bytes(stage), class_="n"),
            )
        )
    total = "–" if row.start_seconds is None else format_seconds(row.start_seconds)
    expected = number(timing.get("start_seconds"))
    rows.append(
        tag(
            "tr",
            tag("th", "in all", scope="row"),
            tag("td"),
            tag("td", total, class_="n"),
            tag("td", "–" if expected is None else format_seconds(expected), class_="n"),
            tag("td"),
            class_="sum",
        )
    )
    head = [tag("th", scope="col"), tag("th", scope="col")]
    head += [tag("th", words, class_="n", scope="col") for words in ("took", "planned", "bytes")]
    return tag(
        "section",
        tag("h3", "Start", _when(row)),
        tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="bars stages"),
        _deviations(row),
        class_="wide",
    )


def _when(row: Row) -> str | None:
    unit = ((row.entry or {}).get("look") or {}).get("unit") or {}
    start = str(_report(row).get("invocation_id") or unit.get("invocation_id") or "")
    restarts = unit.get("n_restarts") or 0
    told = f" (invocation {start[:8]}" + (f", restarted {restarts} times by systemd)" if restarts else ")")
    return told if start else None


def _bytes(stage: Mapping[str, Any]) -> str:
    size, seconds = number(stage.get("bytes")), number(stage.get("seconds"))
    if not size:
        return ""
    rate = f" at {format_rate(size / seconds)}" if stage.get("stage") == "host_pool" and seconds else ""
    return f"{format_gb(size)}{rate}"


def _deviations(row: Row) -> Markup | None:
    ledger = (row.entry or {}).get("ledger") or {}
    if row.followed is not None or not ledger:
        return None
    lines = deviation_lines(one.as_dict() for one in deviations(ledger))
    return tag("ul", [tag("li", line) for line in lines]) if lines else None


def _proof(row: Row) -> Markup | None:
    entry = row.entry or {}
    proof = (entry.get("ledger") or {}).get("proof")
    if not entry.get("ledger_in_force") or not isinstance(proof, Mapping):
        return None
    lines = [line for line in proof_lines({**proof, "problems": []}) if line.strip()]
    return tag("section", tag("h3", "Proof"), tag("ul", [tag("li", " ".join(line.split())) for line in lines]))


def _last_lines(row: Row) -> Markup | None:
    tail = ((row.entry or {}).get("look") or {}).get("tail") or []
    if row.followed is None or not tail:
        return None
    lines = lines_of(str(line) for line in tail[-_LAST_LINES:])
    return tag("section", tag("h3", "Last lines of its log"), tag("pre", lines, tabindex="0"), class_="wide")


def _versions(row: Row) -> Markup | None:
    facts = row.facts
    if facts is None:
        return None
    topology, stack, entry = facts.get("topology") or {}, facts.get("stack") or {}, row.entry or {}
    driver = topology.get("driver") or {}
    releases = (stack.get("driver") or {}).get("releases") or {}
    running, after = stack.get("running_kernel"), (stack.get("next_boot") or {}).get("kernel")
    system = stack.get("os") or {}
    unit = (entry.get("look") or {}).get("unit") or {}
    generation = unit.get("generation") or (entry.get("ledger") or {}).get("generation")
    pairs = [
        ("SGLang", row.release),
        ("generation", str(generation)[:12] if generation else None),
        ("driver", releases.get("loaded") or driver.get("version")),
        ("its libraries", releases.get("user_space") if releases.get("user_space") != releases.get("loaded") else None),
        ("CUDA of the driver", driver.get("cuda_version")),
        ("kernel", running),
        ("kernel that boots next", after if after != running else None),
        ("system", " ".join(str(part) for part in (system.get("id"), system.get("version_id")) if part)),
        ("processor", (topology.get("host") or {}).get("cpu_model")),
        ("machine", (topology.get("host") or {}).get("product")),
    ]
    shown = [(name, one_line(str(value))) for name, value in pairs if value]
    if not shown:
        return None
    listed = [(tag("dt", name), tag("dd", value)) for name, value in shown]
    return tag("section", tag("h3", "Versions"), tag("dl", listed))
