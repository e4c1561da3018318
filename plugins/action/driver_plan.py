# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.plan import plan_driver
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import driver_request
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.planning import PlanningAction


class ActionModule(PlanningAction):
    """The driver of a host, and how it gets there."""

    options = ARGUMENT_SPEC

    def planned(self, arguments: dict[str, Any]) -> Mapping[str, Any]:
        outcome = plan_driver(read_host(arguments["stack"], arguments["topology"]), driver_request(arguments))
        if outcome.refusals and arguments["refuse"]:
            said = [f"[{refusal.code}] {refusal}" for refusal in outcome.refusals]
            return {**outcome.as_dict(), "failed": True, "msg": "\n".join(said)}
        return outcome.as_dict()
