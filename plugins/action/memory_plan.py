# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import (
    refuse_unknown_facts,
    refuse_unknown_model_facts,
    refuse_unknown_options,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


class ActionModule(ActionBase):
    """Computes a memory plan on the controller: no connection, no change, the same in check mode."""

    _requires_connection = False
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        try:
            refuse_unknown_options(self._task.args, ARGUMENT_SPEC)
            _validated, arguments = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
            refuse_unknown_facts(arguments["model"], arguments["topology"])
            draft = (arguments.get("speculative") or {}).get("model") or {}
            refuse_unknown_model_facts(draft, "speculative.model.")
            result["plan"] = plan_as_dict(plan(plan_request(arguments)))
        except Refusal as refusal:
            result.update(refusal.as_result())
        except AnsibleActionFail as error:
            remedy = "See ansible-doc gpufleet.sglang.memory_plan."
            result.update(Refusal("arguments_invalid", f"{str(error).rstrip('.')}.", remedy).as_result())
        return result
