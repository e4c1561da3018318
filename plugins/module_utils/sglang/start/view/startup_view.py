# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person or a ledger gets of a start: its live line, its timeline and its ranks. Pure, but for C(LiveLines)."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import STAGES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import (
    StartupState,
    all_pinned,
    pinned_bytes,
    planned_bytes,
    span_of,
    target_bytes,
)

WORDS = {
    "boot": "starting",
    "load": "loading weights",
    "device_pool": "allocating the device pool",
    "capture": "capturing graphs",
    "host_pool": "pinning",
    "warm_up": "warming up",
    "ready": "ready",
}


def rate_bytes_per_second(state: StartupState) -> float | None:
    """Over the last C(RATE_WINDOW_SECONDS); None until two looks differ."""
    if len(state.samples) < 2:
        return None
    (first_at, first), (last_at, last) = state.samples[0], state.samples[-1]
    if last_at <= first_at or last <= first:
        return None
    return (last - first) / (last_at - first_at)


def eta_seconds(state: StartupState) -> float | None:
    rate, pinned, planned = rate_bytes_per_second(state), pinned_bytes(state), planned_bytes(state)
    if not rate or pinned is None or planned is None:
        return None
    return max(0.0, (planned - pinned) / rate)


def _gb(size: int | None) -> str:
    return "?" if size is None else f"{size / GB:.2f}"


def live_line(state: StartupState) -> str:
    """What goes on now, in one line; sizes in GB (1e9)."""
    if state.stage != "host_pool":
        words = WORDS[state.stage]
        loading = [rank.rank for rank in state.ranks if rank.stage == state.stage]
        if state.stage in ("load", "device_pool", "capture") and 0 < len(loading) < len(state.ranks):
            words += f" ({', '.join(loading)})"
        return words
    pinned, planned = pinned_bytes(state), planned_bytes(state)
    if all_pinned(state):
        return f"pinned {_gb(pinned)} GB, registering it"
    line = f"pinning {_gb(pinned)} of {_gb(planned)} GB"
    ranks = [rank for rank in state.ranks if rank.pinned_bytes is not None]
    if len(ranks) > 4:
        slowest = min(ranks, key=lambda rank: rank.pinned_bytes or 0)
        line += f" (slowest {slowest.rank} {_gb(slowest.pinned_bytes)}/{_gb(target_bytes(state, slowest))})"
    elif len(ranks) > 1:
        each = (f"{rank.rank} {_gb(rank.pinned_bytes)}/{_gb(target_bytes(state, rank))}" for rank in ranks)
        line += f" ({', '.join(each)})"
    rate, eta = rate_bytes_per_second(state), eta_seconds(state)
    if rate is not None and eta is not None:
        line += f" {rate / GB:.2f} GB/s ETA {format_seconds(round(eta)).replace('.0 s', ' s')}"
    return line


class LiveLines:
    """Which of the live lines to show: every change of stage, progress in steps, and a sign of life.

    The only thing here that remembers; it keeps a wait of an hour from printing a thousand lines.
    """

    EVERY_SECONDS = 3.0
    AT_LEAST_EVERY_SECONDS = 30.0
    STEP = 0.05

    def __init__(self) -> None:
        self._shown: tuple[str, float, float] | None = None
        self._text: str | None = None

    def due(self, state: StartupState) -> str | None:
        """The line to show now, None if there is nothing to say."""
        share = (pinned_bytes(state) or 0) / (planned_bytes(state) or 1)
        text = live_line(state)
        repeated = text
        if state.verdict is not None:
            repeated = text = f"{state.verdict} after {format_seconds(state.elapsed_seconds)}"
        elif self._shown is not None:
            stage, at, shown = self._shown
            since = state.now - at
            moved = since >= self.EVERY_SECONDS and share - shown >= self.STEP
            if stage == state.stage and not moved and since < self.AT_LEAST_EVERY_SECONDS:
                return None
            if text == self._text and since < self.AT_LEAST_EVERY_SECONDS:
                return None
            if text == self._text:
                repeated = f"{text}, {format_seconds(state.elapsed_seconds)} so far"
        self._shown, self._text = (state.stage, state.now, share), text
        return repeated


def timeline(state: StartupState) -> list[dict[str, Any]]:
    """Every stage that was seen: from when its first rank entered it to when its last rank left it."""
    rows: list[dict[str, Any]] = []
    for stage in STAGES[:-1]:
        spans = [span for span in state.spans if span.stage == stage]
        began = [span.began for span in spans if span.began is not None]
        ended = [span.ended for span in spans if span.ended is not None]
        if not spans:
            continue
        sizes = [span.bytes for span in spans if span.bytes is not None]
        complete = bool(began) and len(ended) == len(spans)
        row: dict[str, Any] = {
            "stage": stage,
            "seconds": round(max(ended) - min(began), 3) if complete else None,
            "bytes": sum(sizes) if sizes else None,
            "started_at": min(began) if began else None,
        }
        if stage == "host_pool":
            row["bytes"] = pinned_bytes(state)
        rows.append(row)
    return rows


def ranks_as_dicts(state: StartupState) -> list[dict[str, Any]]:
    """Ranks with what they hold and were to hold."""
    rows = []
    for rank in state.ranks:
        span = span_of(state, "host_pool", rank.rank)
        pin_seconds = None
        if span is not None and span.began is not None and span.ended is not None:
            pin_seconds = round(span.ended - span.began, 3)
        rows.append(
            {
                "rank": rank.rank,
                "pid": rank.pid,
                "alive": rank.alive,
                "exit_code": rank.exit_code,
                "stage": "ready" if state.verdict == "ready" else rank.stage,
                "pinned_bytes": rank.pinned_bytes,
                "planned_bytes": target_bytes(state, rank),
                "pin_seconds": pin_seconds,
            }
        )
    return rows
