# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import (
    Expectation,
    expectation_from_plan,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.notes import notes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    Activity,
    CgroupReading,
    LogHealth,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stall import BOUNDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import (
    CAUSE_GRACE_SECONDS,
    DRAINING_SECONDS,
    READING_SECONDS,
    SETTLED_SECONDS,
    time_limit_seconds,
    wants_probe,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    BOOT,
    FAILED,
    GUARD,
    INVOCATION,
    MIB,
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

LOST = LogHealth(suppressed=3)
GONE = LogHealth(readable=False)


def cpu(seconds: float) -> Activity:
    return Activity(cpu_seconds=seconds)


# Stalls: 30 s in these tests


def test_no_byte_no_line_and_no_cpu_time_is_a_stall() -> None:
    state = after(pinning(), *(seen(float(at), activity=cpu(10.0)) for at in (10, 20, 30)))
    assert state.verdict is None
    # Everything came to rest with the last line, at 3 s.
    assert after(state, seen(33.1, activity=cpu(10.0))).reason == "quiet"


@pytest.mark.parametrize("stage", ["capture", "warm_up"])
def test_where_cpu_time_is_known_silence_is_short_in_every_stage(stage: str) -> None:
    line = "TP0] Capture cuda graph begin. avail mem=9.00 GB" if stage == "capture" else WARM_UP[0]
    state = after(start(ranks=1, timeout_seconds=5000.0), seen(1.0, [line], activity=cpu(1.0)))
    assert state.stage == stage
    assert after(state, seen(32.0, activity=cpu(1.0))).verdict == "stalled"
    assert after(state, seen(32.0, activity=cpu(20.0))).verdict is None


def test_cpu_time_alone_is_believed_up_to_a_bound_of_its_stage() -> None:
    state = start(ranks=1, timeout_seconds=50_000.0)
    state = after(state, seen(1.0, ["TP0] Capture cuda graph begin. avail mem=9.00 GB"], activity=cpu(0.0)))
    at = 1.0
    while state.verdict is None and at < 10_000.0:
        at += 10.0
        state = after(state, seen(at, activity=cpu(at)))
    assert (state.verdict, state.reason) == ("stalled", "busy")
    assert at == pytest.approx(1.0 + BOUNDS["capture"].busy_seconds, abs=10.0)


def test_idle_processes_are_not_busy() -> None:
    state = after(pinning(), *(seen(float(at), activity=cpu(at * 0.01)) for at in range(4, 33, 2)))
    assert state.verdict is None
    assert after(state, seen(34.0, activity=cpu(0.34))).verdict == "stalled"


def test_work_that_is_looked_at_often_is_seen() -> None:
    state = pinning()
    for step in range(1, 400):
        at = 3.0 + step * 0.1
        state = after(state, seen(at, activity=cpu(at * 0.2)))
    assert state.verdict is None


def test_process_that_ended_takes_its_time_with_it() -> None:
    state = after(pinning(), seen(4.0, activity=cpu(100.0)), seen(30.0, activity=cpu(40.0)))
    assert after(state, seen(50.0, activity=cpu(40.0))).verdict is None


def test_memory_that_comes_and_goes_is_a_sign_of_life() -> None:
    state = pinning()
    for at in range(5, 200, 20):
        state = after(
            state, seen(float(at), activity=Activity(resident_bytes=(at // 20 % 2) * 50 * MIB, cpu_seconds=1.0))
        )
    assert state.verdict is None


def test_half_a_minute_of_silence_while_bytes_grow_is_no_stall() -> None:
    state = start(stall_seconds=5.0)
    state = after(state, seen(1.0, UNTIL_PINNING, ranks=both(MIB, MIB), activity=cpu(1.0)))
    for at in range(2, 90):
        held = MIB + at * 2 * MIB
        state = after(state, seen(float(at), ranks=both(held, MIB), activity=cpu(1.0)))
    assert state.verdict is None


def test_without_cpu_time_and_with_a_broken_log_silence_means_little() -> None:
    state = after(pinning(), seen(4.0, log=GONE), seen(300.0, log=GONE))
    assert state.verdict is None
    assert after(state, seen(1000.0, log=GONE)).verdict == "stalled"
    # Where CPU time is known nothing needs a line.
    known = after(pinning(), seen(4.0, log=GONE, activity=cpu(1.0)), seen(40.0, log=GONE, activity=cpu(1.0)))
    assert known.verdict == "stalled"


# Ready


def test_probe_makes_ready_where_the_log_is_gone() -> None:
    state = start()
    for at, serves in ((1.0, False), (2.0, False), (3.0, True)):
        assert wants_probe(state)
        state = after(state, seen(at, ranks=both(MIB, MIB), log=GONE, serves=serves, read_at=100.0 + at))
    assert (state.verdict, state.reason, state.ready_at) == ("ready", "probe", 103.0)
    assert [note.code for note in notes(state)] == ["log_unreadable"]


@pytest.mark.parametrize("known", [False, None])
def test_answer_of_another_process_makes_nothing_ready(known: bool | None) -> None:
    state = start()
    for at in range(1, 20):
        state = after(state, seen(float(at), ranks=both(MIB, MIB), serves=True, listener_in_unit=known, lines=1))
    assert state.verdict is None
    assert [note.code for note in notes(state)] == ["probe_doubted"]


def test_listener_of_the_unit_needs_no_other_evidence() -> None:
    state = after(start(), seen(1.0, ranks=both(MIB, MIB), serves=True, listener_in_unit=True))
    assert (state.verdict, state.reason) == ("ready", "probe")


def test_port_that_answered_while_the_bytes_have_long_been_there_is_believed() -> None:
    full = both(MIB + POOL, MIB + POOL)
    state = after(start(), seen(1.0, ranks=both(MIB, MIB), log=GONE), seen(2.0, ranks=full, serves=True, log=GONE))
    assert state.verdict is None
    state = after(state, seen(2.0 + SETTLED_SECONDS, ranks=full, serves=True, log=GONE, lines=1))
    assert (state.verdict, state.reason) == ("ready", "probe")


@pytest.mark.parametrize(
    "trouble",
    [
        {"ranks": (reading("TP0", MIB), dead("TP1"))},
        {"unit": replace(RUNNING, active_state="deactivating", sub_state="stop-sigterm")},
        {"unit": replace(RUNNING, main_pid=None), "ranks": ()},
        {"unit": replace(RUNNING, active_state="activating", sub_state="auto-restart")},
    ],
)
def test_answer_counts_only_while_the_unit_lives(trouble: dict[str, Any]) -> None:
    state = after(start(), seen(1.0, serves=False))
    state = after(state, seen(2.0, serves=True, listener_in_unit=True, **trouble))
    assert state.verdict != "ready"


def test_line_of_an_older_start_in_a_file_makes_nothing_ready() -> None:
    file = LogHealth(source="file")
    old = seen(1.0, events=events(READY, 90.0), started_at=100.0, read_at=101.0, log=file)
    assert after(start(), old).verdict is None
    new = seen(1.0, events=events(READY, 100.5), started_at=100.0, read_at=101.0, log=file)
    assert after(start(), new).verdict == "ready"


def test_line_of_another_invocation_makes_nothing_ready() -> None:
    other = replace(RUNNING, invocation_id="0" * 31 + "1")
    state = after(replace(start(), invocation_id=INVOCATION), seen(1.0, READY, unit=other))
    assert (state.verdict, state.reason) == ("failed", "restarted_meanwhile")


def test_node_that_is_not_the_first_is_done_when_its_ranks_are() -> None:
    line = LogEvent("progress", "", "warm_up", label="worker_node", timestamp=9.0)
    state = after(pinning(), seen(9.0, events=[line], ranks=both(MIB + POOL, MIB + POOL)))
    assert (state.verdict, state.reason, state.ready_at) == ("ready", "log", 9.0)


def test_line_that_is_ready_outweighs_what_was_said_before_it_and_not_what_is_said_after() -> None:
    guard = raw_events([GUARD], 4.0)
    ready = events(READY, 5.0)
    assert after(pinning(), seen(5.0, events=[*guard, *ready])).verdict == "ready"
    state = after(pinning(), seen(5.0, events=[*ready, *guard]))
    assert state.verdict is None
    assert after(state, seen(7.0)).verdict == "failed"


@pytest.mark.parametrize("log", [LOST, GONE, LogHealth(gap=True)])
def test_server_is_asked_while_lines_may_be_missing(log: LogHealth) -> None:
    state = after(pinning(), seen(4.0, ranks=both(MIB, MIB), log=log))
    assert wants_probe(state)
    assert state.verdict is None


def test_server_is_asked_when_nothing_happens_and_when_it_is_half_done() -> None:
    assert not wants_probe(after(pinning(), seen(4.0, ranks=both(MIB, MIB))))
    assert wants_probe(after(pinning(), seen(14.0, ranks=both(MIB, MIB))))
    assert wants_probe(after(pinning(), seen(4.0, ranks=both(MIB + POOL, MIB + MIB))))


def test_what_was_lost_of_the_log_is_told() -> None:
    state = after(pinning(), seen(4.0, log=LOST), seen(5.0, log=LOST), seen(6.0, log=LogHealth(gap=True)), seen(7.0))
    assert [note.code for note in notes(state)] == ["log_suppressed", "log_gap"]
    assert notes(state)[0].message == "6 messages of the log were dropped by its rate limit."


# Failed


def oom(pid: int) -> LogEvent:
    values = (("anon_bytes", 5), ("constraint", "CONSTRAINT_MEMCG"), ("dead_pid", pid))
    return LogEvent("failure", "Killed process", label="oom_killer", values=values, timestamp=4.0)


def test_kill_by_the_kernel_names_the_rank_and_ends_the_start_at_once() -> None:
    state = after(pinning(), seen(4.0, events=[oom(201)], ranks=both(MIB, MIB)))
    assert (state.verdict, state.reason) == ("failed", "rank_died")
    assert [rank.rank for rank in state.ranks if not rank.alive] == ["TP1"]


def test_kill_that_only_the_control_group_counts_is_a_failure() -> None:
    state = after(pinning(), seen(4.0, cgroup=CgroupReading(oom_kills=2)), seen(5.0, cgroup=CgroupReading(oom_kills=2)))
    assert state.verdict is None and not state.troubles
    state = after(state, seen(6.0, cgroup=CgroupReading(oom_kills=3)))
    assert [event.label for event in state.troubles] == ["oom_killer"]
    assert after(state, seen(6.0 + CAUSE_GRACE_SECONDS, cgroup=CgroupReading(oom_kills=3))).verdict == "failed"


def test_zombie_is_a_dead_rank() -> None:
    state = after(pinning(), seen(4.0, ranks=(reading("TP0", MIB), reading("TP1", MIB, state="Z", exit_code=-9))))
    assert (state.verdict, state.reason) == ("failed", "rank_died")


def test_rank_that_another_process_replaced_is_a_restart() -> None:
    again = replace(reading("TP1", MIB), pid=777, start_ticks=9)
    state = after(pinning(), seen(4.0, ranks=(reading("TP0", MIB), again)))
    assert (state.verdict, state.reason) == ("failed", "restarted_meanwhile")
    assert state.replaced == ("TP1",)


def test_process_that_only_a_line_named_is_no_restart() -> None:
    lines = events(["TP0] Init parallel begin."], 1.0, pid=4)
    assert after(start(ranks=1), seen(1.0, events=lines), seen(2.0, ranks=(reading("TP0", MIB),))).verdict is None


def test_node_that_was_rebooted_runs_another_start() -> None:
    state = after(start(), seen(1.0, boot_id="a"), seen(2.0), seen(3.0, boot_id="a"))
    assert state.verdict is None
    state = after(state, seen(4.0, boot_id="b", unit=FAILED))
    assert (state.verdict, state.reason) == ("failed", "restarted_meanwhile")


@pytest.mark.parametrize(
    ("active", "sub"),
    [
        ("activating", "start"),
        ("activating", "start-pre"),
        ("active", "running"),
        ("reloading", "reload"),
        ("reloading", "reload-notify"),
        ("refreshing", "refresh-extensions"),
    ],
)
def test_states_of_a_unit_that_goes_on(active: str, sub: str) -> None:
    unit = replace(RUNNING, active_state=active, sub_state=sub)
    assert after(pinning(), seen(4.0, unit=unit), seen(14.0, unit=unit)).verdict is None


@pytest.mark.parametrize(
    ("active", "sub", "reason"),
    [
        ("failed", "failed", "unit_died"),
        ("inactive", "dead", "unit_stopped"),
        ("maintenance", "", "unit_died"),
        ("activating", "auto-restart", "unit_died"),
        ("activating", "auto-restart-queued", "unit_died"),
        ("inactive", "dead-before-auto-restart", "unit_died"),
        ("active", "exited", "unit_died"),
    ],
)
def test_states_of_a_unit_that_is_over(active: str, sub: str, reason: str) -> None:
    unit = replace(RUNNING, active_state=active, sub_state=sub, main_pid=None)
    state = after(start(), seen(1.0, BOOT[:0], unit=unit), seen(3.5, unit=unit))
    assert (state.verdict, state.reason) == ("failed", reason)


def test_log_that_never_ends_does_not_hide_a_death() -> None:
    state = after(pinning(), seen(4.0, unit=FAILED, more=True, lines=500))
    assert state.verdict is None
    assert after(state, seen(4.0 + DRAINING_SECONDS, unit=FAILED, more=True, lines=500)).verdict == "failed"
    # With a line of trouble it does not take the last word to know that it failed.
    known = after(pinning(), seen(4.0, events=raw_events([GUARD], 4.0), unit=FAILED, more=True, lines=500))
    assert known.verdict is None
    ended = seen(4.0 + READING_SECONDS, unit=FAILED, more=True, lines=500)
    assert after(known, ended).verdict == "failed"


def test_line_that_names_the_cause_ends_a_start_before_its_unit_does() -> None:
    state = after(pinning(), seen(4.0, events=raw_events([GUARD], 4.0)))
    assert state.verdict is None
    assert after(state, seen(4.0 + CAUSE_GRACE_SECONDS)).verdict == "failed"


def test_limit_that_nobody_gave_grows_with_the_bytes() -> None:
    planned = {"host": {"ranks": 8, "stages": [{"pinned_bytes_per_rank": 50_000_000_000}]}}
    assert time_limit_seconds(initial(expectation_from_plan({}, None, 120.0), 0.0)) == 3600.0
    assert time_limit_seconds(initial(expectation_from_plan(planned, None, 120.0), 0.0)) == 3600.0 + 4000.0
    assert time_limit_seconds(initial(expectation_from_plan(planned, 900.0, 120.0), 0.0)) == 900.0
    limited = {**planned, "unit": {"timeout_start_seconds": 1800}}
    assert time_limit_seconds(initial(expectation_from_plan(limited, None, 120.0), 0.0)) == 1800.0


@pytest.mark.parametrize("value", [0, -5, float("nan"), float("inf"), True, "soon", None])
def test_limit_of_a_plan_that_is_none_is_not_taken(value: Any) -> None:
    assert expectation_from_plan({"unit": {"timeout_start_seconds": value}}, None, 120.0).timeout_seconds == 3600.0


# Ranks and clocks


@pytest.mark.parametrize(("planned", "codes"), [(2, []), (4, ["ranks_differ"]), (1, ["ranks_differ"])])
def test_other_number_of_ranks_than_planned_is_told(planned: int, codes: list[str]) -> None:
    ready = seen(5.0, (*UNTIL_PINNING, *WARM_UP), ranks=both(MIB, MIB))
    state = after(start(ranks=planned, bytes_by_stage=()), ready)
    assert [note.code for note in notes(state)] == codes
    # Ranks that are not to be seen hold nothing up.
    assert state.stage == "warm_up"


def test_stage_goes_on_without_ranks_whose_lines_are_missing() -> None:
    far = [line for line in UNTIL_PINNING if not line.startswith("TP1")]
    capture = ["TP0] Capture cuda graph begin. avail mem=9.00 GB"]
    state = after(start(), seen(1.0, BOOT, ranks=both(MIB, MIB)), seen(5.0, [*far, *capture], ranks=both(MIB, MIB)))
    assert state.stage == "capture"


def follows(state: StartupState, *times: tuple[float, float, float | None]) -> StartupState:
    """Looks at (waiter's clock, node's clock, node's monotonic clock), each with a line."""
    for at, read_at, monotonic in times:
        state = after(state, seen(at, read_at=read_at, monotonic=monotonic, lines=1, started_at=1000.0))
    return state


@pytest.mark.parametrize("jump", [-3600.0, -3.0, 3.0, 3600.0])
def test_jump_shows_at_once_against_the_monotonic_clock(jump: float) -> None:
    state = follows(start(), (1.0, 1001.0, 51.0), (3.0, 1003.0, 53.0), (5.0, 1005.0 + jump, 55.0))
    assert state.clock_jumps == 1
    assert [note.code for note in notes(state)] == ["clock_jumped"]
    assert [(span.stage, span.jumped) for span in state.spans] == [("boot", True)]


def test_answer_that_came_late_is_no_jump() -> None:
    late = follows(start(), (1.0, 1001.0, 51.0), (33.0, 1003.0, 53.0), (35.0, 1035.0, 85.0))
    assert late.clock_jumps == 0
    late = follows(start(), (1.0, 1001.0, None), (33.0, 1003.0, None), (35.0, 1035.0, None))
    assert late.clock_jumps == 0


def test_without_the_monotonic_clock_a_jump_shows_too() -> None:
    ahead = follows(start(), (1.0, 1001.0, None), (3.0, 1103.0, None))
    assert ahead.clock_jumps == 1
    back = follows(start(), (1.0, 1001.0, None), (3.0, 903.0, None))
    assert back.clock_jumps == 1
    slow = follows(start(), (1.0, 1001.0, None), (31.0, 1002.0, None), (33.0, 1004.0, None))
    assert slow.clock_jumps == 1


def test_expectation_is_right_by_default() -> None:
    assert (Expectation().timeout_given, Expectation().meter) == (True, "shmem")
