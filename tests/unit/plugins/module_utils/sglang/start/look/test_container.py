# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Containers of podman (4.3, recorded from a real one) and of Docker (28, the shape of its API)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.container import (
    parse_group,
    parse_inspect,
    unit_of_container,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    PIN,
    READY,
    STARTED_AT,
    UNIT,
    FakeNode,
)

ID = "a47309ca5e9002daf9553be385ed4fd6c97397d4c79897b3da16c84e8c5f4546"
GROUP = f"/machine.slice/libpod-{ID}.scope"
# STARTED_AT as both engines write it.
STARTED = "2026-11-29T14:18:20.123456789Z"
NEVER = "0001-01-01T00:00:00Z"
STAMP = "2026-11-29T14:18:{:02d}.5Z"


def podman(**state: Any) -> str:
    known = {
        "OciVersion": "1.0.2-dev",
        "Status": "running",
        "Running": True,
        "OOMKilled": False,
        "Dead": False,
        "Pid": 300,
        "ConmonPid": 299,
        "ExitCode": 0,
        "StartedAt": STARTED,
        "FinishedAt": NEVER,
        "CgroupPath": GROUP,
    }
    log = {"Type": "k8s-file", "Config": None, "Path": "/var/lib/ctr.log", "Tag": "", "Size": "0B"}
    config = {"HostConfig": {"LogConfig": {**log, **state.pop("log", {})}}}
    return json.dumps([{"Id": ID, "State": {**known, **state}, "RestartCount": state.pop("restarts", 0), **config}])


def docker(**state: Any) -> str:
    known = {
        "Status": "running",
        "Running": True,
        "Paused": False,
        "Restarting": False,
        "OOMKilled": False,
        "Dead": False,
        "Pid": 300,
        "ExitCode": 0,
        "Error": "",
        "StartedAt": STARTED,
        "FinishedAt": NEVER,
    }
    config = {"HostConfig": {"LogConfig": {"Type": state.pop("driver", "json-file"), "Config": {}}}}
    top = {"Id": ID, "RestartCount": state.pop("restarts", 0), "LogPath": f"/var/lib/docker/{ID}-json.log"}
    return json.dumps([{**top, "State": {**known, **state}, **config}])


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    found = FakeNode(tmp_path)
    found.inspected = [(0, podman())]
    found.process(300, "python3 -m sglang.launch_server")
    found.process(301, "sglang::scheduler", 4000)
    found.write("proc/300/cgroup", f"0::{GROUP}\n")
    found.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "300\n301\n")
    return found


def look(node: FakeNode, engine: str = "podman", **params: Any) -> dict[str, Any]:
    return node.look(**{"unit": None, "log": {"type": engine, "container": "sglang"}, **params})


@pytest.mark.parametrize("inspected", [podman, docker])
def test_running_container_is_as_a_running_unit(inspected: Any) -> None:
    container = parse_inspect(inspected(restarts=2))
    assert container is not None
    unit = unit_of_container("sglang", container, GROUP, wall=STARTED_AT + 100, uptime=101.0)
    assert (unit.name, unit.load_state, unit.active_state, unit.sub_state) == ("sglang", "loaded", "active", "running")
    assert (unit.main_pid, unit.n_restarts, unit.exec_main_code, unit.control_group) == (300, 2, None, GROUP)
    assert unit.invocation_id == f"a47309ca5e90@{STARTED}"
    assert unit.exec_main_start_monotonic is not None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"Status": "exited", "ExitCode": 0}, ("inactive", "dead", "success", "exited", 0)),
        ({"Status": "exited", "ExitCode": 2}, ("failed", "failed", "exit-code", "exited", 2)),
        ({"Status": "exited", "ExitCode": 137}, ("failed", "failed", "signal", "killed", 9)),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, ("failed", "failed", "oom-kill", "killed", 9)),
        ({"Status": "dead", "ExitCode": 1}, ("failed", "failed", "exit-code", "exited", 1)),
        ({"Status": "created", "StartedAt": NEVER}, ("activating", "start-pre", "success", None, None)),
        ({"Status": "restarting", "ExitCode": 1}, ("activating", "auto-restart", "success", None, None)),
        ({"Status": "stopping"}, ("deactivating", "stop-sigterm", "success", None, None)),
    ],
)
def test_states_of_a_container(state: dict[str, Any], expected: tuple[Any, ...]) -> None:
    container = parse_inspect(podman(**state))
    assert container is not None
    unit = unit_of_container("sglang", container, None, 0.0, 0.0)
    assert (unit.active_state, unit.sub_state, unit.result, unit.exec_main_code, unit.exec_main_status) == expected
    assert (unit.invocation_id is None) == (state.get("StartedAt") == NEVER)


@pytest.mark.parametrize(
    "output", ["", "[]", "{}", "[{}]", "[5]", '[{"Id": "x"}]', '[{"Id": "x", "State": 5}]', "nonsense"]
)
def test_what_describes_no_container(output: str) -> None:
    assert parse_inspect(output) is None


def test_group_of_a_process() -> None:
    assert parse_group(f"0::{GROUP}\n") == GROUP
    assert parse_group("4:memory:/docker/x\n1:name=systemd:/y\n0::/\n") == "/docker/x"
    assert parse_group("1:name=systemd:/y\n") == "/y"
    assert parse_group("0::/\n") is None


