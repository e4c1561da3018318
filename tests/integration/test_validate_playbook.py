# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook that checks an inventory. It needs no node, and reaches out for none."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.tests.integration.paper_fleet import KINDS, QWEN3_32B, SHARED, write_inventory
from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT, Outcome, play
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.surveys.kept import kept

PLAYBOOK = "gpufleet.sglang.validate"
NODE: dict[str, Any] = {"sglang_version": "0.5.23", "sglang_model_path": "/srv/models/Qwen3-32B"}


def validated(inventory: Path, *arguments: str) -> tuple[Outcome, dict[str, Any]]:
    """The play over an inventory, and its findings as JSON."""
    told = inventory.with_name("findings.json")
    outcome = play(
        "-e",
        f"validate_json={told}",
        *arguments,
        playbook=PLAYBOOK,
        inventory=os.path.relpath(inventory, ROOT / "inventories"),
    )
    assert told.is_file(), outcome.output
    return outcome, json.loads(told.read_text(encoding="utf-8"))


def nodes(folder: Path, hosts: dict[str, dict[str, Any]], **shared: Any) -> Path:
    path = folder / "hosts.yml"
    groups = {"sglang": {"hosts": hosts}, "all": {"vars": {**NODE, **shared}}}
    path.write_text(yaml.safe_dump(groups), encoding="utf-8")
    return path


def found(document: dict[str, Any]) -> dict[str, list[str]]:
    """The hosts of each finding, by its code and variable."""
    return {f"{one['code']} {one['variable']}": one["hosts"] for one in document["findings"]}


def test_all_is_found_at_once_and_nothing_is_connected_to(tmp_path: Path) -> None:
    """Addresses that lead nowhere, a connection that does not exist, and an ssh that tells when it is called."""
    called = tmp_path / "called"
    trap = tmp_path / "ssh"
    trap.write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n", encoding="utf-8")
    trap.chmod(stat.S_IRWXU)
    inventory = nodes(
        tmp_path,
        {
            "gpu-1": {"ansible_host": "192.0.2.1", "sglang_hicache_rato": 2, "sglang_device": "rocm"},
            "gpu-2": {"ansible_host": "192.0.2.1", "sglang_gpus": [0, 0], "sglang_host": "192.0.2.300"},
            "gpu-3": {"ansible_host": "192.0.2.3", "ansible_connection": "there.is.none", "site_drivr": False},
            "gpu-4": {
                "ansible_host": "192.0.2.4",
                "sglang_model_path": "{{ model_store_paths['Qwen3-32B'] }}",
                "sglang_served_model_name": "{{ no_such_variable }}",
                "sglang_instances": [{"instance": "a"}, {"instance": "b"}],
            },
        },
        ansible_ssh_executable=str(trap),
        ansible_become=True,
        validate_queries=[
            {"name": "racks", "query": "hosts[?!(variables.rack)].name", "expect": [], "severity": "info"},
        ],
    )
    outcome, document = validated(inventory)
    assert found(document) == {
        "address_impossible sglang_host": ["gpu-2"],
        "address_shared ansible_host": ["gpu-1", "gpu-2"],
        "host_port_twice sglang_port": ["gpu-4"],
        "instance_gpu_twice sglang_gpus": ["gpu-2"],
        "plan_not_made None": ["gpu-1", "gpu-2", "gpu-3", "gpu-4"],
        "query_not_met validate_queries": [],
        "variable_choice sglang_device": ["gpu-1"],
        "variable_set_later sglang_model_path": ["gpu-4"],
        "variable_undefined sglang_served_model_name": ["gpu-4"],
        "variable_unknown sglang_hicache_rato": ["gpu-1"],
        "variable_unknown site_drivr": ["gpu-3"],
    }
    assert document["summary"] == {"hosts": 4, "hosts_with_findings": 4, "error": 7, "warning": 1, "info": 3}
    assert all(one["found"] and one["expected"] and one["remedy"] for one in document["findings"])
    assert outcome.status == 2
    assert sum(counts["unreachable"] for counts in outcome.recap.values()) == 0
    assert not called.exists()
    output = " ".join(outcome.output.split())
    assert "Found sglang_hicache_rato; expected a variable of sglang; the closest is sglang_hicache_ratio." in output
    assert "4 hosts checked, none of them touched: 7 errors, 1 warning, 3 info on 4 of them" in output
    assert "No host was touched." in output


