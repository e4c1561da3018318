# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two instances on one node, from one list. The stand-in release: it is about the role."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import Outcome, play_refused
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.scripted_release import VALUES, scripted_node

# Quick to start and to prove: this is about two of them.
SMALL: dict[str, Any] = {
    "sglang_tensor_parallel_size": 1,
    "sglang_hicache_ratio": 2,
    "sglang_burn_in_requests": 1,
    "sglang_canary": False,
    "sglang_chat_check": False,
    **VALUES,
}
LIST: list[dict[str, Any]] = [
    {"instance": "chat", "port": 30020},
    {"instance": "code", "port": None, "environment": {"REHEARSAL_PIN_BYTES_PER_SECOND": "100000000"}},
]


def run(node: ReleaseNode, entries: list[dict[str, Any]] | None = None, **said: Any) -> Outcome:
    values = {**SMALL, "sglang_instances": LIST if entries is None else entries, **said}
    return node.play("gpufleet.sglang.site", values)


def state(node: ReleaseNode, instance: str) -> dict[str, str]:
    shown = node.run(f"systemctl show sglang-{instance}.service -p InvocationID,ActiveState,NRestarts,MainPID")
    return dict(line.split("=", 1) for line in shown.splitlines())


def files(node: ReleaseNode) -> str:
    return node.run("find /etc/sglang /etc/systemd/system -maxdepth 3 -type f -exec sha256sum {} + | sort")


@pytest.fixture(scope="module", name="node")
def _node() -> Iterator[ReleaseNode]:
    node = scripted_node("gpufleet-instances-node", "10.213.77.122")
    node.up()
    yield node
    node.down()


@pytest.fixture(scope="module")
def first_run(node: ReleaseNode) -> Outcome:
    return run(node)


def test_both_serve_and_each_is_proven(first_run: Outcome, node: ReleaseNode) -> None:
    assert first_run.status == 0, first_run.output
    for name, port in (("chat", 30020), ("code", 30000)):
        assert state(node, name)["ActiveState"] == "active"
        ledger = json.loads(node.run(f"cat /var/lib/sglang/{name}/ledger.json"))
        assert ledger["instance"] == name
        assert ledger["invocation_id"] == state(node, name)["InvocationID"]
        assert all(check["ok"] is not False for check in ledger["proof"]["checks"])
        assert node.run(f"curl -sf http://127.0.0.1:{port}/health -o /dev/null -w '%{{http_code}}'") == "200"


def test_both_run_in_a_sandbox_that_is_measured(first_run: Outcome, node: ReleaseNode) -> None:
    for name in ("chat", "code"):
        said = node.run(f"systemd-analyze security --no-pager sglang-{name}.service | tail -n 1")
        exposure = re.search(r"exposure level.*: ([\d.]+) ", said)
        assert exposure, said
        assert float(exposure[1]) <= 2.5, said


def test_a_second_run_keeps_ports_and_changes_nothing(first_run: Outcome, node: ReleaseNode) -> None:
    before = files(node), state(node, "chat"), state(node, "code")
    # The other way round, the same ones are meant.
    again = run(node, LIST[::-1])
    assert again.status == 0, again.output
    assert again.changed == 0, again.output
    assert (files(node), state(node, "chat"), state(node, "code")) == before


def test_a_change_of_one_leaves_the_other_alone(first_run: Outcome, node: ReleaseNode) -> None:
    chat, code = state(node, "chat"), state(node, "code")
    changed = run(node, [LIST[0], {**LIST[1], "hicache_ratio": 3}])
    assert changed.status == 0, changed.output
    assert state(node, "chat") == chat
    assert state(node, "code")["InvocationID"] != code["InvocationID"]


WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "name-twice": ([LIST[0], LIST[0]], "2 entries of the name chat"),
    "no-name": ([{"port": 30020}], "nothing for its name"),
    "unknown-key": ([{**LIST[0], "hicache_rato": 2}], "the closest is hicache_ratio"),
    "another-type": ([{**LIST[0], "port": "http"}], r"\(chat\): .*port"),
    # One that nobody listens on yet: it is the list that cannot be.
    "port-twice": ([{**one, "port": 30070} for one in LIST], r"chat \(http, 30070\) and code \(http, 30070\)"),
    "too-much-memory": (
        [{**LIST[0], "hicache_ratio": 20000}, {**LIST[1], "hicache_ratio": 20000}],
        r"hicache\.ratio to",
    ),
    "to-be-gone": (LIST, "both name chat"),
}


def test_what_cannot_be_is_refused_before_any_is_touched(first_run: Outcome, node: ReleaseNode, tmp_path: Path) -> None:
    before = files(node), state(node, "chat"), state(node, "code")
    requests: dict[str, dict[str, Any]] = {name: {**SMALL, "sglang_instances": case[0]} for name, case in WRONG.items()}
    requests["to-be-gone"]["sglang_instances_absent"] = ["chat"]
    refused = play_refused(tmp_path, requests, environment=node.environment)
    assert refused.status == 2, refused.output
    for name, (entries, expected) in WRONG.items():
        assert re.search(expected, refused.errors_of.get(name, ""), re.DOTALL), (name, entries, refused.output)
        assert refused.recap[name]["changed"] == 0
    assert (files(node), state(node, "chat"), state(node, "code")) == before


def test_a_sandbox_that_denies_is_found_while_the_old_server_serves(first_run: Outcome, node: ReleaseNode) -> None:
    before = state(node, "chat")
    folder = "/etc/systemd/system/sglang-chat.service.d"
    node.run(f"mkdir {folder} && printf '[Service]\\nInaccessiblePaths=/srv/models\\n' >{folder}/10-closed.conf")
    try:
        refused = run(node, [{**LIST[0], "hicache_ratio": 4}, LIST[1]])
    finally:
        node.run(f"rm -r {folder} && systemctl daemon-reload")
    assert refused.status == 2, refused.output
    assert re.search(r"cannot read /srv/models/rehearsal-llama/config.json \(E[A-Z]+", "".join(refused.errors))
    assert state(node, "chat") == before


def test_one_that_no_list_names_goes_on_and_is_reported(first_run: Outcome, node: ReleaseNode) -> None:
    before = state(node, "code")
    told = run(node, [LIST[0]])
    assert told.status == 0, told.output
    assert re.search(r"does not name: code", told.output), told.output
    assert state(node, "code") == before


def test_one_that_shall_be_gone_is_gone_but_for_its_state(first_run: Outcome, node: ReleaseNode) -> None:
    chat = state(node, "chat")
    gone = run(node, [LIST[0]], sglang_instances_absent=["code"])
    assert gone.status == 0, gone.output
    assert node.run("ls /etc/sglang | grep code; ls /etc/systemd/system | grep code", check=False) == ""
    assert node.run("ls /var/lib/sglang/code/ledger.json") != ""
    assert state(node, "code")["ActiveState"] == "inactive"
    assert state(node, "chat") == chat
    assert run(node, [LIST[0]], sglang_instances_absent=["code"]).changed == 0
