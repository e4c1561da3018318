# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.plan import plan_driver
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import driver_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import refuse_unknown_options
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


class ActionModule(ActionBase):
    """Plans a driver on the controller: no connection, no change, the same in check mode."""

    _requires_connection = False
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        try:
            refuse_unknown_options(self._task.args, ARGUMENT_SPEC)
            # The validation fills the defaults that it is given.
            _validated, arguments = self.validate_argument_spec(argument_spec=deepcopy(ARGUMENT_SPEC))
            host = read_host(arguments["stack"], arguments["topology"])
            outcome = plan_driver(host, driver_request(arguments))
            result.update(outcome.as_dict())
            if outcome.refusals and arguments["refuse"]:
                said = [f"[{refusal.code}] {refusal}" for refusal in outcome.refusals]
                result.update(failed=True, msg="\n".join(said))
        except Refusal as refusal:
            result.update(refusal.as_result())
        except AnsibleActionFail as error:
            remedy = "See ansible-doc gpufleet.sglang.driver_plan."
            result.update(Refusal("arguments_invalid", f"{str(error).rstrip('.')}.", remedy).as_result())
        return result
