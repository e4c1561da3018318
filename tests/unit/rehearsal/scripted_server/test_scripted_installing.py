# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server import installing
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import ScenarioError


class Recorder:
    """Takes the place of the ssh connection."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bytes]] = []

    def __call__(self, command: str, data: bytes) -> str:
        self.calls.append((command, data))
        return ""

    def files(self, call: int) -> dict[str, str]:
        with tarfile.open(fileobj=io.BytesIO(self.calls[call][1])) as archive:
            found = {}
            for entry in archive.getmembers():
                file = archive.extractfile(entry)
                assert file is not None
                found[entry.name] = file.read().decode()
            return found


def test_a_unit_for_each_scenario() -> None:
    run = Recorder()
    scenarios: dict[str, dict[str, Any]] = {"one": {"release": "0.5.23"}, "two": {"release": "0.5.9", "ranks": 2}}
    installing.install(run, scenarios, {"MemoryMax": "300M"})
    files = run.files(0)
    assert sorted(files) == [
        "etc/scripted-sglang/one.json",
        "etc/scripted-sglang/two.json",
        "etc/systemd/system/sglang-one.service",
        "etc/systemd/system/sglang-two.service",
    ]
    assert json.loads(files["etc/scripted-sglang/two.json"]) == scenarios["two"]
    assert files["etc/systemd/system/sglang-one.service"].endswith("MemoryMax=300M\n")
    assert "SuccessExitStatus=\n" in files["etc/systemd/system/sglang-one.service"]
    # To 0.5.18 a clean stop ends with SIGKILL.
    assert "SuccessExitStatus=SIGKILL\n" in files["etc/systemd/system/sglang-two.service"]


def test_a_wrong_scenario_is_refused_before_it_reaches_the_node() -> None:
    run = Recorder()
    with pytest.raises(ScenarioError, match="colour"):
        installing.install(run, {"one": {"release": "0.5.23", "colour": "red"}})
    assert run.calls == []


def test_the_program_comes_whole() -> None:
    run = Recorder()
    installing.copy_program(run)
    names = {Path(name).name for name in run.files(0)}
    assert {"play.py", "server.py", "player.py", "memory.py", "answers.py"} <= names


def test_starting_does_not_wait_and_removing_leaves_nothing() -> None:
    run = Recorder()
    installing.start(run, ["one", "two"])
    installing.remove(run, ["one"])
    assert run.calls[0][0] == "systemctl start --no-block sglang-one.service sglang-two.service"
    assert "/etc/systemd/system/sglang-one.service" in run.calls[-1][0]


def test_a_scenario_may_be_yaml(tmp_path: Path) -> None:
    file = tmp_path / "one.yml"
    file.write_text("release: 0.5.23\nranks: 2\n", encoding="utf-8")
    assert installing.load(file) == {"release": "0.5.23", "ranks": 2}
