# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.effective import compare
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.change import change_lines


class ActionModule(ActionBase):
    """Reads the unit and the ledger on the node; the comparison itself is pure."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            argument_spec={
                "unit": {"type": "str", "required": True},
                "sglang_version": {"type": "str", "required": True},
                "generation": {"type": "str", "required": True},
                "plan": {"type": "dict", "required": True},
                "ledger_path": {"type": "path", "required": True},
                "status": {"type": "dict"},
                "further_reasons": {"type": "list", "elements": "str", "default": []},
            }
        )
        status = arguments["status"] or self._execute_module(
            module_name="gpufleet.sglang.startup_status_info",
            module_args={
                "unit": arguments["unit"],
                "sglang_version": arguments["sglang_version"],
                "max_lines": 0,
                "ledger_path": arguments["ledger_path"],
            },
            task_vars=task_vars,
        )
        if status.get("failed"):
            return status
        ledger = status["ledger"]
        change = compare(status["unit"], ledger, arguments["generation"], arguments["further_reasons"])
        meaning = change_lines(ledger.get("plan"), arguments["plan"]) if change.changed else []
        result.update(
            changed=change.changed,
            reasons=list(change.reasons),
            proven=change.proven,
            meaning=meaning,
            unit=status["unit"],
            ledger=ledger,
        )
        if change.changed:
            result["diff"] = {"prepared": "\n".join([*change.reasons, *meaning]) + "\n"}
        return result
