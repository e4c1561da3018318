# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all actions have in common that only compute: no connection, no change, the same in check mode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import refuse_unknown_options
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


class PlanningAction(ActionBase):
    """An action gives its options and C(planned), which makes its result of validated arguments or raises Refusal."""

    _requires_connection = False
    TRANSFERS_FILES = False
    _supports_check_mode = True
    options: ClassVar[Mapping[str, Any]]

    @abstractmethod
    def planned(self, arguments: dict[str, Any]) -> Mapping[str, Any]: ...

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        try:
            refuse_unknown_options(self._task.args, self.options)
            # The validation writes defaults into what it is given.
            _validated, arguments = self.validate_argument_spec(argument_spec=deepcopy(dict(self.options)))
            result.update(self.planned(arguments))
        except Refusal as refusal:
            result.update(refusal.as_result())
        except AnsibleActionFail as error:
            remedy = f"See ansible-doc gpufleet.sglang.{type(self).__module__.rpartition('.')[2]}."
            result.update(Refusal("arguments_invalid", f"{str(error).rstrip('.')}.", remedy).as_result())
        return result