@pytest.mark.parametrize(("fail_at", "status"), [("error", 0), ("warning", 2), ("info", 2), ("never", 0)], ids=str)
def test_the_status_is_by_severity(tmp_path: Path, fail_at: str, status: int) -> None:
    inventory = nodes(tmp_path, {"gpu-1": {"sglang_served_model_name": "{{ no_such_variable }}"}})
    outcome, document = validated(inventory, "-e", f"validate_fail_at={fail_at}", "-e", "validate_plans=false")
    assert [one["severity"] for one in document["findings"]] == ["warning"]
    assert outcome.status == status, outcome.output


def test_an_inventory_without_hosts_does_not_pass(tmp_path: Path) -> None:
    outcome, document = validated(nodes(tmp_path, {}))
    assert (outcome.status, list(found(document))) == (2, ["inventory_empty None"])


@pytest.mark.parametrize("name", ["example", "fleet", "rehearsal"])
def test_the_inventories_of_the_collection_pass(name: str) -> None:
    outcome = play(playbook=PLAYBOOK, inventory=name)
    assert outcome.status == 0, outcome.output
    assert outcome.changed == 0
    assert not re.search(r"^  error", outcome.output, re.MULTILINE), outcome.output


def test_a_thousand_hosts_are_one_pass_with_the_verdicts_of_the_plans(tmp_path: Path) -> None:
    """tests/integration/test_plan_playbook.py holds the playbook of plans against the same kinds."""
    inventory = tmp_path / "hosts.yml"
    names = write_inventory(inventory, 1000)
    began = time.monotonic()
    outcome, document = validated(inventory)
    print(f"\n1,000 hosts checked and planned in {time.monotonic() - began:.1f} s, whole play")
    refused = {
        one["found"].partition(":")[0]: one["hosts"] for one in document["findings"] if one["severity"] == "error"
    }
    assert refused == {kind.code: names[kind.prefix] for kind in KINDS if kind.code is not None}
    assert document["summary"]["hosts"] == 1000
    # A task for the check and three for what is shown, written and judged.
    assert sum(counts["ok"] + counts["failed"] for counts in outcome.recap.values()) == 4
    assert len(outcome.output.splitlines()) < 80


def test_instances_are_planned_beside_each_other(tmp_path: Path) -> None:
    """By the templates of the role. Each has room for its host pool; both together have none."""
    entries = [{"instance": "a", "port": None}, {"instance": "b", "port": None}]
    host = {**SHARED, **KINDS[0].variables, "sglang_tensor_parallel_size": 4, "sglang_hicache_ratio": 2.2}
    path = tmp_path / "hosts.yml"
    hosts = {"one": host, "two": {**host, "sglang_instances": entries}}
    path.write_text(json.dumps({"sglang_paper": {"hosts": hosts}}), encoding="utf-8")
    _outcome, document = validated(path)
    [one] = document["findings"]
    assert (one["code"], one["hosts"]) == ("plan_impossible", ["two"])
    assert one["found"].endswith("in instance b")


def test_a_limit_and_surveys_that_were_kept(tmp_path: Path) -> None:
    surveys = tmp_path / "surveys"
    surveys.mkdir()
    (surveys / "gpu-1.json").write_text(json.dumps(kept("gpu-1")), encoding="utf-8")
    (surveys / "gpu-2.json").write_text('{"kind": ', encoding="utf-8")
    in_use = kept("gpu-3")
    in_use["topology"]["gpus"][0]["memory_used_bytes"] = 80 * 10**9
    (surveys / "gpu-3.json").write_text(json.dumps(in_use), encoding="utf-8")
    hosts: dict[str, dict[str, Any]] = {
        name: {"sglang_paper_model": QWEN3_32B, "sglang_hicache_ratio": 64, "sglang_tensor_parallel_size": 8}
        for name in ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    }
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps({"sglang_paper": {"hosts": hosts, "vars": NODE}}), encoding="utf-8")
    outcome, document = validated(path, "-e", f"validate_surveys={surveys}", "--limit", "gpu-1,gpu-2,gpu-3")
    told = {(one["code"], *one["hosts"]): one["found"] for one in document["findings"]}
    assert set(told) == {("plan_impossible", "gpu-1"), ("plan_not_made", "gpu-2"), ("plan_not_made", "gpu-3")}
    assert told[("plan_impossible", "gpu-1")].startswith("guard_refuses: HiCache ratio 64.0 pins")
    assert "while servers held memory" in told[("plan_not_made", "gpu-3")]
    assert "gpu-2.json: It is no whole JSON" in " ".join(outcome.output.split())
