# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.gpufleet.sglang.plugins.action import wait_for_idle
from ansible_collections.gpufleet.sglang.plugins.action.wait_for_idle import RECONNECT_SECONDS, ActionModule
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import GpuMemory, Process
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import holds_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import needs_from_dict, needs_of_plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.audience import LIVE_LINES
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.idle_cases import (
    GB,
    RANK,
    RUNNING,
    STOPPED,
    STOPPING,
    STRANGER,
    gpu,
    look,
    plan,
)

PLAN = plan(numa=[])
FILE = {"path": "/dev/shm/psm_1", "kind": "tmpfs", "bytes": 2 * GB, "user": "ana", "used_by": []}


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIVE_LINES, raising=False)


def answer(
    available: int = 100 * GB,
    processes: Sequence[Process] = (),
    gpus: Sequence[GpuMemory] = (),
    unit: UnitStatus = STOPPED,
    **others: Any,
) -> dict[str, Any]:
    found = look(available, processes, gpus)
    return {
        "found": found,
        "unit": unit.as_dict(),
        "processes": [process.as_dict() for process in processes],
        "gpus": [one.as_dict() for one in gpus],
        "host": found.host.as_dict(),
        "numa_nodes": [],
        "memory_users": None,
        "files": None,
        "segments": None,
        "blocked": None,
        "problems": [],
        **others,
    }


class Play:
    """One run of the action against answers given beforehand; a call waits on the node for as long as it may."""

    def __init__(self, *answers: Any, check_mode: bool = False, **arguments: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.shown: list[str] = []
        self.at = 1000.0
        task = MagicMock(Task)
        task.no_log = False
        task.action, task.async_val, task.check_mode, task.diff = "wait_for_idle", 0, check_mode, False
        task.args = {"unit": "sglang-main.service", "plan": PLAN, **arguments}
        loader = DataLoader()
        self.connection = MagicMock()
        self.action = ActionModule(task, self.connection, MagicMock(), loader, Templar(loader=loader), MagicMock())
        self.action.clock = lambda: self.at
        self.action.sleep = self._sleep
        self.action._execute_module = self._execute

    def _sleep(self, seconds: float) -> None:
        self.at += seconds

    def _execute(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        assert module_name == "gpufleet.sglang.memory_holders_info"
        self.asked.append(module_args)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        result = dict(found)
        if "found" not in result:
            return result
        seen = result.pop("found")
        holds = holds_of(seen, needs_from_dict(module_args["needs"]))
        self.at += module_args["wait_seconds"] if holds else 0.1
        sample = {
            "at": self.at,
            "memory_available_bytes": seen.host.available_bytes,
            "gpu_memory_used_bytes": seen.gpu_used_bytes,
        }
        return {**result, "holds": [hold.as_dict() for hold in holds], "samples": [sample]}

    def run(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        display = MagicMock()
        display.return_value.display = self.shown.append
        monkeypatch.setattr(wait_for_idle, "Display", display)
        monkeypatch.setattr(context, "CLIARGS", context.CLIArgs({}))
        return self.action.run(task_vars={"inventory_hostname": "gpu-1"})


def test_an_idle_node_takes_one_call_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer())
    result = play.run(monkeypatch)
    assert (result["outcome"], result["changed"], result["given_back_bytes"]) == ("idle", False, 0)
    assert (len(play.asked), play.shown, result["problems"]) == (1, [], [])
    assert result["idle_seconds"] == 0.1


def test_the_node_is_asked_by_what_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer(), generations=["old"])
    play.run(monkeypatch)
    (asked,) = play.asked
    assert (asked["unit"], asked["gpus"], asked["generations"]) == ("sglang-main.service", ["0", "1"], ["old"])
    assert needs_from_dict(asked["needs"]) == needs_of_plan(PLAN)
    assert (asked["wait_seconds"], asked["details"]) == (3, False)
    assert "nvml_library" not in asked and None not in asked["needs"].values()


def test_gpus_that_are_given_go_before_those_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer(), gpus=["7"])
    play.run(monkeypatch)
    assert play.asked[0]["gpus"] == ["7"]
    every = Play(answer(), plan={})
    every.run(monkeypatch)
    assert "gpus" not in every.asked[0]


def test_the_release_is_shown_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    back = [gpu(0, 40 * GB, (RANK, 40 * GB)), gpu(1)]
    play = Play(
        answer(20 * GB, [RANK], back, STOPPING),
        answer(32 * GB, [], [gpu(0, 10 * GB), gpu(1)]),
        answer(60 * GB, [], [gpu(0), gpu(1)]),
    )
    result = play.run(monkeypatch)
    assert (result["outcome"], len(play.asked)) == ("idle", 3)
    assert (result["given_back_host_bytes"], result["given_back_gpu_bytes"]) == (40 * GB, 40 * GB)
    assert (result["memory_available_bytes"], result["gpu_memory_used_bytes"]) == (60 * GB, 0)
    assert play.shown == [
        "gpu-1  main  stopping 0.00 of 70.00 GB given back (host 0.00/30.00, GPU 0.00/40.00), "
        "held by sglang::scheduler_TP0 201",
        "gpu-1  main  waiting for memory 42.00 of 70.00 GB given back (host 12.00/30.00, GPU 30.00/40.00) "
        "14.00 GB/s ETA 2 s",
        "gpu-1  main  memory is free after 6.1 s, 80.00 GB given back",
    ]


