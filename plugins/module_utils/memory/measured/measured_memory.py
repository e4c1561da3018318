# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a measurement can be at all, and whether what one start measured of a GPU goes together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import MEASUREMENT_BYTES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib

# Below every disk, and above every bus.
LEAST_BYTES_PER_SECOND = 100_000
MOST_BYTES_PER_SECOND = 10**14
# A week: no start takes longer.
MOST_SECONDS = 604_800

_PARTS = (
    ("available_after_load_bytes", "after the weights"),
    ("available_at_end_bytes", "at the end of the start"),
)


def is_rate(value: Any) -> bool:
    known = number(value)
    return known is not None and LEAST_BYTES_PER_SECOND <= known <= MOST_BYTES_PER_SECOND


def is_duration(value: Any) -> bool:
    known = number(value)
    return known is not None and 0 <= known <= MOST_SECONDS


def contradiction(
    plan: Mapping[str, Any], startup: Mapping[str, Any], figures: Mapping[str, Any], cards: Sequence[int]
) -> str | None:
    """What cannot be among a ledger's figures of GPU memory, in words; None where they go together.

    C(cards) are the GPUs that are known, C(plan) and C(startup) the ledger's own. A server that served had room for the
    tokens that it told.
    """
    before = number(figures.get("available_before_load_bytes"))
    after = number(figures.get("available_after_load_bytes"))
    if before is not None and cards and before > min(cards) + MEASUREMENT_BYTES:
        return f"{format_gib(before)} free before the weights, of a GPU of {format_gib(min(cards))}"
    for name, when in _PARTS:
        part = number(figures.get(name))
        if before is not None and part is not None and part > before + MEASUREMENT_BYTES:
            return f"{format_gib(part)} free {when}, and {format_gib(before)} before the weights"
    served = _served_bytes(plan, startup)
    for room, when in ((before, "before"), (after, "after")):
        if room is not None and served > room + MEASUREMENT_BYTES:
            return f"{format_gib(room)} free {when} the weights, and tokens of {format_gib(served)} served"
    return None


def _served_bytes(plan: Mapping[str, Any], startup: Mapping[str, Any]) -> int:
    """What the tokens that the server told take of a rank at least; 0 where that is not known."""
    device = plan.get("device") or {}
    tokens, planned = number(startup.get("max_total_num_tokens")), number(device.get("max_total_num_tokens"))
    pool = number(device.get("kv_pool_bytes"))
    # Stages of a pipeline differ, and what the plan holds is of the largest one.
    identity = (plan.get("settings") or {}).get("identity") or {}
    if not tokens or not planned or not pool or (identity.get("pipeline_parallel_size") or 1) != 1:
        return 0
    return int(min(tokens, planned) / planned * pool)
