# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import (
    diagnose,
    last_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import HostReading
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    BOOT,
    FAILED,
    GUARD,
    KILLED,
    MIB,
    PLAN,
    RUNNING,
    UNTIL_PINNING,
    WARM_UP,
    after,
    both,
    dead,
    died,
    events,
    pinning,
    raw_events,
    reading,
    seen,
    start,
)


def test_every_cause_ends_the_start() -> None:
    assert died(GUARD).verdict == "failed"


def test_cause_is_told_with_the_rank_that_said_it() -> None:
    said = raw_events([GUARD], 10.0, pid=201)
    found = diagnose(after(pinning(), seen(10.0, events=said, unit=KILLED, ranks=both(MIB, MIB))), PLAN)
    assert found.rank == "TP1"
    assert "host pool of rank TP1" in found.message


def test_cause_without_a_process_is_of_the_rank_that_reported_the_exception() -> None:
    report = events(["TP1] Scheduler hit an exception: Traceback (most recent call last):"], 10.0)
    state = after(pinning(), seen(10.0, events=[*report, *raw_events([GUARD], 10.0)], unit=KILLED))
    assert diagnose(state, PLAN).rank == "TP1"


def test_first_real_cause_counts_and_not_what_followed() -> None:
    said = [
        *raw_events(["RuntimeError: [enforce fail] Connection closed by peer [127.0.0.1]:4711"], 9.0, pid=200),
        *raw_events([GUARD], 10.0, pid=201),
        *events(["TP0] Scheduler hit an exception: Traceback (most recent call last):"], 10.5),
        *raw_events(["[2026-11-29 14:44:35] Received sigquit from a child process."], 11.0),
        *raw_events(["RuntimeError: Rank 0 scheduler died during initialization (exit code: -3)."], 12.0),
    ]
    state = after(pinning(), seen(10.0, ranks=both(MIB, MIB)), seen(12.0, events=said, unit=KILLED))
    assert (diagnose(state, PLAN).code, diagnose(state, PLAN).rank) == ("host_memory_guard", "TP1")


def test_killed_rank_is_named_with_signal_and_what_it_held() -> None:
    state = after(
        pinning(), seen(5.0, ranks=both(MIB, 81 * MIB)), seen(6.0, ranks=(reading("TP0", MIB), dead("TP1", -9)))
    )
    found = diagnose(state, PLAN)
    assert (found.code, found.rank) == ("scheduler_died", "TP1")
    assert found.message == "Rank TP1 was killed by SIGKILL while pinning (it had 0.08 GB)."
    assert (found.evidence["signal"], found.evidence["pid"], found.evidence["stage"]) == ("SIGKILL", 201, "host_pool")


def test_killed_rank_known_from_the_line_alone() -> None:
    line = "RuntimeError: Rank 1 scheduler died during initialization (exit code: -11). If exit code is -9"
    found = diagnose(died(line, unit=FAILED), PLAN)
    assert (found.code, found.rank, found.evidence["signal"]) == ("scheduler_died", "TP1", "SIGSEGV")
    assert "native code" in found.remedy


def test_killed_rank_known_from_its_process_number() -> None:
    line = "[2026-11-29 14:48:26] Subprocess scheduler_0 (pid=201) crashed with exit code -9. Triggering SIGQUIT"
    found = diagnose(died(line, ranks=both(MIB, MIB)), PLAN)
    assert found.rank == "TP1"


def test_rank_that_vanished_without_a_trace() -> None:
    look = (reading("TP0", MIB), dead("TP1"))
    found = diagnose(after(pinning(), seen(4.0, ranks=look), seen(11.0, ranks=look)), PLAN)
    assert (found.code, found.rank) == ("scheduler_died", "TP1")
    assert "vanished while pinning; its exit status is not known" in found.message


