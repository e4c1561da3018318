# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.gpufleet.sglang.plugins.action import incident_bundle
from ansible_collections.gpufleet.sglang.tests.unit.plugins.action.action_runs import action_of
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet_report.simulated import KINDS, answer


def run(answered: Any, folder: Path, *, check_mode: bool = False, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the action returns, and what it asked of the node."""
    action = action_of(incident_bundle, {"folder": str(folder), **more}, check_mode=check_mode)
    asked: dict[str, Any] = {}

    def execute(module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        asked.update(module_args, module=module_name)
        if isinstance(answered, Exception):
            raise answered
        said: dict[str, Any] = answered
        return said

    action._execute_module = execute
    variables = {"inventory_hostname": "gpu-1", "ansible_play_hosts_all": ["gpu-0", "gpu-1"]}
    return action.run(task_vars={**variables, "hostvars": {"gpu-0": {}, "gpu-1": {"ansible_host": "10.0.0.1"}}}), asked


def test_the_node_is_asked_once_and_the_archive_written(tmp_path: Path) -> None:
    said = answer(KINDS[0], "failed", random.Random(1), "gpu-1")
    result, asked = run(said, tmp_path / "new", instance="main", invocation_id="ab", journal_lines=7, redact=True)
    assert asked["module"] == "gpufleet.sglang.node_report_info"
    assert (asked["details"], asked["instances"], asked["invocation_id"], asked["journal_lines"]) == (
        *(True, ["main"], "ab"),
        7,
    )
    path = Path(result["path"])
    assert (result["changed"], path.parent, path.stat().st_size) == (True, tmp_path / "new", result["size_bytes"])
    assert path.name.startswith("node-002-")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with tarfile.open(path) as tar:
        assert sorted(name.split("/", 1)[1] for name in tar.getnames()) == result["files"]
    assert list(path.parent.iterdir()) == [path]


def test_check_mode_says_where_and_writes_nothing(tmp_path: Path) -> None:
    result, _asked = run(answer(KINDS[0], "failed", random.Random(1)), tmp_path / "new", check_mode=True)
    assert (result["changed"], result["size_bytes"]) == (True, None)
    assert result["path"].endswith(".tar.gz")
    assert not (tmp_path / "new").exists()


def test_what_serves_is_left_out_where_only_failures_are_wanted(tmp_path: Path) -> None:
    serves = answer(KINDS[0], "serves", random.Random(1))
    result, _asked = run(serves, tmp_path, only_failing=True)
    assert (result["changed"], result["path"]) == (False, None)
    # A play that failed before it touched the server has an incident all the same.
    result, _asked = run(serves, tmp_path, only_failing=True, failure={"msg": "no", "failed": True}, task="Refuse")
    assert result["changed"] is True
    assert result["index"]["task"] == "Refuse"


def test_what_the_task_said_comes_back_from_the_node_without_its_secrets(tmp_path: Path) -> None:
    failure = {"failed": True, "msg": "no: sentinel\nLast lines:\n  sentinel", "last_lines": ["sentinel"]}
    said = {**answer(KINDS[0], "failed", random.Random(1)), "concealed": {"failed": True, "msg": "no: ***"}}
    result, asked = run(said, tmp_path / "a", failure=failure)
    assert json.loads(asked["conceal"]) == failure
    assert result["index"]["reasons"][0]["message"] == "no: ***"
    # Without the node nobody knows what of it is secret.
    failure["failure"] = {"code": "c", "message": "m", "remedy": "r", "evidence": {"lines": ["sentinel"]}}
    result, _asked = run(
        {"unreachable": True, "msg": "gone"}, tmp_path / "b", failure={**failure, "msg": "no\nsentinel"}
    )
    with tarfile.open(result["path"]) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file and "sentinel" not in file.read().decode(), member.name


@pytest.mark.parametrize(
    "answered", [AnsibleConnectionFailure("no route to host"), {"unreachable": True, "msg": "no route to host"}]
)
def test_a_node_that_cannot_be_reached_is_an_incident(answered: Any, tmp_path: Path) -> None:
    result, _asked = run(answered, tmp_path)
    assert result["index"]["states"] == [{"instance": None, "state": "unreachable"}]
    assert Path(result["path"]).is_file()
    assert not result.get("unreachable")
