# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A ledger is a file that may be older, cut short or edited: what is malformed is left out of it, and named.

Whoever reads the rest finds mappings where mappings belong, and so on; what is missing is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.measured_memory import (
    is_duration,
    is_rate,
)

Path = tuple[str, ...]


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_count(value: Any) -> bool:
    known = number(value)
    return known is not None and known >= 0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and number(value) is not None


def _are_rows(of: str) -> Callable[[Any], bool]:
    """A list of mappings in which C(of) is a whole number or null."""

    def right(value: Any) -> bool:
        return isinstance(value, (list, tuple)) and all(
            isinstance(row, Mapping) and (row.get(of) is None or _is_whole(row[of])) for row in value
        )

    return right


_FIGURES = (
    "available_before_load_bytes",
    "available_after_load_bytes",
    "available_at_end_bytes",
    "mem_fraction_static",
    "pinned_bytes",
    "resolution_bytes",
)
_SECONDS = ("load_seconds", "rest_seconds", "pin_seconds", "start_seconds")
_DEVICE = (
    "max_total_num_tokens",
    "budget_bytes",
    "kv_pool_bytes",
    "mem_fraction_static",
    "available_before_load_bytes",
    "weights_bytes",
)
# Wholes before their parts.
_SHAPES: tuple[tuple[Path, Callable[[Any], bool]], ...] = (
    (("plan",), _is_mapping),
    (("startup",), _is_mapping),
    *(
        (("plan", name), _is_mapping)
        for name in ("settings", "device", "host", "unit", "timing", "arguments", "last_start")
    ),
    *((("plan", "settings", group), _is_mapping) for group in ("identity", "loading", "running")),
    (("startup", "figures"), _is_mapping),
    (("plan", "placement"), _are_rows("gpu")),
    (("plan", "device", "pools"), _are_rows("bytes_per_slot")),
    (("startup", "ranks"), _are_rows("pid")),
    (("main_pid",), _is_whole),
    (("startup", "max_total_num_tokens"), _is_count),
    (("startup", "pinned_bytes"), _is_count),
    *((("startup", "figures", name), _is_count) for name in _FIGURES),
    *((("startup", "figures", name), is_duration) for name in _SECONDS),
    (("startup", "figures", "pin_bytes_per_second"), is_rate),
    *((("plan", "device", name), _is_count) for name in _DEVICE),
    *((("plan", "host", name), _is_count) for name in ("bytes_total", "pinned_bytes_total")),
    *((("plan", "timing", name), _is_count) for name in ("pin_seconds", "start_seconds")),
    *((("plan", "unit", f"timeout_{what}_seconds"), _is_whole) for what in ("start", "stop")),
    (("plan", "last_start", "load_bytes_per_gpu"), _is_count),
)


def well_formed(ledger: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """(the ledger without what is malformed in it, the names of that)."""
    dropped = []
    for path, right in _SHAPES:
        value = _at(ledger, path)
        if value is not None and not right(value):
            ledger = _without(ledger, path)
            dropped.append(".".join(path))
    return ledger, tuple(dropped)


def malformed_line(dropped: tuple[str, ...]) -> str:
    """C(The ledger's plan.unit is malformed, and is not used.)"""
    if len(dropped) == 1:
        return f"The ledger's {dropped[0]} is malformed, and is not used."
    return f"The ledger's {', '.join(dropped[:-1])} and {dropped[-1]} are malformed, and are not used."


def _at(whole: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(whole, Mapping):
            return None
        whole = whole.get(key)
    return whole


def _without(whole: Mapping[str, Any], path: Path) -> dict[str, Any]:
    key, *rest = path
    return {**whole, key: _without(whole[key], tuple(rest)) if rest else None}
