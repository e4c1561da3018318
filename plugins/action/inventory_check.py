# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.check import check
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import document, grave
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.instances_of_host import ROLE
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.playbook_variables import PLAYBOOKS, VALIDATE
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.removed_variables import REMOVED
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.table import table_lines
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.inventory_plans import Plans
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.inventory_reading import COLLECTION, hosts_of, roles_of
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.survey_files import read_surveys

OPTIONS: dict[str, Any] = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "queries": {**VALIDATE.options["validate_queries"], "default": []},
    "plans": {"type": "bool", "default": True},
    "surveys": {"type": "path"},
    "fail_at": {"type": "str", "choices": ["never", "info", "warning", "error"], "default": "error"},
}


class ActionModule(ActionBase):
    """All findings about an inventory, in one task for all of its hosts."""

    _requires_connection = False
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        began = time.monotonic()
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(argument_spec=deepcopy(OPTIONS))
        roles = [*roles_of(self._loader), *PLAYBOOKS]
        # The controller is among the hosts of a play that names it, and only there where the inventory does not.
        listed = set((variables.get("groups") or {}).get("all", ()))
        names = [name for name in dict.fromkeys(arguments["hosts"]) if name in listed]
        hosts = list(
            hosts_of(
                names,
                variables.get("hostvars"),
                self._loader,
                (*(role.prefix for role in roles), *REMOVED),
                self._topologies(arguments["surveys"]),
                everything=bool(arguments["queries"]),
            )
        )
        findings = list(check(hosts, roles, arguments["queries"]))
        if arguments["plans"]:
            sglang = next(role for role in roles if role.name == ROLE)
            plans = Plans(self._loader, COLLECTION, sglang)
            findings += [one for host in hosts for one in plans.findings(host)]
        told = document(findings, len(hosts))
        result.update(
            changed=False,
            report=told,
            lines=table_lines(told),
            grave=grave(told, arguments["fail_at"]),
            seconds=round(time.monotonic() - began, 3),
        )
        return result

    def _topologies(self, folder: str | None) -> dict[str, Any]:
        if folder is None:
            return {}
        try:
            read = list(read_surveys(folder))
        except OSError as error:
            raise AnsibleActionFail(
                f"The folder of surveys {folder} cannot be read: {error.strerror}; expected one that the role probe "
                "has saved surveys into (probe_save)."
            ) from None
        for one in read:
            if one.trouble:
                Display().warning(one.trouble)
        return {one.host: one.survey.topology for one in read if one.survey is not None}
