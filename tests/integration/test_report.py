# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports and incidents of real nodes: one serves, one dies while it starts, one cannot be reached. A stand-in release.

Secrets are on both nodes, and the server that dies prints one.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT, STATE, Outcome, play
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.scripted_release import VALUES, scenario, scripted_node

REPORT, INCIDENT = "gpufleet.sglang.report", "gpufleet.sglang.incident"
SENTINEL = "sentinel-"
KEY, TOKEN, OTHER = f"{SENTINEL}key-5f2c9a71d04be8", f"{SENTINEL}token-81be33c4aa", f"{SENTINEL}other-0c44e1b97af351"
MARKUP = "<script>document.title='taken'</script>"
SMALL: dict[str, Any] = {
    "sglang_tensor_parallel_size": 2,
    "sglang_max_total_tokens": 4096,
    "sglang_hicache_ratio": 8,
    "sglang_burn_in_requests": 1,
    "sglang_canary": False,
    "sglang_chat_check": False,
}
# It says what it should not, and is killed in the middle of pinning.
DIES = {
    "faults": [
        {
            "within": "host_pool",
            "share": 0.4,
            "rank": "TP0",
            "do": [{"say": f"{TOKEN} and {OTHER} {MARKUP} from 10.213.77.141"}, {"signal": "SIGKILL"}],
        }
    ]
}


@dataclass(frozen=True)
class Fleet:
    inventory: Path
    serves: ReleaseNode
    fails: ReleaseNode
    provisioned: Outcome
    incidents: Path

    def run(self, playbook: str, *arguments: str) -> Outcome:
        return play("-i", str(self.inventory), "--limit", "serves,fails,gone", *arguments, playbook=playbook)


@pytest.fixture(scope="module", name="fleet")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    serves = scripted_node("gpufleet-report-serves", "10.213.77.140")
    fails = scripted_node("gpufleet-report-fails", "10.213.77.141")
    for node in (serves, fails):
        node.up()
    variables = yaml.safe_load((ROOT / "inventories/rehearsal/host_vars/node.yml").read_text(encoding="utf-8"))
    given = {**variables, **VALUES, **SMALL, "rehearsal_state": str(STATE)}
    secrets = {"HF_TOKEN": TOKEN, "COMPANY": OTHER, "OMP_NUM_THREADS": "2"}
    hosts = {
        "serves": {**given, "ansible_host": serves.address, "sglang_api_key": KEY},
        "fails": {
            **given,
            "ansible_host": fails.address,
            "sglang_environment": {**secrets, **scenario(fails, "dies", DIES)},
        },
        # Nobody has this address.
        "gone": {**given, "ansible_host": "10.213.77.142", "ansible_ssh_timeout": 5},
    }
    inventory = folder / "hosts.json"
    inventory.touch(mode=0o600)
    inventory.write_text(json.dumps({"sglang": {"hosts": hosts}}), encoding="utf-8")
    said = ("-e", f"incident_folder={folder / 'incidents'}")
    done = play("-i", str(inventory), "--limit", "serves,fails", *said, playbook="tests/integration/report_site.yml")
    yield Fleet(inventory, serves, fails, done, folder / "incidents")
    for node in (serves, fails):
        node.down()


