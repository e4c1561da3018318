# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.options import ARGUMENT_SPEC, plan_storage


class ActionModule(ActionBase):
    """Plans on the controller: no connection, no change, the same in check mode."""

    _requires_connection = False
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        try:
            _validated, arguments = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
            result.update(plan_storage(arguments))
            if result["refusals"]:
                said = [f"{one['message']} {one['remedy']}" for one in result["refusals"]]
                result.update(failed=True, msg="\n".join(said), failure=result["refusals"][0])
        except Refusal as refusal:
            result.update(refusal.as_result())
        except AnsibleActionFail as error:
            remedy = "See ansible-doc gpufleet.sglang.storage_plan."
            result.update(Refusal("arguments_invalid", str(error), remedy).as_result())
        return result
