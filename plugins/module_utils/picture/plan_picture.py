# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of a fleet's plans: for each kind of nodes its GPUs, NUMA nodes and host as stacked bars, in SVG.

One scale for all GPUs of a picture, one for all NUMA nodes and one for all hosts, so that nodes compare; every length
is bytes over its scale.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.names import in_short
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import PLANNED
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.table import closing_lines, row_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.bars import (
    NAMES,
    RESERVE,
    Bar,
    device_bars,
    node_bars,
    whole_bars,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.draw_bars import draw_group
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.scale import (
    LINE_CHARACTERS,
    LINE_STEP,
    MARGIN,
    SMALL,
    WIDTH,
    Scale,
    scale_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.style import STYLE, definitions, paint
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.svg import element, number, text, text_width
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.words import (
    device_facts,
    host_facts,
    reserve_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

_DEVICE, _NODE, _HOST = "device", "node", "host"
_GROUPS = {_DEVICE: "Memory of each GPU", _NODE: "Memory of each NUMA node", _HOST: "Memory of the host"}
# Pixels below which a segment needs no legend.
_SEEN = 0.5
_LEGEND = {RESERVE: "reserve (GPU: activations, graphs, buffers; host: everything else)"}


@dataclass(frozen=True)
class Panel:
    """One kind of nodes: names, plan, and the bars by what they are of."""

    names: tuple[str, ...]
    plan: Mapping[str, Any]
    bars: Mapping[str, tuple[Bar, ...]]


def plan_picture(fleet: Mapping[str, Any]) -> str:
    """C(fleet) is the document of fleet_plans."""
    panels = _panels(fleet["nodes"])
    scales = {
        group: scale_of([strip for panel in panels for strip in panel.bars[group]], of_gpus=group == _DEVICE)
        for group in _GROUPS
    }
    one = len(panels) == 1 and len(fleet["nodes"]) == len(panels[0].names)
    title = f"Memory plan of {_who(panels[0].names)}" if one else "Memory plans"
    parts = [text(title, MARGIN, 38, "title")]
    y = 38.0
    if not one:
        y += 20
        parts.append(text(closing_lines(fleet["summary"])[0], MARGIN, y, "line"))
    drawn, y = _legend(_visible(panels, scales), y + 14)
    parts += drawn
    for panel in panels:
        drawn, y = _draw(panel, y + 14, scales, named=not one)
        parts += drawn
    drawn, y = _unplanned(fleet["nodes"], y)
    parts += drawn
    height = y + MARGIN
    return _document(title, _description(fleet, panels), height, parts)


def _document(title: str, description: str, height: float, parts: Sequence[str]) -> str:
    ground = element("rect", width=WIDTH, height=height, class_="ground")
    head = [
        element("title", title, id="title"),
        element("desc", description, id="desc"),
        f"<style>{STYLE}</style>",
        definitions(),
        ground,
    ]
    size = f'width="{WIDTH}" height="{number(height)}" viewBox="0 0 {WIDTH} {number(height)}"'
    body = "\n".join([*head, *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">\n{body}\n</svg>\n'


def _panels(nodes: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Nodes whose bars and text would be the same are one panel."""
    kinds: dict[tuple[object, ...], Panel] = {}
    for node in nodes:
        if node["state"] != PLANNED:
            continue
        plan, name = node["plan"], one_line(node["node"])
        bars = {_DEVICE: device_bars(plan), _NODE: node_bars(plan), _HOST: whole_bars(plan)}
        key = (row_of(node), *bars.values())
        before = kinds.get(key)
        kinds[key] = Panel((*(before.names if before else ()), name), plan, bars)
    return list(kinds.values())


def _who(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{format_count(len(names))} nodes alike: {in_short(names, 3)}"


def _description(fleet: Mapping[str, Any], panels: Sequence[Panel]) -> str:
    sentences = closing_lines(fleet["summary"])
    for panel in panels:
        sentences += [f"{_who(panel.names)}: {', '.join(device_facts(panel.plan))}"]
    return ". ".join(sentences) + "."


def _visible(panels: Sequence[Panel], scales: Mapping[str, Scale]) -> set[str]:
    """Kinds of segments that are wide enough to be seen somewhere."""
    return {
        segment.kind
        for panel in panels
        for group, bars in panel.bars.items()
        for strip in bars
        for segment in strip.segments
        if scales[group].pixels(segment.size_bytes) >= _SEEN
    }


def _legend(present: set[str], y: float) -> tuple[list[str], float]:
    parts, x = [], float(MARGIN)
    for kind in [*(name for name in NAMES if name in present), *sorted(present - set(NAMES))]:
        name = _LEGEND.get(kind) or NAMES.get(kind) or one_line(kind, 24)
        width = 20 + text_width(name, SMALL) * 0.93 + 18
        if x + width > WIDTH - MARGIN and x > MARGIN:
            x, y = float(MARGIN), y + 20
        parts += [
            element("rect", x=x, y=y, width=14, height=12, rx=2, **paint(kind)),
            text(name, x + 20, y + 10, "small"),
        ]
        x += width
    return parts, y + 12


def _draw(panel: Panel, y: float, scales: Mapping[str, Scale], named: bool) -> tuple[list[str], float]:
    parts = []
    if named:
        y += 24
        parts += [
            element("line", x1=MARGIN, y1=y - 20, x2=WIDTH - MARGIN, y2=y - 20, class_="grid"),
            text(_who(panel.names), MARGIN, y + 4, "head"),
        ]
        y += 6
    for line in textwrap.wrap(", ".join(device_facts(panel.plan)), LINE_CHARACTERS):
        y += LINE_STEP
        parts.append(text(line, MARGIN, y, "line"))
    for line in textwrap.wrap(", ".join(host_facts(panel.plan["host"])), LINE_CHARACTERS):
        y += LINE_STEP
        parts.append(text(line, MARGIN, y, "line"))
    reserve = reserve_facts(panel.plan["device"]) if panel.bars[_DEVICE] else None
    for line in textwrap.wrap(reserve or "", LINE_CHARACTERS):
        y += LINE_STEP
        parts.append(text(line, MARGIN, y, "line"))
    for group, bars in panel.bars.items():
        if bars:
            drawn, y = draw_group(_GROUPS[group], bars, y + 30, scales[group])
            parts += drawn
    return parts, y


def _unplanned(nodes: Sequence[Mapping[str, Any]], y: float) -> tuple[list[str], float]:
    """Nodes without a plan by their reasons, so that no picture looks as if they were not there."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        if node["state"] != PLANNED:
            row = row_of(node)
            kinds.setdefault((row.cells[-1], row.reason or ""), []).append(one_line(node["node"]))
    parts = []
    for (verdict, reason), names in kinds.items():
        y += 30
        parts.append(text(f"{_who(names)}, {verdict}", MARGIN, y, "head"))
        for line in textwrap.wrap(reason, LINE_CHARACTERS):
            y += LINE_STEP
            parts.append(text(line, MARGIN, y, "line"))
    return parts, y
