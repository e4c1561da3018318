# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module as Ansible calls it; what a look finds is tested in module_utils/sglang/start/look."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import startup_status_info

# Of whatever imports this file; under ansible-test each test is a child of it.
MAIN_PID = os.getpid()
SHOW = f"""Id=sglang-main.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
InvocationID=5f1c0a6a
MainPID={MAIN_PID}
NRestarts=0
ExecMainCode=0
ExecMainStatus=0
ExecMainStartTimestampMonotonic=1000000
ControlGroup=/no/such.service
NeedDaemonReload=no
"""
RECORD = {
    "__CURSOR": "s=1;i=1;b=1;m=1;t=1;x=1",
    "__REALTIME_TIMESTAMP": "1795962016000000",
    "_PID": "202",
    "MESSAGE": "[2026-11-29 14:20:47] The server is fired up and ready to roll!",
}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """systemctl and journalctl as scripts, the only ones that are found."""

    def script(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)

    script("systemctl", f"cat <<'END'\n{SHOW}END")
    script("journalctl", f"cat <<'END'\n{json.dumps(RECORD)}\nEND")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        startup_status_info.main()
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.mark.usefixtures("commands")
def test_one_look_with_real_commands(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, unit="sglang-main.service", sglang_version="0.5.23")
    assert not found.get("failed"), found
    assert (found["changed"], found["unit"]["main_pid"]) == (False, MAIN_PID)
    assert [event["kind"] for event in found["events"]] == ["ready"]
    assert found["host"]["memory_available_bytes"] > 0


@pytest.mark.usefixtures("commands")
def test_everything_returned_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, unit="sglang-main.service", sglang_version="0.5.23")
    documented = yaml.safe_load(startup_status_info.RETURN)
    assert found.keys() - {"changed", "invocation"} == documented.keys()
    for name in ("unit", "activity", "host", "cgroup", "log"):
        assert found[name].keys() == documented[name]["contains"].keys(), name


def test_refusal_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, sglang_version="0.5.23")
    assert (found["failed"], found["failure"]["code"]) == (True, "nothing_to_watch")
