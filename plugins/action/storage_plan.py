# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.options import ARGUMENT_SPEC, plan_storage
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.planning import PlanningAction


class ActionModule(PlanningAction):
    """What a third tier of the KV cache makes of a server and needs of its node."""

    options = ARGUMENT_SPEC

    def planned(self, arguments: dict[str, Any]) -> Mapping[str, Any]:
        found = plan_storage(arguments)
        if found["refusals"]:
            said = [f"{one['message']} {one['remedy']}" for one in found["refusals"]]
            return {**found, "failed": True, "msg": "\n".join(said), "failure": found["refusals"][0]}
        return found
