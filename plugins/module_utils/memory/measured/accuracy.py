# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""By how much the plan of a start was off: planned against measured, in the ledger's own numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    format_count,
    format_gb,
    format_gib,
    format_seconds,
)


@dataclass(frozen=True)
class Deviation:
    """One figure. C(resolution): the step in which the measured one is known, 0 where it is exact."""

    figure: str
    planned: float
    measured: float
    resolution: float = 0

    @property
    def difference(self) -> float:
        return round(self.measured - self.planned, 3)

    @property
    def percent(self) -> float | None:
        """Of the planned value; None where that is 0."""
        return round(self.difference / self.planned * 100, 2) if self.planned else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference, "percent": self.percent}


_WORDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "max_total_num_tokens": ("device tokens", format_count),
    "available_before_load_bytes": ("free of a GPU before the weights", format_gib),
    "available_after_load_bytes": ("free of a GPU after the weights", format_gib),
    "weights_bytes": ("weights a GPU", format_gib),
    "host_bytes": ("host memory pinned", format_gb),
    "pin_seconds": ("pinning", format_seconds),
    "start_seconds": ("the whole start", format_seconds),
}


def deviations(ledger: Mapping[str, Any]) -> tuple[Deviation, ...]:
    """What the ledger's plan said and what its start measured, as far as both are known."""
    plan, startup = _part(ledger, "plan"), _part(ledger, "startup")
    device, host, timing = _part(plan, "device"), _part(plan, "host"), _part(plan, "timing")
    figures = _part(startup, "figures")
    on_gpu = device.get("device") != "cpu"
    step = number(figures.get("resolution_bytes")) or 0
    before, after = (
        number(figures.get(name)) if on_gpu else None
        for name in ("available_before_load_bytes", "available_after_load_bytes")
    )
    planned_before, planned_weights = (
        number(device.get(name)) if on_gpu else None for name in ("available_before_load_bytes", "weights_bytes")
    )
    rows = (
        ("max_total_num_tokens", device.get("max_total_num_tokens"), startup.get("max_total_num_tokens"), 0),
        ("available_before_load_bytes", planned_before, before, step),
        ("available_after_load_bytes", _less(planned_before, planned_weights), after, step),
        ("weights_bytes", planned_weights, _less(before, after), 2 * step),
        # A plan that an earlier release of this collection made knows only what the pools take.
        (
            "host_bytes",
            host.get("pinned_bytes_total", host.get("bytes_total")),
            figures.get("pinned_bytes", startup.get("pinned_bytes")),
            0,
        ),
        ("pin_seconds", timing.get("pin_seconds"), figures.get("pin_seconds"), 0),
        ("start_seconds", timing.get("start_seconds"), figures.get("start_seconds"), 0),
    )
    found = []
    for name, planned, measured, resolution in rows:
        one, other = number(planned), number(measured)
        if one is not None and other is not None and (one or other):
            found.append(Deviation(name, one, other, resolution))
    return tuple(found)


def deviation_lines(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each, as a person reads it; C(found) as C(Deviation.as_dict) gives it."""
    lines = []
    for one in found:
        label, text = _WORDS[one["figure"]]
        line = f"{label}: {text(one['measured'])}, planned {text(one['planned'])}"
        difference = abs(one["difference"])
        if difference <= one["resolution"]:
            lines.append(f"{line}: the same" + (" to what is printed" if one["resolution"] else ""))
            continue
        if text(difference) == text(0):
            lines.append(f"{line}: the same to what is shown")
            continue
        percent = "" if one["percent"] is None else f", {one['percent']:+.1f} %"
        lines.append(f"{line} ({'+' if one['difference'] > 0 else '-'}{text(difference)}{percent})")
    return lines


def number(value: Any) -> float | int | None:
    """What a file from elsewhere holds where a number should be, None where that is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Beyond that, whole numbers are no sizes, and do not go into a float.
    return value if abs(value) < 1 << 63 and math.isfinite(value) else None


def _less(one: float | int | None, other: float | int | None) -> float | int | None:
    return None if one is None or other is None else one - other


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}
