# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options as a table for a person, with the best of them and the nearest miss in words."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.layouts import Layout
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gib

TEXT_WIDTH = 106
# "memory" is that of all the GPUs, "KV" and "needed" are of one.
_HEADS = ("", "GPUs", "memory", "layout", "KV", "needed", "tokens", "requests", "fraction", "host ratio")
# What stands right, as numbers do.
_RIGHT = frozenset({2, 4, 5, 6, 7, 8, 9})
_NONE = "-"


def capacity_lines(capacity: Mapping[str, Any]) -> list[str]:
    """A row for each option that fits, and for what does not where nothing smaller or larger of its kind does."""
    lines: list[str] = []
    shown = _shown(capacity["options"])
    for model in dict.fromkeys(option["model"] for option in shown):
        rows = [_row(option) for option in shown if option["model"] == model]
        lines += [*([""] if lines else []), model, *_table(rows)]
    best, miss = capacity["best"], capacity["nearest_miss"]
    several = len({option["model"] for option in capacity["options"]}) > 1
    if best is not None:
        lines += [
            "",
            *_wrapped(
                "Best: ", [f"{_of(best, several)}{_machine(best)}, {best['explanation'][0]}.", *best["explanation"][1:]]
            ),
        ]
        lines += ["", *_wrapped("Assumed: ", best["assumptions"])] if best["assumptions"] else []
    if miss is not None:
        lines += ["", *_wrapped("Nearest miss: ", [_of(miss, several) + miss["message"]])]
    for one in _reasons(capacity["excluded"]):
        lines += ["", *_wrapped("Not planned: ", [one])]
    return lines


def _shown(options: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All that fit; of what does not, the closest of each model and board that has none that fits."""
    served = {(option["model"], option["board"]) for option in options if option["fits"]}
    shown = []
    for option in options:
        kind = (option["model"], option["board"])
        if option["fits"]:
            shown.append(option)
        elif kind not in served:
            served.add(kind)
            shown.append(option)
    return shown


def _of(found: Mapping[str, Any], several: bool) -> str:
    """The model in front of a sentence, where more than one was weighed."""
    return f"{found['model']}: " if several else ""


def _machine(option: Mapping[str, Any]) -> str:
    return f"{option['gpus']} x {(option['board'] or 'GPU').removeprefix('NVIDIA ')}"


def _row(option: Mapping[str, Any]) -> tuple[str, ...]:
    needed, fraction, ratio = option["needed_kv_bytes"], option["mem_fraction_static"], option["host_ratio_auto"]
    memory = option["gpu_memory_bytes"]
    # The weights themselves may lack room.
    kv = max(0, option["kv_bytes"])
    return (
        "fits" if option["fits"] else "no",
        _machine(option),
        _NONE if memory is None else format_gib(memory * option["gpus"], 0),
        Layout(**option["layout"]).text + (", observed" if option["observed"] else ""),
        format_gib(kv, 1),
        _NONE if needed is None else format_gib(needed, 1),
        format_count(option["tokens"]),
        format_count(option["requests_at_context"]),
        _NONE if fraction is None else f"{fraction:.3f}",
        _NONE if ratio is None else f"{ratio:g}",
    )


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    every = [_HEADS, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(_HEADS))]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if column in _RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in every
    ]


def _wrapped(label: str, sentences: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for position, sentence in enumerate(sentences):
        lines += textwrap.wrap(
            sentence,
            TEXT_WIDTH,
            initial_indent=label if position == 0 else "  ",
            subsequent_indent="  ",
        )
    return lines


def _reasons(excluded: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why layouts have no row: one sentence for each model and kind of refusal, in the words of the first."""
    kinds: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in excluded:
        kinds.setdefault((one["model"], one["refusal"]["code"]), []).append(one)
    return [
        f"{model}, {Layout(**first['layout']).text}{_more(others)}: "
        f"{first['refusal']['message']} {first['refusal']['remedy']}"
        for (model, _code), (first, *others) in kinds.items()
    ]


def _more(others: Sequence[object]) -> str:
    count = len(others)
    return f" and {format_count(count)} more layout{'' if count == 1 else 's'}" if others else ""
