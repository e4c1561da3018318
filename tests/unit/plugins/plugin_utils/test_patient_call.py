# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.patient_call import GaveUp, Means, call_patiently
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.time_limit import OutOfTime

KILLED = {
    "failed": True,
    "msg": "Module result deserialization failed: No start of json char found",
    "module_stdout": "",
    "module_stderr": "Shared connection closed.\r\nKilled\r\n",
    "rc": 137,
}
NO_PYTHON = {
    "failed": True,
    "msg": "The module interpreter '/usr/bin/python3' was not found.",
    "module_stdout": "",
    "module_stderr": "/bin/sh: 1: /usr/bin/python3: not found",
}


class World:
    """Answers given beforehand; a call takes a second."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.at = 0.0
        self.calls = self.reconnected = 0
        self.told: list[tuple[str, float | None]] = []

    def _call(self) -> dict[str, Any]:
        self.calls += 1
        self.at += 1.0
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    def _sleep(self, seconds: float) -> None:
        self.at += seconds

    def _reconnect(self) -> None:
        self.reconnected += 1

    def _tell(self, trouble: str, lasted: float | None) -> None:
        self.told.append((trouble, lasted))

    def _clock(self) -> float:
        return self.at

    def run(self, reconnect_seconds: float = 120.0) -> dict[str, Any]:
        means = Means(self._call, self._reconnect, self._tell, self._clock, self._sleep, "Look again.")
        return call_patiently(means, reconnect_seconds)


def test_an_answer_is_handed_on() -> None:
    world = World({"changed": False})
    assert world.run() == {"changed": False}
    assert (world.calls, world.reconnected, world.told) == (1, 0, [])


@pytest.mark.parametrize(
    "trouble",
    [
        AnsibleConnectionFailure("Connection reset by peer"),
        {"unreachable": True, "msg": "Connection reset by peer"},
        OutOfTime(63),
    ],
)
def test_a_connection_that_comes_back_is_taken_up_again(trouble: Any) -> None:
    world = World(trouble, trouble, trouble, {"changed": False})
    assert world.run() == {"changed": False}
    assert (world.calls, world.reconnected) == (4, 3)
    assert [lasted for _text, lasted in world.told] == [1.0, 3.0, 6.0]


@pytest.mark.parametrize(("patience", "calls"), [(0.0, 1), (20.0, 5), (120.0, 16)])
def test_a_node_that_stays_away_is_given_up_after_the_time_that_was_asked_for(patience: float, calls: int) -> None:
    world = World(AnsibleConnectionFailure("No route to host"))
    with pytest.raises(GaveUp) as gave_up:
        world.run(patience)
    assert gave_up.value.unreachable
    assert gave_up.value.code == "node_lost"
    assert "No route to host." in gave_up.value.message
    assert world.calls == calls
    assert world.at <= max(patience, 1.0)


def test_each_loss_has_its_own_time() -> None:
    gone, broken = AnsibleConnectionFailure("gone"), KILLED
    world = World(*[gone] * 3, broken, *[gone] * 3, {"changed": False})
    assert world.run(20.0) == {"changed": False}
    assert world.at > 20.0


def test_who_is_not_let_in_is_not_tried_again() -> None:
    world = World(AnsibleAuthenticationFailure("Permission denied"))
    with pytest.raises(GaveUp, match="Permission denied"):
        world.run()
    assert world.calls == 1


@pytest.mark.parametrize("broken", [KILLED, AnsibleError("Missing sudo password"), {"failed": True, "exception": "x"}])
def test_a_broken_answer_is_tried_four_times(broken: Any) -> None:
    world = World(broken, broken, broken, {"changed": False})
    assert world.run() == {"changed": False}
    assert [lasted for _text, lasted in world.told] == [None, None, None]
    stubborn = World(broken)
    with pytest.raises(GaveUp) as gave_up:
        stubborn.run()
    assert (stubborn.calls, gave_up.value.code, gave_up.value.unreachable) == (4, "watch_broken", False)


def test_what_the_node_printed_last_is_said() -> None:
    with pytest.raises(GaveUp, match="No start of json char found. It ended with 'Killed'"):
        World(KILLED).run()


@pytest.mark.parametrize(
    "exception",
    [
        "Traceback (most recent call last):\n  File x\nOSError: No space left on device\n",
        SimpleNamespace(event=SimpleNamespace(formatted_traceback="Traceback\nOSError: No space left on device\n")),
        SimpleNamespace(event=SimpleNamespace(formatted_traceback=None, msg="No space left on device")),
    ],
)
def test_what_a_module_fell_over_is_said(exception: Any) -> None:
    with pytest.raises(GaveUp, match=r"in a row: (OSError: )?No space left on device\."):
        World({"failed": True, "exception": exception}).run()


def test_a_node_without_python_is_said_so_at_once() -> None:
    world = World(NO_PYTHON)
    with pytest.raises(GaveUp, match="ansible_python_interpreter") as gave_up:
        world.run()
    assert (world.calls, gave_up.value.code) == (1, "python_missing")


def test_what_the_module_itself_refuses_is_not_asked_twice() -> None:
    refused = {"failed": True, "msg": "`systemctl show` failed", "failure": {"code": "systemctl_failed"}}
    # Where the module refuses while it handles an error, Ansible adds where that was.
    for answer in (refused, {**refused, "exception": "Traceback"}):
        world = World(answer)
        assert world.run() == answer
        assert world.calls == 1
