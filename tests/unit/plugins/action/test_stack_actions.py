# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the actions hand over and how they refuse; the solving is tested where it is done."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.action import cuda_plan, stack_solution
from ansible_collections.gpufleet.sglang.tests.unit.plugins.action.action_runs import ran
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.compatibility.hosts import (
    H100,
    stack,
    topology,
)


def planned(plugin: Any, **arguments: Any) -> dict[str, Any]:
    return ran(plugin, arguments, check_mode=True)


def test_a_solution_in_check_mode() -> None:
    found = planned(stack_solution, topology=topology(H100), stack=stack("580.95.05"))
    assert (found["changed"], found["solution"]["sglang_version"]) == (False, "0.5.23")


def test_a_conflict_fails_with_its_evidence() -> None:
    found = planned(stack_solution, topology=topology(H100), stack=stack(), request={"driver": "570", "cuda": "13.0"})
    assert found["failed"] is True
    assert found["failure"]["code"] == "stack_conflict"
    assert [part["constraint"] for part in found["failure"]["evidence"]["conflict"]] == [
        "cuda",
        "driver",
        "line_driver",
    ]


@pytest.mark.parametrize("plugin", [stack_solution, cuda_plan])
def test_options_that_are_none_are_refused(plugin: Any) -> None:
    found = planned(plugin, stack=stack(), driver="580")
    assert found["failure"]["code"] == "option_unknown"
    assert "driver" in found["msg"]


@pytest.mark.parametrize("plugin", [stack_solution, cuda_plan])
def test_values_of_another_kind_are_refused_with_the_page_to_read(plugin: Any) -> None:
    found = planned(plugin, stack="no mapping")
    assert found["failure"]["code"] == "arguments_invalid"
    assert found["failure"]["remedy"] == f"See ansible-doc gpufleet.sglang.{plugin.__name__.rpartition('.')[2]}."
    assert "'stack'" in found["failure"]["message"]
    assert found["failure"]["message"].endswith(".")


def test_a_plan_and_a_refusal() -> None:
    found = planned(cuda_plan, stack=stack(), toolkits=["13.0"])
    assert found["plan"]["packages"] == ["cuda-toolkit-13-0"]
    assert planned(cuda_plan, stack=stack(), toolkits=["cuda"])["failure"]["code"] == "cuda_package_brings_driver"
