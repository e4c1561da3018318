# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the action hands over and how it refuses; the planning is tested where it is done."""

from __future__ import annotations

from typing import Any

import yaml

from ansible_collections.gpufleet.sglang.plugins.action import storage_plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.modules import storage_plan as documented
from ansible_collections.gpufleet.sglang.tests.unit.plugins.action.action_runs import ran
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.storage.storage_cases import ASKED
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.storage.test_storage_node import said
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.storage.test_storage_options import PLAN

FILES = {"backend": "file", **ASKED["file"]}


def planned(**arguments: Any) -> dict[str, Any]:
    return ran(storage_plan, arguments, check_mode=True)


def test_a_tier_in_check_mode() -> None:
    found = planned(storage=FILES, plan=PLAN, node=said())
    assert (found["changed"], found["tier"]["backend"], found["refusals"]) == (False, "file", [])
    assert "failed" not in found


def test_all_that_a_node_lacks_is_said_at_once() -> None:
    found = planned(storage=FILES, plan=PLAN, node=said({"read_only": True, "available_bytes": 10**9}))
    assert found["failed"] is True
    assert [one["code"] for one in found["refusals"]] == ["storage_read_only", "storage_no_room"]
    assert found["failure"] == found["refusals"][0]
    assert all(one["message"] in found["msg"] for one in found["refusals"])


def test_a_refusal_has_its_code_and_values() -> None:
    found = planned(storage={**FILES, "max_bytes": 1}, plan=PLAN)
    assert (found["failed"], found["failure"]["code"]) == (True, "storage_cap_below_page")
    assert planned(storage=FILES)["failure"]["code"] == "arguments_invalid"


def test_the_options_are_those_that_are_documented() -> None:
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    kept = ("type", "required", "default", "elements", "choices")
    assert {name: {key: option[key] for key in kept if key in option} for name, option in options.items()} == (
        ARGUMENT_SPEC
    )