@pytest.fixture(scope="module", name="page")
def _page(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    folder = tmp_path_factory.mktemp("page")
    asked = ("-e", f"report_html={folder / 'page.html'}", "-e", f"report_json={folder / 'facts.json'}")
    return fleet.run(REPORT, *asked), folder


def read(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        members = [member for member in tar.getmembers() if member.isfile()]
        files = {member.name.split("/", 1)[1]: tar.extractfile(member) for member in members}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def test_a_play_that_fails_writes_an_incident(fleet: Fleet) -> None:
    assert fleet.provisioned.recap["serves"]["failed"] == 0, fleet.provisioned.output
    assert fleet.provisioned.recap["fails"]["failed"] == 1
    [path] = fleet.incidents.iterdir()
    assert re.match(r"fails-\d{8}T\d{6}Z\.tar\.gz", path.name)
    files = read(path)
    index = json.loads(files["index.json"])
    assert index["states"] == [{"instance": "main", "state": "failed"}]
    assert index["task"] == "Follow the start until the server is ready"
    assert index["reasons"][0]["code"] == "scheduler_died"
    assert "Rank TP0 was killed by SIGKILL while pinning" in files["INDEX.txt"]
    # Of this run, as nothing has been proven on the node.
    assert json.loads(files["main/plan.json"])["device"]["max_total_num_tokens"] == 4096
    assert "Allocating kv hierarchical KV host pool" in files["main/journal.txt"]
    assert "status=1/FAILURE" in files["main/journal.txt"]
    assert "max-total-tokens: 4096" in files["main/config.yaml"]
    assert "ExecStart=" in files["main/unit.txt"]
    environment = dict(line.split("=", 1) for line in files["main/environment.txt"].splitlines())
    assert (environment["HF_TOKEN"], environment["COMPANY"], environment["OMP_NUM_THREADS"]) == ("***", "***", "2")


def test_no_secret_is_in_an_incident(fleet: Fleet) -> None:
    [path] = fleet.incidents.iterdir()
    for name, text in read(path).items():
        assert SENTINEL not in text, name
    assert "*** and ***" in read(path)["main/journal.txt"]


def test_each_node_is_a_row_whatever_became_of_it(page: tuple[Outcome, Path]) -> None:
    outcome, folder = page
    assert outcome.status == 0, outcome.output
    text = (folder / "page.html").read_text(encoding="utf-8")
    states = dict(re.findall(r'data-state="(\w+)" data-node="(\w+)"', text))
    assert states == {"failed": "fails", "unreachable": "gone", "serves": "serves"}
    assert "1 of 3 nodes serves." in text
    assert "1 of 3 nodes serves." in outcome.output
    assert "Next, on fails: " in outcome.output
    for told in ("scheduler_died", "node_unreachable", "Rank TP0 was killed by SIGKILL", "4,096", "rehearsal-llama"):
        assert told in text, told
    assert MARKUP not in text
    # One call a node.
    assert outcome.output.count("TASK [Read the node]") == 1
    assert {host: counts["ok"] for host, counts in outcome.recap.items()}["fails"] == 1


def test_no_secret_is_in_a_page(page: tuple[Outcome, Path]) -> None:
    outcome, folder = page
    for path in folder.iterdir():
        assert SENTINEL not in path.read_text(encoding="utf-8"), path.name
    assert SENTINEL not in outcome.output
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    assert {node["node"]: node["state"] for node in facts["nodes"]} == {
        "serves": "read",
        "fails": "read",
        "gone": "unreachable",
    }


def test_a_page_is_drawn_again_without_nodes_and_names(page: tuple[Outcome, Path], tmp_path: Path) -> None:
    _outcome, folder = page
    asked = ("-e", f"report_facts_file={folder / 'facts.json'}", "-e", f"report_html={tmp_path / 'page.html'}")
    again = play(*asked, playbook=REPORT)
    assert again.status == 0, again.output
    same = (tmp_path / "page.html").read_text(encoding="utf-8") == (folder / "page.html").read_text(encoding="utf-8")
    assert same
    nameless = (*asked, "-e", "report_redact=true", "-e", f"report_json={tmp_path / 'facts.json'}")
    redacted = play(*nameless, playbook=REPORT)
    assert redacted.status == 0, redacted.output
    for path in tmp_path.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"10\.213\.77|gpufleet-report|data-node=\"serves\"", text), path.name
        assert "node-003" in text
    assert play(*nameless, "--check", playbook=REPORT).changed == 0


def test_incidents_of_a_fleet_are_those_of_nodes_that_fail(fleet: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    asked = ("-e", f"incident_folder={folder}", "-e", "incident_redact=true", "-e", "incident_journal_lines=12")
    assert fleet.run(INCIDENT, *asked, "--check").status == 0
    assert not folder.exists()
    done = fleet.run(INCIDENT, *asked)
    assert done.status == 0, done.output
    found = {path.name.split("-2")[0]: read(path) for path in folder.iterdir()}
    assert set(found) == {"node-001", "node-002"}
    assert "node_unreachable" in found["node-002"]["INDEX.txt"]
    files = found["node-001"]
    lines = files["main/journal.txt"].splitlines()
    assert len(lines) == 13
    assert re.fullmatch(r"\[\d+ lines of [\d,]+ bytes left out here\]", lines[3])
    assert "in its middle left out" in files["INDEX.txt"]
    for name, text in files.items():
        assert not re.search(r"10\.213\.77|gpufleet-report|\bfails\b|sentinel", text), name
