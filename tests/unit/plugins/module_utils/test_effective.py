# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.effective import compare, is_in_force, read_ledger

UNIT = {
    "load_state": "loaded",
    "active_state": "active",
    "sub_state": "running",
    "main_pid": 2211,
    "invocation_id": "a1",
    "generation": "g1",
}
LEDGER = {"schema": 1, "generation": "g1", "invocation_id": "a1", "plan": {}}


def test_a_running_proven_generation_needs_nothing() -> None:
    change = compare(UNIT, LEDGER, "g1")
    assert (change.changed, change.proven) == (False, True)


@pytest.mark.parametrize(
    ("unit", "word"),
    [
        ({"load_state": "not-found", "active_state": "inactive", "main_pid": 0}, "exist"),
        ({"active_state": "failed", "sub_state": "failed", "main_pid": 0}, "failed"),
        ({"active_state": "inactive", "sub_state": "dead", "main_pid": 0}, "inactive"),
        ({"active_state": "activating", "sub_state": "auto-restart", "main_pid": 0}, "failure"),
        ({"generation": "g0"}, "other files"),
        ({"generation": None}, "no generation"),
    ],
)
def test_each_difference_is_a_reason_to_restart(unit: dict[str, Any], word: str) -> None:
    change = compare({**UNIT, **unit}, LEDGER, "g1")
    assert change.changed
    assert not change.proven
    assert word in change.reasons[0]


def test_reasons_that_were_found_elsewhere_count_as_well() -> None:
    change = compare(UNIT, LEDGER, "g1", ["the driver has changed since the start"])
    assert (change.changed, change.proven) == (True, False)
    assert change.reasons == ("the driver has changed since the start",)


@pytest.mark.parametrize(
    "ledger", [{}, {**LEDGER, "invocation_id": "a0"}, {**LEDGER, "generation": "g0"}], ids=["none", "older", "other"]
)
def test_a_start_that_was_never_proven_is_followed_not_repeated(ledger: dict[str, Any]) -> None:
    change = compare(UNIT, ledger, "g1")
    assert (change.changed, change.proven) == (False, False)


def test_nothing_is_proven_by_an_invocation_that_has_no_name() -> None:
    assert not compare({**UNIT, "invocation_id": None}, {**LEDGER, "invocation_id": None}, "g1").proven


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', json.dumps({"schema": 3, "plan": {}}), '{"schema": 1}'])
def test_a_ledger_that_cannot_be_used_counts_as_none(text: str) -> None:
    assert read_ledger(text) == {}


@pytest.mark.parametrize("schema", [1, 2])
def test_a_ledger_is_read(schema: int) -> None:
    ledger = {**LEDGER, "schema": schema}
    assert read_ledger(json.dumps(ledger)) == ledger
    assert compare(UNIT, ledger, "g1").proven


@pytest.mark.parametrize(
    ("unit", "ledger", "expected"),
    [
        ({}, LEDGER, True),
        ({"invocation_id": "a2"}, LEDGER, False),
        ({"main_pid": None}, LEDGER, False),
        ({"active_state": "deactivating"}, LEDGER, False),
        ({"invocation_id": None}, {}, False),
    ],
)
def test_only_the_start_that_runs_is_in_force(unit: dict[str, Any], ledger: dict[str, Any], expected: bool) -> None:
    assert is_in_force({**UNIT, **unit}, ledger) is expected
