# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action that repeats the module, with a node that a test plays."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.gpufleet.sglang.plugins.action import model_snapshot
from ansible_collections.gpufleet.sglang.plugins.action.model_snapshot import ActionModule

RESULT = {
    "changed": True,
    "path": "/srv/models/tiny/v1",
    "fetched_bytes": 2 * 10**9,
    "reused_bytes": 0,
    "repaired": [],
    "joined": False,
    "run_id": "r1",
}


def at(done: int, run_id: str = "r1", **more: Any) -> dict[str, Any]:
    worker = {"phase": "fetching", "total_bytes": 4 * 10**9, "done_bytes": done, "lost": False, "unit": "u", **more}
    return {"changed": False, "joined": False, "run_id": run_id, "worker": worker}


class Played:
    """An action whose node answers what it is told to, one after the other; time passes by a second a call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any, **options: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self.shown: list[str] = []
        self.answers = list(answers)
        self.now = 0.0
        task = MagicMock(async_val=0, args={"name": "tiny", "live_lines": "always", **options}, no_log=False)
        task.environment = []
        self.action = ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
        monkeypatch.setattr(self.action, "_execute_module", self.answer)
        monkeypatch.setattr(self.action, "clock", lambda: self.now)
        monkeypatch.setattr(self.action, "sleep", self.sleep)
        display = MagicMock()
        display.return_value.display.side_effect = self.shown.append
        monkeypatch.setattr(model_snapshot, "Display", display)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self, module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        assert module_name == "gpufleet.sglang.model_snapshot"
        self.asked.append(module_args)
        self.now += 3.0
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        found: dict[str, Any] = answer
        return found

    def run(self) -> dict[str, Any]:
        return self.action.run(task_vars={"inventory_hostname": "node1"})


def test_a_revision_that_is_there_takes_one_call_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, {**RESULT, "changed": False, "run_id": None})
    assert played.run()["changed"] is False
    assert (len(played.asked), played.shown) == (1, [])
    assert not {"live_lines", "reconnect_seconds"} & set(played.asked[0])


def test_a_worker_is_followed_by_its_id_with_a_line_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, at(10**9), at(2 * 10**9), RESULT)
    assert played.run()["path"] == "/srv/models/tiny/v1"
    assert [asked.get("run_id") for asked in played.asked] == [None, "r1", "r1"]
    assert played.shown == [
        "node1  tiny  fetching 1.00 of 4.00 GB",
        "node1  tiny  fetching 2.00 of 4.00 GB 0.33 GB/s ETA 6 s",
        "node1  tiny  /srv/models/tiny/v1: 2.00 GB fetched, after 9 s",
    ]


def test_a_connection_that_breaks_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(
        monkeypatch, at(10**9), AnsibleConnectionFailure("gone"), {"unreachable": True, "msg": "gone"}, RESULT
    )
    assert played.run()["changed"] is True


def test_a_node_that_stays_away_is_given_up_and_its_worker_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, at(10**9), *[AnsibleConnectionFailure("gone")] * 9, reconnect_seconds=20)
    told = played.run()
    assert told["unreachable"] is True
    assert "The worker on the node goes on by itself" in told["msg"]


def test_a_lost_worker_is_started_again_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = at(10**9, lost=True, fetched_bytes=10**9)
    played = Played(monkeypatch, at(10**9), gone, at(2 * 10**9, "r2"), RESULT)
    assert played.run()["changed"] is True
    assert [asked.get("run_id") for asked in played.asked] == [None, "r1", None, "r2"]


def test_a_worker_that_is_lost_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *[at(0, lost=True)] * 9)
    told = played.run()
    assert (told["failed"], told["failure"]["code"], len(played.asked)) == (True, "store_worker_lost", 3)


def test_a_refusal_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = {"code": "store_disk_full", "message": "m", "remedy": "r", "evidence": {}}
    played = Played(monkeypatch, at(0), {"failed": True, "msg": "m r", "failure": failure})
    assert played.run()["failure"]["code"] == "store_disk_full"
