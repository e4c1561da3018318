# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which start a look is about, where none is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    observation_from_result,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    INVOCATION,
    PIN,
    READY,
    SHOW,
    UNIT,
    FakeNode,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import GUARD

STOPPING = SHOW.replace("=active", "=deactivating").replace("=running", "=stop-sigterm") + "Job=7\n"
NEXT = SHOW.replace(INVOCATION, "next")
# As systemd tells of a unit that ended well and that nothing else refers to.
FORGOTTEN = f"Id={UNIT}\nLoadState=loaded\nActiveState=inactive\nSubState=dead\nInvocationID=\nMainPID=0\n"


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    found = FakeNode(tmp_path)
    found.jobs = {6: "stop", 7: "restart"}
    return found


def test_nothing_of_a_server_that_is_to_be_replaced_is_returned(node: FakeNode) -> None:
    node.shows = [STOPPING]
    node.ranks(400_004, 100_000)
    node.say(READY)
    node.answers = {"http://127.0.0.1:30000/ready": 200}
    found = node.look(ready_url="http://127.0.0.1:30000")
    assert (found["unit"]["job"], found["unit"]["invocation_id"]) == ("restart", INVOCATION)
    assert (found["events"], found["ranks"], found["tail"], found["cursor"]) == ([], [], [], None)
    assert (found["serves"], node.asked_urls, node.streams) == (None, [], [])


def test_the_new_start_ends_the_wait_and_is_read_by_the_next_look(node: FakeNode) -> None:
    node.shows = [STOPPING, STOPPING, STOPPING, NEXT]
    node.say(READY)
    node.say(PIN, _SYSTEMD_INVOCATION_ID="next")
    found = node.look(wait_seconds=20)
    assert (found["unit"]["invocation_id"], found["unit"]["job"], found["events"]) == ("next", None, [])
    # The state of the unit is asked for twice a second meanwhile.
    assert node.at < 3.0
    again = node.look(invocation_id="next", cursor=found["cursor"], known_ranks=found["ranks"])
    assert [event["kind"] for event in again["events"]] == ["stage_begin"]


@pytest.mark.parametrize(("kind", "state"), [("start", "inactive"), ("start", "failed"), ("restart", "activating")])
def test_a_start_that_is_queued_is_waited_for(node: FakeNode, kind: str, state: str) -> None:
    node.jobs = {7: kind}
    node.shows = [STOPPING.replace("deactivating", state)]
    node.look(wait_seconds=20)
    assert node.at == pytest.approx(20.0, abs=0.6)


@pytest.mark.parametrize(
    ("kind", "state"), [("start", "activating"), ("reload", "reloading"), ("stop", "deactivating"), (None, "active")]
)
def test_a_job_that_makes_no_new_start_leaves_the_present_one(node: FakeNode, kind: str | None, state: str) -> None:
    node.jobs = {7: kind} if kind else {}
    node.shows = [STOPPING.replace("deactivating", state)]
    node.say(READY)
    assert [event["kind"] for event in node.look()["events"]] == ["ready"]


def test_a_start_that_is_named_is_read_whatever_is_queued(node: FakeNode) -> None:
    node.shows = [STOPPING]
    node.say(PIN)
    assert len(node.look(invocation_id=INVOCATION)["events"]) == 1


def test_systemd_s_own_restart_belongs_to_the_start_that_ended(node: FakeNode) -> None:
    node.shows = [STOPPING.replace("deactivating", "activating").replace("stop-sigterm", "auto-restart")]
    node.say(PIN)
    assert len(node.look()["events"]) == 1


def test_a_unit_that_systemd_has_forgotten_is_known_by_the_journal(node: FakeNode) -> None:
    node.shows = [FORGOTTEN]
    node.say(READY, _SYSTEMD_INVOCATION_ID="older")
    node.say("Deactivated.", _PID="1", UNIT=UNIT, INVOCATION_ID="older", _SYSTEMD_INVOCATION_ID="")
    node.say(PIN)
    node.say("Deactivated.", _PID="1", UNIT=UNIT, INVOCATION_ID=INVOCATION, _SYSTEMD_INVOCATION_ID="")
    found = node.look()
    assert (found["unit"]["invocation_id"], found["unit"]["active_state"]) == (INVOCATION, "inactive")
    assert [event["kind"] for event in found["events"]] == ["stage_begin"]
    again = node.look(invocation_id=INVOCATION, cursor=found["cursor"])
    assert (again["unit"]["invocation_id"], again["events"]) == (INVOCATION, [])


def test_a_unit_of_which_systemd_never_spoke_was_not_started(node: FakeNode) -> None:
    node.shows = [FORGOTTEN]
    node.say("A process that claims to be systemd.", UNIT=UNIT, INVOCATION_ID="false")
    found = node.look()
    assert (found["unit"]["invocation_id"], found["events"], node.streams) == (None, [], [])


def test_what_the_main_process_of_an_older_start_was_is_no_time_of_this_one(node: FakeNode) -> None:
    node.shows = [SHOW.replace("=active", "=activating").replace("=running", "=start-pre").replace("=100", "=0")]
    assert node.look()["unit"]["started_at"] is None


def test_what_the_start_before_said_is_told_where_systemd_restarted_the_unit(node: FakeNode) -> None:
    node.jobs = {}
    node.say(READY, GUARD, _SYSTEMD_INVOCATION_ID="oldest")
    for name in ("oldest", "older", INVOCATION):
        node.say("Started.", _PID="1", UNIT=UNIT, INVOCATION_ID=name, _SYSTEMD_INVOCATION_ID="")
    node.say(PIN, GUARD, _SYSTEMD_INVOCATION_ID="older")
    node.shows = [SHOW.replace("NRestarts=0", "NRestarts=1")]
    found = node.look()
    assert [(event["kind"], event["label"]) for event in found["earlier"]] == [("failure", "host_memory_guard")]
    assert (found["events"], found["tail"]) == ([], ["Started."])
    assert observation_from_result(found, 0.0).earlier[0].label == "host_memory_guard"
    assert node.look(invocation_id=INVOCATION)["earlier"] == []
    node.shows = [SHOW]
    assert node.look()["earlier"] == []


def test_that_the_start_before_was_ready_is_no_event_of_this_one(node: FakeNode) -> None:
    node.jobs = {}
    node.shows = [SHOW.replace("NRestarts=0", "NRestarts=1")]
    node.say(READY, _SYSTEMD_INVOCATION_ID="older")
    node.say("Started.", _PID="1", UNIT=UNIT, INVOCATION_ID="older", _SYSTEMD_INVOCATION_ID="")
    found = node.look()
    assert (found["events"], found["earlier"]) == ([], [])
