# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.gpufleet.sglang.plugins.action import wait_for_startup
from ansible_collections.gpufleet.sglang.plugins.action.wait_for_startup import ActionModule
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.audience import LIVE_LINES
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    FAILED,
    GUARD,
    KILLED,
    MIB,
    PIN,
    PINNED,
    POOL,
    READY,
    RUNNING,
    UNTIL_PINNING,
    WARM_UP,
    both,
    dead,
    events,
    raw_events,
    reading,
)

PLAN = {
    "sglang_version": "0.5.23",
    "host": {"ranks": 2, "stages": [{"pinned_bytes_per_rank": POOL}], "meter": "shmem", "largest_ratio": 3.5},
    "unit": {"timeout_start_seconds": 300},
}


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIVE_LINES, raising=False)


def answer(
    lines: Sequence[str] = (),
    timestamp: float = 0.0,
    unit: UnitStatus = RUNNING,
    ranks: Sequence[RankReading] = (),
    raw: Sequence[str] = (),
    **others: Any,
) -> dict[str, Any]:
    found = [*events(lines, timestamp), *raw_events(raw, timestamp)]
    return {
        "unit": {**unit.as_dict(), "started_at": 90.0, "generation": "abc"},
        "events": [event.as_dict() for event in found],
        "cursor": f"cursor-{timestamp:g}",
        "lines": len(found),
        "more": False,
        "read_at": timestamp,
        "activity": {"resident_bytes": 0, "read_bytes": 0},
        "ranks": [one.as_dict("shmem") for one in ranks],
        "host": {"memory_available_bytes": 18_000_000_000},
        "serves": None,
        "tail": [*lines, *raw],
        "problems": [],
        **others,
    }


class Play:
    """One run of the action against answers given beforehand; each look takes two seconds."""

    def __init__(self, *answers: Any, check_mode: bool = False, no_log: bool = False, **arguments: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.shown: list[str] = []
        self.at = 1000.0
        task = MagicMock(Task)
        task.action, task.async_val, task.check_mode, task.diff = "wait_for_startup", 0, check_mode, False
        task.no_log, task._uuid = no_log, "00000000-task"
        task.args = {"unit": "sglang-main.service", "sglang_version": "0.5.23", "plan": PLAN, **arguments}
        loader = DataLoader()
        self.connection = MagicMock()
        self.action = ActionModule(task, self.connection, MagicMock(), loader, Templar(loader=loader), MagicMock())
        self.action.clock = lambda: self.at
        self.action.sleep = self._sleep
        self.action._execute_module = self._execute

    def _sleep(self, seconds: float) -> None:
        self.at += seconds

    def _execute(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        assert module_name == "gpufleet.sglang.startup_status_info"
        self.asked.append(module_args)
        self.at += 2.0
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return dict(found)

    def run(self, monkeypatch: pytest.MonkeyPatch, verbosity: int = 0) -> dict[str, Any]:
        display = MagicMock()
        display.return_value.display = self.shown.append
        display.return_value.verbosity = verbosity
        monkeypatch.setattr(wait_for_startup, "Display", display)
        with tempfile.TemporaryDirectory() as folder:
            monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", folder)
            return self.action.run(task_vars={"inventory_hostname": "gpu-1", "ansible_play_batch": ["gpu-1"]})


def whole_start() -> list[dict[str, Any]]:
    return [
        answer(UNTIL_PINNING, 100.0, ranks=both(MIB, MIB)),
        answer(PIN, 102.0, ranks=both(MIB, MIB)),
        answer((), 104.0, ranks=both(MIB + POOL // 2, MIB + POOL // 4)),
        answer(PINNED, 106.0, ranks=both(MIB + POOL, MIB + POOL)),
        answer(WARM_UP, 108.0, ranks=both(MIB + POOL, MIB + POOL)),
        answer(READY, 110.0, ranks=both(MIB + POOL, MIB + POOL)),
    ]


def test_start_is_followed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start())
    result = play.run(monkeypatch)
    assert not result.get("failed")
    assert (result["changed"], result["outcome"], result["main_pid"]) == (False, "ready", 100)
    assert (result["invocation_id"], result["pinned_bytes"]) == (RUNNING.invocation_id, 2 * POOL)
    assert (result["max_total_num_tokens"], result["host_tokens"]) == (400_000, 1_600_001)
    assert result["elapsed_seconds"] == 12.0
    figures = result["figures"]
    assert figures["available_before_load_bytes"] == round(18.29 * (1 << 30))
    assert figures["pinned_bytes"] == result["pinned_bytes"]
    assert {row["stage"]: row["seconds"] for row in result["stages"]} == {
        "boot": 10.0,
        "load": 0.0,
        "device_pool": 0.0,
        "host_pool": 4.0,
        "warm_up": 2.0,
    }
    assert [(rank["rank"], rank["stage"], rank["pinned_bytes"]) for rank in result["ranks"]] == [
        ("TP0", "ready", POOL),
        ("TP1", "ready", POOL),
    ]


def test_live_lines_name_node_and_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start())
    play.run(monkeypatch)
    assert play.shown == [
        "gpu-1  main  allocating the device pool",
        "gpu-1  main  pinning 0.31 of 0.82 GB (TP0 0.20/0.41, TP1 0.10/0.41) 0.15 GB/s ETA 6 s",
        "gpu-1  main  warming up",
        "gpu-1  main  ready after 20.0 s: boot 10.0 s, load 0.0 s (1.07 GB), device pool 0.0 s (0.21 GB), "
        "pin 4.0 s (0.82 GB at 0.20 GB/s), warm-up 2.0 s",
    ]


def test_live_lines_hold_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start())
    play.run(monkeypatch)
    assert play.shown
    assert all(line.isprintable() for line in play.shown)


def test_more_detail_shows_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start())
    play.run(monkeypatch, verbosity=1)
    assert "gpu-1  main    TP1: pinning 0.10 of 0.41 GB pinned, process 201" in play.shown


