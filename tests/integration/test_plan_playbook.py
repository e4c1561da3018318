# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook that plans, over the example and over a fleet on paper. It needs no node."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from ansible_collections.gpufleet.sglang.tests.integration.paper_fleet import KINDS, SHARED, write_inventory
from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT, Outcome, play

PLAYBOOK = "gpufleet.sglang.plan"
PICTURE = ROOT / "docs" / "images" / "founding-case.svg"
NODES = int(os.environ.get("GPUFLEET_FLEET_NODES", "100"))
NODE_KEYS = {"node", "instance", "state", "model", "sglang_version", "refusal", "plan"}


def table(outcome: Outcome) -> list[str]:
    """The lines of the fleet's table."""
    told = re.search(r"^── Plans ─+\n(.*?)\n─+$", outcome.output, re.MULTILINE | re.DOTALL)
    assert told is not None, outcome.output[-4000:]
    return [line.removeprefix("  ") for line in told.group(1).splitlines()]


def test_the_founding_case(tmp_path: Path) -> None:
    picture, plans = tmp_path / "picture.svg", tmp_path / "plans.json"
    asked = ("-e", f"plan_svg={picture}", "-e", f"plan_json={plans}")
    outcome = play(*asked, playbook=PLAYBOOK, inventory="example")
    assert outcome.status == 0, outcome.output
    assert "── Plan of kimi on kimi-01 ─" in outcome.output
    _head, _rule, row, *_rest, closing = table(outcome)
    for cell in ("kimi-01", "8 x RTX PRO 6000 Server", "TP8", "0.88", "159,277", "358.2 of 396.0 GB", "A passes"):
        assert cell in row
    assert closing == "1 node: 1 planned"
    [node] = json.loads(plans.read_text(encoding="utf-8"))["nodes"]
    assert node["plan"]["device"]["max_total_num_tokens"] == 159_277
    assert node["plan"]["host"]["bytes_total"] == 358_167_389_184
    assert stat.S_IMODE(plans.stat().st_mode) == 0o600
    assert picture.read_text(encoding="utf-8") == PICTURE.read_text(encoding="utf-8"), (
        "tools/draw-pictures draws it anew"
    )

    again = play(*asked, playbook=PLAYBOOK, inventory="example")
    assert (again.status, again.changed) == (0, 0)


def test_a_folder_gets_a_picture_for_each_node_and_check_mode_writes_none(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    asked = ("-e", f"plan_svg={folder}")
    assert play(*asked, "--check", "--diff", playbook=PLAYBOOK, inventory="example").status == 0
    assert not folder.exists()
    assert play(*asked, playbook=PLAYBOOK, inventory="example").status == 0
    assert [path.name for path in folder.iterdir()] == ["kimi-01.svg"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, list[str]], Path]:
    """The play over many machines, some of which cannot be had, with the names of the machines by kind."""
    folder = tmp_path_factory.mktemp("fleet")
    inventory = folder / "hosts.yml"
    names = write_inventory(inventory, NODES)
    began = time.monotonic()
    asked = ("-e", f"plan_json={folder / 'plans.json'}", "-e", f"plan_svg={folder / 'fleet.svg'}")
    # Inventories are named from their folder.
    outcome = play(*asked, playbook=PLAYBOOK, inventory=os.path.relpath(inventory, ROOT / "inventories"))
    tasks = len(re.findall(r"^TASK", outcome.output, re.MULTILINE))
    lines = len(outcome.output.splitlines())
    print(f"\n{NODES} nodes in {time.monotonic() - began:.0f} s: {tasks} tasks, {lines} lines")
    return outcome, names, folder


def test_refused_nodes_hide_no_other(fleet: tuple[Outcome, dict[str, list[str]], Path]) -> None:
    outcome, names, _folder = fleet
    assert outcome.status != 0
    lines = table(outcome)
    planned = sum(len(names[kind.prefix]) for kind in KINDS if kind.code is None)
    assert lines[-1] == f"{NODES:,} nodes: {planned:,} planned, {NODES - planned:,} refused"
    assert len(lines) < 40
    for kind in KINDS:
        hosts = names[kind.prefix]
        [row] = [place for place, line in enumerate(lines) if f"alike: {hosts[0]}" in line]
        verdict = lines[row - 1].split("  ")[-1].strip()
        assert verdict.startswith("fits") if kind.code is None else verdict == f"refused: {kind.code}"
    assert "'NVIDIA H300' is no board of the catalogue. The closest: " in " ".join(line.strip() for line in lines)
    end = outcome.output[outcome.output.index("── Plans") :]
    assert f"{NODES - planned} of {NODES} nodes were refused" in end
    assert not re.search(r"^── Plan of", outcome.output, re.MULTILINE)


