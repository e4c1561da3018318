# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a start takes: from measured rates where there are any, else from rates seen in the field."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_seconds

# 65.5 GB in 21.18 s by one thread (sgl-project/sglang#31424), and 1.5 TB on one machine in 372 s (same thread): a
# rank faults its pool in with one thread, and the ranks of a machine together do not go much faster than one.
PIN_BYTES_PER_SECOND_ONE_RANK = 65_500_000_000 / 21.18
PIN_BYTES_PER_SECOND_MACHINE = 1_500_000_000_000 / 372
FIELD_SOURCE = "field rates of sgl-project/sglang#31424"

# A slow disk or network file system; only until a start was observed.
LOAD_BYTES_PER_SECOND = 1_000_000_000
# Interpreter, imports, graph capture and warm-up.
REST_SECONDS = 120.0


@dataclass(frozen=True)
class Timing:
    """What is expected; the limits that follow are in unit_limits.py."""

    load_seconds: float
    pin_seconds: float
    rest_seconds: float
    pin_bytes_per_second: float
    source: str
    explanation: tuple[str, ...] = ()

    @property
    def start_seconds(self) -> float:
        return round(self.load_seconds + self.pin_seconds + self.rest_seconds, 1)


def plan_timing(pinned_bytes_total: int, ranks: int, weights_bytes: int | None, observed: Observed) -> Timing:
    if observed.pin_bytes_per_second is not None and observed.pin_bytes_per_second > 0:
        rate, source = observed.pin_bytes_per_second, "observed"
    else:
        rate = min(ranks * PIN_BYTES_PER_SECOND_ONE_RANK, PIN_BYTES_PER_SECOND_MACHINE)
        source = FIELD_SOURCE
    pin = round(pinned_bytes_total / rate, 1)
    if observed.load_seconds is not None:
        load, loading = observed.load_seconds, "as observed"
    else:
        load = (weights_bytes or 0) / LOAD_BYTES_PER_SECOND
        loading = f"for {format_gb(weights_bytes or 0)} at {format_gb(LOAD_BYTES_PER_SECOND)}/s"
    if observed.rest_seconds is not None:
        rest, others = observed.rest_seconds, "for the rest as observed"
    else:
        rest, others = REST_SECONDS, "for imports, graphs and warm-up"
    timing = Timing(load, pin, rest, pin_bytes_per_second=round(rate, 1), source=source)
    line = (
        f"start = {format_seconds(load)} loading {loading} + {format_seconds(pin)} pinning "
        f"{format_gb(pinned_bytes_total)} at {format_gb(rate)}/s ({source}) + {format_seconds(rest)} {others} = "
        f"{format_seconds(timing.start_seconds)}"
    )
    return replace(timing, explanation=(line,))
