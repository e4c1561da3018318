# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The findings about an inventory in lines for a person."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.names import in_short
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import SEVERITIES

_WIDTH = 112
_HEAD = ("severity", "problem", "variable", "hosts")


def table_lines(told: Mapping[str, Any]) -> list[str]:
    """C(told) is the document of the findings. A row for each, with what was found, expected and to be done below."""
    rows = [(one["severity"], one["code"], one["variable"] or "-", _hosts(one["hosts"])) for one in told["findings"]]
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD) - 1)]
    lines = (
        [_row(_HEAD, widths), _row(tuple("─" * width for width in (*widths, len(_HEAD[-1]))), widths)] if rows else []
    )
    for one, row in zip(told["findings"], rows):
        lines.append(_row(row, widths))
        lines += _wrapped(one["problem"])
        lines += _wrapped(f"Found {one['found']}; expected {one['expected']}. {one['remedy']}")
    return [*lines, *([""] if lines else []), closing_line(told["summary"])]


def closing_line(summary: Mapping[str, int]) -> str:
    hosts = summary["hosts"]
    counts = [
        f"{format_count(summary[severity])} {severity}{'' if summary[severity] == 1 or severity == 'info' else 's'}"
        for severity in reversed(SEVERITIES)
        if summary[severity]
    ]
    what = (
        f"{', '.join(counts)} on {format_count(summary['hosts_with_findings'])} of them" if counts else "nothing wrong"
    )
    return f"{format_count(hosts)} host{'' if hosts == 1 else 's'} checked, none of them touched: {what}"


def _hosts(names: list[str]) -> str:
    if not names:
        return "the whole inventory"
    told = in_short([one_line(name) for name in names])
    return told if len(names) < 3 else f"{format_count(len(names))}: {told}"


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, widths)), cells[-1]])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
