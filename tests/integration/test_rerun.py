# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an unchanged node is asked for by a run, counted; and that what was meddled with is found all the same.

tests/benchmarks/rerun.py prints what it costs beside a plain role.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT, Outcome
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.scripted_release import VALUES, scripted_node

SITE = "gpufleet.sglang.site"
UNIT = "sglang-again.service"
DECLARED: dict[str, Any] = {
    "sglang_instance": "again",
    "sglang_port": 30500,
    "sglang_tensor_parallel_size": 1,
    "sglang_hicache_enabled": False,
    "sglang_max_total_tokens": 2048,
    "sglang_burn_in_requests": 2,
    **VALUES,
}


class Counted(NamedTuple):
    outcome: Outcome
    # Of each call over ssh its module, or what else it was.
    calls: list[str]


@pytest.fixture(scope="module", name="node")
def _node() -> Iterator[ReleaseNode]:
    node = scripted_node("gpufleet-rerun-node", "10.213.77.123")
    node.up()
    done = node.play(SITE, DECLARED)
    assert done.status == 0, done.output
    yield node
    node.down()


def counted(node: ReleaseNode, folder: Path, *arguments: str) -> Counted:
    file = folder / "calls"
    file.unlink(missing_ok=True)
    environment = {
        **node.environment,
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests" / "integration" / "callbacks"),
        "ANSIBLE_CALLBACKS_ENABLED": "remote_calls",
        "REMOTE_CALLS_FILE": str(file),
    }
    done = subprocess.run(
        node.command(SITE, DECLARED, *arguments),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return Counted(
        Outcome(done.returncode, done.stdout), [row["module"] or row["call"] for row in rows if "call" in row]
    )


def invocation(node: ReleaseNode) -> str:
    return node.run(f"systemctl show {UNIT} -p InvocationID --value")


@pytest.mark.parametrize("mode", [(), ("--check", "--diff")])
def test_an_unchanged_node_is_called_twice(node: ReleaseNode, tmp_path: Path, mode: tuple[str, ...]) -> None:
    before = invocation(node)
    outcome, calls = counted(node, tmp_path, *mode)
    assert (outcome.status, outcome.changed) == (0, 0), outcome.output
    assert calls == ["gpufleet.sglang.node_info", "gpufleet.sglang.small_files"]
    assert invocation(node) == before


def test_what_was_meddled_with_is_found_and_mended_without_a_restart(node: ReleaseNode, tmp_path: Path) -> None:
    before = invocation(node)
    meddled = {
        "chmod 0644 /etc/sglang/again.env": "stat -c %a /etc/sglang/again.env",
        "echo >>/etc/sglang/again.yaml": "sha256sum /etc/sglang/again.yaml",
        "rm /etc/sglang/again.reserved.json": "cat /etc/sglang/again.reserved.json",
        "chown root /var/lib/sglang/again": "stat -c %U /var/lib/sglang/again",
        f"systemctl disable {UNIT}": f"systemctl is-enabled {UNIT}",
    }
    whole = [node.run(look) for look in meddled.values()]
    for deed in meddled:
        node.run(deed)
    outcome, calls = counted(node, tmp_path)
    # The files in one task, and the unit's place at boot.
    assert (outcome.status, outcome.changed) == (0, 2), outcome.output
    # What was read before something was changed is not what is compared: the unit is looked at again.
    assert calls.count("gpufleet.sglang.startup_status_info") == 1
    assert [node.run(look) for look in meddled.values()] == whole
    assert invocation(node) == before


def test_a_server_that_was_stopped_is_started_again(node: ReleaseNode, tmp_path: Path) -> None:
    before = invocation(node)
    node.run(f"systemctl stop {UNIT}")
    outcome, _calls = counted(node, tmp_path)
    assert outcome.status == 0, outcome.output
    assert node.run(f"systemctl is-active {UNIT}") == "active"
    assert invocation(node) not in ("", before)
