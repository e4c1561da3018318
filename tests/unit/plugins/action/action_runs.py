# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs an action as a task of a play does, without a play."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar


def action_of(plugin: Any, arguments: dict[str, Any], *, check_mode: bool = False) -> Any:
    """The action of a plugin's module, for a task with these arguments."""
    loader = DataLoader()
    task = Task()
    task.args, task.check_mode, task.async_val = arguments, check_mode, 0
    return plugin.ActionModule(
        task=task,
        connection=MagicMock(),
        play_context=MagicMock(),
        loader=loader,
        templar=Templar(loader=loader),
        shared_loader_obj=None,
    )


def ran(plugin: Any, arguments: dict[str, Any], *, check_mode: bool = False) -> dict[str, Any]:
    """What the action returns."""
    result: dict[str, Any] = action_of(plugin, arguments, check_mode=check_mode).run(task_vars={})
    return result
