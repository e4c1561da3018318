# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What the gate asks for and what it advises, held against the planner itself."""

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import Hold, holds_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import needs_of_plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.remedies import remedies_of
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    founding,
    planned,
    rehearsal,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.idle_cases import GB, gpu, look

CASES: dict[str, dict[str, Any]] = {
    "cpu": rehearsal(),
    "cpu, larger": rehearsal(hicache={"ratio": 20.0}),
    "founding": founding(sglang_version="0.5.23", hicache={"ratio": 2.2, "io_backend": "direct"}),
    "founding on 0.5.9": founding(hicache={"ratio": 2.0}),
}


def with_available(case: dict[str, Any], available: int, **hicache: Any) -> dict[str, Any]:
    topology = {**case["topology"], "host": {"memory_available_bytes": available}}
    return {**case, "topology": topology, "hicache": {**case["hicache"], **hicache}}


def short(plan: dict[str, Any], available: int) -> tuple[Hold, ...]:
    # Nodes are divided on paper, so only the host is short here.
    return tuple(hold for hold in holds_of(look(available), needs_of_plan(plan)) if hold.kind == "host_memory")


@pytest.mark.parametrize("name", CASES)
def test_a_planned_start_passes_with_what_it_was_planned_with(name: str) -> None:
    plan = planned(CASES[name])
    assert short(plan, CASES[name]["topology"]["host"]["memory_available_bytes"]) == ()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("part", [0.9, 0.7, 0.5])
def test_ratio_that_the_gate_names_passes_the_planner(name: str, part: float) -> None:
    case = CASES[name]
    plan = planned(case)
    bounds = needs_of_plan(plan).host
    assert bounds is not None
    available = int(bounds.required_bytes - (1 - part) * plan["host"]["pinned_bytes_total"])
    holds = short(plan, available)
    ratios = [remedy.value or 0.0 for remedy in remedies_of(holds, plan, {}) if remedy.code == "set_ratio"]
    if ratios:
        assert planned(with_available(case, available, ratio=ratios[0]))["host"]["ratio"] == ratios[0]
        assert ratios[0] < case["hicache"]["ratio"]
        # It is no needlessly small one.
        with pytest.raises(Refusal):
            planned(with_available(case, available, ratio=round(ratios[0] * 1.03 + 0.1, 2)))
    else:
        # None fits: the planner knows of none either.
        with pytest.raises(Refusal):
            planned(with_available(case, available, ratio=1.05))


def test_gpus_of_the_founding_box_are_idle_with_what_its_driver_keeps() -> None:
    needs = needs_of_plan(planned(CASES["founding"]))
    total = 97887 * MIB
    kept = [gpu(index, 600 * MIB, total=total) for index in range(8)]
    assert [hold for hold in holds_of(look(10**12, gpus=kept), needs) if hold.kind == "gpu"] == []
    leaked = [gpu(0, 20 * GB, total=total)]
    assert [hold.gpu for hold in holds_of(look(10**12, gpus=leaked), needs) if hold.kind == "gpu"] == [0]


def test_a_plan_that_was_forced_lets_the_server_decide() -> None:
    case = rehearsal(hicache={"ratio": 100000.0}, allow_oversubscription=True)
    assert needs_of_plan(planned(case)).host is None
