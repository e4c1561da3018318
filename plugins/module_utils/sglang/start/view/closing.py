# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a start ended, in one line with its timeline. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import doing, timeline
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState

LABELS = {
    "boot": "boot",
    "load": "load",
    "device_pool": "device pool",
    "capture": "capture",
    "host_pool": "pin",
    "warm_up": "warm-up",
}


def stage_words(row: Mapping[str, Any]) -> str | None:
    """A row of the timeline: C(pin 14.0 s (358.2 GB at 25.6 GB/s)); None where it was not seen to its end."""
    if row["seconds"] is None:
        return None
    words = f"{LABELS[row['stage']]} {format_seconds(row['seconds'])}"
    if not row["bytes"]:
        return words
    # A speed says something where the bytes are what the stage waits for.
    fast = row["stage"] == "host_pool" and row["seconds"] > 0
    rate = f" at {_size(row['bytes'] / row['seconds'])}/s" if fast else ""
    return f"{words} ({_size(row['bytes'])}{rate})"


def _size(size_bytes: float) -> str:
    """Three digits or more, and never ten."""
    return format_gb(size_bytes, 2 if size_bytes < 10 * GB else 1)


def closing_line(state: StartupState, start_seconds: float | None, cause: str | None = None) -> str:
    """C(ready after 41.2 s: boot 8.1 s, load 12.3 s (24.9 GB), ...).

    C(start_seconds): what the whole start took by the log; what was waited is said where that is not known.
    C(cause): code and rank of a failure.
    """
    took = state.elapsed_seconds if start_seconds is None or state.verdict != "ready" else start_seconds
    line = f"{state.verdict} after {format_seconds(took)}"
    if state.verdict != "ready":
        line += f" while {doing(state)}"
        if cause:
            line += f", {cause}"
    stages = [words for words in map(stage_words, timeline(state)) if words]
    return f"{line}: {', '.join(stages)}" if stages else line


def given_up_line(state: StartupState, cause: str) -> str:
    """Of a watch that ended before the start did."""
    return f"given up after {format_seconds(state.elapsed_seconds)} while {doing(state)}, {cause}"
