# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which start is followed: the one that was asked for, and not the one that it takes the place of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import live_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.notes import notes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus, job_id, parse_job
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    FAILED,
    GUARD,
    INVOCATION,
    PLAN,
    READY,
    RUNNING,
    after,
    raw_events,
    seen,
    start,
)

NEXT = "ffff0a6a4d9e4a6f8f0d3e1b2c7a9d10"
STOPPING = replace(RUNNING, active_state="deactivating", sub_state="stop-sigterm", job="restart")
QUEUED = replace(RUNNING, active_state="inactive", sub_state="dead", main_pid=None, job="start")
GONE = replace(QUEUED, job=None)
STARTED = replace(RUNNING, invocation_id=NEXT)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (replace(RUNNING, job="restart"), "stopping the old server"),
        (STOPPING, "stopping the old server"),
        (replace(STOPPING, job="start"), "stopping the old server"),
        (QUEUED, "waiting for systemd to start it"),
        (replace(FAILED, job="start"), "waiting for systemd to start it"),
    ],
)
def test_a_start_that_systemd_has_yet_to_make_is_waited_for(unit: UnitStatus, words: str) -> None:
    state = after(start(), seen(1.0, READY, unit=unit))
    assert (state.verdict, state.invocation_id, live_line(state)) == (None, None, words)
    state = after(state, seen(100.0, unit=STARTED))
    assert (state.verdict, state.invocation_id, live_line(state)) == (None, NEXT, "starting")
    assert after(state, seen(101.0, READY, unit=STARTED)).verdict == "ready"


@pytest.mark.parametrize(
    "unit",
    [
        RUNNING,
        replace(RUNNING, active_state="activating", sub_state="start-pre", main_pid=None, job="start"),
        replace(RUNNING, active_state="reloading", sub_state="reload", job="reload"),
    ],
)
def test_the_present_start_is_followed_where_none_is_to_come(unit: UnitStatus) -> None:
    state = after(start(), seen(1.0, unit=unit))
    assert (state.verdict, state.invocation_id, state.awaits_start) == (None, INVOCATION, False)
    assert after(state, seen(2.0, READY, unit=unit)).verdict == "ready"


def test_systemd_s_own_restart_is_the_end_of_the_start_before_it() -> None:
    again = replace(FAILED, active_state="activating", sub_state="auto-restart", job="restart")
    state = after(start(), seen(1.0, unit=again), seen(3.0, unit=again))
    assert (state.verdict, state.reason) == ("failed", "unit_died")


def test_waiting_for_the_old_server_to_stop_is_no_stall_and_ends_with_the_time() -> None:
    state = start(timeout_seconds=300.0, stall_seconds=30.0)
    for at in range(0, 300, 20):
        state = after(state, seen(float(at), unit=STOPPING))
        assert state.verdict is None
    state = after(state, seen(301.0, unit=STOPPING))
    assert (state.verdict, state.reason) == ("failed", "timeout")
    found = diagnose(state, PLAN)
    assert found.code == "timeout"
    assert found.message == "The server was not ready after 5 min 01 s; it was stopping the old server."


def test_the_stall_is_reckoned_from_the_new_start_on() -> None:
    state = after(start(stall_seconds=30.0), seen(0.0, unit=STOPPING), seen(100.0, unit=STOPPING))
    assert after(state, seen(101.0, unit=STARTED), seen(120.0, unit=STARTED)).verdict is None


@pytest.mark.parametrize("unit", [GONE, replace(GONE, invocation_id=None)])
def test_a_start_that_was_called_off_is_not_told_by_the_lines_of_the_one_before(unit: UnitStatus) -> None:
    old: tuple[Observation, ...] = (seen(1.0, unit=STOPPING), seen(2.0, events=raw_events([GUARD]), unit=unit))
    state = after(start(), *old, seen(4.0, unit=unit))
    assert (state.verdict, state.reason, state.invocation_id) == ("failed", "unit_stopped", None)
    assert diagnose(state, PLAN).code == "not_started"


def test_the_cause_of_a_start_that_ended_before_the_first_look_is_told() -> None:
    """Its SIGKILL counts as success, and the journal alone knows which start it was."""
    state = after(start(), seen(1.0, events=raw_events([GUARD]), unit=GONE), seen(3.0, unit=GONE))
    assert (state.verdict, state.reason, state.invocation_id) == ("failed", "unit_stopped", INVOCATION)
    assert diagnose(state, PLAN).code == "host_memory_guard"


def test_a_server_that_served_and_was_stopped_was_not_started_again() -> None:
    state = after(start(), seen(1.0, READY, unit=GONE), seen(3.0, unit=GONE))
    assert state.verdict == "failed"
    assert diagnose(state, PLAN).code == "not_started"


def test_a_sigkill_that_counts_as_success_is_no_stop() -> None:
    killed = replace(GONE, exec_main_code="killed", exec_main_status=9)
    state = after(start(), seen(1.0, unit=killed), seen(3.0, unit=killed))
    assert diagnose(state, PLAN).code == "server_killed"
    stopped = replace(GONE, exec_main_code="killed", exec_main_status=15)
    state = after(start(), seen(1.0, unit=stopped), seen(3.0, unit=stopped))
    assert diagnose(state, PLAN).code == "stopped_meanwhile"


AGAIN = replace(RUNNING, n_restarts=1)
TOLD = tuple(raw_events([GUARD]))


def test_a_start_that_comes_up_at_the_second_try_says_so() -> None:
    state = after(start(), seen(1.0, unit=AGAIN, earlier=TOLD), seen(2.0, READY, unit=AGAIN))
    assert state.verdict == "ready"
    told = [note for note in notes(state) if note.code == "restarted_before"]
    assert len(told) == 1
    assert told[0].message == (
        "systemd had restarted the unit once by itself before it was looked at; the start before said: " + GUARD
    )
    assert not [note for note in notes(after(start(), seen(1.0, unit=AGAIN))) if note.code == "restarted_before"]


def test_a_start_that_says_nothing_fails_of_what_the_one_before_said() -> None:
    third = replace(RUNNING, n_restarts=2, invocation_id=NEXT)
    state = after(start(), seen(1.0, unit=AGAIN, earlier=TOLD), seen(2.0, unit=third))
    assert (state.verdict, state.reason) == ("failed", "restarted_meanwhile")
    found = diagnose(state, PLAN)
    assert (found.code, found.message[:32]) == ("host_memory_guard", "The start before ended of this: ")
    # What the start itself said comes first.
    own = after(start(), seen(1.0, unit=AGAIN, earlier=tuple(raw_events(["RuntimeError: CUDA error: out of memory"]))))
    own = after(own, seen(2.0, events=raw_events([GUARD]), unit=third))
    assert diagnose(own, PLAN).code == "host_memory_guard"
    assert not diagnose(own, PLAN).message.startswith("The start before")


def test_jobs_as_systemctl_lists_them() -> None:
    listed = "400 sglang-main.service restart running\n 7 other.service start waiting\n"
    assert [parse_job(listed, one) for one in ("400", "7", "40")] == ["restart", "start", None]
    assert [job_id(f"Id=a\n{line}") for line in ("Job=400\n", "Job=\n", "Job=0\n", "")] == ["400", None, None, None]