def test_bare_container_with_its_ranks_and_its_log(node: FakeNode) -> None:
    node.write(
        "var/lib/ctr.log",
        f"{STAMP.format(19)} stdout F of the start before\n"
        f"{STAMP.format(21)} stdout P {PIN[:50]}\n"
        f"{STAMP.format(22)} stderr F between\n"
        f"{STAMP.format(23)} stdout F {PIN[50:]}\n",
    )
    found = look(node)
    assert (found["unit"]["active_state"], found["unit"]["main_pid"]) == ("active", 300)
    assert [(rank["rank"], rank["pinned_bytes"]) for rank in found["ranks"]] == [("TP0", 4_096_000)]
    assert found["tail"] == ["between", PIN]
    assert [event["stage"] for event in found["events"]] == ["host_pool"]
    assert found["log"] == {"source": "podman", "readable": True, "suppressed": 0, "gap": False}
    assert look(node, cursor=found["cursor"])["lines"] == 0


def test_docker_writes_json(node: FakeNode) -> None:
    node.inspected = [(0, docker())]

    def line(text: str, second: int) -> str:
        return json.dumps({"log": text, "stream": "stdout", "time": STAMP.format(second)}) + "\n"

    node.write(
        f"var/lib/docker/{ID}-json.log",
        line(f"{READY}\n", 19) + line(PIN[:50], 21) + line(f"{PIN[50:]}\n", 21) + line("last\n", 22),
    )
    found = look(node, "docker")
    assert found["tail"] == [PIN, "last"]
    assert [event["kind"] for event in found["events"]] == ["stage_begin"]


def test_container_that_logs_to_the_journal(node: FakeNode) -> None:
    node.inspected = [(0, podman(log={"Type": "journald", "Path": ""}))]
    node.say(PIN, CONTAINER_ID_FULL=ID, _TRANSPORT="journal", _UID="0")
    node.say(READY, CONTAINER_ID_FULL=ID, _TRANSPORT="journal", _UID="1000")
    found = look(node)
    assert [event["kind"] for event in found["events"]] == ["stage_begin"]
    assert [word for word in node.streams[0] if word.startswith("--since")] == ["--since=@1795961900.123457"]


def test_unit_that_runs_a_container_outside_of_its_group(node: FakeNode) -> None:
    node.write("var/lib/ctr.log", f"{STAMP.format(21)} stdout F {PIN}\n")
    found = look(node, unit=UNIT)
    assert (found["unit"]["name"], found["unit"]["main_pid"]) == (UNIT, 100)
    assert ([rank["pid"] for rank in found["ranks"]], len(found["events"])) == ([301], 1)


def test_unit_whose_container_hands_its_output_on(node: FakeNode) -> None:
    node.inspected = [(0, podman(log={"Type": "passthrough", "Path": ""}))]
    node.say(PIN)
    found = look(node, unit=UNIT)
    assert (len(found["events"]), found["ranks"][0]["pid"]) == (1, 301)
    alone = look(node)
    assert [problem["code"] for problem in alone["problems"]] == ["log_driver_unreadable"]
    assert alone["log"]["readable"] is False


def test_container_that_its_unit_has_not_made_yet(node: FakeNode) -> None:
    node.inspected = [(125, "")]
    found = look(node, unit=UNIT)
    assert (found["unit"]["active_state"], found["ranks"], found["log"]["readable"]) == ("active", [], True)
    assert look(node)["unit"]["load_state"] == "not-found"


def test_container_in_no_group_is_known_by_its_children(node: FakeNode) -> None:
    node.write("proc/300/cgroup", "0::/\n")
    node.write("proc/300/task/300/children", "301 ")
    node.write("proc/301/task/301/children", "")
    assert [rank["pid"] for rank in look(node)["ranks"]] == [301]


def test_container_that_was_restarted_is_another_start(node: FakeNode) -> None:
    node.write("var/lib/ctr.log", f"{STAMP.format(21)} stdout F {PIN}\n")
    first = look(node)
    later = "2026-11-29T14:19:20.5Z"
    node.inspected = [(0, podman(StartedAt=later, restarts=1))]
    second = look(node, cursor=first["cursor"], invocation_id=first["unit"]["invocation_id"])
    assert (second["unit"]["invocation_id"], second["events"]) == (f"a47309ca5e90@{later}", [])


def test_wait_ends_when_the_container_has_ended(node: FakeNode) -> None:
    node.write("var/lib/ctr.log", f"{STAMP.format(21)} stdout F hello\n")
    known = look(node)
    node.inspected = [(0, podman()), (0, podman(Status="exited", Pid=0, ExitCode=1, FinishedAt=STAMP.format(59)))]

    def end() -> None:
        node.on_wait = lambda: None
        for path in (node.root / "proc/300").iterdir():
            path.unlink()
        (node.root / "proc/300").rmdir()

    node.on_wait = end
    found = look(node, wait_seconds=30, cursor=known["cursor"])
    assert (found["unit"]["active_state"], found["unit"]["exec_main_status"], node.at < 1) == ("failed", 1, True)


def test_engine_that_is_missing_is_not_taken_for_a_missing_container(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "run", lambda command: (127, "", "docker: No such file or directory"))
    with pytest.raises(Refusal, match="docker container inspect sglang.*No such file.*The node needs docker"):
        look(node, "docker")


def test_engine_that_fails_is_named(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "run", lambda command: (1, "", "permission denied while trying to connect"))
    with pytest.raises(Refusal, match="docker container inspect sglang.*permission denied"):
        look(node, "docker")
