# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import (
    refuse_unknown_facts,
    refuse_unknown_model_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.planning import PlanningAction


class ActionModule(PlanningAction):
    """Tokens and bytes of a server on a machine."""

    options = ARGUMENT_SPEC

    def planned(self, arguments: dict[str, Any]) -> Mapping[str, Any]:
        refuse_unknown_facts(arguments["model"], arguments["topology"])
        draft = (arguments.get("speculative") or {}).get("model") or {}
        refuse_unknown_model_facts(draft, "speculative.model.")
        return {"plan": plan_as_dict(plan(plan_request(arguments)))}
