# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change that fails goes back to what was proven, once and not every hour; and so does a person, by hand.

The stand-in release: it is about what the role does when a server dies of a change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import Outcome
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.scripted_release import VALUES, scenario, scripted_node

INSTANCE = "back"
UNIT = f"sglang-{INSTANCE}.service"
DECLARED: dict[str, Any] = {
    "sglang_instance": INSTANCE,
    "sglang_port": 30400,
    "sglang_tensor_parallel_size": 1,
    "sglang_hicache_enabled": False,
    "sglang_max_total_tokens": 2048,
    "sglang_burn_in_requests": 2,
    **VALUES,
}
# The plan does not know of it, and the server dies of it.
DIES = {"faults": [{"before": "load", "do": [{"say": "FileNotFoundError: /nowhere/logging.json"}, {"exit": 1}]}]}


class Serving:
    def __init__(self, node: ReleaseNode) -> None:
        self.node = node
        self.broken = {"sglang_environment": scenario(node, "dies", DIES)}

    def site(self, change: dict[str, Any] | None = None, **more: Any) -> Outcome:
        return self.node.play("gpufleet.sglang.site", {**DECLARED, **(change or {}), **more})

    def generation(self) -> str:
        pid = self.node.run(f"systemctl show {UNIT} -p MainPID --value")
        names = self.node.run(f"tr '\\0' '\\n' </proc/{pid}/environ | grep GPUFLEET_GENERATION")
        return names.split("=")[1]

    def invocation(self) -> str:
        return self.node.run(f"systemctl show {UNIT} -p InvocationID --value")

    def kept(self) -> list[str]:
        record = json.loads(self.node.run(f"cat /etc/sglang/kept/{INSTANCE}/kept.json"))
        return [one["digest"] for one in record["generations"]]


@pytest.fixture(scope="module", name="serving")
def _serving() -> Iterator[Serving]:
    node = scripted_node("gpufleet-rollback-node", "10.213.77.121")
    node.up()
    found = Serving(node)
    done = found.site()
    assert done.status == 0, done.output
    yield found
    node.down()


def test_a_change_that_fails_goes_back_and_is_not_tried_again(serving: Serving) -> None:
    first = serving.generation()
    assert serving.kept() == [first]
    assert serving.site(sglang_max_running_requests=3).status == 0
    proven = serving.generation()
    assert serving.kept() == [proven, first]

    failed = serving.site(serving.broken, sglang_max_running_requests=3, sglang_rollback=True)
    told = " ".join(failed.errors[-1].split())
    assert failed.recap["node"]["failed"] == 1, failed.output
    assert f"{UNIT} went back to generation {proven[:12]}" in told, failed.output
    assert "has been proven again and serves" in told
    assert serving.generation() == proven
    assert serving.kept() == [proven, first]

    back = serving.invocation()
    again = serving.site(serving.broken, sglang_max_running_requests=3, sglang_rollback=True)
    assert "was put into force and failed" in " ".join(again.errors[-1].split()), again.output
    assert again.changed == 0
    assert serving.invocation() == back

    unchanged = serving.site(sglang_max_running_requests=3)
    assert (unchanged.status, unchanged.changed) == (0, 0), unchanged.output
    assert serving.invocation() == back


def test_a_person_goes_back_from_what_works(serving: Serving) -> None:
    left, before = serving.kept()
    asked = {**DECLARED, "sglang_max_running_requests": 3, "sglang_rollback_reason": "it answers too slowly"}
    predicted = serving.node.play("gpufleet.sglang.rollback", asked, "--check")
    assert predicted.status == 0, predicted.output
    assert serving.generation() == left

    done = serving.node.play("gpufleet.sglang.rollback", asked)
    assert done.status == 0, done.output
    assert serving.generation() == before
    assert serving.kept() == [before, left]

    refused = serving.site(sglang_max_running_requests=3)
    assert "left by hand (it answers too slowly)" in " ".join(refused.errors[-1].split()), refused.output
    assert serving.generation() == before
