# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.facts import checked, fleet_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import Row, natural_name, rows_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.verdict import summary_lines, verdict_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet_report.simulated import (
    KINDS,
    SHARES,
    answer,
    plan_of,
    simulated,
)

H200 = KINDS[0]


def read(state: str, **changes: Any) -> dict[str, Any]:
    """An answer in which parts of its instance are replaced; C(unit) and C(look) are changed in part."""
    found = answer(H200, state, random.Random(1))
    entry = found["instances"][0]
    entry["look"]["unit"].update(changes.pop("unit", {}))
    entry["look"].update(changes.pop("look", {}))
    entry.update(changes)
    return found


def row_of(said: dict[str, Any] | None, **variables: Any) -> Row:
    host = {"inventory_hostname": "gpu-1", **({} if said is None else {"report_answer": said}), **variables}
    [row] = rows_of(fleet_facts([host]))
    return row


def codes(row: Row) -> list[str]:
    return [problem.code for problem in row.problems]


def test_a_proven_start_has_its_figures_beside_those_of_its_plan() -> None:
    row, plan = row_of(read("serves")), plan_of(H200)
    assert (row.state, row.gpus, row.model, row.release) == ("serves", "8 x H200", "Qwen3-32B", "0.5.23")
    assert row.planned_tokens == plan["device"]["max_total_num_tokens"]
    assert row.tokens is not None and plan["device"]["max_total_num_tokens"] - row.tokens < 500
    assert row.planned_bytes == plan["host"]["pinned_bytes_total"]
    assert row.pinned_bytes is not None and 0 <= row.pinned_bytes - plan["host"]["pinned_bytes_total"] < 1 << 20
    assert row.planned_seconds == plan["timing"]["start_seconds"]
    assert row.start_seconds and row.followed is None


@pytest.mark.parametrize("state", ["failed", "degraded", "unproven", "starting"])
def test_states_are_told_from_what_was_read(state: str) -> None:
    assert row_of(read(state)).state == state


def test_a_failed_start_tells_its_cause_with_what_to_do() -> None:
    row = row_of(read("failed"))
    assert codes(row)[0] == "host_memory_guard"
    assert row.problems[0].severity == "error"
    assert row.problems[0].remedy


def test_the_plan_of_the_same_run_is_that_of_the_start() -> None:
    ledger = row_of(read("failed"))
    assert (ledger.plan is not None, ledger.started) == (True, False)
    given = row_of(read("failed", ledger={}), sglang_plan=plan_of(H200))
    assert (given.plan is not None, given.started) == (True, True)
    assert "this plan" in given.problems[0].remedy
    none = row_of(read("failed", ledger={}))
    assert (none.plan, none.planned_tokens) == (None, None)


CASES: dict[str, tuple[dict[str, Any] | None, str, str]] = {
    "never answered": (None, "unreachable", "node_unreachable"),
    "not reached": ({"unreachable": True, "msg": "no route to host"}, "unreachable", "node_unreachable"),
    "module failed": ({"failed": True, "msg": "The module interpreter was not found."}, "unread", "node_unread"),
    "a rank is gone": (
        read("serves", look={"ranks": [{"rank": "TP1", "pid": 1, "alive": False}]}),
        "failed",
        "rank_gone",
    ),
    "no unit": (read("serves", ledger_in_force=False, unit={"load_state": "not-found"}), "failed", "unit_absent"),
    "stopped by hand": (
        read("serves", ledger_in_force=False, unit={"active_state": "inactive", "main_pid": None}),
        "stopped",
        "unit_stopped",
    ),
    "not proven": (read("unproven"), "unproven", "start_not_proven"),
    "restarted by itself": (read("serves", unit={"n_restarts": 2}), "serves", "unit_restarted"),
    "changed on disk": (read("serves", unit={"need_daemon_reload": True}), "serves", "unit_file_changed"),
    "nothing to be known": (
        read("starting", unit={"active_state": "failed", "sub_state": "dead", "main_pid": None}, look={"events": []}),
        "failed",
        "unknown",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_has_a_code_and_a_remedy(name: str) -> None:
    said, state, code = CASES[name]
    row = row_of(said)
    assert row.state == state
    [problem] = [one for one in row.problems if one.code == code]
    assert problem.message.endswith(".")
    assert problem.remedy


def test_what_was_gone_back_from_is_told_beside_what_serves() -> None:
    said = read("serves")
    said["instances"][0]["ledger"]["failed"] = {"generation": "0" * 64, "message": "it did not start"}
    row = row_of(said)
    assert (row.state, codes(row)) == ("serves", ["went_back"])
    assert "000000000000 failed" in row.problems[0].message


def test_problems_of_the_node_belong_to_each_of_its_instances() -> None:
    said = read("degraded")
    said["instances"].append({**said["instances"][0], "instance": "code"})
    rows = rows_of(fleet_facts([{"inventory_hostname": "gpu-1", "report_answer": said}]))
    assert [row.instance for row in rows] == ["code", "main"]
    assert [codes(row)[0] for row in rows] == ["gpu_lost", "gpu_lost"]


def test_every_node_is_a_row_and_the_urgent_ones_come_first() -> None:
    rows = rows_of(simulated(100))
    assert len(rows) == 100
    found = {state: sum(row.state == state for row in rows) for state in SHARES}
    assert found == SHARES
    assert [row.state for row in rows][:4] == ["failed", "failed", "unreachable", "degraded"]
    serving = [row.node for row in rows if row.state == "serves"]
    assert serving == sorted(serving, key=natural_name)


def test_names_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["gpu-10", "gpu-9", "a", "gpu-9b", "10"], key=natural_name) == [
        "10",
        "a",
        "gpu-9",
        "gpu-9b",
        "gpu-10",
    ]


def test_the_verdict_says_how_many_serve_and_what_to_do_next() -> None:
    verdict = verdict_of(rows_of(simulated(100)))
    assert (verdict.level, verdict.sentence) == ("bad", "95 of 100 nodes serve.")
    assert dict(verdict.details)["failed"] == "2 have failed"
    assert dict(verdict.details)["unreachable"] == "1 cannot be reached"
    first = verdict.groups[0]
    assert (first.code, len(first.rows)) == ("host_memory_guard", 2)
    assert [group.severity for group in verdict.groups] == sorted(group.severity for group in verdict.groups)
    lines = summary_lines(simulated(100))
    assert lines[0] == verdict.sentence
    assert any(line.startswith("Next, on ") for line in lines)


def test_a_fleet_that_serves_has_nothing_to_be_done() -> None:
    verdict = verdict_of([row_of(read("serves"))])
    assert (verdict.level, verdict.sentence, verdict.groups) == ("good", "The node serves.", ())
    assert verdict_of([]).sentence == "There is no node in this report."


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([], "report_facts_malformed"),
        ({"nodes": []}, "report_facts_malformed"),
        ({"kind": "gpufleet.sglang.report", "schema": 9, "nodes": []}, "report_facts_of_another_schema"),
    ],
)
def test_other_documents_are_refused(given: object, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        checked(given)
    assert refused.value.code == code
    assert "report_json" in refused.value.remedy
