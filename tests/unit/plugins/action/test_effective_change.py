# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.action import effective_change
from ansible_collections.gpufleet.sglang.tests.unit.plugins.action.action_runs import action_of
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import planned, rehearsal

UNIT = {
    "load_state": "loaded",
    "active_state": "active",
    "sub_state": "running",
    "main_pid": 2211,
    "invocation_id": "a1",
    "generation": "g1",
}
PLAN = planned(rehearsal())
LEDGER = {"schema": 2, "generation": "g1", "invocation_id": "a1", "plan": planned(rehearsal(hicache={"ratio": 3.0}))}


def changed(
    answer: dict[str, Any], generation: str, **more: Any
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Result of the action, and what it asked the node."""
    arguments = {
        "unit": "sglang-main.service",
        "sglang_version": "0.5.23",
        "generation": generation,
        "plan": PLAN,
        "ledger_path": "/var/lib/sglang/main/ledger.json",
        **more,
    }
    action = action_of(effective_change, arguments)
    asked: list[tuple[str, dict[str, Any]]] = []

    def execute(module_name: str, module_args: dict[str, Any], task_vars: object) -> dict[str, Any]:
        asked.append((module_name, module_args))
        return answer

    action._execute_module = execute
    return action.run(task_vars={}), asked


def test_unit_and_ledger_come_in_one_call() -> None:
    result, asked = changed({"unit": UNIT, "ledger": LEDGER}, "g1")
    assert (result["changed"], result["proven"], result["ledger"]) == (False, True, LEDGER)
    assert [(name, args["ledger_path"]) for name, args in asked] == [
        ("gpufleet.sglang.startup_status_info", "/var/lib/sglang/main/ledger.json")
    ]


def test_another_generation_says_what_it_means_against_the_ledgers_plan() -> None:
    result, _asked = changed({"unit": UNIT, "ledger": LEDGER}, "g2")
    assert result["changed"]
    assert any(line.startswith("HiCache: ratio 3.0 -> ratio 4.0") for line in result["meaning"])


def test_without_a_ledger_nothing_is_proven() -> None:
    result, _asked = changed({"unit": UNIT, "ledger": {}}, "g1")
    assert (result["changed"], result["proven"]) == (False, False)


def test_a_node_that_cannot_be_asked_is_a_failure() -> None:
    result, _asked = changed({"failed": True, "msg": "no systemd"}, "g1")
    assert result == {"failed": True, "msg": "no systemd"}


def test_what_was_read_a_moment_ago_is_not_asked_for_again() -> None:
    result, asked = changed({}, "g1", status={"unit": UNIT, "ledger": LEDGER})
    assert (result["changed"], result["proven"], result["ledger"]) == (False, True, LEDGER)
    assert asked == []
