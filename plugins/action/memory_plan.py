# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan, plan_as_dict
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
            refuse_unknown_keys(self._task.args, ARGUMENT_SPEC)
            _validated, arguments = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
            result["plan"] = plan_as_dict(plan(plan_request(arguments)))
        except Refusal as refusal:
            result.update(failed=True, msg=str(refusal), failure=refusal.as_dict())
        except AnsibleActionFail as error:
            result.update(
                failed=True,
                msg=str(error),
                failure={
                    "code": "arguments_invalid",
                    "message": str(error),
                    "remedy": "See ansible-doc gpufleet.sglang.memory_plan.",
                    "evidence": {},
                },
            )
        return result


def refuse_unknown_keys(arguments: Mapping[str, Any], spec: Mapping[str, Any], where: str = "") -> None:
    """An option that does not exist is a typing error: name it and the closest one that does."""
    for key, value in arguments.items():
        if key not in spec:
            closest = difflib.get_close_matches(str(key), list(spec), n=1)
            raise Refusal(
                "option_unknown",
                f"{where}{key} is not an option of memory_plan.",
                f"The closest is {where}{closest[0]}." if closest else f"Expected one of {', '.join(sorted(spec))}.",
                {"option": f"{where}{key}", "closest": f"{where}{closest[0]}" if closest else None},
            )
        nested = spec[key].get("options")
        if nested is None:
            continue
        if isinstance(value, (list, tuple, int, float)):
            raise Refusal(
                "option_malformed",
                f"{where}{key} is {value!r}.",
                f"Expected a mapping with keys out of {', '.join(nested)}.",
                {"option": f"{where}{key}"},
            )
        if isinstance(value, Mapping):
            refuse_unknown_keys(value, nested, f"{where}{key}.")