@pytest.mark.parametrize(
    ("arguments", "environment", "callback", "shown"),
    [
        ({}, None, "default", True),
        ({}, None, "ansible.posix.json", False),
        ({}, "always", "ansible.posix.json", True),
        ({}, "never", "default", False),
        ({"live_lines": "auto"}, "never", "default", False),
        ({"live_lines": "always"}, "never", "ansible.posix.json", True),
        ({"live_lines": "never"}, None, "default", False),
        ({"live_lines": "always", "no_log": True}, None, "default", False),
    ],
)
def test_live_lines_are_silent_where_nobody_reads_along(
    arguments: dict[str, Any],
    environment: str | None,
    callback: str,
    shown: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", callback)
    if environment is not None:
        monkeypatch.setenv(LIVE_LINES, environment)
    play = Play(*whole_start(), **arguments)
    assert play.run(monkeypatch)["outcome"] == "ready"
    assert bool(play.shown) is shown


def test_node_is_asked_from_where_the_last_answer_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start(), ready_url="http://127.0.0.1:30000")
    play.run(monkeypatch)
    first, second = play.asked[:2]
    assert (first["wait_seconds"], first["meter"]) == (0, "shmem")
    assert not {"cursor", "invocation_id", "known_ranks", "log"} & first.keys()
    assert (second["cursor"], second["invocation_id"]) == ("cursor-100", RUNNING.invocation_id)
    assert [rank["pid"] for rank in second["known_ranks"]] == [200, 201]
    assert all(0.5 <= asked["wait_seconds"] <= 10 for asked in play.asked[1:])
    assert ["ready_url" in asked for asked in play.asked] == [True, False, False, False, True, True]


def test_failure_tells_cause_rank_remedy_and_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start()[:2], answer((), 105.0, unit=KILLED, ranks=both(MIB, MIB), raw=[GUARD]))
    result = play.run(monkeypatch)
    assert result["failed"] and result["outcome"] == "failed"
    assert result["failure"]["code"] == "host_memory_guard"
    assert result["failure"]["remedy"] in result["msg"]
    assert result["msg"].splitlines()[-1] == f"  {GUARD}"
    assert result["last_lines"][-1] == GUARD


def test_killed_rank_fails_the_play_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = answer((), 104.0, ranks=(reading("TP0", 90 * MIB), dead("TP1", -9)))
    play = Play(*whole_start()[:2], answer((), 103.0, ranks=both(90 * MIB, 81 * MIB)), gone)
    result = play.run(monkeypatch)
    assert len(play.asked) == 4
    assert (result["failure"]["code"], result["failure"]["rank"]) == ("scheduler_died", "TP1")
    assert "Rank TP1 was killed by SIGKILL while pinning (it had 0.08 GB)." in result["msg"]
    assert [rank["alive"] for rank in result["ranks"]] == [True, False]


