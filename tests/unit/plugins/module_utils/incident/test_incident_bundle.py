# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import json
import random
import tarfile
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.incident.bundle import Incident, archive, incident_of
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet_report.simulated import (
    KINDS,
    NOW,
    answer,
    plan_of,
)

JOURNAL = {
    "invocation_id": "5f1c0a6a4d9e4a6f8f0d3e1b2c7a9d10",
    "lines": [
        "2026-11-30T22:00:00.000000Z systemd[1]: Starting",
        "2026-11-30T22:00:01.000000Z stdout[7]: gpu-1 says no",
    ],
    "left_out_lines": 12,
    "left_out_bytes": 3456,
    "shortened_lines": 1,
    "complete": True,
    "error": None,
    "kernel": ["2026-11-30T22:00:01.000000Z kernel[-]: NVRM: Xid 79"],
}
DETAILS: dict[str, Any] = {
    "files": {"/etc/systemd/system/sglang-main.service": "[Unit]\nDescription=SGLang 0.5.23, instance main"},
    "config": "port: 30000",
    "environment": {"HF_TOKEN": "***", "OMP_NUM_THREADS": "8"},
    "journal": JOURNAL,
}
FAILURE: dict[str, Any] = {
    "failed": True,
    "msg": "sglang-main.service failed: out of memory",
    "failure": {
        "code": "host_memory_guard",
        "message": "The host has 1.5 GB.",
        "remedy": "Ask for less.",
        "evidence": {},
    },
}


def failed(**changes: Any) -> dict[str, Any]:
    said = answer(KINDS[0], "failed", random.Random(1), "gpu-1.example.org")
    said["instances"][0].update({**DETAILS, **changes})
    return said


def incident(said: dict[str, Any], **more: Any) -> Incident:
    return incident_of("gpu-1.example.org", said, NOW, **more)


def test_the_index_says_what_when_why_and_what_next() -> None:
    told = incident(failed(), failure=FAILURE, task="Follow the start").files["INDEX.txt"]
    lines = told.splitlines()
    assert lines[0] == "Incident of gpu-1.example.org"
    assert "What      main failed" in lines
    assert "When      2026-11-30 22:00:00 UTC (read)" in lines
    assert "Task      Follow the start" in lines
    assert "Why       host_memory_guard: The host has 1.5 GB." in lines
    assert "Next      Ask for less." in lines
    assert "SGLang    0.5.23" in lines
    assert "Driver    580.95.05" in lines
    assert any("12 lines (3,456 bytes) in its middle left out; 1 long lines shortened" in line for line in lines)


def test_every_part_is_a_file_of_its_own() -> None:
    found = incident(failed(), failure=FAILURE, plan=plan_of(KINDS[0]))
    assert set(found.files) == {
        *("INDEX.txt", "index.json", "failure.json", "topology.json", "stack.json", "report.html"),
        *(f"main/{name}" for name in ("journal.txt", "kernel.txt", "unit.txt", "config.yaml", "environment.txt")),
        *(f"main/{name}" for name in ("plan.json", "ledger.json", "state.json")),
    }
    assert json.loads(found.files["main/plan.json"]) == plan_of(KINDS[0])
    assert "the plan of this run" in found.files["INDEX.txt"]
    assert found.files["main/environment.txt"] == "HF_TOKEN=***\nOMP_NUM_THREADS=8\n"
    assert "<!DOCTYPE html>" in found.files["report.html"]
    index = json.loads(found.files["index.json"])
    assert index["states"] == [{"instance": "main", "state": "failed"}]
    assert set(index["files"]) | {"INDEX.txt"} == set(found.files)


def test_a_failure_of_a_play_on_a_node_that_serves_has_the_words_of_the_task() -> None:
    said = answer(KINDS[0], "serves", random.Random(1))
    found = incident(said, failure={"failed": True, "msg": "Port 30000 is held."}, task="Refuse a port that is taken")
    assert found.index["reasons"] == [{"code": "task_failed", "message": "Port 30000 is held.", "remedy": ""}]
    assert found.index["next"]


def test_a_node_that_does_not_answer_has_an_incident_as_well() -> None:
    found = incident({"unreachable": True, "msg": "no route to host"})
    assert set(found.files) == {"INDEX.txt", "index.json", "report.html"}
    assert "node_unreachable: no route to host" in found.files["INDEX.txt"]
    assert found.index["next"].startswith("Log in from the controller")


def test_names_are_gone_where_that_is_asked_for() -> None:
    others = {"gpu-1.example.org": "10.0.0.1", "gpu-0": None}
    said = failed()
    failure = {**FAILURE, "msg": "10.0.0.1 (gpu-1) and gpu-0 of 10.0.0.7"}
    found = incident(said, failure=failure, other_nodes=others, redact=True)
    assert found.name == "node-002-20261130T220000Z"
    assert json.loads(found.files["failure.json"])["msg"] == "node-002 (node-002) and node-001 of address-1"
    assert "node-002 says no" in found.files["main/journal.txt"]
    for name, text in found.files.items():
        assert "gpu-1" not in text, name
        assert "10.0.0" not in text, name
    assert "serial numbers by numbered words" in found.files["INDEX.txt"]


def test_keys_that_a_task_shows_are_taken_out() -> None:
    failure = {**FAILURE, "invocation": {"module_args": {"api_key": "sentinel-1", "cmd": "x --api-key sentinel-2"}}}
    text = incident(failed(), failure=failure).files["failure.json"]
    assert "sentinel" not in text


def test_the_archive_holds_the_files_for_the_eyes_of_one() -> None:
    found = incident(failed())
    packed = archive(found, NOW)
    assert packed == archive(found, NOW)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = tar.getmembers()
        assert [member.name for member in members] == [f"{found.name}/{name}" for name in found.files]
        assert {(member.mode, member.uid, int(member.mtime)) for member in members} == {(0o600, 0, int(NOW))}
        read = tar.extractfile(f"{found.name}/main/journal.txt")
        assert read and read.read().decode().splitlines() == JOURNAL["lines"]


def test_a_name_that_is_a_path_stays_in_its_folder() -> None:
    found = incident_of("../../etc/x y", {"unreachable": True, "msg": "no"}, NOW)
    assert "/" not in found.name and " " not in found.name