def test_what_stays_held_fails_with_who_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    held = answer(30 * GB, [RANK], [gpu(0, 40 * GB, (STRANGER, 40 * GB))], files=[FILE])
    play = Play(held, stall_seconds=6)
    result = play.run(monkeypatch)
    assert (result["failed"], result["outcome"], result["failure"]["code"]) == (True, "stalled", "old_server_alive")
    assert "Kill pid 201" in result["msg"] and "Stop pid 4711" in result["msg"] and "rm /dev/shm/psm_1" in result["msg"]
    assert "hicache.ratio to 1.28 or less" in result["msg"]
    assert result["failure"]["evidence"]["largest_ratio"] == 1.28
    assert (play.asked[-1]["details"], play.asked[-1]["wait_seconds"]) == (True, 0)
    assert [asked["details"] for asked in play.asked[:-1]] == [False] * (len(play.asked) - 1)
    assert result["holders"]["files"] == [FILE]


def test_a_line_that_says_the_same_is_not_repeated_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer(processes=[RANK]), stall_seconds=300, timeout_seconds=100)
    result = play.run(monkeypatch)
    assert result["outcome"] == "failed"
    assert len(play.shown) == 5
    assert len(play.asked) > 30


def test_lines_are_not_shown_where_nobody_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer(10 * GB), answer(), live_lines="never")
    assert play.run(monkeypatch)["outcome"] == "idle"
    assert play.shown == []


@pytest.mark.parametrize(
    ("asked", "told", "shown"), [("auto", "never", False), ("auto", "always", True), ("always", "never", True)]
)
def test_the_environment_says_what_auto_is(asked: str, told: str, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_LINES, told)
    play = Play(answer(10 * GB), answer(), live_lines=asked)
    assert play.run(monkeypatch)["outcome"] == "idle"
    assert bool(play.shown) is shown


def test_an_environment_that_asks_for_something_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_LINES, "off")
    play = Play(answer())
    assert "GPUFLEET_LIVE_LINES is 'off' in the environment. Expected one of" in play.run(monkeypatch)["msg"]
    assert play.asked == []


def test_a_unit_that_runs_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Play(answer(processes=[RANK], unit=RUNNING)).run(monkeypatch)
    assert (result["failure"]["code"], result["failed"]) == ("unit_active", True)
    assert "systemctl stop sglang-main.service" in result["msg"]


def test_less_than_planned_goes_on_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Play(answer(46 * GB)).run(monkeypatch)
    assert (result["outcome"], result.get("failed")) == ("idle", None)
    assert [problem["code"] for problem in result["problems"]] == ["host_memory_below_plan"]


def test_check_mode_asks_the_node_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(answer(), check_mode=True)
    result = play.run(monkeypatch)
    assert (result["outcome"], play.asked, result["changed"]) == (None, [], False)
    assert result["would_wait"]["gpus"] == ["0", "1"]
    assert result["would_wait"]["needs"]["required_available_bytes"] == 50 * GB


def test_broken_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = AnsibleConnectionFailure("Connection reset by peer")
    play = Play(answer(10 * GB), broken, {"unreachable": True, "msg": "timed out"}, answer())
    assert play.run(monkeypatch)["outcome"] == "idle"
    assert play.connection.reset.call_count == 2


def test_node_that_stays_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(AnsibleConnectionFailure("No route to host"))
    result = play.run(monkeypatch)
    assert result["unreachable"] and "No route" in result["msg"]
    assert (result["failure"]["code"], "failed" in result) == ("node_lost", False)
    assert result["msg"].endswith("Nothing was started; run the play again.")
    assert RECONNECT_SECONDS - 10 <= play.at - 1000.0 <= RECONNECT_SECONDS


def test_module_that_was_killed_is_asked_again_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = {"failed": True, "msg": "MODULE FAILURE", "module_stdout": "", "module_stderr": "Killed", "rc": 137}
    assert Play(killed, killed, answer()).run(monkeypatch)["outcome"] == "idle"
    play = Play(killed)
    result = play.run(monkeypatch)
    assert (result["failed"], result["failure"]["code"], len(play.asked)) == (True, "watch_broken", 4)


def test_failure_of_the_module_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Play({"failed": True, "msg": "systemctl show failed"}).run(monkeypatch)
    assert (result["failed"], result["msg"]) == (True, "systemctl show failed")


def test_details_that_cannot_be_had_leave_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    held = answer(processes=[replace(RANK, pid=9)])
    play = Play(*[held] * 4, {"failed": True, "msg": "gone"}, stall_seconds=6)
    result = play.run(monkeypatch)
    assert result["failure"]["code"] == "old_server_alive"
    assert [process["pid"] for process in result["holders"]["processes"]] == [9]


@pytest.mark.parametrize(
    "arguments",
    [{"poll_seconds": 0}, {"poll_seconds": 11}, {"stall_seconds": 0}, {"timeout_seconds": 0}, {"gpu_idle_bytes": -1}],
    ids=str,
)
def test_numbers_out_of_range_are_refused(monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]) -> None:
    play = Play(answer(), **arguments)
    result = play.run(monkeypatch)
    assert (result["failure"]["code"], play.asked) == ("out_of_range", [])
    assert next(iter(arguments)) in result["msg"]
