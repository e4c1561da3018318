# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person or a ledger gets of a start: its live line, its timeline and its ranks. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_rate, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import STAGES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    all_pinned,
    pinned_bytes,
    planned_bytes,
    target_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.progress import (
    eta_seconds,
    rank_rate,
    rate_bytes_per_second,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.spans import (
    began_at,
    rank_seconds,
    stage_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState

WORDS = {
    "boot": "starting",
    "load": "loading weights",
    "device_pool": "allocating the device pool",
    "capture": "capturing graphs",
    "host_pool": "pinning",
    "warm_up": "warming up",
    "ready": "ready",
}
# What a terminal of 160 columns has beside the names of node and instance, and what speed and time left take of it.
LINE_COLUMNS = 130
SPEED_COLUMNS = len(" 123.45 GB/s ETA 12 min 34 s")


def _gb(size: int | None) -> str:
    return "?" if size is None else f"{size / GB:.2f}"


def doing(state: StartupState) -> str:
    """What the server was at when it was last seen."""
    if not state.awaits_start:
        return WORDS[state.stage]
    stopped = state.unit is not None and state.unit.active_state in ("inactive", "failed")
    return "waiting for systemd to start it" if stopped else "stopping the old server"


def live_line(state: StartupState, columns: int = LINE_COLUMNS) -> str:
    """What goes on now, in one line; sizes in GB (1e9), each rank's where they fit."""
    if state.stage != "host_pool":
        words = doing(state)
        behind = [rank.rank for rank in state.ranks if rank.stage == state.stage]
        if state.stage in ("load", "device_pool", "capture") and 0 < len(behind) < len(state.ranks):
            words += f" ({', '.join(behind)})"
        return words
    pinned, planned = pinned_bytes(state), planned_bytes(state)
    if all_pinned(state):
        return f"pinned {_gb(pinned)} GB, registering it"
    line = f"pinning {_gb(pinned)} of {_gb(planned)} GB"
    rate, eta = rate_bytes_per_second(state), eta_seconds(state)
    speed = ""
    if rate is not None and eta is not None:
        speed = f" {format_rate(rate)} ETA {format_seconds(round(eta)).replace('.0 s', ' s')}"
    # The speed comes and goes; the ranks are shown in the same form with it and without.
    room = columns - len(line) - SPEED_COLUMNS
    return line + _ranks_within(state, room) + speed


def _ranks_within(state: StartupState, room: int) -> str:
    """The ranks in the most telling form that fits."""
    ranks = [rank for rank in state.ranks if rank.pinned_bytes is not None]
    if len(ranks) < 2:
        return ""
    each = ", ".join(f"{rank.rank} {_gb(rank.pinned_bytes)}/{_gb(target_bytes(state, rank))}" for rank in ranks)
    forms = [f" ({each})"]
    targets = {target_bytes(state, rank) for rank in ranks}
    if len(targets) == 1:
        sizes = " ".join(_gb(rank.pinned_bytes) for rank in ranks)
        forms.append(f" ({ranks[0].rank} to {ranks[-1].rank} {sizes} of {_gb(targets.pop())} each)")
    slowest = min(ranks, key=lambda rank: rank.pinned_bytes or 0)
    last = f" (slowest {slowest.rank} {_gb(slowest.pinned_bytes)}/{_gb(target_bytes(state, slowest))})"
    return next((form for form in forms if len(form) <= room), last)


def rank_lines(state: StartupState) -> list[str]:
    """Each rank's own line, for those who asked for more."""
    lines = []
    for rank in state.ranks:
        words = WORDS["ready" if state.verdict == "ready" else rank.stage]
        if not rank.alive:
            words = "gone"
        size = f" {_gb(rank.pinned_bytes)} of {_gb(target_bytes(state, rank))} GB pinned" if rank.pinned_bytes else ""
        lines.append(f"{rank.rank}: {words}{size}, process {rank.pid or 'unknown'}")
    return lines


def timeline(state: StartupState) -> list[dict[str, Any]]:
    """Every stage that was seen: from when its first rank entered it to when its last rank left it."""
    rows: list[dict[str, Any]] = []
    for stage in STAGES[:-1]:
        spans = [span for span in state.spans if span.stage == stage]
        if not spans:
            continue
        sizes = [span.bytes for span in spans if span.bytes is not None]
        row: dict[str, Any] = {
            "stage": stage,
            "seconds": stage_seconds(state, stage),
            "bytes": sum(sizes) if sizes else None,
            "started_at": began_at(state, stage),
        }
        if stage == "host_pool":
            row["bytes"] = pinned_bytes(state)
        rows.append(row)
    return rows


def _mean_rate(size: int | None, seconds: float | None) -> float | None:
    return round(size / seconds, 1) if size and seconds else None


def ranks_as_dicts(state: StartupState) -> list[dict[str, Any]]:
    """Ranks with what they hold, were to hold and said that they would, and how fast they came to it."""
    rows = []
    for rank in state.ranks:
        pin_seconds = rank_seconds(state, "host_pool", rank.rank)
        rows.append(
            {
                "rank": rank.rank,
                "pid": rank.pid,
                "alive": rank.alive and (state.unit is None or state.unit.runs),
                "exit_code": rank.exit_code,
                "stage": "ready" if state.verdict == "ready" else rank.stage,
                "pinned_bytes": rank.pinned_bytes,
                "planned_bytes": target_bytes(state, rank),
                "announced_bytes": rank.announced_bytes or None,
                "pin_seconds": pin_seconds,
                "pin_bytes_per_second": _mean_rate(rank.pinned_bytes, pin_seconds) or rank_rate(state, rank),
            }
        )
    return rows
