# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What idle GPU memory would give to the KV cache through a higher fraction: a proposal, which no plan applies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import DRAFT
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_division import Division, divide
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePools
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.idle_memory import (
    STEPS,
    idle_under,
    steps_leaving,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed


@dataclass(frozen=True)
class FractionRaise:
    """What idle GPU memory would give to the KV cache through a higher fraction. A proposal, not applied."""

    idle_bytes_per_gpu: int
    margin_bytes: int
    mem_fraction_static: float
    gained_bytes: int
    gained_tokens: int
    budget_bytes: int
    kv_pool_bytes: int
    max_total_num_tokens: int


def used_bytes(division: Division, divided: DevicePools) -> int:
    """Of the pools that the budget pays for; a draft's own is outside of it where the release does not count it."""
    counted = division.facts.counts_draft
    return sum(pool.used_bytes for pool in divided.pools if counted or pool.kind != DRAFT)


def idle_bytes(observed: Observed, base: int | None, fraction: float | None) -> int | None:
    """What stays idle of a GPU under this plan's fraction, which need not be the one it was seen under."""
    idle = observed.idle_bytes_per_gpu
    if idle is None or base is None or fraction is None:
        return idle
    return idle_under(idle, observed.mem_fraction_static, fraction, base)


def raise_fraction(
    observed: Observed,
    division: Division,
    budget: int,
    base: int | None,
    fraction: float | None,
    margin_bytes: int,
) -> FractionRaise | None:
    """The KV budget grows by C(base) times what the fraction grows by, so idle bytes less a margin can go there."""
    idle = idle_bytes(observed, base, fraction)
    if idle is None or base is None or fraction is None or idle <= margin_bytes:
        return None
    raised = steps_leaving(fraction, idle, margin_bytes, base, base) / STEPS
    if not fraction < raised < 1:
        return None
    gained = math.floor(base * (raised - fraction))
    more, _lines = divide(division, budget + gained)
    today, _lines = divide(division, budget)
    return FractionRaise(
        idle_bytes_per_gpu=idle,
        margin_bytes=margin_bytes,
        mem_fraction_static=raised,
        gained_bytes=gained,
        gained_tokens=more.profiled - today.profiled,
        budget_bytes=budget + gained,
        kv_pool_bytes=used_bytes(division, more),
        max_total_num_tokens=more.profiled,
    )
