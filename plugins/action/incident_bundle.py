# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import EMPTY, SERVES
from ansible_collections.gpufleet.sglang.plugins.module_utils.incident.bundle import Incident, archive, incident_of

MODULE = "gpufleet.sglang.node_report_info"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "folder": {"type": "path", "required": True},
    "instance": {"type": "str"},
    "invocation_id": {"type": "str"},
    "failure": {"type": "dict"},
    "task": {"type": "str"},
    "plan": {"type": "dict"},
    "redact": {"type": "bool", "default": False},
    "only_failing": {"type": "bool", "default": False},
    "journal_lines": {"type": "int", "default": 4000},
    "journal_bytes": {"type": "int", "default": 1000000},
    "config_root": {"type": "path", "default": "/etc/sglang"},
}


class ActionModule(ActionBase):
    """Has the node read, and writes what is known of it on the controller."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        variables = task_vars or {}
        answer = self._answer(arguments, variables)
        at = float(answer.get("taken_at") or time.time())
        node = str(variables.get("inventory_hostname", ""))
        instance = arguments["instance"]
        incident = incident_of(
            node,
            answer,
            at,
            failure=_said(arguments["failure"], answer),
            task=arguments["task"],
            plan=arguments["plan"],
            instance=instance,
            other_nodes=_addresses(variables),
            redact=arguments["redact"],
        )
        states = {one["state"] for one in incident.index["states"]}
        result.update(changed=False, path=None, size_bytes=None, index=incident.index, files=sorted(incident.files))
        if arguments["only_failing"] and not arguments["failure"] and states <= {SERVES, EMPTY}:
            return {**result, "msg": f"{node} serves; no bundle was written."}
        path = Path(arguments["folder"]) / f"{incident.name}.tar.gz"
        result.update(changed=True, path=str(path), msg=f"{path}: {incident.index['next']}")
        if not self._task.check_mode:
            result["size_bytes"] = _written(path, incident, at)
        return result

    def _answer(self, arguments: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """What the node says; where it cannot be reached or read, that is what the incident is about."""
        asked = {
            "details": True,
            "config_root": arguments["config_root"],
            "instances": [arguments["instance"]] if arguments["instance"] else None,
            "invocation_id": arguments["invocation_id"],
            "journal_lines": arguments["journal_lines"],
            "journal_bytes": arguments["journal_bytes"],
            "conceal": json.dumps(arguments["failure"], default=str) if arguments["failure"] else None,
        }
        module_args = {name: value for name, value in asked.items() if value is not None}
        try:
            answer: dict[str, Any] = self._execute_module(
                module_name=MODULE, module_args=module_args, task_vars=variables
            )
        except AnsibleConnectionFailure as error:
            return {"unreachable": True, "msg": str(error)}
        return answer


def _said(failure: dict[str, Any] | None, answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the task returned, without the secrets that only the node knows; where it cannot be asked, the reason alone,
    as lines of a log may hold any of them."""
    if not failure:
        return None
    concealed = answer.get("concealed")
    if isinstance(concealed, dict):
        return concealed
    first = str(failure.get("msg") or "").strip().split("\n", 1)[0]
    told = failure.get("failure")
    names = ("code", "message", "remedy")
    return {"msg": first, **({"failure": {name: told.get(name) for name in names}} if isinstance(told, dict) else {})}


def _addresses(variables: Mapping[str, Any]) -> dict[str, str | None]:
    """The nodes of the play, since they may be named in what others say."""
    hostvars = variables.get("hostvars") or {}
    found: dict[str, str | None] = {}
    for name in variables.get("ansible_play_hosts_all") or ():
        try:
            address = hostvars[name].get("ansible_host")
        except (KeyError, AttributeError):
            address = None
        found[str(name)] = None if address is None else str(address)
    return found


def _written(path: Path, incident: Incident, at: float) -> int:
    """Complete or not at all, and for its owner's eyes."""
    packed = archive(incident, at)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{incident.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
        Path(made).replace(path)
    except OSError:
        Path(made).unlink(missing_ok=True)
        raise
    return len(packed)
