# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.modules import memory_holders_info
from ansible_collections.gpufleet.sglang.plugins.modules.memory_holders_info import Node, look
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.node_tree import NodeTree

UNIT = "sglang-main.service"
GROUP = f"/system.slice/{UNIT}"
MACHINES = Path(machine_tree.__file__).resolve().parent / "machines"
DEFAULTS: dict[str, Any] = {
    "unit": UNIT,
    "control_group": None,
    "generations": [],
    "gpus": [],
    "needs": {},
    "wait_seconds": 0,
    "details": False,
    "most_users": 10,
}


class FakeNode(NodeTree):
    """A node whose unit says what it is told to, and a clock that only sleeping moves."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.at = 0.0
        self.shows = 0
        self.on_sleep: Callable[[float], None] = lambda at: None
        self.state("inactive", "dead")
        self.meminfo(MemTotal=100_000, MemAvailable=50_000)

    def state(self, active: str, sub: str, group: str = "") -> None:
        self.show = (
            f"Id={UNIT}\nLoadState=loaded\nActiveState={active}\nSubState={sub}\nInvocationID=5f1c\n"
            f"ControlGroup={group}\nSlice=system.slice\nWorkingDirectory=/var/lib/sglang/main\n"
        )

    def _run(self, command: list[str]) -> tuple[int, str, str]:
        assert command[:2] == ["systemctl", "show"]
        self.shows += 1
        return 0, self.show, ""

    def _sleep(self, seconds: float) -> None:
        self.at += seconds
        self.on_sleep(self.at)

    def look(self, **params: Any) -> dict[str, Any]:
        node = Node(self._run, self.root, clock=lambda: self.at, wall=lambda: 1000.0 + self.at, sleep=self._sleep)
        return look(node, {**DEFAULTS, **params}, None, [])


@pytest.fixture(name="node")
def _node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def test_an_idle_node_takes_one_look(node: FakeNode) -> None:
    result = node.look(wait_seconds=10, needs={"required_available_bytes": 50_000 << 10})
    assert (result["idle"], result["holds"], node.shows, node.at) == (True, [], 1, 0.0)
    assert [sample["memory_available_bytes"] for sample in result["samples"]] == [50_000 << 10]
    assert result["unit"]["active_state"] == "inactive"
    assert (result["memory_users"], result["files"], result["gpus"]) == (None, None, None)


def test_processes_left_in_the_group_of_a_unit_that_ended_are_found(node: FakeNode) -> None:
    """systemd names no group of a unit that has ended."""
    node.group(GROUP, 201)
    node.process(201, "sglang::scheduler_TP0", shmem_kb=1000, group=GROUP)
    result = node.look()
    assert (result["idle"], [hold["pid"] for hold in result["holds"]]) == (False, [201])
    assert result["processes"][0]["belongs"] == "unit"


def test_a_call_waits_for_what_ends_meanwhile(node: FakeNode) -> None:
    node.state("deactivating", "stop-sigterm", GROUP)
    node.group(GROUP, 201)
    node.process(201, "sglang::scheduler_TP0", shmem_kb=1000, group=GROUP)

    def end(at: float) -> None:
        if at > 1.0:
            node.group(GROUP)
            node.state("inactive", "dead")

    node.on_sleep = end
    result = node.look(wait_seconds=10)
    assert result["idle"]
    assert 1.0 < node.at < 2.0
    assert [sample["processes"] for sample in result["samples"]][-2:] == [1, 0]
    assert result["samples"][0]["at"] == 1000.0


def test_a_call_ends_with_its_time_and_says_how_it_went(node: FakeNode) -> None:
    node.on_sleep = lambda at: node.meminfo(MemTotal=100_000, MemAvailable=50_000 + int(1000 * at))
    result = node.look(wait_seconds=5, needs={"required_available_bytes": 90_000 << 10})
    assert (result["idle"], node.at) == (False, 5.0)
    available = [sample["memory_available_bytes"] for sample in result["samples"]]
    assert available == sorted(available) and len(set(available)) == len(available) > 4
    assert result["holds"][0]["bytes"] == 35_000 << 10


def test_a_unit_that_runs_is_told_at_once(node: FakeNode) -> None:
    node.state("active", "running", GROUP)
    node.group(GROUP, 201)
    node.process(201, "sglang::http_server", group=GROUP)
    result = node.look(wait_seconds=10)
    assert (result["idle"], node.at, result["unit"]["active_state"]) == (False, 0.0, "active")


def test_a_stray_that_ends_is_let_go(node: FakeNode) -> None:
    node.process(301, "sglang::scheduler_TP0", cwd="/var/lib/sglang/main", group="/user.slice/session-3.scope")
    node.on_sleep = lambda at: node.vanish(301) if at == pytest.approx(0.1) else None
    result = node.look(wait_seconds=10)
    assert result["idle"]
    assert [sample["processes"] for sample in result["samples"]] == [1, 0]


def test_details_find_what_a_dead_server_left(node: FakeNode) -> None:
    node.shared_file("psm_1", 2 << 20)
    node.process(1, "init", anon_kb=100)
    node.process(9, "python3", state="Z")
    result = node.look(details=True)
    assert [(file["path"], file["used_by"]) for file in result["files"]] == [("/dev/shm/psm_1", [])]
    assert [user["pid"] for user in result["memory_users"]] == [1]
    assert [process["pid"] for process in result["blocked"]] == [9]
    assert result["segments"] == []


def test_a_wait_that_is_too_long_is_refused(node: FakeNode) -> None:
    with pytest.raises(Refusal) as refused:
        node.look(wait_seconds=11)
    assert refused.value.code == "wait_too_long"


def test_a_node_without_systemd_is_refused_with_its_words(tmp_path: Path) -> None:
    node = Node(lambda command: (1, "", "System has not been booted with systemd"), tmp_path)
    with pytest.raises(Refusal) as refused:
        look(node, DEFAULTS, None, [])
    assert refused.value.code == "systemctl_failed"
    assert "not been booted" in refused.value.message


def test_without_a_unit_nothing_is_asked_of_systemd(node: FakeNode) -> None:
    node.group("/docker/abc", 7)
    node.process(7, "python3", group="/docker/abc")
    result = node.look(unit=None, control_group="/docker/abc")
    assert (result["unit"], node.shows, [hold["pid"] for hold in result["holds"]]) == (None, 0, [7])


# GPUs, with the real nvidia-ml-py on the NVML stand-in ----------------------------------------------------------------


class Module:
    """The module as a whole on this machine, with GPUs that a file tells of."""

    def __init__(self, machine: Path, library: Path, capsys: pytest.CaptureFixture[str]) -> None:
        machine_tree.build_tree(machine_tree.load_profile(MACHINES / "founding.yml"), machine)
        self.file = machine / "machine.nvml"
        self.told = self.file.read_text()
        self.library, self.capsys = library, capsys

    def tell(self, text: str) -> None:
        self.file.write_text(f"{self.told}\n{text}\n")

    def run(self, **options: Any) -> dict[str, Any]:
        given = {"nvml_library": str(self.library), "details": False, **options}
        with patch_module_args(given), pytest.raises(SystemExit):
            memory_holders_info.main()
        result: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return result


@pytest.fixture(name="module")
def _module(
    tmp_path: Path, library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Module:
    module = Module(tmp_path / "machine", library, capsys)
    monkeypatch.setenv("GPUFLEET_NVML_MACHINE", str(module.file))
    return module


def test_a_process_on_a_gpu_is_told_with_what_the_node_knows_of_it(module: Module) -> None:
    module.tell(f"[gpu 1]\nmemory_used = 30000000000\nprocesses = {os.getpid()}:20000000000")
    result = module.run(gpus=["1"])
    (gpu,) = result["gpus"]
    assert (gpu["index"], gpu["memory_used_bytes"], gpu["unnamed_bytes"]) == (1, 30 * 10**9, 10 * 10**9)
    (process,) = gpu["processes"]
    assert (process["pid"], process["memory_used_bytes"]) == (os.getpid(), 20 * 10**9)
    assert process["user"] and process["started_at"]
    assert [(hold["kind"], hold["gpu"], hold["pid"]) for hold in result["holds"]] == [
        ("gpu", 1, os.getpid()),
        ("gpu", 1, None),
    ]
    assert result["problems"] == []


def test_gpus_of_other_instances_are_not_asked(module: Module) -> None:
    module.tell("[gpu 2]\nmemory_used = 30000000000\n[faults]\nDeviceGetHandleByIndex = GPU_IS_LOST gpu=2")
    result = module.run(gpus=["0", "1"])
    assert (result["idle"], [gpu["index"] for gpu in result["gpus"]], result["problems"]) == (True, [0, 1], [])


def test_gpus_are_found_by_uuid(module: Module) -> None:
    every = module.run()["gpus"]
    assert len(every) == 8
    (found,) = module.run(gpus=[every[5]["uuid"]])["gpus"]
    assert found["index"] == 5


def test_what_is_enough_for_the_plan_is_idle(module: Module) -> None:
    module.tell("[gpu 0]\nmemory_used = 30000000000")
    assert not module.run(gpus=["0"])["idle"]
    assert module.run(gpus=["0"], needs={"gpu_free_bytes": 70 * 10**9})["idle"]
    assert module.run(gpus=["0"], needs={"gpu_idle_bytes": 30 * 10**9})["idle"]
    assert not module.run(gpus=["0"], needs={"gpu_free_bytes": 80 * 10**9, "gpu_idle_bytes": GIB})["idle"]


def test_a_gpu_that_is_given_back_during_the_call_ends_it(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    module.tell("[gpu 0]\nmemory_used = 30000000000")
    looks: list[float] = []

    def free(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            module.tell("[gpu 0]\nmemory_used = 0")

    monkeypatch.setattr(memory_holders_info, "Node", functools.partial(Node, sleep=free))
    result = module.run(gpus=["0"], wait_seconds=10)
    assert result["idle"]
    used = [sample["gpu_memory_used_bytes"] for sample in result["samples"]]
    assert used == [30 * 10**9] * 3 + [0]


@pytest.mark.parametrize(
    ("faults", "gpus", "words"),
    [
        ("Init = DRIVER_NOT_LOADED", ["0"], "Driver Not Loaded"),
        ("", ["0", "9"], "the driver lists no GPU 9"),
        ("Init = HANG", ["0"], "no answer within 1 seconds"),
    ],
    ids=["no driver", "no such GPU", "a driver that hangs"],
)
def test_what_the_driver_does_not_tell_is_a_problem(module: Module, faults: str, gpus: list[str], words: str) -> None:
    module.tell(f"[faults]\n{faults}" if faults else "")
    result = module.run(gpus=gpus, nvml_timeout_seconds=1)
    assert [problem["code"] for problem in result["problems"]] == ["gpu_holders_unknown"]
    assert words in result["problems"][0]["message"]
    assert result["idle"]


class Respawned(Exception):
    """In place of the end of this process."""


@pytest.mark.parametrize("found", [True, False], ids=["another has it", "none has it"])
def test_a_missing_binding_is_looked_for_in_other_interpreters(
    module: Module, monkeypatch: pytest.MonkeyPatch, found: bool
) -> None:
    def respawn(interpreter: str) -> None:
        raise Respawned(interpreter)

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(memory_holders_info, "respawn_module", respawn)
    monkeypatch.setattr(
        memory_holders_info, "probe_interpreters_for_module", lambda paths, name: paths[0] if found else None
    )
    if found:
        with pytest.raises(Respawned, match="/usr/bin/python3"):
            module.run(gpus=["0"], python_candidates=["/usr/bin/python3"])
        return
    result = module.run(gpus=["0"])
    assert "nvidia-ml-py" in result["problems"][0]["message"]
    assert result["gpus"] is None


def test_a_node_without_a_driver_has_no_gpus_and_no_problem(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_holders_info, "LOAD", "nothing of that name")
    with patch_module_args({"details": False}), pytest.raises(SystemExit):
        memory_holders_info.main()
    result = json.loads(capsys.readouterr().out)
    assert (result["gpus"], result["problems"]) == (None, [])
