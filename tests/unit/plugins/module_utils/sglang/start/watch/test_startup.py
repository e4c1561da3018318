# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import live_line, timeline
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import (
    expectation_from_plan,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    Activity,
    HostReading,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    all_pinned,
    pinned_bytes,
    planned_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import (
    DEATH_GRACE_SECONDS,
    wants_probe,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    BOOT,
    FAILED,
    GUARD,
    HALF,
    LOAD,
    MIB,
    PIN,
    PINNED,
    POOL,
    READY,
    RUNNING,
    UNTIL_PINNING,
    WARM_UP,
    after,
    both,
    dead,
    events,
    pinning,
    raw_events,
    reading,
    seen,
    start,
)


def test_whole_start_of_two_ranks() -> None:
    state = after(pinning(), seen(11.0, ranks=both(MIB + HALF, MIB + HALF)))
    assert (state.stage, state.verdict) == ("host_pool", None)
    state = after(state, seen(20.0, PINNED, ranks=both(MIB + POOL, MIB + POOL)))
    state = after(state, seen(21.0, WARM_UP, ranks=both(MIB + POOL, MIB + POOL)))
    assert (state.stage, state.verdict) == ("warm_up", None)
    state = after(state, seen(50.0, READY, ranks=both(MIB + POOL, MIB + POOL)))
    assert (state.stage, state.verdict, state.reason) == ("ready", "ready", "log")
    assert (state.max_total_num_tokens, state.host_tokens, state.invocation_id) == (
        400_000,
        1_600_001,
        RUNNING.invocation_id,
    )
    assert pinned_bytes(state) == planned_bytes(state) == 2 * POOL
    assert state.elapsed_seconds == 50.0


def test_release_without_end_line_ends_pinning_with_the_next_stage() -> None:
    begun = events(["TP0] Allocating 0.41 GB host memory for hierarchical KV cache."], 10.0, "0.5.9")
    state = after(start(ranks=1), seen(1.0, events=begun, ranks=(reading("TP0", MIB),)))
    state = after(state, seen(2.0, ranks=(reading("TP0", MIB + POOL),)))
    assert state.stage == "host_pool"
    assert timeline(state)[-1]["seconds"] is None
    assert live_line(state) == "pinned 0.41 GB, registering it"
    state = after(state, seen(3.0, events=events(WARM_UP, 31.0, "0.5.9"), ranks=(reading("TP0", MIB + POOL),)))
    assert state.stage == "warm_up"
    row = next(row for row in timeline(state) if row["stage"] == "host_pool")
    assert (row["seconds"], row["bytes"]) == (21.0, POOL)


def test_single_rank_has_no_rank_part_and_is_called_tp0() -> None:
    begun = events(["] Load weight begin. avail mem=18.74 GB"], 5.0)
    state = after(start(ranks=1), seen(1.0, events=begun))
    assert [(rank.rank, rank.stage) for rank in state.ranks] == [("TP0", "load")]


def test_server_is_as_far_as_its_slowest_rank() -> None:
    state = after(start(), seen(1.0, BOOT), seen(2.0, LOAD[:2]))
    assert state.stage == "boot"
    assert live_line(state) == "starting"
    state = after(state, seen(3.0, LOAD[2:3]))
    assert (state.stage, live_line(state)) == ("load", "loading weights (TP0)")


def test_several_pools_of_a_rank_add_up() -> None:
    more = events(["TP0] Allocating 19.32 GB host memory for DSA indexer (layout=page_first)."], 4.0)
    state = after(pinning(), seen(4.0, events=more, ranks=both(MIB, MIB)))
    assert planned_bytes(state) == 410_000_000 + 19_320_000_000 + POOL


def test_plan_is_exact_where_the_line_is_rounded() -> None:
    assert planned_bytes(pinning()) == 2 * POOL
    assert planned_bytes(after(start(bytes_by_stage=()), seen(1.0, PIN))) == 820_000_000


def test_bytes_that_lay_there_before_are_not_pinned_by_the_pool() -> None:
    shared = 300 * MIB
    state = after(start(), seen(1.0, UNTIL_PINNING, ranks=both(shared, shared)))
    state = after(state, seen(2.0, PIN, ranks=both(shared, shared)), seen(3.0, ranks=both(shared + 10 * MIB, shared)))
    assert [rank.pinned_bytes for rank in state.ranks] == [10 * MIB, 0]


def test_reading_from_after_the_announcement_is_no_baseline() -> None:
    state = after(
        start(),
        seen(1.0, UNTIL_PINNING, 101.0, ranks=both(MIB, MIB), read_at=101.1),
        seen(3.0, PIN, 103.0, ranks=both(MIB + 50, MIB + 70), read_at=103.4),
    )
    assert [rank.pinned_bytes for rank in state.ranks] == [50, 70]


def test_watcher_that_comes_late_counts_what_is_there() -> None:
    state = after(start(), seen(1.0, (*UNTIL_PINNING, *PIN), 101.0, ranks=both(HALF, POOL), read_at=110.0))
    assert [rank.pinned_bytes for rank in state.ranks] == [HALF, POOL]
    assert after(state, seen(2.0, ranks=both(POOL, POOL), read_at=111.0)).ranks[0].pinned_bytes == POOL


def test_watcher_of_a_served_instance_reports_what_it_holds() -> None:
    lines = (*UNTIL_PINNING, *PIN, *PINNED, *WARM_UP, *READY)
    state = after(start(), seen(1.0, lines, 101.0, ranks=both(POOL, POOL), read_at=500.0, more=True))
    assert (state.verdict, pinned_bytes(state)) == ("ready", 2 * POOL)


def test_late_watcher_of_private_memory_supposes_that_it_is_there() -> None:
    begun = events(["TP0] Allocating 0.41 GB host memory for hierarchical KV cache."], 3.0, "0.5.9")
    held = (reading("TP0", 0, anon_bytes=2000 * MIB),)
    state = after(start(ranks=1, meter="anon"), seen(1.0, events=begun, ranks=held, read_at=9.0))
    assert pinned_bytes(state) == POOL


def test_late_watcher_of_driver_memory_does_not_know() -> None:
    begun = events(["TP0] Allocating 0.41 GB host memory for hierarchical KV cache."], 3.0, "0.5.4")
    late = seen(
        1.0,
        events=begun,
        ranks=(reading("TP0", 0),),
        host=HostReading(memory_available_bytes=9_000_000_000),
        read_at=9.0,
    )
    assert pinned_bytes(after(start(ranks=1, meter="available"), late)) is None


def test_private_memory_is_the_meter_of_older_releases() -> None:
    def anon(size: int) -> tuple[object, ...]:
        return (reading("TP0", 0, anon_bytes=size, resident_bytes=size),)

    begun = events(["TP0] Allocating 0.41 GB host memory for hierarchical KV cache."], 3.0, "0.5.9")
    state = after(
        start(ranks=1, meter="anon"),
        seen(1.0, events=events(BOOT[:1], 1.0, "0.5.12"), ranks=anon(2000 * MIB)),
        seen(2.0, events=begun, ranks=anon(2000 * MIB)),
        seen(3.0, ranks=anon(2000 * MIB + HALF)),
    )
    assert pinned_bytes(state) == HALF


def test_driver_memory_shows_only_in_what_is_available() -> None:
    begun = events(["TP0] Allocating 0.41 GB host memory for hierarchical KV cache."], 3.0, "0.5.4")
    state = after(
        start(ranks=1, meter="available"),
        seen(1.0, events=begun, ranks=(reading("TP0", 0),), host=HostReading(memory_available_bytes=10_000_000_000)),
        seen(2.0, ranks=(reading("TP0", 0),), host=HostReading(memory_available_bytes=9_800_000_000)),
    )
    assert pinned_bytes(state) == 200_000_000


def test_ranks_are_in_natural_order() -> None:
    lines = [f"TP{rank}] Load weight begin. avail mem=1.00 GB" for rank in (10, 2, 1)]
    assert [rank.rank for rank in after(start(), seen(1.0, lines)).ranks] == ["TP1", "TP2", "TP10"]


# Outcomes


def test_unit_that_failed_ends_the_wait_at_once() -> None:
    state = after(pinning(), seen(4.0, events=raw_events([GUARD]), unit=FAILED))
    assert (state.verdict, state.reason) == ("failed", "unit_died")


def test_unit_that_died_without_a_word_is_given_two_seconds_for_its_last_lines() -> None:
    state = after(pinning(), seen(4.0, unit=FAILED))
    assert state.verdict is None
    late = after(state, seen(4.5, events=raw_events([GUARD]), unit=FAILED))
    assert (late.verdict, len(late.troubles)) == ("failed", 1)
    assert after(state, seen(5.5, unit=FAILED)).verdict is None
    assert after(state, seen(6.0, unit=FAILED)).verdict == "failed"


def test_lines_that_come_bit_by_bit_after_the_death_are_all_waited_for() -> None:
    """journald is behind on a busy node: the line of the cause lies behind many others."""
    state = after(start(), seen(1.0, UNTIL_PINNING), seen(3.0, unit=FAILED))
    for at in range(4, 12):
        state = after(state, seen(float(at), unit=FAILED, lines=500))
        assert state.verdict is None, at
    named = after(state, seen(12.5, events=raw_events([GUARD]), unit=FAILED))
    assert (named.verdict, len(named.troubles)) == ("failed", 1)
    assert after(state, seen(13.0, unit=FAILED)).verdict == "failed"


def test_a_dead_unit_that_never_falls_silent_is_judged_all_the_same() -> None:
    state = after(start(), seen(1.0, UNTIL_PINNING), seen(3.0, unit=FAILED))
    looks = [seen(float(at), unit=FAILED, lines=500) for at in range(4, 34)]
    assert after(state, *looks[:-1]).verdict is None
    assert after(state, *looks).verdict == "failed"


def test_unit_whose_program_never_ran_has_no_last_lines_to_wait_for() -> None:
    assert after(pinning(), seen(4.0, unit=replace(FAILED, exec_main_status=203))).verdict == "failed"


def test_auto_restart_is_a_failure_at_once() -> None:
    waiting = replace(FAILED, active_state="activating", sub_state="auto-restart")
    state = after(pinning(), seen(4.0, events=raw_events([GUARD]), unit=waiting))
    assert (state.verdict, state.reason) == ("failed", "unit_died")


def test_other_invocation_is_a_failure_and_its_lines_do_not_count() -> None:
    other = replace(RUNNING, invocation_id="00000000000000000000000000000001", main_pid=900)
    state = after(pinning(), seen(4.0, unit=other, ranks=both(POOL, POOL)))
    assert (state.verdict, state.reason) == ("failed", "restarted_meanwhile")
    assert pinned_bytes(state) == 0


def test_followed_invocation_can_be_given() -> None:
    state = after(replace(start(), invocation_id="00000000000000000000000000000001"), seen(1.0))
    assert state.reason == "restarted_meanwhile"


def test_restart_counter_that_rises_is_a_failure() -> None:
    state = after(pinning(), seen(4.0, unit=replace(RUNNING, n_restarts=1)))
    assert (state.verdict, state.reason) == ("failed", "restarted_meanwhile")


def test_restarts_before_the_followed_start_do_not_count() -> None:
    again = replace(RUNNING, n_restarts=3)
    assert after(start(), seen(1.0, unit=again), seen(2.0, unit=again)).verdict is None


def test_unknown_unit_is_a_failure() -> None:
    gone = replace(RUNNING, load_state="not-found", active_state="inactive", sub_state="dead", invocation_id=None)
    assert after(start(), seen(1.0, unit=gone)).reason == "unit_not_found"


def test_dead_rank_whose_signal_is_known_fails_at_once() -> None:
    state = after(pinning(), seen(4.0, ranks=(reading("TP0", MIB), dead("TP1", -9))))
    assert (state.verdict, state.reason) == ("failed", "rank_died")
    assert [rank.exit_code for rank in state.ranks] == [None, -9]


def test_dead_rank_without_a_cause_is_given_time_to_be_named() -> None:
    look = (reading("TP0", MIB), dead("TP1"))
    state = after(pinning(), seen(4.0, ranks=look), seen(5.0, ranks=look))
    assert state.verdict is None
    named = raw_events(["RuntimeError: Rank 1 scheduler died during initialization (exit code: -9)."])
    assert after(state, seen(6.0, events=named, ranks=look)).reason == "rank_died"
    assert after(state, seen(4.0 + DEATH_GRACE_SECONDS, ranks=look)).reason == "rank_died"


def test_fatal_line_fails_even_if_the_unit_stays_active() -> None:
    state = after(pinning(), seen(4.0, events=raw_events([GUARD])))
    assert state.verdict is None
    assert after(state, seen(4.0 + DEATH_GRACE_SECONDS)).reason == "dying"


def test_soft_watchdog_only_reports() -> None:
    soft = raw_events(["Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)"])
    state = after(pinning(), seen(4.0, events=soft, ranks=both(MIB, MIB)))
    assert state.dying_since is None


def test_exception_that_was_handled_is_no_failure() -> None:
    handled = raw_events(["ImportError: cannot import name 'causal_conv1d_fn'"])
    assert after(pinning(), seen(4.0, events=handled), seen(20.0, PINNED)).verdict is None


def test_nothing_moving_is_a_stall() -> None:
    state = after(pinning(3.0), seen(10.0, ranks=both(2 * MIB + HALF, MIB)))
    state = after(state, seen(39.9, ranks=both(2 * MIB + HALF, MIB)))
    assert state.verdict is None
    assert after(state, seen(40.0, ranks=both(2 * MIB + HALF, MIB))).verdict == "stalled"


@pytest.mark.parametrize(
    "sign",
    [
        {"lines": 1},
        {"ranks": both(MIB, 5 * MIB)},
        {"activity": Activity(read_bytes=9 * MIB)},
        {"activity": Activity(resident_bytes=9 * MIB)},
    ],
)
def test_any_byte_and_any_line_is_a_sign_of_life(sign: dict[str, Any]) -> None:
    state = after(pinning(3.0), seen(30.0, **sign), seen(50.0, ranks=both(MIB, MIB)))
    assert state.verdict is None


@pytest.mark.parametrize("line", ["TP0] Capture cuda graph begin. avail mem=9.00 GB", WARM_UP[0]])
def test_stages_that_are_silent_by_nature_are_given_their_own_time(line: str) -> None:
    state = after(start(ranks=1, timeout_seconds=5000.0), seen(1.0, [line]), seen(500.0))
    assert state.verdict is None
    assert after(state, seen(1000.0)).verdict == "stalled"


def test_time_limit_is_a_failure() -> None:
    state = start(timeout_seconds=60.0)
    for at in range(0, 60, 10):
        state = after(state, seen(float(at), lines=1))
    assert state.verdict is None
    assert after(state, seen(60.0, lines=1)).reason == "timeout"


def test_verdict_is_final() -> None:
    state = after(start(), seen(1.0, READY))
    assert state.verdict == "ready"
    assert after(state, seen(2.0, unit=FAILED)) == state


def test_line_that_was_lost_is_replaced_by_the_servers_own_answer() -> None:
    state = after(start(), seen(1.0, UNTIL_PINNING), seen(2.0, WARM_UP), seen(3.0, serves=False))
    assert state.verdict is None and wants_probe(state)
    state = after(state, seen(4.0, serves=True))
    assert (state.verdict, state.reason) == ("ready", "probe")


def test_release_whose_lines_are_unknown_is_watched_by_bytes_and_readiness() -> None:
    first = seen(1.0, ranks=both(MIB, MIB), lines=9, serves=False)
    state = after(start(), first, seen(2.0, ranks=both(MIB + HALF, MIB + HALF)))
    assert state.stage == "host_pool"
    assert live_line(state).startswith("pinning 0.41 of 0.82 GB")
    assert wants_probe(state)
    assert after(state, seen(9.0, ranks=both(MIB + POOL, MIB + POOL), serves=True)).verdict == "ready"


def test_server_is_not_asked_before_it_could_answer() -> None:
    assert not wants_probe(pinning())


def test_journal_that_goes_on_is_read_to_its_end_before_judging() -> None:
    state = after(start(), seen(1.0, UNTIL_PINNING, unit=FAILED, more=True))
    assert state.verdict is None
    assert after(state, seen(1.1, events=raw_events([GUARD]), unit=FAILED)).verdict == "failed"


# What is expected


def test_expectation_of_a_plan() -> None:
    plan = {
        "host": {
            "ranks": 8,
            "bytes_per_rank": 33_000_000_000,
            "stages": [{"bytes_per_rank": 33_000_000_000, "pinned_bytes_per_rank": 34_359_738_368}],
            "meter": "anon",
        },
        "unit": {"timeout_start_seconds": 1800},
    }
    found = expectation_from_plan(plan, None, 120.0)
    # what is pinned, not what was asked for: the allocator rounds up
    assert (found.bytes_of("TP7"), found.bytes_total, found.meter) == (34_359_738_368, 274_877_906_944, "anon")
    assert (found.timeout_seconds, found.stall_seconds) == (1800.0, 120.0)
    assert expectation_from_plan(plan, 60.0, 120.0).timeout_seconds == 60.0


def test_each_pipeline_stage_pins_what_its_own_layers_take() -> None:
    stages = [{"pinned_bytes_per_rank": POOL}, {"pinned_bytes_per_rank": POOL // 2}]
    found = expectation_from_plan({"host": {"ranks": 4, "stages": stages}}, None, 120.0)
    assert [found.bytes_of(rank) for rank in ("PP0 TP0", "PP0 TP1", "PP1 TP0", "PP1 TP1")] == [
        POOL,
        POOL,
        POOL // 2,
        POOL // 2,
    ]
    # A rank of the second stage is the first that is seen: three are missing.
    state = after(initial(found, 0.0), seen(1.0, ["PP1 TP0] Load weight begin. avail mem=23.21 GB"]))
    assert [rank.rank for rank in state.ranks] == ["PP1 TP0"]
    assert planned_bytes(state) == found.bytes_total == 3 * POOL


def test_start_over_stages_is_complete_once_each_rank_has_its_own() -> None:
    stages = [{"pinned_bytes_per_rank": POOL}, {"pinned_bytes_per_rank": POOL // 2}]
    expected = expectation_from_plan({"host": {"ranks": 2, "stages": stages}}, None, 120.0)
    ranks = replace(reading("TP0", 0), rank="PP0 TP0"), replace(reading("TP1", 0), rank="PP1 TP0")
    state = after(initial(expected, 0.0), seen(1.0, ranks=ranks))

    def held(first: int, second: int) -> StartupState:
        grown = (replace(ranks[0], shmem_bytes=first), replace(ranks[1], shmem_bytes=second))
        return after(state, seen(2.0, ranks=grown))

    assert all_pinned(held(POOL, POOL // 2))
    assert not all_pinned(held(POOL, POOL // 4))


def test_expectation_without_a_plan() -> None:
    found = expectation_from_plan({}, None, 120.0)
    assert (found.ranks, found.bytes_total, found.meter, found.timeout_seconds) == (None, None, "shmem", 3600.0)
