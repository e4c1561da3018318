# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the actions hand over and how they refuse; the solving is tested where it is done."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.gpufleet.sglang.plugins.action import cuda_plan, stack_solution
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.compatibility.hosts import (
    H100,
    stack,
    topology,
)


def ran(plugin: Any, **arguments: Any) -> dict[str, Any]:
    loader = DataLoader()
    task = Task()
    task.args = arguments
    task.check_mode = True
    task.async_val = 0
    action = plugin.ActionModule(
        task=task,
        connection=MagicMock(),
        play_context=MagicMock(),
        loader=loader,
        templar=Templar(loader=loader),
        shared_loader_obj=None,
    )
    found: dict[str, Any] = action.run(task_vars={})
    return found


def test_a_solution_in_check_mode() -> None:
    found = ran(stack_solution, topology=topology(H100), stack=stack("580.95.05"))
    assert (found["changed"], found["solution"]["sglang_version"]) == (False, "0.5.23")


def test_a_conflict_fails_with_its_evidence() -> None:
    found = ran(stack_solution, topology=topology(H100), stack=stack(), request={"driver": "570", "cuda": "13.0"})
    assert found["failed"] is True
    assert found["failure"]["code"] == "stack_conflict"
    assert [part["constraint"] for part in found["failure"]["evidence"]["conflict"]] == [
        "cuda",
        "driver",
        "line_driver",
    ]


@pytest.mark.parametrize("plugin", [stack_solution, cuda_plan])
def test_options_that_are_none_are_refused(plugin: Any) -> None:
    found = ran(plugin, stack=stack(), driver="580")
    assert found["failure"]["code"] == "arguments_invalid"
    assert "driver" in found["msg"]


def test_a_plan_and_a_refusal() -> None:
    found = ran(cuda_plan, stack=stack(), toolkits=["13.0"])
    assert found["plan"]["packages"] == ["cuda-toolkit-13-0"]
    assert ran(cuda_plan, stack=stack(), toolkits=["cuda"])["failure"]["code"] == "cuda_package_brings_driver"