def test_kernel_s_oom_kill_is_told_by_systemd() -> None:
    state = died(unit=replace(KILLED, result="oom-kill"), ranks=(reading("TP0", MIB), dead("TP1", -9)))
    found = diagnose(state, PLAN)
    assert (found.code, found.rank) == ("oom_killer", "TP1")


def test_exception_of_a_scheduler() -> None:
    report = events(["TP1] Scheduler hit an exception: Traceback (most recent call last):"], 10.0)
    cause = raw_events(
        ["NameError: name 'transfer_kv' is not defined", "BrokenPipeError: [Errno 32] Broken pipe"], 10.0
    )
    found = diagnose(after(pinning(), seen(10.0, events=[*report, *cause], unit=KILLED)), PLAN)
    assert (found.code, found.rank) == ("scheduler_exception", "TP1")
    assert found.evidence == {"lines": ["NameError: name 'transfer_kv' is not defined"], "exception": "NameError"}


def test_invalid_combination_of_arguments_is_an_exception_before_any_rank() -> None:
    found = diagnose(died("ValueError: a and b are mutually exclusive", unit=FAILED, state=start()), PLAN)
    assert (found.code, found.rank) == ("flags_exclude_each_other", None)
    other = diagnose(died("ValueError: a has to be above b", unit=FAILED, state=start()), PLAN)
    assert (other.code, other.rank) == ("bad_argument", None)


def test_rank_that_the_others_were_killed_for_is_not_the_cause() -> None:
    # A rank reports an exception, its main process ends the others by SIGKILL.
    report = events(["TP0] Scheduler hit an exception: Traceback (most recent call last):"], 10.0)
    cause = raw_events(["NameError: name 'transfer_kv' is not defined"], 10.0, pid=200)
    quit_ = raw_events(["[2026-11-29 14:44:35] Received sigquit from a child process."], 10.1)
    look = (dead("TP0", 1), dead("TP1", -9))
    state = after(
        pinning(),
        seen(9.0, ranks=both(MIB, MIB)),
        seen(10.2, events=[*report, *cause, *quit_], unit=KILLED, ranks=look),
        seen(12.0, unit=KILLED, ranks=look),
    )
    assert (diagnose(state, PLAN).code, diagnose(state, PLAN).rank) == ("scheduler_exception", "TP0")


def test_what_was_said_and_survived_is_not_the_cause() -> None:
    said = raw_events(["ModuleNotFoundError: No module named 'deep_ep'"], 0.5, pid=201)
    state = after(
        start(),
        seen(1.0, BOOT, events=[*events(BOOT, 0.4), *said], ranks=both(MIB, MIB)),
        seen(3.0, UNTIL_PINNING[2:], ranks=both(MIB, MIB)),
        seen(5.0, ranks=(reading("TP0", MIB), dead("TP1", -9))),
        seen(12.0, ranks=(reading("TP0", MIB), dead("TP1", -9))),
    )
    assert (diagnose(state, PLAN).code, diagnose(state, PLAN).rank) == ("scheduler_died", "TP1")
    # Without any other cause it is better than none.
    alone = after(state.__class__(**{**vars(state), "verdict": None, "ranks": ()}), seen(13.0, unit=FAILED))
    assert diagnose(alone, PLAN).code == "missing_module"


def test_hint_counts_when_nothing_else_is_known() -> None:
    hint = "node1:4711:4711 [0] transport/p2p.cc:287 NCCL WARN Cuda failure 'peer access is not supported'"
    quiet = replace(FAILED, exec_main_code=None, exec_main_status=None)
    assert diagnose(died(hint, unit=quiet), PLAN).code == "nccl_warning"
    assert diagnose(died(hint, GUARD, unit=quiet), PLAN).code == "host_memory_guard"


def test_several_accounts_of_one_kill_are_told_by_the_one_that_names_the_process() -> None:
    counted = LogEvent("failure", "memory.events", label="oom_killer", timestamp=9.0)
    named = LogEvent("failure", "Killed process", label="oom_killer", values=(("dead_pid", 201),), timestamp=9.5)
    state = after(pinning(), seen(10.0, events=[counted, named], unit=KILLED, ranks=both(MIB, MIB)))
    found = diagnose(state, PLAN)
    assert (found.code, found.rank, found.values["pid"]) == ("oom_killer", "TP1", 201)