def test_restart_meanwhile_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(RUNNING, invocation_id="00000000000000000000000000000001", main_pid=900)
    result = Play(*whole_start()[:2], answer((), 105.0, unit=other)).run(monkeypatch)
    assert result["failure"]["code"] == "restarted_meanwhile"
    assert result["invocation_id"] == RUNNING.invocation_id


def test_crash_loop_is_a_failure_at_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looping = replace(KILLED, active_state="activating", sub_state="auto-restart", n_restarts=4)
    play = Play(answer((), 105.0, unit=looping, raw=[GUARD]))
    result = play.run(monkeypatch)
    assert (len(play.asked), result["failure"]["code"]) == (1, "host_memory_guard")
    assert result["failure"]["evidence"]["n_restarts"] == 4


def test_stall_is_an_outcome_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    still = answer((), 103.0, ranks=both(MIB, MIB))
    result = Play(*whole_start()[:2], still, stall_seconds=30).run(monkeypatch)
    assert (result["failed"], result["outcome"], result["failure"]["code"]) == (True, "stalled", "stalled")
    assert result["failure"]["causes"]
    assert result["elapsed_seconds"] == 34.0


def test_time_limit_of_the_plan_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = {**answer((), 103.0), "lines": 1}
    result = Play(alive).run(monkeypatch)
    assert (result["failure"]["code"], result["elapsed_seconds"]) == ("timeout", 300.0)


def test_worker_whose_controller_was_killed_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([7, 7, 7])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    play = Play(*whole_start())
    with pytest.raises(AnsibleError, match="controller is gone"):
        play.run(monkeypatch)
    assert len(play.asked) == 2


def test_broken_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start = whole_start()
    broken = AnsibleConnectionFailure("Connection reset by peer")
    play = Play(*start[:2], broken, {"unreachable": True, "msg": "timed out"}, *start[2:])
    result = play.run(monkeypatch)
    assert result["outcome"] == "ready"
    assert play.connection.reset.call_count == 2
    assert play.asked[2] == play.asked[3] == play.asked[4]


def test_node_that_stays_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start()[:2], AnsibleConnectionFailure("No route to host"), reconnect_seconds=40)
    result = play.run(monkeypatch)
    assert result["unreachable"] and not result.get("failed")
    assert result["failure"]["code"] == "node_lost"
    assert "No route to host" in result["msg"] and "run the play again" in result["msg"]
    assert "When it was last seen, it was pinning" in result["msg"]
    assert 30 <= play.at - 1004.0 <= 40
    assert "gpu-1  main  out of reach for 25.0 s (No route to host); the start goes on" in play.shown
    assert play.shown[-1].endswith("while pinning, node_lost")


def test_module_that_is_killed_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = {"failed": True, "msg": "Module result deserialization failed.", "module_stdout": "", "rc": 137}
    start = whole_start()
    assert Play(*start[:2], killed, killed, *start[2:]).run(monkeypatch)["outcome"] == "ready"
    result = Play(*start[:2], killed).run(monkeypatch)
    assert (result["failed"], result["failure"]["code"], result["outcome"]) == (True, "watch_broken", None)
    assert [rank["rank"] for rank in result["ranks"]] == ["TP0", "TP1"]


def test_refusal_of_the_module_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"failed": True, "msg": "`systemctl show` failed", "failure": {"code": "systemctl_failed"}}
    play = Play(refused)
    result = play.run(monkeypatch)
    assert (result["failed"], result["msg"], len(play.asked)) == (True, "`systemctl show` failed", 1)


def test_node_that_was_rebooted_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (dict(one, boot_id="a") for one in whole_start()[:2])
    other = replace(RUNNING, invocation_id="00000000000000000000000000000001", main_pid=900)
    result = Play(first, second, answer((), 105.0, unit=other, boot_id="b")).run(monkeypatch)
    assert (result["outcome"], result["failure"]["code"]) == ("failed", "node_rebooted")
    assert result["msg"].startswith("gpu-1: sglang-main.service failed: The node was rebooted")