def test_the_json_of_the_fleet(fleet: tuple[Outcome, dict[str, list[str]], Path]) -> None:
    _outcome, names, folder = fleet
    document: dict[str, Any] = json.loads((folder / "plans.json").read_text(encoding="utf-8"))
    assert set(document) == {"schema", "summary", "nodes"}
    assert document["schema"] == 1
    assert document["summary"]["nodes"] == len(document["nodes"]) == NODES
    by_name = {node["node"]: node for node in document["nodes"]}
    for kind in KINDS:
        for name in names[kind.prefix]:
            node = by_name[name]
            assert set(node) == NODE_KEYS
            assert (node["model"], node["sglang_version"]) == ("Qwen3-32B", "0.5.23")
            assert node["state"] == ("planned" if kind.code is None else "refused")
            assert (node["plan"] is None) == (node["refusal"] is not None) == (kind.code is not None)
            if kind.code is not None:
                assert node["refusal"]["code"] == kind.code
                assert set(node["refusal"]) == {"code", "message", "remedy", "evidence"}
    assert by_name[names["small"][0]]["refusal"]["evidence"]["largest_ratio"] > 0
    assert by_name[names["h200"][0]]["plan"]["machine"]["gpus"][0]["name"] == "NVIDIA H200"


def test_the_picture_of_the_fleet(fleet: tuple[Outcome, dict[str, list[str]], Path]) -> None:
    _outcome, names, folder = fleet
    root = ElementTree.fromstring((folder / "fleet.svg").read_text(encoding="utf-8"))
    shown = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for kind in KINDS:
        hosts = names[kind.prefix]
        assert any(text.startswith(f"{len(hosts)} nodes alike: {hosts[0]}") for text in shown), kind.prefix
    # Each kind that was planned once: its GPUs, two NUMA nodes and the host.
    drawn = root.findall("{http://www.w3.org/2000/svg}g")
    used = {"h200": 8, "pro": 4 + 1, "h100": 2 + 1}
    assert len(drawn) == sum(gpus + 3 for gpus in used.values())


def machines(folder: Path, inventory: dict[str, Any]) -> str:
    """An inventory, named from the folder of inventories."""
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    return os.path.relpath(path, ROOT / "inventories")


def paper(**variables: Any) -> dict[str, Any]:
    return {**SHARED, **KINDS[0].variables, "sglang_hicache_ratio": 1.1, **variables}


def test_an_inventory_of_paper_alone_warns_of_nothing_and_tells_plans_alike_once(tmp_path: Path) -> None:
    inventory = machines(tmp_path, {"sglang_paper": {"hosts": dict.fromkeys(("gpu-1", "gpu-2"), paper())}})
    outcome = play("-e", "plan_details=true", playbook=PLAYBOOK, inventory=inventory)
    assert outcome.status == 0, outcome.output
    assert "[WARNING]" not in outcome.output
    assert re.findall(r"^── (Plan of .*?) ─", outcome.output, re.MULTILINE) == ["Plan of main on gpu-1, gpu-2"]
    # One task for each node, and what is shown of all.
    assert outcome.recap["gpu-2"]["ok"] == 1


def test_a_misspelt_variable_and_a_node_that_is_there(tmp_path: Path) -> None:
    """What is on paper has one task, which refuses what the role does not know; another node has the whole role."""
    inventory = machines(
        tmp_path,
        {
            "sglang_paper": {"hosts": {"good": paper(), "misspelt": paper(sglang_hicache_rato=2)}},
            "sglang": {"hosts": {"there": {"ansible_connection": "local"}}},
        },
    )
    plans = tmp_path / "plans.json"
    outcome = play("-e", f"plan_json={plans}", playbook=PLAYBOOK, inventory=inventory)
    assert outcome.status != 0
    nodes = {node["node"]: node for node in json.loads(plans.read_text(encoding="utf-8"))["nodes"]}
    assert nodes["good"]["state"] == "planned"
    refusal = nodes["misspelt"]["refusal"]
    assert refusal["code"] == "variable_unknown"
    assert "sglang_hicache_rato (closest known: sglang_hicache_ratio)" in refusal["message"]
    assert "missing required arguments: sglang_version" in nodes["there"]["refusal"]["message"]
