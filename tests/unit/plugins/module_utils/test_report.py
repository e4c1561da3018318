# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.report import node_report_lines
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import planned, rehearsal

LEDGER: dict[str, Any] = {
    "sglang_version": "0.5.23",
    "main_pid": 277,
    "invocation_id": "e49e",
    "startup": {
        "stages": [
            {"stage": "load", "seconds": 3.0, "bytes": None},
            {"stage": "host_pool", "seconds": 16.0, "bytes": 1_073_745_920},
            {"stage": "warm_up", "seconds": None, "bytes": None},
        ]
    },
    "proof": {
        "checks": [
            {"name": "host_tokens", "ok": True, "found": 262145, "expected": 262145},
            {"name": "max_total_num_tokens", "ok": None, "found": None, "expected": 8192},
        ],
        "canary": {
            "cold": {"cached_tokens": 0},
            "churn": {"requests": 5, "tokens": 9000},
            "hit": {"cached_tokens": 511, "device": 0, "host": 511},
            "same_text": True,
        },
    },
}


def report(record: dict[str, Any], **change: Any) -> str:
    change = {"changed": False, "proven": False, "reasons": [], "ledger": {}, **change}
    return "\n".join(node_report_lines(planned(rehearsal()), record, change))


def test_a_fresh_start_tells_why_how_long_and_what_was_proven() -> None:
    text = report(LEDGER, changed=True, reasons=["the unit does not exist yet"])
    assert "restarted: the unit does not exist yet" in text
    assert "1.07 GB pinned, 0.067 GB/s" in text
    assert "in all" in text and "19.0 s" in text
    assert "ok       host tokens a rank: 262,145, planned 262,145" in text
    assert "unknown  device tokens: None, planned 8,192" in text
    assert "511 tokens came back from the host tier, the same text" in text
    assert "warm up" not in text


def test_stages_that_overlap_are_not_added_up() -> None:
    measured = {**LEDGER, "startup": {**LEDGER["startup"], "figures": {"start_seconds": 18.2}}}
    (line,) = (line for line in report(measured).splitlines() if "in all  " in line)
    assert "18.2 s" in line


def test_the_wait_for_the_old_servers_memory_is_told_where_there_was_any() -> None:
    idle = {"idle_seconds": 12.8, "given_back_bytes": 1_330_000_000}
    startup = {**LEDGER["startup"], "idle": idle}
    text = report({**LEDGER, "startup": startup})
    assert re.search(r"memory back +12\.8 s  1\.33 GB of the old server given back", text), text
    for nothing in ({}, {**idle, "given_back_bytes": 0}, {"idle_seconds": None}):
        assert "memory back" not in report({**LEDGER, "startup": {**startup, "idle": nothing}})


def test_an_unchanged_node_says_so() -> None:
    assert "unchanged: what runs is what is declared" in report(LEDGER, proven=True, ledger=LEDGER)


def test_a_start_left_behind_is_told_from_one_not_proven() -> None:
    assert "left behind was followed and proven" in report(LEDGER, ledger={"invocation_id": "old"})
    assert "has not been proven" in report(LEDGER, ledger=LEDGER)


def test_check_mode_says_that_a_restart_is_due_and_nothing_is_claimed() -> None:
    text = report({}, changed=True, reasons=["the unit does not exist yet"])
    assert "restart due: the unit does not exist yet" in text
    assert "Proven" not in text
    assert "It means" not in text


def test_the_report_says_by_how_much_the_plan_of_the_start_was_off() -> None:
    plan = planned(rehearsal())
    startup = {
        **LEDGER["startup"],
        "max_total_num_tokens": 65000,
        "figures": {"pin_seconds": 16.0, "pinned_bytes": plan["host"]["bytes_total"]},
    }
    started = {**plan, "timing": {**plan["timing"], "start_seconds": 40.0, "pin_seconds": 20.0}}
    text = report({**LEDGER, "startup": startup, "plan": started}, proven=True)
    assert "The plan was off by" in text
    assert "device tokens: 65,000, planned 65,536 (-536, -0.8 %)" in text
    assert "pinning: 16.0 s, planned 20.0 s (-4.0 s, -20.0 %)" in text
    assert "planned: about 40.0 s" in text
    assert "was off" not in report(LEDGER)


def test_what_the_plan_has_read_of_the_last_start_is_said_once() -> None:
    first = planned(rehearsal())
    figures = {"pin_seconds": 16.0, "pinned_bytes": first["host"]["bytes_total"]}
    ledger = {**LEDGER, "plan": first, "startup": {**LEDGER["startup"], "figures": figures}}
    again = planned({**rehearsal(), "ledger": ledger})
    lines = node_report_lines(again, ledger, {"changed": False, "proven": True, "reasons": [], "ledger": ledger})
    assert sum("pinning: 16.0 s, planned" in line for line in lines) == 1
    assert any("Last start" in line for line in lines)


def test_a_failed_canary_stands_out() -> None:
    proof = {**LEDGER["proof"], "canary": {**LEDGER["proof"]["canary"], "same_text": False}}
    assert "FAILED   canary" in report({**LEDGER, "proof": proof})


def test_what_a_check_could_not_prove_is_said() -> None:
    problem = {"code": "server_busy", "severity": "warning", "message": "It is busy.", "remedy": "Run it again."}
    canary = {**LEDGER["proof"]["canary"], "same_text": None}
    burn_in = {"name": "burn_in", "ok": True, "found": 8, "expected": 8}
    proof = {"checks": [burn_in], "canary": canary, "problems": [problem]}
    text = report({**LEDGER, "proof": proof})
    assert "ok       requests of the burn-in answered: 8, asked 8" in text
    assert "ok       canary" in text and "texts of this server cannot be compared" in text
    assert "warning  It is busy. Run it again." in text


def test_a_canary_without_a_hit_claims_nothing() -> None:
    canary = {**LEDGER["proof"]["canary"], "hit": None, "same_text": None}
    assert "canary" not in report({**LEDGER, "proof": {**LEDGER["proof"], "canary": canary}})
    untold = {**LEDGER["proof"]["canary"], "hit": {"cached_tokens": 511, "device": None, "host": None}}
    assert "canary" not in report({**LEDGER, "proof": {**LEDGER["proof"], "canary": untold}})
