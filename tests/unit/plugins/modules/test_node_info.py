# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""That each part is what the module of its own returns, and that what was not asked for is not looked at."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import (
    gpu_topology_info,
    listener_info,
    model_info,
    node_info,
    release_info,
    startup_status_info,
)

ME = pwd.getpwuid(os.geteuid()).pw_name
RELEASE = {"install_root": "/nowhere/sglang", "version": "0.5.23", "instance": "main"}
STATUS = {"unit": "sglang-main.service", "sglang_version": "0.5.23", "ledger_path": "/nowhere/ledger.json"}


def run(capsys: pytest.CaptureFixture[str], module: ModuleType, **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    answer.pop("invocation", None)
    return answer


@pytest.fixture(name="systemctl")
def _systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only program of a systemd that is found; it knows no unit."""
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho LoadState=not-found\n")
    (tmp_path / "systemctl").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_nothing_that_was_not_asked_for_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, node_info)
    assert (found["release"], found["status"], found["topology"]) == (None, None, None)
    assert (found["models"], found["listeners"], found["services"], found["paths"]) == ([], [], [], [])
    assert found.keys() - {"changed"} == yaml.safe_load(node_info.RETURN).keys() - {"failure"}


@pytest.mark.usefixtures("systemctl")
def test_each_part_is_what_its_own_module_returns(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, node_info, release=RELEASE, status=STATUS, topology={"nvml": False}, listeners=True, user=ME)
    release = run(capsys, release_info, **RELEASE)
    # What is free, another program may have taken meanwhile.
    assert {**found["release"], "free_bytes": 0} == {
        key: 0 if key == "free_bytes" else value for key, value in release.items() if key != "changed"
    }
    unit = run(capsys, startup_status_info, **STATUS)
    assert found["status"].keys() == unit.keys() - {"changed"}
    assert found["status"]["unit"]["name"] == unit["unit"]["name"]
    machine = run(capsys, gpu_topology_info, nvml=False)
    assert found["topology"].keys() == machine.keys() - {"changed"}
    assert found["topology"]["gpus"] == machine["gpus"]
    assert found["listeners"] == run(capsys, listener_info, ranges=node_info.EVERY_PORT)["listeners"]
    assert found["user_there"]


def test_users_and_paths_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, node_info, user="nobody-by-this-name", paths=[str(tmp_path), str(tmp_path / "none")])
    assert (found["user_there"], found["paths"]) == (False, [str(tmp_path)])


def test_a_model_that_is_none_is_refused_as_by_model_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = run(capsys, model_info, path=str(tmp_path))
    found = run(capsys, node_info, models=[str(tmp_path)])
    assert (found["failed"], found["msg"], found["failure"]) == (True, alone["msg"], alone["failure"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"release": {"version": "0.5.23"}}, "release: missing required arguments: install_root, instance"),
        ({"status": {**STATUS, "cursor": "x"}}, "status: cursor."),
        ({"topology": {"nvml": "perhaps"}}, "topology: argument 'nvml'"),
    ],
)
def test_options_of_a_part_are_checked_as_by_its_module(
    capsys: pytest.CaptureFixture[str], options: dict[str, Any], expected: str
) -> None:
    told = run(capsys, node_info, **options)
    assert told["failed"]
    assert told["msg"].startswith(expected), told["msg"]


def test_the_release_s_own_interpreter_is_asked_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def probe(options: dict[str, Any]) -> dict[str, Any]:
        asked.append(options["python_candidates"])
        return {}

    monkeypatch.setattr(node_info, "probe_machine", probe)
    for first in (True, False):
        run(
            capsys,
            node_info,
            release=RELEASE,
            topology={"python_candidates": ["/opt/probe/python"]},
            release_asks_driver=first,
        )
    assert asked[0][1:] == asked[1] == ["/opt/probe/python"]
    assert asked[0][0].startswith("/nowhere/sglang/releases/")
