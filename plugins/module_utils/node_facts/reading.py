# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that a report or an incident needs of one node, in one reading; nothing that leaves it holds a key.

Of a start that has been proven and runs, no log is read: its ledger has the figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.reserved import (
    ENDING,
    instance_of_unit,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import (
    KERNEL_MATCHES,
    invocation_matches,
    journalctl_command,
    parse_record,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.node_facts.log_slice import Slice, line_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.node_facts.unit_text import (
    UnitFile,
    settings_of,
    unit_file,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.secrets import (
    assignments,
    concealed,
    concealed_in,
    secret_values,
    shown_config,
    shown_unit,
    shown_value,
    variables_of_unit,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.look import look
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node

UNITS = "etc/systemd/system"
# Of a unit whose release no file tells only the unit and its ranks are of interest, and any release will do for them.
ANY_RELEASE = "0.5.23"
LAST_LINES = 40
# However long a log is.
READING_SECONDS = 30.0


def instance_names(node: Node, config_root: str) -> list[str]:
    """Every instance that has a unit or a reservation."""
    units = (instance_of_unit(name) for name in node.names(UNITS))
    reserved = (name[: -len(ENDING)] for name in node.names(config_root) if name.endswith(ENDING))
    return sorted({name for name in (*units, *reserved) if name})


@dataclass(frozen=True)
class Declared:
    """The files of an instance as they lie there, and C(hidden), which nothing that leaves the node may hold."""

    files: dict[str, str]
    told: UnitFile
    config: str
    variables: dict[str, str]
    hidden: list[str]


def declared(node: Node, name: str, config_root: str) -> Declared:
    unit = f"sglang-{name}.service"
    files = {f"{UNITS}/{unit}": node.text(f"{UNITS}/{unit}") or ""}
    folder = f"{UNITS}/{unit}.d"
    files.update({f"{folder}/{one}": node.text(f"{folder}/{one}") or "" for one in node.names(folder)})
    told = unit_file("\n".join(files.values()))
    config = node.text(told.config or f"{config_root}/{name}.yaml") or ""
    variables = variables_of_unit("\n".join(files.values()))
    for path in told.environment:
        variables.update(assignments(node.text(path) or ""))
    hidden = secret_values(variables, _keys(node, name, unit, config_root, told))
    return Declared(files, told, config, variables, hidden)


def without_secrets_of(node: Node, names: Iterable[str], params: Mapping[str, Any]) -> Any:
    """C(conceal) without what the instances of this node hide."""
    if params.get("conceal") is None:
        return None
    hidden = [value for name in names for value in declared(node, name, str(params["config_root"])).hidden]
    return concealed_in(json.loads(params["conceal"]), hidden)


def read_instance(node: Node, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """What is declared for an instance, what it did, and what it says."""
    unit = f"sglang-{name}.service"
    found_there = declared(node, name, str(params["config_root"]))
    files, told, config = found_there.files, found_there.told, found_there.config
    variables, hidden = found_there.variables, found_there.hidden
    state = told.state or f"/var/lib/sglang/{name}"
    found: dict[str, Any] = {
        "instance": name,
        "unit": unit,
        "sglang_version": told.release,
        "settings": settings_of(shown_config(config, hidden)),
        "look": None,
        "ledger": {},
        "ledger_in_force": False,
        "problems": [],
    }
    try:
        seen = _looked(node, unit, told, f"{state}/ledger.json", settings_of(config), params)
    except Refusal as refusal:
        found["problems"] = [{**refusal.as_dict(), "severity": "error"}]
    else:
        found.update({key: seen.pop(key) for key in ("ledger", "ledger_in_force", "problems")})
        found["look"] = seen
    found = concealed_in(found, hidden)
    if params["details"]:
        found["files"] = {f"/{path}": shown_unit(text, hidden) for path, text in files.items()}
        found["config"] = shown_config(config, hidden)
        found["environment"] = {key: concealed(shown_value(key, value), hidden) for key, value in variables.items()}
        start = params.get("invocation_id") or ((found["look"] or {}).get("unit") or {}).get("invocation_id")
        found["journal"] = _journal(node, start, params, hidden) if start else None
    return found


def _keys(node: Node, name: str, unit: str, config_root: str, told: UnitFile) -> list[str]:
    """What the files of keys hold, those that the running unit was handed included."""
    folders = (f"{config_root}/keys/{name}", f"/run/credentials/{unit}")
    paths = [f"{folder}/{one}" for folder in folders for one in node.names(folder)]
    paths += [path for _name, path in told.credentials]
    texts = (node.text(path) for path in paths)
    return [text.strip() for text in texts if text is not None]


def _looked(
    node: Node, unit: str, told: UnitFile, ledger: str, settings: Mapping[str, str], params: Mapping[str, Any]
) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "unit": unit,
        "sglang_version": told.release or ANY_RELEASE,
        "ledger_path": ledger,
        "known_ranks": [],
        "wait_seconds": 0,
        "max_lines": 0,
    }
    seen = look(node, asked)
    if (seen["ledger_in_force"] and not params["details"]) or told.release is None:
        return seen
    asked["max_lines"] = LAST_LINES
    if params.get("invocation_id"):
        asked["invocation_id"] = params["invocation_id"]
    runs = seen["unit"]["main_pid"] is not None and not seen["ledger_in_force"]
    if runs and settings.get("port", "").isdigit():
        address = settings.get("host", "127.0.0.1")
        own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
        asked["ready_url"] = f"http://{f'[{own}]' if ':' in own else own}:{settings['port']}"
    return look(node, asked)


def _journal(node: Node, start: str, params: Mapping[str, Any], hidden: list[str]) -> dict[str, Any]:
    """What the unit's processes and systemd said of one start, and the kernel meanwhile."""
    part = Slice(params["journal_lines"], params["journal_bytes"])
    child = node.stream(journalctl_command(invocation_matches(start)))
    deadline = node.clock() + READING_SECONDS
    began: float | None = None
    while not child.ended and node.clock() < deadline:
        for line in child.read(deadline - node.clock()):
            record = parse_record(line)
            if record is not None and record.transport != "driver":
                began = record.timestamp if began is None else began
                for text in concealed(line_of(record), hidden).split("\n"):
                    part.take(text)
    complete = child.ended
    code, errors = child.close()
    told: dict[str, Any] = {"invocation_id": start, **part.as_dict(complete)}
    told["error"] = concealed(errors.strip(), hidden) if code else None
    told["kernel"] = _kernel(node, began, hidden) if began is not None else []
    return told


def _kernel(node: Node, since: float, hidden: list[str]) -> list[str]:
    """The kernel's warnings and worse from the start on, which out-of-memory kills and errors of GPUs are among."""
    command = [*journalctl_command(KERNEL_MATCHES, since=since - 1.0), "--priority=warning", "--lines=200"]
    code, output, _errors = node.run(command)
    records = [parse_record(line) for line in output.splitlines()] if code == 0 else []
    return [concealed(line_of(record), hidden) for record in records if record is not None]