def test_exception_of_the_main_process_in_mid_start() -> None:
    found = diagnose(died("ValueError: something else", unit=FAILED), PLAN)
    assert (found.code, found.message) == ("exception", "An exception ended the server: ValueError: something else.")


def test_warm_up_failure_names_the_rank_s_cause_if_there_is_one() -> None:
    failed = raw_events(
        ["[2026-11-29 14:44:35] Initialization failed. warmup error: Traceback (most recent call last):"], 10.0
    )
    alone = after(pinning(), seen(9.0, WARM_UP), seen(10.0, events=failed, unit=KILLED))
    assert diagnose(alone, PLAN).code == "warm_up_failed"
    cause = raw_events(["NameError: name 'transfer_kv' is not defined"], 9.5, pid=200)
    both_told = after(
        pinning(), seen(9.0, WARM_UP, ranks=both(MIB, MIB)), seen(10.0, events=[*cause, *failed], unit=KILLED)
    )
    assert (diagnose(both_told, PLAN).code, diagnose(both_told, PLAN).rank) == ("scheduler_exception", "TP0")


@pytest.mark.parametrize(
    ("unit", "code", "words"),
    [
        (FAILED, "server_exited", "exit status 1 while it was pinning"),
        (replace(FAILED, exec_main_status=2), "bad_argument", "exit status 2"),
        (replace(FAILED, exec_main_status=203), "cannot_execute", "203/EXEC"),
        (replace(FAILED, exec_main_status=200), "unit_folder_missing", "200/CHDIR"),
        (replace(FAILED, exec_main_status=209), "unit_output_refused", "209/STDOUT"),
        (replace(FAILED, exec_main_status=217), "unit_user_missing", "217/USER"),
        (replace(FAILED, exec_main_status=226), "unit_namespace_refused", "226/NAMESPACE"),
        (replace(FAILED, exec_main_status=244), "unit_setup_failed", "could not prepare"),
        (replace(KILLED, result="timeout"), "unit_timeout", "TimeoutStartSec"),
        (replace(FAILED, exec_main_code=None, exec_main_status=None, result="resources"), "unit_resources", "lacked"),
        (KILLED, "server_killed", "killed by SIGKILL while it was pinning"),
        (
            replace(FAILED, exec_main_code=None, exec_main_status=None, result="start-limit-hit"),
            "start_limit",
            "Nothing tells why its last start ended",
        ),
        (replace(RUNNING, active_state="inactive", sub_state="dead"), "stopped_meanwhile", "was stopped"),
        (
            replace(RUNNING, load_state="not-found", active_state="inactive"),
            "unit_not_found",
            "knows no unit sglang-main",
        ),
        (replace(FAILED, exec_main_code=None, exec_main_status=None), "unknown", "neither it nor systemd"),
    ],
)
def test_what_systemd_says_if_no_line_tells(unit: Any, code: str, words: str) -> None:
    found = diagnose(died(unit=unit), PLAN)
    assert found.code == code
    assert words in found.message


def test_unit_that_nobody_started() -> None:
    off = replace(RUNNING, active_state="inactive", sub_state="dead", invocation_id=None, main_pid=None)
    found = diagnose(died(unit=off, state=start()), PLAN)
    assert (found.code, found.message) == ("not_started", "sglang-main.service does not run, and nobody starts it.")


def test_unit_that_cannot_be_started_is_not_asked_to_be_started() -> None:
    off = replace(RUNNING, active_state="inactive", sub_state="dead", invocation_id=None, main_pid=None)
    masked = diagnose(died(unit=replace(off, load_state="masked"), state=start()), PLAN)
    assert "is masked" in masked.message
    assert masked.remedy.startswith("Run `systemctl unmask sglang-main.service`")
    broken = diagnose(died(unit=replace(off, load_state="bad-setting"), state=start()), PLAN)
    assert (broken.code, "bad-setting" in broken.message) == ("not_started", True)


