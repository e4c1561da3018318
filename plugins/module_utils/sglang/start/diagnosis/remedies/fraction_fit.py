# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mem_fraction_static that fits, and in which direction. Pure.

SGLang's budget of the KV cache is what is free after loading, less C(1 - fraction) of what was free before it
(model_executor/model_runner.py and what it became). So a higher fraction gives the cache more and leaves less for
graphs and activations, and a lower one the other way round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import Case

# Thousandths, as SGLang rounds its own default.
STEP = 1000
# The ranks' lines give two decimals of GiB; two of them stand behind a difference.
ROUNDING_BYTES = GIB // 100
# What graphs, activations and collectives need at the very least: SGLang's own lower bound is 512 MiB of constant data
# and 1.5 MiB a token of a chunk of 2048 (server_args.py).
LEAST_LEFT_BYTES = 512 * (1 << 20) + 3072 * (1 << 20)


@dataclass(frozen=True)
class DeviceRoom:
    """Free memory of a GPU before and after loading, the least of all ranks, and the fraction that was in force."""

    before_bytes: int
    after_bytes: int
    fraction: float | None
    page_bytes: int


def device_room(case: Case) -> DeviceRoom | None:
    """By the ranks' own lines; what they do not say, by the plan."""
    before = case.memory("before_load") or case.device.get("available_before_load_bytes")
    after = case.memory("after_load")
    if after is None and before is not None and case.device.get("weights_bytes") is not None:
        after = before - case.device["weights_bytes"]
    if before is None or after is None:
        return None
    page = (case.device.get("bytes_per_token") or 1) * (case.device.get("page_size") or 1)
    return DeviceRoom(before, after, fraction_in_force(case), page)


def fraction_in_force(case: Case) -> float | None:
    """What the line says, else what the server said of its arguments, else the plan."""
    for known in (case.value("fraction"), case.state.mem_fraction_static, case.device.get("mem_fraction_static")):
        if known is not None:
            return float(known)
    return None


def least_fraction(room: DeviceRoom) -> float | None:
    """The lowest fraction under which a page of KV cache is left; None where even all of the memory is too little."""
    needed = room.page_bytes + ROUNDING_BYTES
    if room.after_bytes <= needed:
        return None
    found = math.ceil((1 - (room.after_bytes - needed) / room.before_bytes) * STEP) / STEP
    return found if found < 1 else None


def highest_fraction(room: DeviceRoom) -> float:
    """Above it, nothing that a server needs beside its pools is left."""
    return math.floor((1 - LEAST_LEFT_BYTES / room.before_bytes) * STEP) / STEP


def lowered_fraction(room: DeviceRoom, missing_bytes: int) -> float | None:
    """The highest fraction that leaves so much more beside the pools; None where then no page of KV cache is left."""
    if room.fraction is None:
        return None
    steps = max(1, math.ceil(missing_bytes / room.before_bytes * STEP))
    found = (round(room.fraction * STEP) - steps) / STEP
    least = least_fraction(room)
    return found if least is not None and found >= least else None


def budget_bytes(room: DeviceRoom, fraction: float) -> int:
    """What the KV cache would have."""
    return int(room.after_bytes - room.before_bytes * (1 - fraction))
