# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a fleet as one table: a row for each node, or for each kind of nodes that are alike."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.names import in_short
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import NOT_REACHED, PLANNED, REFUSED
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    GB,
    format_count,
    format_gb,
    format_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

REASON_WIDTH = 116
_NAME_WIDTH = 28
_NOTHING = "-"
_HEAD = (
    "node",
    "model",
    "SGLang",
    "GPUs",
    "layout",
    "fraction",
    "tokens",
    "pinned of available",
    "NUMA left",
    "guard",
    "start",
    "verdict",
)
_TO_THE_RIGHT = frozenset({"fraction", "tokens", "pinned of available", "NUMA left", "start"})
_GUARDS = {
    "passes": "passes",
    "depends_on_arrival_order": "may refuse",
    "refuses": "refuses",
    "unknown": "unknown",
}
# Column text of a way to divide the work, and the server's flags for it.
_LAYOUT = (
    ("TP", ("tp-size", "tensor-parallel-size")),
    ("PP", ("pp-size", "pipeline-parallel-size")),
    ("DP", ("dp-size", "data-parallel-size", "attn-dp-size", "attention-data-parallel-size")),
    ("EP", ("ep-size", "ep", "expert-parallel-size")),
)
# Words of a board's name that a column can do without.
_LONG = ("NVIDIA ", "GeForce ", "Tesla ", " Edition", " Generation", " Blackwell")


@dataclass(frozen=True)
class Row:
    """One kind of nodes: its cells but for the name, and why it was refused."""

    cells: tuple[str, ...]
    reason: str | None
    state: str


def table_lines(fleet: Mapping[str, Any]) -> list[str]:
    """C(fleet) is the document of fleet_plans. Planned nodes come first, refused ones last, each with its reason."""
    kinds: dict[Row, list[str]] = {}
    for node in fleet["nodes"]:
        kinds.setdefault(row_of(node), []).append(one_line(node["node"]))
    order = (PLANNED, NOT_REACHED, REFUSED)
    rows = sorted(kinds.items(), key=lambda kind: order.index(kind[0].state))
    table = [_HEAD, *((_name(names), *row.cells) for row, names in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_HEAD))]
    lines = [_line(_HEAD, widths), _line(tuple("─" * width for width in widths), widths)]
    for (row, names), cells in zip(rows, table[1:]):
        lines.append(_line(cells, widths))
        if len(names) > 1:
            lines += _wrapped(f"{len(names)} nodes alike: {in_short(names)}")
        if row.reason:
            lines += _wrapped(row.reason)
    return [*lines, "", *closing_lines(fleet["summary"])]


def closing_lines(summary: Mapping[str, int]) -> list[str]:
    parts = [f"{format_count(summary[PLANNED])} planned"]
    if summary[REFUSED]:
        parts.append(f"{format_count(summary[REFUSED])} refused")
    if summary[NOT_REACHED]:
        parts.append(f"{format_count(summary[NOT_REACHED])} not reached")
    count = summary["nodes"]
    return [f"{format_count(count)} node{'' if count == 1 else 's'}: {', '.join(parts)}"]


def row_of(node: Mapping[str, Any]) -> Row:
    """What is shown of one node; nodes of which the same is shown are one kind."""
    model, version = _cut(node["model"]), node["sglang_version"] or _NOTHING
    if node["state"] != PLANNED:
        refusal = node["refusal"] or {}
        verdict = f"refused: {refusal['code']}" if refusal else "not reached"
        reason = f"{refusal['message']} {refusal['remedy']}".strip() if refusal else None
        return Row((model, version, *(_NOTHING for _column in _HEAD[3:-1]), verdict), reason, node["state"])
    plan = node["plan"]
    device, host = plan["device"], plan["host"]
    fraction = device["mem_fraction_static"]
    return Row(
        (
            model,
            version,
            _gpus(plan),
            layout_of(plan),
            _NOTHING if fraction is None or device["device"] == "cpu" else f"{fraction:g}",
            format_count(device["max_total_num_tokens"]),
            _pinned(host),
            _numa_left(host),
            _guard(host),
            format_seconds(plan["timing"]["start_seconds"]),
            _verdict(plan),
        ),
        None,
        PLANNED,
    )


def short_board(name: str | None) -> str:
    """C(NVIDIA RTX PRO 6000 Blackwell Server Edition) -> C(RTX PRO 6000 Server)."""
    text = one_line(name or "unnamed GPU")
    for word in _LONG:
        text = text.replace(word, "")
    return text


def _name(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{format_count(len(names))} nodes"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [
        f"{cell:>{width}}" if head in _TO_THE_RIGHT else f"{cell:<{width}}"
        for head, cell, width in zip(_HEAD, cells, widths)
    ]
    return "  ".join(parts).rstrip()


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, REASON_WIDTH, initial_indent="    ", subsequent_indent="    ")


def _cut(text: str | None) -> str:
    name = one_line((text or _NOTHING).rstrip("/").rsplit("/", maxsplit=1)[-1]) or _NOTHING
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"


def _gpus(plan: Mapping[str, Any]) -> str:
    if plan["device"]["device"] == "cpu":
        return "none, on CPUs"
    boards = plan["machine"]["gpus"]
    count, used = sum(board["count"] for board in boards), len(plan["placement"])
    text = ", ".join(f"{board['count']} x {short_board(board['name'])}" for board in boards)
    return text if used == count else f"{used} of {text}"


def layout_of(plan: Mapping[str, Any]) -> str:
    arguments = plan["arguments"]
    parts = []
    for label, flags in _LAYOUT:
        size = next((arguments[flag] for flag in flags if arguments.get(flag) is not None), None)
        if size is not None and (label == "TP" or size != 1):
            parts.append(f"{label}{size}")
    return " ".join(parts) or _NOTHING


def _pinned(host: Mapping[str, Any]) -> str:
    if not host["enabled"]:
        return "HiCache off"
    available, pinned = host["available_bytes"], host.get("pinned_bytes_total", host["bytes_total"])
    if available is None:
        return f"{format_gb(pinned, 1)} of unknown"
    return f"{pinned / GB:,.1f} of {format_gb(available, 1)}"


def _numa_left(host: Mapping[str, Any]) -> str:
    """The least that any node with ranks has left."""
    left = [node["left_bytes"] for node in host["numa"] if node["ranks"] and node["left_bytes"] is not None]
    return format_gb(min(left), 1) if host["enabled"] and left else _NOTHING


def _guard(host: Mapping[str, Any]) -> str:
    guard = host["guard"]
    return _NOTHING if guard is None else f"{guard['variant']} {_GUARDS.get(guard['verdict'], guard['verdict'])}"


def _verdict(plan: Mapping[str, Any]) -> str:
    warnings = plan["warnings"]
    if any(warning["code"] == "oversubscribed" for warning in warnings):
        return "oversubscribed"
    if not warnings:
        return "fits"
    return f"fits, {len(warnings)} warning{'' if len(warnings) == 1 else 's'}"