def test_stop_by_somebody_is_told_by_the_servers_line() -> None:
    line = "[2026-11-29 14:49:22] SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
    assert diagnose(died(line, unit=KILLED), PLAN).code == "stopped_meanwhile"


def test_crash_loop_is_told_with_the_cause_of_the_first_death() -> None:
    waiting = replace(KILLED, active_state="activating", sub_state="auto-restart", n_restarts=2)
    found = diagnose(died(GUARD, unit=waiting), PLAN)
    assert found.code == "host_memory_guard"
    assert found.message.endswith("systemd starts the unit again by itself.")
    assert found.evidence["n_restarts"] == 2


def test_restart_by_somebody() -> None:
    other = replace(RUNNING, invocation_id="00000000000000000000000000000001")
    found = diagnose(after(pinning(), seen(4.0, unit=other)), PLAN)
    assert found.code == "restarted_meanwhile"
    assert found.evidence["new_invocation_id"] == other.invocation_id


def test_restart_after_a_crash_is_told_with_its_cause() -> None:
    other = replace(RUNNING, invocation_id="00000000000000000000000000000001", n_restarts=1)
    state = after(pinning(), seen(4.0, events=raw_events([GUARD]), unit=other))
    assert (state.reason, diagnose(state, PLAN).code) == ("restarted_meanwhile", "host_memory_guard")


def test_time_limit_says_where_the_time_went() -> None:
    found = diagnose(after(start(timeout_seconds=10.0), seen(1.0, BOOT), seen(10.0)), PLAN)
    assert found.code == "timeout"
    assert "not ready after 10.0 s; it was starting" in found.message


def stalled(*looks: Any) -> Any:
    return diagnose(after(pinning(3.0), *looks), PLAN)


def test_stall_names_a_stopped_rank_first() -> None:
    look = (reading("TP0", 200 * MIB), reading("TP1", 2 * MIB, state="T"))
    found = stalled(seen(4.0, ranks=look), seen(40.0, ranks=look))
    assert (found.code, found.rank) == ("stalled", "TP1")
    assert found.causes[0] == "TP1 stopped by a signal (SIGSTOP or a debugger); SIGCONT lets it go on"
    assert found.causes[-1] == "the other ranks wait for TP1"
    assert found.message == "No byte and no line for 36.0 s while pinning (0.21 GB of 0.82 GB)."


def test_stall_for_want_of_memory() -> None:
    found = stalled(seen(40.0, ranks=both(MIB, MIB), host=HostReading(memory_available_bytes=100_000_000)))
    assert found.causes[0] == "host memory is short: 0.82 GB still to be pinned and 0.10 GB available"
    assert found.evidence["limit_seconds"] == 30.0


def test_stall_before_pinning_names_the_ranks_that_are_behind() -> None:
    found = diagnose(after(start(), seen(1.0, (*BOOT, *UNTIL_PINNING[2:4])), seen(31.0)), PLAN)
    assert (found.evidence["stage"], found.rank) == ("boot", "TP0")
    assert found.causes[0].startswith("the ranks do not reach each other")


def test_last_lines_without_filling() -> None:
    tail = ("a", "", "    ^^^^^^^^", "   ~~~~^^^", "b", *(f"line {number}" for number in range(3)))
    assert last_lines(after(start(), seen(1.0, tail=tail)), 4) == ["b", "line 0", "line 1", "line 2"]


def test_dictionary_form() -> None:
    data = diagnose(died(GUARD), PLAN).as_dict()
    assert sorted(data) == ["causes", "code", "computed", "evidence", "message", "rank", "remedy"]
    assert isinstance(data["causes"], list)
