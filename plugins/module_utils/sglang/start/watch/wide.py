# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Meters that know no ranks: the memory of the control group, and what the machine has available. Pure.

Memory of the driver shows in nothing but MemAvailable. The control group is the meter of last resort, where no process
can be read; it shows the same pages as the counters of the processes do.
"""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import COUNTERS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.readings import (
    appended,
    counter_of,
    raw_bytes,
    value_at,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState, steady_time


def _source(state: StartupState, seen: Observation) -> tuple[str | None, int | None]:
    """Which of these meters is to be had, and what it shows; more of it is more pinned."""
    meter = state.expected.meter
    shown = {"shmem": seen.cgroup.shmem_bytes, "anon": seen.cgroup.anon_bytes}.get(meter)
    available = seen.host.memory_available_bytes
    if meter == "available" and available is not None:
        return "available", -available
    if shown is not None:
        return f"cgroup_{meter}", shown
    if meter != "hugetlb" and seen.cgroup.current_bytes is not None:
        return "cgroup_current", seen.cgroup.current_bytes
    return None, None


def with_wide(state: StartupState, seen: Observation) -> StartupState:
    """What such a meter shows, kept in case that it is needed."""
    source, shown = _source(state, seen)
    if source is None or shown is None:
        return state
    if source != state.wide_source:
        state = replace(state, wide_source=source, wide_history=(), wide_level=None, wide_baseline=None)
    at = steady_time(state, seen.read_at)
    return replace(state, wide_history=appended(state.wide_history, [(seen.at if at is None else at, shown)]))


def with_wide_level(state: StartupState, timestamp: float | None) -> StartupState:
    """A stage before pinning changes: nothing of the pools was there by then."""
    if state.wide_baseline is not None:
        return state
    level = value_at(state.wide_history, steady_time(state, timestamp))
    return state if level is None else replace(state, wide_level=level)


def with_wide_baseline(state: StartupState, timestamp: float | None, after: bool) -> StartupState:
    """Pinning begins: what the meter showed by then was there before. C(after): it had begun before its line came.

    A watcher that comes late knows it of shared memory only: nothing else of that size is shared.
    """
    if state.wide_baseline is not None or not state.wide_history:
        return state
    before = value_at(state.wide_history, steady_time(state, timestamp))
    if before is None and state.wide_source == "cgroup_shmem":
        before = 0
    elif before is not None and after:
        before = state.wide_level
    return replace(state, wide_baseline=before)


def counts_by_rank(state: StartupState) -> bool:
    """Whether the processes themselves tell what they pin."""
    if state.expected.meter not in COUNTERS:
        return False
    known = [rank for rank in state.ranks if raw_bytes(state, rank) is not None or rank.pinned_bytes is not None]
    return bool(known) or state.wide_source is None


def wide_pinned_bytes(state: StartupState) -> int | None:
    if state.wide_baseline is None or not state.wide_history:
        return None
    return max(0, state.wide_history[-1][1] - state.wide_baseline)


def meter_in_use(state: StartupState) -> tuple[str, str]:
    """(which meter shows what is pinned, why it is that one)."""
    expected = state.expected.meter
    if expected not in COUNTERS:
        if state.wide_source in (None, expected):
            return expected, "The release pins memory that no process shows, so what is available on the node tells."
        return state.wide_source or expected, "What is available on the node could not be read."
    if not counts_by_rank(state):
        return state.wide_source or expected, "No rank's memory could be read, so the unit's control group tells."
    used = {counter_of(state, rank) for rank in state.ranks} or {expected}
    if used == {expected}:
        return expected, "It is where the memory of this release and plan shows."
    words = ", ".join(f"{rank.rank} {rank.counter}" for rank in state.ranks if rank.counter)
    return "+".join(sorted(used)), f"Other counters than {expected} grew with the pools: {words}."
