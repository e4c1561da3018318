# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a start takes: from measured rates where there are any, else from rates seen in the field."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed

# 65.5 GB in 21.18 s by one thread (sgl-project/sglang#31424), and 1.5 TB on one machine in 372 s (same thread): a
# rank faults its pool in with one thread, and the ranks of a machine together do not go much faster than one.
PIN_BYTES_PER_SECOND_ONE_RANK = 65_500_000_000 / 21.18
PIN_BYTES_PER_SECOND_MACHINE = 1_500_000_000_000 / 372
FIELD_SOURCE = "field rates of sgl-project/sglang#31424"

# A slow disk or network file system; only until a start was observed.
LOAD_BYTES_PER_SECOND = 1_000_000_000
# Interpreter, imports, graph capture and warm-up.
REST_SECONDS = 120.0

# A drain has no limit of its own: 230 s were seen. After SIGKILL, 243 GB stayed pinned for 25.9 s
# (sgl-project/sglang#32829).
DRAIN_SECONDS = 300
UNPIN_BYTES_PER_SECOND = 243_000_000_000 / 25.9


@dataclass(frozen=True)
class Timing:
    pin_seconds: float
    start_seconds: float
    pin_bytes_per_second: float
    source: str
    timeout_start_seconds: int
    timeout_stop_seconds: int


def plan_timing(bytes_total: int, ranks: int, weights_bytes: int | None, observed: Observed) -> Timing:
    """Expected times, and limits far enough above them that only a start that hangs meets one."""
    if observed.pin_bytes_per_second is not None and observed.pin_bytes_per_second > 0:
        rate, source = observed.pin_bytes_per_second, "observed"
    else:
        rate = min(ranks * PIN_BYTES_PER_SECOND_ONE_RANK, PIN_BYTES_PER_SECOND_MACHINE)
        source = FIELD_SOURCE
    pin = bytes_total / rate
    load = observed.load_seconds
    if load is None:
        load = (weights_bytes or 0) / LOAD_BYTES_PER_SECOND
    rest = observed.rest_seconds if observed.rest_seconds is not None else REST_SECONDS
    start = load + pin + rest
    return Timing(
        pin_seconds=round(pin, 1),
        start_seconds=round(start, 1),
        pin_bytes_per_second=round(rate, 1),
        source=source,
        # Fragmented memory was seen to stretch a start to 17 to 44 minutes. A start that stands still is found by
        # its bytes and lines long before this.
        timeout_start_seconds=math.ceil(600 + 4 * start),
        timeout_stop_seconds=math.ceil(DRAIN_SECONDS + bytes_total / UNPIN_BYTES_PER_SECOND),
    )
