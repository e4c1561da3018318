# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines into stages: what each rank and the server are at. Pure."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import (
    STAGES,
    LogEvent,
    is_rank_scoped,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import SOLE_RANK
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    growth_began_at,
    level_by,
    with_pool,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.spans import (
    all_closed,
    closed,
    dated,
    opened,
    span_of,
    with_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    RankState,
    StartupState,
    steady_time,
    with_rank,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.wide import (
    with_wide_baseline,
    with_wide_level,
)

# The kernel's account of a kill: the process is gone, even if the unit's list of processes still names it.
KILLED = -9
# Labels of the grammar: of a rank that keeps no pool of its own, because one holds it for all of them; and of a node
# which is not the first of several, which serves nothing and says no more once its ranks are there.
NO_POOL = "none_of_its_own"
WORKER_NODE = "worker_node"
# Pools whose tokens are those of the cache: before 0.5.17 there are no names, a model with window layers calls it full.
MAIN_POOLS = ("kv", "full")


def with_event(state: StartupState, event: LogEvent) -> StartupState:
    """The state after one line that means something."""
    if event.kind in ("failure", "exception", "consequence"):
        return _with_trouble(state, event)
    if event.kind == "settings":
        return replace(state, mem_fraction_static=event.value("mem_fraction_static"))
    if event.kind == "capacity":
        return replace(state, max_total_num_tokens=event.tokens, available_at_end_bytes=event.value("available_bytes"))
    if event.kind == "ready":
        return _with_ready(state, event)
    if event.stage == "warm_up":
        return _with_warm_up(state, event)
    if not is_rank_scoped(event) or event.stage not in STAGES:
        return state
    return _with_rank_event(state, event, event.rank or SOLE_RANK, event.stage)


def _with_ready(state: StartupState, event: LogEvent) -> StartupState:
    state = all_closed(state, event.timestamp)
    return replace(state, ready_at=event.timestamp, ready_said=True, forgiven=len(state.troubles))


def _with_trouble(state: StartupState, event: LogEvent) -> StartupState:
    state = replace(state, troubles=(*state.troubles, event))
    dead_pid = event.value("dead_pid")
    rank = next((one for one in state.ranks if one.pid is not None and one.pid == dead_pid), None)
    if event.label == "oom_killer" and rank is not None:
        state = with_rank(state, replace(rank, alive=False, exit_code=rank.exit_code or KILLED))
    return state


def _with_warm_up(state: StartupState, event: LogEvent) -> StartupState:
    """Said by the main process when every rank has reported, so every rank has left its stages."""
    if event.label == WORKER_NODE:
        return _with_ready(state, event)
    if span_of(state, "warm_up", None) is None:
        state = opened(all_closed(state, event.timestamp), "warm_up", None, event.timestamp)
    at = steady_time(state, event.timestamp)
    for rank in state.ranks:
        rank = replace(rank, stage="warm_up", stage_ended=False)
        state = with_rank(state, _left_pools(state, rank, at))
    return replace(state, stage="warm_up")


def _left_pools(state: StartupState, rank: RankState, at: float | None) -> RankState:
    if not rank.pools or rank.pools_ended_at is not None:
        return rank
    return replace(rank, pools_ended_at=state.now if at is None else at)


def _with_rank_event(state: StartupState, event: LogEvent, label: str, stage: str) -> StartupState:
    rank = state.rank(label) or RankState(rank=label)
    if event.pid is not None and rank.pid is None:
        rank = replace(rank, pid=event.pid)
    rank = _with_memory(rank, event, stage)
    when = event.timestamp
    if stage == "host_pool":
        return _with_host_pool(state, rank, event)
    state = with_wide_level(state, when)
    if not rank.baselines:
        rank = replace(rank, level_bytes=level_by(rank, steady_time(state, when)))
    if event.kind == "stage_begin":
        if stage == "load" and span_of(state, "load", label) is None:
            # The server has booted when its last rank begins to load.
            state = closed(state, "boot", None, when)
        state = opened(state, stage, label, when)
        rank = _left_pools(state, replace(rank, stage=stage, stage_ended=False), steady_time(state, when))
    elif event.kind == "stage_end":
        if stage != "boot":  # modules are imported after the collectives are up; booting ends where loading begins
            state = closed(state, stage, label, when)
        rank = replace(rank, stage=stage, stage_ended=True)
        if stage == "load":
            state = with_bytes(state, "load", label, event.bytes)
            state = opened(state, "device_pool", label, when)
            rank = replace(rank, stage="device_pool", stage_ended=False)
    else:
        if STAGES.index(stage) > STAGES.index(rank.stage):
            # The line of its beginning was lost.
            state = opened(state, stage, label, when)
            rank = replace(rank, stage=stage, stage_ended=False)
        state = with_bytes(state, stage, label, event.bytes if stage == "device_pool" else None)
    return with_rank(state, rank)


def _with_host_pool(state: StartupState, rank: RankState, event: LogEvent) -> StartupState:
    """A line of a host pool: it will be allocated, it has been allocated, there is none, or all of them are done."""
    when = event.timestamp
    if event.kind == "stage_begin":
        state = with_wide_baseline(opened(state, "host_pool", rank.rank, when), when, event.after_allocating)
        rank = with_pool(state, replace(rank, stage="host_pool", stage_ended=False), event)
        if event.after_allocating:
            state = dated(state, "host_pool", rank.rank, growth_began_at(state, rank))
        if event.label in MAIN_POOLS and event.tokens is not None:
            state = replace(state, host_tokens=event.tokens)
    elif event.kind == "stage_end":
        state = closed(state, "host_pool", rank.rank, when)
        rank = _left_pools(state, replace(rank, stage="host_pool", stage_ended=True), steady_time(state, when))
    elif event.label == NO_POOL:
        rank = replace(rank, keeps_none=True)
    return with_rank(state, rank)


def _with_memory(rank: RankState, event: LogEvent, stage: str) -> RankState:
    """What the line says is free of the rank's GPU.

    A draft loads and captures after the target, or before its pools, by the release. Before loading is what the first
    line says, after loading what the last one before any pool says, after the pools and the graphs what the last says.
    """
    available = event.value("available_bytes")
    known = dict(rank.memory)
    name = {"load": "after_load", "device_pool": "after_pool", "capture": "after_capture"}.get(stage)
    if event.kind == "stage_begin" and stage == "load":
        name = "before_load"
    elif event.kind != "stage_end":
        return rank
    pools_seen = "after_pool" in known
    if available is None or name is None or (name == "before_load" and name in known):
        return rank
    if name == "after_load" and pools_seen:
        return rank
    return replace(rank, memory=tuple(sorted({**known, name: int(available)}.items())))


def overall_stage(state: StartupState) -> str:
    """The stage of the slowest rank; the server's own stages come after all of them."""
    if state.ready_said:
        return "ready"
    if state.stage == "warm_up":
        return "warm_up"
    if not state.ranks:
        return "boot"
    # All ranks meet before their pools, so where one is past those the others are only not to be seen.
    stages = [rank.stage for rank in state.ranks]
    if STAGES.index(max(stages, key=STAGES.index)) > STAGES.index("device_pool"):
        stages = [stage for stage in stages if stage != "boot"]
    elif len(stages) < (state.expected.ranks or 0):
        return "boot"
    return min(stages, key=STAGES.index)
