# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import fleet_plans
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet.fleets import (
    KIMI_PLAN,
    REFUSED_RESULT,
    host,
)


def test_a_document_of_every_state_that_json_can_hold() -> None:
    fleet = fleet_plans(
        [
            host("a", sglang_plan=KIMI_PLAN, sglang_instance="kimi"),
            host("b", plan_failure=REFUSED_RESULT, sglang_paper_model={"name": "Kimi"}, sglang_version="0.5.9"),
            host("c"),
        ]
    )
    assert json.loads(json.dumps(fleet)) == fleet
    assert fleet["schema"] == 1
    assert fleet["summary"] == {"nodes": 3, "planned": 1, "refused": 1, "not_reached": 1}
    assert [node["state"] for node in fleet["nodes"]] == ["planned", "refused", "not_reached"]
    keys = {"node", "instance", "state", "model", "sglang_version", "refusal", "plan"}
    assert all(set(node) == keys for node in fleet["nodes"])
    first, second, third = fleet["nodes"]
    assert (first["plan"], first["refusal"], first["model"]) == (KIMI_PLAN, None, "Kimi-K2.5")
    assert (second["plan"], second["model"], second["sglang_version"]) == (None, "Kimi", "0.5.9")
    assert second["refusal"]["code"] == "host_memory_short"
    assert second["refusal"]["evidence"] == {"largest_ratio": 4.3}
    assert (third["plan"], third["refusal"], third["model"]) == (None, None, None)


def test_the_result_of_the_task_that_plans_is_a_plan() -> None:
    [node] = fleet_plans([host("a", __sglang_planned={"plan": KIMI_PLAN, "changed": False})])["nodes"]
    assert (node["state"], node["plan"]) == ("planned", KIMI_PLAN)
    [skipped] = fleet_plans([host("a", __sglang_planned={"skipped": True})])["nodes"]
    assert skipped["state"] == "not_reached"


def test_a_refusal_outweighs_a_plan_of_an_earlier_play() -> None:
    [node] = fleet_plans([host("a", sglang_plan=KIMI_PLAN, plan_failure=REFUSED_RESULT)])["nodes"]
    assert (node["state"], node["plan"]) == ("refused", None)


def test_another_task_that_failed_is_told_in_its_own_words() -> None:
    said = "Task failed: A 'when' expression failed: The filter plugin 'gpufleet.sglang.x' failed: No board."
    [node] = fleet_plans([host("a", plan_failure={"msg": f"{said}\x1b[31m\nTwo"})])["nodes"]
    assert node["refusal"] == {"code": "task_failed", "message": "No board. [31m Two", "remedy": "", "evidence": {}}
    told = "Task failed: The filter plugin 'gpufleet.sglang.x' failed: board_unknown: No board."
    [coded] = fleet_plans([host("a", plan_failure={"msg": told})])["nodes"]
    assert (coded["refusal"]["code"], coded["refusal"]["message"]) == ("board_unknown", "No board.")
    told = "Finalization of task args for 'x' failed: Error while resolving value for 'y': board_unknown: No board."
    [foreign] = fleet_plans([host("a", plan_failure={"msg": told})])["nodes"]
    assert foreign["refusal"]["code"] == "task_failed"
    [silent] = fleet_plans([host("a", plan_failure={"rc": 1})])["nodes"]
    assert silent["refusal"]["message"] == "The task failed and did not say why."
