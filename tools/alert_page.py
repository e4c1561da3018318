# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of the role monitoring as its defaults render them, what they ask for, and the page about its alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

ROLE = Path(__file__).resolve().parent.parent / "roles" / "monitoring"
SUBJECTS = {
    "sglang": "Instances and requests",
    "hicache": "HiCache",
    "host": "The host",
    "gpu": "GPUs",
    "router": "Routers",
}
# A name of a metric as an expression has it; what a function is called by has a bracket behind it.
_METRIC = re.compile(
    r"\b((?:sglang|gpufleet|node|smg|DCGM_FI)[_:][A-Za-z0-9_:]+|sglang_instance:[A-Za-z0-9_:]+)\b(?!\s*\()"
)
_SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
_NO_METRICS = frozenset(("sglang_instance",))
HEAD = """\
# Alerts

What each alert of the role [`monitoring`](../roles/monitoring/README.md) means and what to do. Thresholds are those of
the role's defaults. `tools/describe-alerts` writes this page out of the rules; `make docs` holds it against them. What
is scraped and where it comes from: [monitoring](monitoring.md).
"""


@cache
def rendered() -> dict[str, str]:
    """Each file of rules by its name."""
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        # The templates have Prometheus' own braces in them.
        variable_start_string="[[",
        variable_end_string="]]",
    )
    found = {}
    for path in sorted((ROLE / "templates" / "rules").glob("*.yml.j2")):
        template = environment.from_string(path.read_text(encoding="utf-8"))
        found[path.name.removesuffix(".j2")] = template.render({**defaults, "ansible_managed": ""})
    return found


@cache
def rules() -> list[dict[str, Any]]:
    return [rule for text in rendered().values() for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def metrics_of(expression: str) -> set[str]:
    """The metrics and recorded series that an expression asks for; histograms by the name of the family."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    bare = re.sub(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    found = set(_METRIC.findall(bare)) - _NO_METRICS
    return {_SUFFIX.sub("", name) if name.startswith("sglang:") else name for name in found}


@cache
def recorded() -> dict[str, str]:
    return {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def sources_of(expression: str) -> set[str]:
    """The metrics that are scraped for it, behind what is recorded."""
    behind = recorded()
    found: set[str] = set()
    waiting = metrics_of(expression)
    while waiting:
        name = waiting.pop()
        if name in behind:
            waiting |= metrics_of(behind[name])
        else:
            found.add(name)
    return found


def first_release(names: Iterable[str], spans: Mapping[str, list[list[str]]]) -> str | None:
    """The oldest release of SGLang from which on all of them are there, by what was recorded of the wheels."""
    starts = [spans[name][-1][0] for name in names if name.startswith("sglang:")]
    return max(starts, key=lambda text: [int(part) for part in re.findall(r"\d+", text)], default=None)


def _told(text: str) -> str:
    """A template's text for people: what is filled in by its name."""
    named = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", text)
    return re.sub(r"\{\{[^}]*\$value[^}]*\}\}", "*value*", named)


def page() -> str:
    oracle = ROLE.parents[1] / "tests" / "conformance" / "oracle" / "metrics.json"
    spans = {row["name"]: row["releases"] for row in json.loads(oracle.read_text(encoding="utf-8"))}
    parts = [HEAD]
    alerts = [rule for rule in rules() if "alert" in rule]
    for component, title in SUBJECTS.items():
        mine = [rule for rule in alerts if rule["labels"]["component"] == component]
        parts.append(f"## {title}\n")
        for rule in mine:
            said = rule["annotations"]
            lasting = f", for {rule['for']}" if "for" in rule else ", at once"
            since = first_release(sources_of(rule["expr"]), spans)
            parts.append(
                f"### {rule['alert']}\n\n**{rule['labels']['severity']}**{lasting}"
                + (f"; from SGLang {since} on" if since else "")
                + f"\n\n{_told(said['description'])}\n\n**What to do:** {_told(said['remedy'])}\n\n"
                + f"```promql\n{rule['expr']}\n```\n"
            )
    return "\n".join(parts)
