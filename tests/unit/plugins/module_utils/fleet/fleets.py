# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Hosts after a play, for the tests of the fleet's table and picture."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import fleet_plans
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    founding,
    planned,
    rehearsal,
)

BOARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
REFUSED_RESULT: dict[str, Any] = {
    "failed": True,
    "msg": "Ratio 8.0 is too much. Set hicache.ratio to 4.3 or less.",
    "failure": {
        "code": "host_memory_short",
        "message": "Ratio 8.0 is too much.",
        "remedy": "Set hicache.ratio to 4.3 or less.",
        "evidence": {"largest_ratio": 4.3},
    },
}


def named(**changes: Any) -> dict[str, Any]:
    """The founding case with the name of its boards."""
    arguments = founding(**changes)
    for gpu in arguments["topology"]["gpus"]:
        gpu["name"] = BOARD
    return arguments


KIMI_PLAN = planned(named())
OVER_PLAN = planned(named(hicache={"ratio": 6.0}, allow_oversubscription=True))
OFF_PLAN = planned(named(hicache={"enabled": False}))
CPU_PLAN = planned(rehearsal())


def host(name: str, **variables: Any) -> dict[str, Any]:
    return {"inventory_hostname": name, **variables}


def fleet(**plans: dict[str, Any] | None) -> dict[str, Any]:
    """Nodes by name with their plans; None is a node that was refused."""
    return fleet_plans(
        host(name, **({"plan_failure": REFUSED_RESULT} if plan is None else {"sglang_plan": plan}))
        for name, plan in plans.items()
    )
