# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to hold of the watch of a start, whatever the server does, the log loses and the clock shows."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_figures import figures
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.notes import notes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import pinned_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.progress import (
    eta_seconds,
    rank_eta_seconds,
    rank_rate,
    rate_bytes_per_second,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.spans import stage_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stall import busy_limit_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import wants_probe
from ansible_collections.gpufleet.sglang.tests.campaign.start_draws import FAULTS, LOSSES, STALL_SECONDS, world
from ansible_collections.gpufleet.sglang.tests.campaign.start_worlds import World
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.pinned_starts import (
    drawn,
    worst_after_the_change,
    worst_at_constant_speed,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import INVOCATION, MIB

# Nobody looks less often than this.
LONGEST_LOOK_SECONDS = 10.0
# A fault that names no cause may be waited on for the server's own words.
GRACE_SECONDS = 6.0 + LONGEST_LOOK_SECONDS
STAGES = ("boot", "load", "device_pool", "capture", "host_pool", "warm_up")


def watch(start: World, first: float = 0.0, until: float = 20_000.0) -> StartupState:
    """Looks until there is a verdict, and holds every state against the truth."""
    expected = Expectation(
        ranks=len(start.ranks),
        bytes_by_stage=(sum(start.ranks[0].pools),),
        meter=start.meter,
        timeout_seconds=50_000.0,
        stall_seconds=STALL_SECONDS,
    )
    state = initial(expected, 1000.0 + first, INVOCATION)
    at = first
    while state.verdict is None and at < until:
        state = advance(state, start.look(at, wants_probe(state)))
        hold(state, start, at)
        at += start.dice.choice([0.3, 2.0, 5.0, LONGEST_LOOK_SECONDS])
    return state


def hold(state: StartupState, start: World, at: float) -> None:
    """What is true of every state."""
    pinned = pinned_bytes(state)
    level = sum(rank.level for rank in start.ranks) + 64 * MIB
    assert pinned is None or 0 <= pinned <= start.pinned(at) + level
    for value in (eta_seconds(state), rate_bytes_per_second(state)):
        assert value is None or (value >= 0.0 and math.isfinite(value))
    for rank in state.ranks:
        eta, rate = rank_eta_seconds(state, rank), rank_rate(state, rank)
        assert eta is None or (eta >= 0.0 and math.isfinite(eta))
        assert rate is None or rate > 0.0
    for stage in STAGES:
        seconds = stage_seconds(state, stage)
        assert seconds is None or 0.0 <= seconds <= at + 2.0, (stage, seconds)
    assert state.elapsed_seconds >= 0.0
    assert all(note.message for note in notes(state))


def test_a_log_that_stamps_late_takes_nothing_from_what_is_pinned(dice: random.Random) -> None:
    start = world(dice, None, None, jump=False)
    start.stamped_late = dice.uniform(0.0, 2.0)
    state = watch(start)
    # The server may be found to serve before its line is there.
    assert state.verdict == "ready"
    if start.meter != "available":
        assert pinned_bytes(state) == pytest.approx(start.planned, abs=80 * MIB * len(start.ranks))


def is_told_ready(start: World) -> bool:
    return any(event.kind == "ready" for event in start.heard)


def test_a_start_that_goes_well_is_ready_and_nothing_else(dice: random.Random) -> None:
    start = world(dice, None, None, jump=False)
    state = watch(start)
    assert (state.verdict, state.reason) == ("ready", "log")
    assert start.looked_at >= start.ready_at
    assert start.looked_at <= start.ready_at + LONGEST_LOOK_SECONDS
    assert pinned_bytes(state) == pytest.approx(start.planned, abs=64 * MIB * len(start.ranks))
    pin = stage_seconds(state, "host_pool")
    assert pin is not None
    began = min(rank.began_at for rank in start.ranks)
    # Without a line of its own the end is the next stage; a line that comes after allocating leaves the begin to bytes.
    ended = max(rank.left_at for rank in start.ranks)
    told = [event for event in start.lines if (event.stage, event.kind) == ("host_pool", "stage_begin")]
    spread = LONGEST_LOOK_SECONDS if any(event.after_allocating for event in told) else 0.01
    assert pin <= ended + 0.6 - began + spread
    assert pin >= ended - min(event.timestamp or 0.0 for event in told) - 0.01
    assert figures(state)["start_seconds"] == pytest.approx(start.ready_at, abs=0.01)


def test_a_log_that_loses_lines_neither_fails_nor_stalls_a_start(dice: random.Random) -> None:
    start = world(dice, None, dice.choice(LOSSES), jump=False)
    state = watch(start)
    assert state.verdict == "ready", (state.reason, state.stage)
    assert start.looked_at >= start.ready_at
    assert state.reason == ("log" if is_told_ready(start) else "probe")


def test_a_clock_that_is_set_changes_no_outcome(dice: random.Random) -> None:
    start = world(dice, None, dice.choice([None, "gap"]), jump=True)
    state = watch(start)
    assert state.verdict == "ready"
    assert start.looked_at >= start.ready_at


def test_every_fault_ends_a_start_within_its_bound(dice: random.Random) -> None:
    fault = dice.choice(FAULTS)
    start = world(dice, fault, dice.choice([None, None, *LOSSES[:2]]), jump=dice.random() < 0.2)
    state = watch(start)
    late = start.looked_at - start.fault_at
    assert late >= 0.0
    if fault.startswith("hang"):
        assert state.verdict == "stalled", (state.verdict, state.reason)
        assert late >= STALL_SECONDS - LONGEST_LOOK_SECONDS - 1.0
        assert late <= busy_limit_seconds(state) + 2 * LONGEST_LOOK_SECONDS
    elif fault == "fatal_line" and not any(event.label == "host_memory_guard" for event in start.heard):
        # The line was lost, and a server that says so and lives on does not do anything any more.
        assert state.verdict == "stalled"
    else:
        assert state.verdict == "failed"
        assert late <= GRACE_SECONDS + LONGEST_LOOK_SECONDS
    if fault == "restarted":
        assert state.reason == "restarted_meanwhile"


def test_another_server_on_the_port_makes_nothing_ready(dice: random.Random) -> None:
    start = world(dice, None, dice.choice(["unreadable", "silent"]), jump=False)
    start.stranger = True
    state = watch(start, until=start.ready_at - 0.5)
    # Who listens is not known in half of the starts. Then it counts once the bytes are there and nothing died of it.
    there = max(rank.filled_at for rank in start.ranks)
    late = not start.shows_listener and start.looked_at >= there + 290.0
    assert state.verdict is None or (state.verdict == "ready" and late)


def test_a_watcher_that_comes_late_comes_to_the_same_end(dice: random.Random) -> None:
    start = world(dice, None, None, jump=False)
    state = watch(start, first=dice.uniform(0.0, start.ready_at * 1.5))
    assert (state.verdict, state.reason) == ("ready", "log")
    if start.meter in ("shmem", "hugetlb"):
        assert pinned_bytes(state) == pytest.approx(start.planned, abs=64 * MIB * len(start.ranks))


def test_time_left_is_right_at_constant_speed_and_soon_after_it_halved(dice: random.Random) -> None:
    assert worst_at_constant_speed(drawn(dice)) <= 0.15
    assert worst_after_the_change(drawn(dice, factor=0.5)) <= 0.30


def test_time_left_is_right_soon_after_any_change_of_speed(dice: random.Random) -> None:
    factor = dice.choice([0.2, 0.4, 0.7, 1.4, 2.0, 4.0])
    assert worst_after_the_change(drawn(dice, factor, dice.uniform(0.2, 0.8))) <= 0.30


# What no reader of a node should ever give, and what a broken one might.
NUMBERS = (None, 0, -1, -(10**30), 10**30, 1e308, -0.5, 1_795_000_000.0, 2.5)


def test_nothing_that_is_seen_makes_the_watch_raise(dice: random.Random) -> None:
    start = world(dice, dice.choice([None, *FAULTS]), dice.choice([None, *LOSSES]), jump=dice.random() < 0.5)
    expected = Expectation(
        ranks=dice.choice([None, 0, 1, 8, 10**6]),
        bytes_by_stage=dice.choice([(), (0,), (10**9,), (10**9, 0)]),
        meter=dice.choice(["shmem", "anon", "hugetlb", "available"]),
        timeout_seconds=dice.choice([1.0, 1e6]),
        stall_seconds=dice.choice([0.0, 30.0]),
    )
    state = initial(expected, dice.choice([-5.0, 0.0, 1e9]), dice.choice([None, INVOCATION, ""]))
    at = 0.0
    for _look in range(60):
        at += dice.uniform(0.0, 40.0)
        seen = hostile(dice, start.look(at, wants_probe(state)))
        state = replace(advance(state, seen), verdict=None)
        assert (pinned_bytes(state) or 0) >= 0
        assert (eta_seconds(state) or 0.0) >= 0.0
        assert state.elapsed_seconds >= 0.0
        assert all((stage_seconds(state, stage) or 0.0) >= 0.0 for stage in STAGES)
        figures(state)
        notes(state)


def hostile(dice: random.Random, seen: Observation) -> Observation:
    """The look with some of its parts replaced by what does not fit them, or mixed up."""

    def odd(whole: Any, names: tuple[str, ...]) -> Any:
        chosen = [name for name in names if dice.random() < 0.2]
        return replace(whole, **{name: dice.choice(NUMBERS) for name in chosen})

    ranks = [odd(one, ("start_ticks", "shmem_bytes", "anon_bytes", "exit_code")) for one in seen.ranks]
    events = [odd(one, ("bytes", "tokens", "timestamp", "pid")) for one in seen.events]
    dice.shuffle(ranks)
    dice.shuffle(events)
    if ranks and dice.random() < 0.2:
        ranks.append(replace(ranks[0], pid=dice.randrange(1000), alive=dice.random() < 0.5))
    if events and dice.random() < 0.3:
        stage, rank = dice.choice([None, *STAGES, "nowhere"]), dice.choice([None, "", "TP", "PP7 TP1", "x 9"])
        events.append(replace(dice.choice(events), stage=stage, rank=rank))
    unit = replace(
        seen.unit,
        active_state=dice.choice(
            ["active", "activating", "deactivating", "reloading", "refreshing", "maintenance", ""]
        ),
        sub_state=dice.choice(["running", "exited", "start-pre", "auto-restart-queued", ""]),
        main_pid=dice.choice([None, 100]),
        invocation_id=dice.choice([None, INVOCATION, INVOCATION, "other"]),
    )
    return replace(
        odd(seen, ("started_at", "read_at", "monotonic")),
        at=seen.at + dice.choice([0.0, 0.0, -1e6, 1e9]),
        unit=unit,
        ranks=tuple(ranks),
        events=tuple(events),
        samples=tuple(
            replace(one, at=dice.choice(NUMBERS[1:])) if dice.random() < 0.2 else one for one in seen.samples
        ),
        activity=odd(seen.activity, ("cpu_seconds",)),
        host=odd(seen.host, ("memory_available_bytes",)),
        cgroup=odd(seen.cgroup, ("current_bytes", "shmem_bytes", "anon_bytes", "oom_kills")),
        more=dice.random() < 0.3,
        serves=dice.choice([None, True, False]),
    )