def test_container_is_followed_by_its_own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = {"type": "podman", "container": "sglang-chat"}
    play = Play(*whole_start(), unit=None, log=log, plan={}, ranks=2, planned_bytes=2 * POOL)
    result = play.run(monkeypatch)
    assert result["outcome"] == "ready"
    assert play.asked[0]["log"] == {**log, "path": None}
    assert "unit" not in play.asked[0]
    assert play.shown[-1].startswith("gpu-1  chat  ready after")
    assert result["planned_bytes"] == 2 * POOL


def test_without_a_plan_ranks_and_bytes_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer(), check_mode=True, plan={}, ranks=4, planned_bytes=4 * POOL, meter="hugetlb")
    would = play.run(monkeypatch)["would_wait"]
    assert (would["ranks"], would["planned_bytes"], would["meter"]) == (4, 4 * POOL, "hugetlb")
    assert would["bytes_by_stage"] == [POOL]


def test_release_that_was_not_read_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start(), sglang_version="0.9.99")
    result = play.run(monkeypatch)
    assert "release_not_read" in {problem["code"] for problem in result["problems"]}
    # Its lines may not be understood, so bytes and readiness are looked at more often.
    assert all(asked["wait_seconds"] <= 3 for asked in play.asked)


def test_problems_of_the_looks_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"code": "journal_unreadable", "severity": "warning", "message": "no", "remedy": "root"}
    looks = [dict(one, problems=[problem]) for one in whole_start()]
    result = Play(*looks).run(monkeypatch)
    assert [one["code"] for one in result["problems"]].count("journal_unreadable") == 1


def test_last_look_of_a_dying_unit_waits_for_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*whole_start()[:2], answer((), 105.0, unit=FAILED), answer((), 106.0, unit=FAILED, raw=[GUARD]))
    assert play.run(monkeypatch)["failure"]["code"] == "host_memory_guard"


def test_rest_of_a_long_journal_is_read_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play({**answer(UNTIL_PINNING, 100.0), "more": True}, *whole_start()[1:])
    assert play.run(monkeypatch)["outcome"] == "ready"


def test_check_mode_says_what_it_would_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer(), check_mode=True)
    result = play.run(monkeypatch)
    assert play.asked == []
    assert (result["changed"], result["outcome"]) == (False, None)
    assert play.shown == ["gpu-1  main  would follow the start of 2 ranks that pin 0.82 GB, for at most 5 min 00 s"]
    assert result["would_wait"] == {
        "unit": "sglang-main.service",
        "invocation_id": None,
        "ranks": 2,
        "planned_bytes": 2 * POOL,
        "meter": "shmem",
        "timeout_seconds": 300.0,
        "stall_seconds": 120.0,
        "log": None,
        "bytes_by_stage": [POOL],
        "stages": [
            {"stage": "load", "seconds": None, "bytes": None},
            {"stage": "host_pool", "seconds": None, "bytes": 2 * POOL},
        ],
        "start_seconds": None,
        "release_read": "0.5.23",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sglang_version": "newest"}, "not a version number"),
        ({"poll_seconds": 31}, "poll_seconds is 31. Expected 0.1 to 30."),
        ({"reconnect_seconds": -1}, "reconnect_seconds is -1. Expected 0 to 86400."),
        ({"ranks": 0}, "ranks is 0. Expected 1 to 4096."),
        ({"unit": None}, "Neither a unit nor a container is named."),
        ({"log": {"type": "file"}}, "has no path"),
        ({"log": {"type": "docker"}}, "names no container"),
        ({"stall_seconds": 0}, "stall_seconds is 0. Expected 1 to 86400."),
        ({"timeout_seconds": -1}, "timeout_seconds is -1. Expected more than 0."),
        ({"timeout_seconds": "nan"}, "timeout_seconds is nan."),
        ({"timeout_seconds": "inf"}, "It has to have an end."),
        ({"unit": "sglang-*.service"}, "names no service"),
        ({"plan": {"plan": {}}}, "plan holds a plan"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_asked(
    arguments: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(answer(), **arguments)
    result = play.run(monkeypatch)
    assert result["failed"] and words in result["msg"]
    assert play.asked == []


def test_environment_that_asks_for_something_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_LINES, "off")
    result = Play(answer()).run(monkeypatch)
    assert "GPUFLEET_LIVE_LINES is 'off' in the environment. Expected one of auto, always, never." in result["msg"]
