# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory of one instance in bars: what was planned over what is, for each GPU, each NUMA node and the host. Pure.

Lengths are parts of the longest bar of a group. What a plan does not know is left out, as in a plan's picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.html import Markup, tag
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import Row, ranks_by_number
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.bars import (
    NAMES,
    Bar,
    device_bars,
    node_bars,
    whole_bars,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.words import device_facts, host_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

# A part of a bar below this share is not seen, and not drawn.
_SEEN = 0.001


@dataclass(frozen=True)
class Actual:
    """What is, beside what was planned: C(used_bytes) of C(limit_bytes), in words as well."""

    used_bytes: int | None
    words: str


def memory_of(row: Row) -> Markup | None:
    plan = row.plan
    if plan is None:
        return _without_plan(row)
    groups = [
        ("GPU memory", "GiB", device_bars(plan), _gpus(row, plan)),
        ("Host memory, by node", "GB", node_bars(plan), _nodes(row, plan)),
        ("Host memory", "GB", whole_bars(plan), _host(row, plan)),
    ]
    drawn = [_group(title, unit, bars, actual) for title, unit, bars, actual in groups if bars]
    kinds = dict.fromkeys(
        segment.kind for _title, _unit, bars, _actual in groups for strip in bars for segment in strip.segments
    )
    facts = [", ".join(device_facts(plan)), ", ".join(host_facts(plan["host"]))]
    old = None if row.started else "This is the plan of the last proven start, and not of the one that failed."
    return tag(
        "section",
        tag("h3", "Memory"),
        tag("p", old, class_="note") if old else None,
        [tag("p", line, class_="dim") for line in facts],
        _legend(kinds),
        drawn,
        class_="wide",
    )


def _without_plan(row: Row) -> Markup | None:
    if row.instance is None:
        return None
    words = "No start of this instance has been proven, so that the node holds no plan to compare with."
    return tag("section", tag("h3", "Memory"), tag("p", words, class_="dim"), class_="wide")


def _legend(kinds: Mapping[str, None]) -> Markup:
    marks = [(f"k-{kind}", NAMES.get(kind) or one_line(kind, 24)) for kind in (*NAMES, *kinds) if kind in kinds]
    marks.append(("k-actual", "in fact"))
    unique = list(dict.fromkeys(marks))
    return tag("p", [tag("span", tag("i", class_=f"sw {kind}"), words) for kind, words in unique], class_="legend")


def _group(title: str, unit: str, bars: Sequence[Bar], actual: Mapping[str, Actual]) -> Markup:
    told = format_gib if unit == "GiB" else format_gb
    longest = max(
        max(strip.size_bytes, strip.limit_bytes or 0, (actual.get(strip.label) or Actual(0, "")).used_bytes or 0)
        for strip in bars
    )
    rows = []
    for strip in bars:
        real = actual.get(strip.label)
        limit = "" if strip.limit_bytes is None else f" of {told(strip.limit_bytes, 1)}"
        planned = "" if strip.place == "each" else f"{told(strip.taken_bytes, 1)}{limit}"
        rows.append(
            tag(
                "tr",
                tag("th", strip.label, tag("small", strip.place) if strip.place else None, scope="row"),
                tag("td", _bar(strip, longest, unit), _thin(real, longest)),
                tag("td", planned, tag("b", " short") if strip.short_bytes else None, class_="n"),
                tag("td", real.words if real else "–", class_="n"),
            )
        )
    head = tag(
        "tr",
        tag("th", title, scope="col"),
        tag("th", scope="col"),
        tag("th", "planned", class_="n", scope="col"),
        tag("th", "in fact", class_="n", scope="col"),
    )
    return tag("table", tag("thead", head), tag("tbody", rows), class_="bars")


@lru_cache(maxsize=1024)
def _bar(strip: Bar, longest: int, unit: str) -> Markup:
    told = format_gib if unit == "GiB" else format_gb
    parts = []
    for segment in strip.segments:
        share = segment.size_bytes / longest if longest else 0
        if share >= _SEEN:
            name = f"{NAMES.get(segment.kind) or one_line(segment.kind, 24)} {segment.detail}".strip()
            hover = f"{name}: {told(segment.size_bytes, 2)}"
            parts.append(tag("i", class_=f"k-{segment.kind}", style=f"width:{share * 100:.2f}%", title=hover))
    limit = None
    if strip.limit_bytes is not None and longest:
        limit = tag("u", style=f"left:{strip.limit_bytes / longest * 100:.2f}%")
    return tag("div", parts, limit, class_="bar")


def _thin(real: Actual | None, longest: int) -> Markup | None:
    if real is None or real.used_bytes is None or not longest:
        return None
    return tag("div", tag("i", class_="k-actual", style=f"width:{real.used_bytes / longest * 100:.2f}%"), class_="thin")


def _gpus(row: Row, plan: Mapping[str, Any]) -> dict[str, Actual]:
    """What the driver says of each GPU."""
    found = {}
    for gpu in (row.facts or {}).get("topology", {}).get("gpus") or ():
        used, total = number(gpu.get("memory_used_bytes")), number(gpu.get("memory_total_bytes"))
        if used is not None:
            of = f" of {format_gib(total, 1)}" if total is not None else ""
            found[f"GPU {gpu.get('index')}"] = Actual(int(used), f"{format_gib(used, 1)} in use{of}")
    return found


def pinned_by_node(row: Row, plan: Mapping[str, Any]) -> dict[int, int]:
    """What the ranks of each NUMA node hold by the meter; empty where it is not known of all of them."""
    look = (row.entry or {}).get("look") or {}
    report: Mapping[str, Any] = row.followed.report if row.followed is not None else {}
    ranks = look.get("ranks") or report.get("ranks") or ()
    seats = sorted(plan.get("placement") or (), key=lambda seat: seat["rank"])
    held = [number(rank.get("pinned_bytes")) for rank in ranks_by_number(ranks)]
    if not seats or len(seats) != len(held):
        return {}
    found: dict[int, int] = {}
    for seat, size in zip(seats, held):
        if size is None or seat.get("numa_node") is None:
            return {}
        found[seat["numa_node"]] = found.get(seat["numa_node"], 0) + int(size)
    return found


def _nodes(row: Row, plan: Mapping[str, Any]) -> dict[str, Actual]:
    pinned = pinned_by_node(row, plan)
    available = {
        node.get("id"): number(node.get("memory_available_bytes"))
        for node in (row.facts or {}).get("topology", {}).get("numa_nodes") or ()
    }
    found = {}
    for node in plan["host"]["numa"]:
        number_of = node["node"]
        left = available.get(number_of)
        words = [f"{format_gb(pinned[number_of], 1)} pinned"] if number_of in pinned else []
        words += [f"{format_gb(left, 1)} available"] if left is not None else []
        if words:
            found[f"NUMA node {number_of}"] = Actual(pinned.get(number_of), ", ".join(words))
    return found


def _host(row: Row, plan: Mapping[str, Any]) -> dict[str, Actual]:
    left = number((row.facts or {}).get("topology", {}).get("host", {}).get("memory_available_bytes"))
    words = [f"{format_gb(row.pinned_bytes, 1)} pinned"] if row.pinned_bytes is not None else []
    words += [f"{format_gb(left, 1)} available"] if left is not None else []
    return {"whole host": Actual(row.pinned_bytes, ", ".join(words))} if words else {}
