# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wait for a node to become idle: what each look adds, and when the wait is over. Pure.

Memory may come back late and all at once: the driver unpins what a killed server held while no process is left to name
for it. So standing still counts from when something was last given back, and longer the more is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import (
    HOST,
    HUGE_PAGES,
    NODE,
    PROCESS,
    Hold,
    held_gpu_bytes,
    held_host_bytes,
    hold_from_dict,
    missing_host_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import release_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus, unit_from_dict

IDLE, FAILED, STALLED = "idle", "failed", "stalled"
# Why: the unit runs, or systemd will start it; the time is over; less came back than planned, and enough to try.
UNIT_ACTIVE, TIMEOUT, BELOW_PLAN = "unit_active", "timeout", "below_plan"

# What is available moves by itself, and on a busy host drifts: only such steps, and such shares of what was missing at
# first, are memory that comes back.
STEP_BYTES = 16 * MIB
STEP_SHARE = 0.01
RATE_WINDOW_SECONDS = 10.0
# When nothing more comes back and the server may start with what there is, it does after this.
SETTLED_SECONDS = 10.0


@dataclass(frozen=True)
class Limits:
    """C(stop_seconds) bounds a unit that is still stopping, C(timeout_seconds) all that comes after, or everything
    where C(whole) says so."""

    timeout_seconds: float
    stop_seconds: float
    stall_seconds: float
    whole: bool = False


@dataclass(frozen=True)
class Sample:
    """C(at) is the node's own clock."""

    at: float
    available_bytes: int | None
    gpu_used_bytes: int | None


@dataclass(frozen=True)
class Observation:
    """One answer of memory_holders_info; C(now) is the controller's clock."""

    now: float
    holds: tuple[Hold, ...]
    samples: tuple[Sample, ...]
    unit: UnitStatus | None = None

    @property
    def stopping(self) -> bool:
        return self.unit is not None and self.unit.active_state == "deactivating"


@dataclass(frozen=True)
class WaitState:
    """C(most_available_bytes) and C(least_gpu_bytes) are the best that was seen."""

    limits: Limits
    started_at: float
    now: float
    last_progress_at: float
    stopped_at: float | None = None
    holds: tuple[Hold, ...] = ()
    unit: UnitStatus | None = None
    first: Sample | None = None
    most_available_bytes: int | None = None
    least_gpu_bytes: int | None = None
    samples: tuple[Sample, ...] = ()
    looks: int = 0
    step_bytes: int = STEP_BYTES
    verdict: str | None = None
    reason: str | None = None

    @property
    def elapsed_seconds(self) -> float:
        return self.now - self.started_at

    @property
    def stopping(self) -> bool:
        return self.unit is not None and self.unit.active_state == "deactivating"


def observation_from_result(result: Mapping[str, Any], now: float) -> Observation:
    """What memory_holders_info returned."""
    return Observation(
        now=now,
        holds=tuple(hold_from_dict(hold) for hold in result["holds"]),
        samples=tuple(
            Sample(one["at"], one["memory_available_bytes"], one["gpu_memory_used_bytes"]) for one in result["samples"]
        ),
        unit=unit_from_dict(result["unit"]) if result.get("unit") else None,
    )


def initial(limits: Limits, now: float) -> WaitState:
    return WaitState(limits=limits, started_at=now, now=now, last_progress_at=now)


def advance(state: WaitState, seen: Observation) -> WaitState:
    if state.verdict is not None:
        return state
    first = state.first or (seen.samples[0] if seen.samples else None)
    most, least = _best(state, seen.samples)
    moved = state.looks == 0 or _gave_back(state, most, least) or _fewer_processes(state, seen)
    state = replace(
        state,
        now=seen.now,
        holds=seen.holds,
        unit=seen.unit,
        first=first,
        # Only a whole step is noted, so that many small ones add up to one.
        most_available_bytes=most if moved else state.most_available_bytes,
        least_gpu_bytes=least if moved else state.least_gpu_bytes,
        last_progress_at=seen.now if moved or seen.stopping else state.last_progress_at,
        stopped_at=state.stopped_at if state.stopped_at is not None or seen.stopping else seen.now,
        samples=_recent((*state.samples, *seen.samples)),
        looks=state.looks + 1,
        step_bytes=state.step_bytes if state.looks else _step(seen.holds),
    )
    verdict, reason = _judged(state)
    return replace(state, verdict=verdict, reason=reason)


def _step(holds: tuple[Hold, ...]) -> int:
    return max(STEP_BYTES, int(STEP_SHARE * (held_host_bytes(holds) + held_gpu_bytes(holds))))


def _recent(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    return tuple(one for one in samples if one.at >= samples[-1].at - RATE_WINDOW_SECONDS)


def _best(state: WaitState, samples: tuple[Sample, ...]) -> tuple[int | None, int | None]:
    available = [one.available_bytes for one in samples if one.available_bytes is not None]
    used = [one.gpu_used_bytes for one in samples if one.gpu_used_bytes is not None]
    if state.most_available_bytes is not None:
        available.append(state.most_available_bytes)
    if state.least_gpu_bytes is not None:
        used.append(state.least_gpu_bytes)
    return max(available, default=None), min(used, default=None)


def _gave_back(state: WaitState, most: int | None, least: int | None) -> bool:
    host = (most or 0) - (state.most_available_bytes or 0)
    gpu = (state.least_gpu_bytes or 0) - (least or 0)
    return host + gpu >= state.step_bytes


def _fewer_processes(state: WaitState, seen: Observation) -> bool:
    before = {hold.pid for hold in state.holds if hold.pid is not None}
    return bool(before - {hold.pid for hold in seen.holds}) or (state.stopping and not seen.stopping)


def _judged(state: WaitState) -> tuple[str | None, str | None]:
    unit = state.unit
    if unit is not None and (unit.runs or unit.sub_state == "auto-restart"):
        return FAILED, UNIT_ACTIVE
    if not state.holds and not state.stopping:
        return IDLE, None
    quiet = state.now - state.last_progress_at
    bearable = bool(state.holds) and all(hold.bearable for hold in state.holds)
    if bearable and not state.stopping and quiet >= SETTLED_SECONDS:
        return IDLE, BELOW_PLAN
    if quiet >= quiet_limit_seconds(state):
        return STALLED, None
    return (FAILED, TIMEOUT) if state.elapsed_seconds >= time_limit_seconds(state) else (None, None)


def quiet_limit_seconds(state: WaitState) -> float:
    """How long nothing may come back: at least as long as the driver may take for what is missing."""
    if any(hold.kind == PROCESS and hold.state not in ("D", "Z", "X") for hold in state.holds):
        return state.limits.stall_seconds
    pinned = any(hold.kind in (HOST, NODE, HUGE_PAGES) for hold in state.holds)
    return max(state.limits.stall_seconds, release_seconds(missing_host_bytes(state.holds)) if pinned else 0.0)


def time_limit_seconds(state: WaitState) -> float:
    """From the beginning of the wait."""
    limits = state.limits
    if limits.whole:
        return limits.timeout_seconds
    if state.stopped_at is None:
        return limits.stop_seconds
    return state.stopped_at - state.started_at + limits.timeout_seconds


# Figures --------------------------------------------------------------------------------------------------------------


def given_back(state: WaitState) -> tuple[int, int]:
    """Bytes of host memory and of GPU memory that came back during the wait."""
    first, last = state.first, state.samples[-1] if state.samples else None
    if first is None or last is None:
        return 0, 0
    host = (last.available_bytes or 0) - (first.available_bytes or 0)
    gpu = (first.gpu_used_bytes or 0) - (last.gpu_used_bytes or 0)
    return max(0, host), max(0, gpu)


def left(state: WaitState) -> tuple[int, int]:
    """Bytes of host memory and of GPU memory that have yet to come back."""
    return held_host_bytes(state.holds), held_gpu_bytes(state.holds)


def rate_bytes_per_second(state: WaitState) -> float | None:
    if len(state.samples) < 2:
        return None
    first, last = state.samples[0], state.samples[-1]
    host = (last.available_bytes or 0) - (first.available_bytes or 0)
    gpu = (first.gpu_used_bytes or 0) - (last.gpu_used_bytes or 0)
    moved = max(0, host) + max(0, gpu)
    return moved / (last.at - first.at) if last.at > first.at and moved >= STEP_BYTES else None


def eta_seconds(state: WaitState) -> float | None:
    rate, missing = rate_bytes_per_second(state), sum(left(state))
    return missing / rate if rate and missing else None
