# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a start really took: memory as its ranks said it, bytes as they were metered, times as the journal stamped them.

These figures go into the ledger, and from there into the next plan.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import LOG_STEP_BYTES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import pinned_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.spans import (
    span_of,
    stage_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState


def figures(state: StartupState) -> dict[str, Any]:
    """The measured figures of a start, None where its release does not tell.

    Memory of GPUs is the minimum over the ranks, as the server takes it. It is printed with two decimals, so it is
    right to half of C(resolution_bytes).
    """
    pin = stage_seconds(state, "host_pool")
    load = stage_seconds(state, "load")
    whole = _start_seconds(state)
    pinned = pinned_bytes(state)
    announced = [rank.announced_bytes for rank in state.ranks if rank.announced_bytes]
    return {
        "mem_fraction_static": state.mem_fraction_static,
        "available_before_load_bytes": _least(state, "before_load"),
        "available_after_load_bytes": _least(state, "after_load"),
        "available_after_pool_bytes": _least(state, "after_pool"),
        "available_after_capture_bytes": _least(state, "after_capture"),
        "available_at_end_bytes": _at_end(state),
        "device_pool_bytes": _device_pool_bytes(state),
        "host_pool_bytes": sum(announced) if announced else None,
        "resolution_bytes": LOG_STEP_BYTES,
        "pinned_bytes": pinned,
        "pin_seconds": pin,
        "pin_bytes_per_second": round(pinned / pin, 1) if pinned and pin else None,
        "load_seconds": load,
        "rest_seconds": None if whole is None else round(max(0.0, whole - (load or 0.0) - (pin or 0.0)), 3),
        "start_seconds": whole,
    }


def _least(state: StartupState, name: str) -> int | None:
    known = [dict(rank.memory)[name] for rank in state.ranks if name in dict(rank.memory)]
    return min(known) if known else None


def _at_end(state: StartupState) -> int | None:
    """After everything, before any request. The last line is of one rank only, so the graphs of all count as well."""
    told = (_least(state, "after_capture"), state.available_at_end_bytes)
    known = [size for size in told if size is not None]
    return min(known) if known else None


def _device_pool_bytes(state: StartupState) -> int | None:
    """All pools of a rank together, as they were printed."""
    sizes: dict[str | None, int] = {}
    for span in state.spans:
        if span.stage == "device_pool" and span.bytes is not None:
            sizes[span.rank] = sizes.get(span.rank, 0) + span.bytes
    return min(sizes.values(), default=None)


def _start_seconds(state: StartupState) -> float | None:
    boot = span_of(state, "boot", None)
    if boot is None or boot.began is None or state.ready_at is None or state.verdict != "ready" or state.clock_jumps:
        return None
    return round(max(0.0, state.ready_at - boot.began), 3)
