# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.ledger_shape import (
    malformed_line,
    well_formed,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.observation import last_start_of
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding, planned
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.ledgers import Truth, started

WRONG: tuple[Any, ...] = (None, -1, float("nan"), float("inf"), "x", 10**400, [], {}, True, [None], {"a": None})


def paths(whole: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = whole.items() if isinstance(whole, dict) else enumerate(whole[:1]) if isinstance(whole, list) else ()
    for key, value in entries:
        yield (*before, key)
        yield from paths(value, (*before, key))


def with_value(whole: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(whole)
    part: Any = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return changed


def test_any_field_of_a_ledger_may_be_of_any_type() -> None:
    ledger = {**started(planned(founding()), Truth()), "in_force": True}
    tried = 0
    for path in paths(ledger):
        if path[:2] in (("plan", "explanation"), ("plan", "warnings"), ("plan", "assumptions")):
            continue
        for wrong in WRONG:
            last_start_of(with_value(ledger, path, wrong), founding())
            tried += 1
    assert tried > 1000


@pytest.mark.parametrize(
    "path",
    [
        ("plan", "unit"),
        ("plan", "arguments"),
        ("plan", "placement"),
        ("plan", "last_start"),
        ("plan", "settings", "running"),
        ("startup", "ranks"),
        ("startup", "figures", "load_seconds"),
    ],
)
def test_a_plan_is_made_beside_what_is_malformed_and_says_so(path: tuple[str, ...]) -> None:
    ledger = with_value({**started(planned(founding()), Truth()), "in_force": True}, path, "x")
    plan = planned(founding(ledger=ledger))
    assert plan["last_start"]["notes"][0] == f"The ledger's {'.'.join(path)} is malformed, and is not used."


def test_what_is_well_formed_stays() -> None:
    ledger = started(planned(founding()), Truth())
    assert well_formed(ledger) == (ledger, ())


def test_several_are_named_together() -> None:
    assert malformed_line(("a", "b", "c")) == "The ledger's a, b and c are malformed, and are not used."


@pytest.mark.parametrize("before", [10**9, 10**12])
def test_memory_that_contradicts_itself_is_dropped_and_blocks_nothing(before: int) -> None:
    ledger = started(planned(founding()), Truth())
    ledger["startup"]["figures"]["available_before_load_bytes"] = before
    plan = planned(founding(ledger=ledger))
    assert any("contradicts itself" in note for note in plan["last_start"]["notes"])
    assert "available_before_load_bytes" not in plan["last_start"]["observed"]
