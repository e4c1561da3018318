# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_dict import capacity_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import (
    ARGUMENT_SPEC,
    capacity_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.search import capacity
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import (
    refuse_unknown_facts,
    refuse_unknown_options,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


class ActionModule(ActionBase):
    """Weighs options on the controller: no connection, no change, the same in check mode."""

    _requires_connection = False
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        try:
            refuse_unknown_options(self._task.args, ARGUMENT_SPEC)
            _validated, arguments = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
            for model in arguments["models"]:
                refuse_unknown_facts(model, arguments["topology"] or {})
            asked = capacity_request(arguments)
            result.update(capacity_as_dict(capacity(asked), asked.workload))
        except Refusal as refusal:
            result.update(refusal.as_result())
        except AnsibleActionFail as error:
            remedy = "See ansible-doc gpufleet.sglang.capacity_options."
            result.update(Refusal("arguments_invalid", f"{str(error).rstrip('.')}.", remedy).as_result())
        return result
