# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change that fails goes back to what was proven, once and not every hour; and so does a person, by hand.

The real server, one rank, as an instance of its own beside whatever the rehearsal has left on the node.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import Node, Outcome, play

INSTANCE = "back"
UNIT = f"sglang-{INSTANCE}.service"
DECLARED: dict[str, Any] = {
    "sglang_instance": INSTANCE,
    "sglang_port": 30400,
    "sglang_tensor_parallel_size": 1,
    "sglang_hicache_enabled": False,
    "sglang_max_total_tokens": 2048,
    "sglang_burn_in_requests": 2,
    "sglang_environment": {
        "PYTHONPATH": "/usr/local/share/rehearsal/sglang_on_cpu",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": "0",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    },
}
# A file that is not there: the plan does not know of it, and the server dies of it.
BROKEN = {
    "sglang_environment": {**DECLARED["sglang_environment"], "SGLANG_LOGGING_CONFIG_PATH": "/nowhere/logging.json"}
}


def site(change: dict[str, Any] | None = None, **more: Any) -> Outcome:
    asked = {**DECLARED, **(change or {}), **more}
    return play("--limit", "node", "-e", json.dumps(asked))


class Serving:
    def __init__(self, node: Node) -> None:
        self.node = node

    def generation(self) -> str:
        pid = self.node.run(f"systemctl show {UNIT} -p MainPID --value")
        names = self.node.run(f"tr '\\0' '\\n' </proc/{pid}/environ | grep GPUFLEET_GENERATION")
        return names.split("=")[1]

    def invocation(self) -> str:
        return self.node.run(f"systemctl show {UNIT} -p InvocationID --value")

    def kept(self) -> list[str]:
        record = json.loads(self.node.run(f"cat /etc/sglang/kept/{INSTANCE}/kept.json"))
        return [one["digest"] for one in record["generations"]]


@pytest.fixture(scope="module")
def serving(node: Node) -> Any:
    done = site()
    assert done.status == 0, done.output
    yield Serving(node)
    node.run(
        f"systemctl disable --now {UNIT}; rm -rf /etc/systemd/system/{UNIT} /etc/sglang/{INSTANCE}.* "
        f"/etc/sglang/kept/{INSTANCE} /var/lib/sglang/{INSTANCE}; systemctl daemon-reload; systemctl reset-failed"
    )


def test_a_change_that_fails_goes_back_and_is_not_tried_again(serving: Serving) -> None:
    first = serving.generation()
    assert serving.kept() == [first]
    assert site(sglang_max_running_requests=3).status == 0
    proven = serving.generation()
    assert serving.kept() == [proven, first]

    failed = site(BROKEN, sglang_max_running_requests=3, sglang_rollback=True)
    told = " ".join(failed.errors[-1].split())
    assert failed.recap["node"]["failed"] == 1, failed.output
    assert f"{UNIT} went back to generation {proven[:12]}" in told, failed.output
    assert "has been proven again and serves" in told
    assert serving.generation() == proven
    assert serving.kept() == [proven, first]

    back = serving.invocation()
    again = site(BROKEN, sglang_max_running_requests=3, sglang_rollback=True)
    assert "was put into force and failed" in " ".join(again.errors[-1].split()), again.output
    assert again.changed == 0
    assert serving.invocation() == back

    unchanged = site(sglang_max_running_requests=3)
    assert (unchanged.status, unchanged.changed) == (0, 0), unchanged.output
    assert serving.invocation() == back


def test_a_person_goes_back_from_what_works(serving: Serving) -> None:
    left, before = serving.kept()
    asked = {**DECLARED, "sglang_max_running_requests": 3, "sglang_rollback_reason": "it answers too slowly"}
    predicted = play("--limit", "node", "--check", "-e", json.dumps(asked), playbook="gpufleet.sglang.rollback")
    assert predicted.status == 0, predicted.output
    assert serving.generation() == left

    done = play("--limit", "node", "-e", json.dumps(asked), playbook="gpufleet.sglang.rollback")
    assert done.status == 0, done.output
    assert serving.generation() == before
    assert serving.kept() == [before, left]

    refused = site(sglang_max_running_requests=3)
    assert "left by hand (it answers too slowly)" in " ".join(refused.errors[-1].split()), refused.output
    assert serving.generation() == before
