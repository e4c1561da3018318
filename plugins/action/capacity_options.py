# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_dict import capacity_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import (
    ARGUMENT_SPEC,
    capacity_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.search import capacity
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import (
    refuse_unknown_facts,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.planning import PlanningAction


class ActionModule(PlanningAction):
    """Which GPUs a workload needs."""

    options = ARGUMENT_SPEC

    def planned(self, arguments: dict[str, Any]) -> Mapping[str, Any]:
        for model in arguments["models"]:
            refuse_unknown_facts(model, arguments["topology"] or {})
        asked = capacity_request(arguments)
        return capacity_as_dict(capacity(asked), asked.workload)
