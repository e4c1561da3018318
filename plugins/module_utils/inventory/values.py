# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of variables against the roles' argument specifications, as Ansible itself checks them. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import AnsibleValidationError, ArgumentValueError

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host, Role

# What the validator is to look at; whether a role may do without it is asked elsewhere, as it depends on the host.
_LOOKED_AT = ("type", "elements", "choices", "options", "no_log")
# Values that may hold secrets, whatever their specification says.
_PRIVATE = ("sglang_environment", "sglang_extra_arguments", "sglang_index_credentials")
_UNDEFINED = re.compile(r"'([A-Za-z_]\w*)' is undefined")
_SHOWN = 80


def is_secret(name: str, spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("no_log")) or name in _PRIVATE or any(is_secret("", one) for one in _below(spec))


def _below(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((spec.get("options") or {}).values())


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


class Values:
    """Judges each value once, however many hosts have it: the values of a group are those of all its hosts."""

    def __init__(self, roles: Sequence[Role]) -> None:
        self._roles = roles
        self._specs = {name: spec for role in roles for name, spec in role.options.items()}
        self._judged: dict[tuple[str, str], list[tuple[str, str, str]]] = {}

    def findings(self, host: Host) -> Iterator[Finding]:
        for name, spec in self._specs.items():
            if name in host.variables:
                for code, found, expected in self._judge(name, spec, host.variables[name]):
                    yield finding(code, [host.name], name, found, expected)

    def _judge(self, name: str, spec: Mapping[str, Any], value: Any) -> list[tuple[str, str, str]]:
        key = (name, json.dumps(value, sort_keys=True, default=str))
        if key not in self._judged:
            self._judged[key] = list(_wrong(name, spec, value))
        return self._judged[key]

    def unresolved(self, host: Host) -> Iterator[Finding]:
        """What could not be made of templates: later, or never."""
        for name, why in sorted(host.unresolved.items()):
            missing = _UNDEFINED.search(why)
            role = missing and next((role for role in self._roles if missing[1] in role.handed_over), None)
            if missing and role:
                yield finding(
                    "variable_set_later",
                    [host.name],
                    name,
                    f"{missing[1]}, which the role {role.name} hands over",
                    "a value that is known only then",
                )
            else:
                yield finding(
                    "variable_undefined",
                    [host.name],
                    name,
                    f"{missing[1]}, which nothing sets" if missing else why,
                    "a value that the inventory gives",
                )


def _wrong(name: str, spec: Mapping[str, Any], value: Any) -> Iterator[tuple[str, str, str]]:
    # With null the default decides, for roles as for modules.
    if value is None and not spec.get("choices"):
        return
    result = ArgumentSpecValidator({name: _looked_at(spec)}).validate({name: value})
    for error in result.errors:
        code = "variable_choice" if isinstance(error, ArgumentValueError) else "variable_type"
        if is_secret(name, spec):
            yield code, "a value that is not shown here", _wanted(spec)
        else:
            yield code, f"{shown(value)}{_detail(error, spec)}", _wanted(spec)


def _looked_at(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: spec[key] for key in _LOOKED_AT if key in spec}
    if "options" in kept:
        # What an entry has to say does not depend on the host.
        kept["options"] = {
            key: {**_looked_at(one), "required": bool(one.get("required"))} for key, one in kept["options"].items()
        }
    return kept


def _detail(error: AnsibleValidationError, spec: Mapping[str, Any]) -> str:
    """What the validator says, where the value alone does not tell it: which part of a mapping is meant."""
    return f": {error.msg}" if spec.get("options") or spec.get("elements") else ""


def _wanted(spec: Mapping[str, Any]) -> str:
    if spec.get("choices"):
        return f"one of {', '.join(str(choice) for choice in spec['choices'])}"
    kind = spec.get("type", "str")
    if kind == "list" and spec.get("elements"):
        return f"list of {spec['elements']}"
    if spec.get("options"):
        return f"{kind} of {', '.join(spec['options'])}"
    return str(kind)
