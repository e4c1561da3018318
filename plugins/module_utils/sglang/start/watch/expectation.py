# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is waited for, out of a plan. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import METERS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import meter_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import pipeline_stage

DEFAULT_TIMEOUT_SECONDS = 3600.0
# Where nobody gave a limit, bytes get the time that fragmented memory takes: the slowest populate that was seen in the
# field pinned a few hundred GB in 44 minutes.
SLOWEST_BYTES_PER_SECOND = 0.1e9


@dataclass(frozen=True)
class Expectation:
    """What is waited for. C(bytes_by_stage): what each rank of a pipeline stage will pin, a number for each stage.

    It is empty where that is not known or not wanted. All stages have equally many ranks. C(timeout_given): whether the
    limit was given or planned, and is not merely the default.
    """

    ranks: int | None = None
    bytes_by_stage: tuple[int, ...] = ()
    meter: str = "shmem"
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    stall_seconds: float = 120.0
    timeout_given: bool = True

    def bytes_of(self, rank: str) -> int:
        """What a rank will pin, 0 where that is not known."""
        stage = pipeline_stage(rank)
        return self.bytes_by_stage[stage] if stage < len(self.bytes_by_stage) else 0

    @property
    def bytes_total(self) -> int | None:
        """What all ranks together will pin."""
        if not self.ranks or not self.bytes_by_stage:
            return None
        return sum(self.bytes_by_stage) * self.ranks // len(self.bytes_by_stage) or None


def expectation_from_plan(
    plan: Mapping[str, Any],
    timeout_seconds: float | None,
    stall_seconds: float,
    default_timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    sglang_version: str | None = None,
) -> Expectation:
    """What a plan says about its start; keys that it lacks are unknown, and the release then tells the meter."""
    host: Mapping[str, Any] = plan.get("host") or {}
    unit: Mapping[str, Any] = plan.get("unit") or {}
    given = _seconds(timeout_seconds) or _seconds(unit.get("timeout_start_seconds"))
    meter = host.get("meter")
    if meter not in METERS:
        meter = meter_of(sglang_version) if sglang_version else METERS[0]
    return Expectation(
        ranks=_int(host.get("ranks")),
        bytes_by_stage=tuple(_int(stage.get("pinned_bytes_per_rank")) or 0 for stage in host.get("stages") or ()),
        meter=meter,
        timeout_seconds=given or default_timeout_seconds,
        stall_seconds=float(stall_seconds),
        timeout_given=given is not None,
    )


def _seconds(value: Any) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if known else None


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
