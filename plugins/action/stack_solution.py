# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.request import (
    ARGUMENT_SPEC,
    host_of,
    wishes_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.solution import solution_as_dict, solve
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.planning import PlanningAction


class ActionModule(PlanningAction):
    """One set of driver, CUDA line and wheels, or the smallest conflict."""

    options = ARGUMENT_SPEC

    def planned(self, arguments: dict[str, Any]) -> Mapping[str, Any]:
        host = host_of(arguments["topology"], arguments["stack"])
        return {"solution": solution_as_dict(solve(host, wishes_of(arguments["request"], host)))}
