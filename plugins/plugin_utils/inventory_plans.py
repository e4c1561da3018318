# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of all hosts of an inventory whose machine and model are known, without a task for each.

The arguments of a plan are those of the role's own task (roles/sglang/tasks/plan_memory.yml), so that a check never
plans anything else than the play will.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import refusal_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.arrange import Wish, arrange_ports, seated
from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.beside import claim
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.instances_of_host import (
    OF_THE_NODE,
    ROLE,
    Asked,
    asked_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host, Role
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_of import plan_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper

_TASK = "gpufleet.sglang.memory_plan"
# Of a survey: more memory of a GPU than a driver and an idle desktop take is a server's.
_IN_USE_BYTES = 1 << 30
# What of a host's variables makes no other plan.
_ITS_OWN = frozenset({"sglang_served_model_name", "sglang_host"})


class Plans:
    """Plans what is alike once."""

    def __init__(self, loader: DataLoader, collection: Path, role: Role) -> None:
        folder = collection / "roles" / ROLE
        self._loader, self._role = loader, role
        self._variables = {"role_path": str(folder), **self._read(folder / "defaults/main.yml")}
        self._internal: dict[str, Any] = {}
        for path in sorted((folder / "vars/main").glob("*.yml")):
            self._internal.update(self._read(path))
        [task] = [task for task in self._read(folder / "tasks/plan_memory.yml") if _TASK in task]
        self._arguments = task[_TASK]
        self._internal.update(task.get("vars") or {})
        self._known: dict[str, list[Finding]] = {}

    def _read(self, path: Path) -> Any:
        # Not out of the loader's cache, which may have it without the trust.
        return self._loader.load_from_file(str(path), cache="none", trusted_as_template=True)

    def findings(self, host: Host) -> Iterator[Finding]:
        if not host.serves:
            return
        asked = {name: value for name, value in host.variables.items() if name not in _ITS_OWN}
        key = json.dumps(
            [{name: value for name, value in asked.items() if name.startswith(ROLE)}, host.topology, host.is_node],
            sort_keys=True,
            default=str,
        )
        if key not in self._known:
            self._known[key] = list(self._planned(host))
        for one in self._known[key]:
            yield finding(one.code, [host.name], one.variable, one.found, one.expected, one.remedy, one.severity)

    def _planned(self, host: Host) -> Iterator[Finding]:
        instances = asked_of(host, self._role)
        try:
            topology = self._topology(host, instances)
            missing = self._missing(host, instances, topology)
            if missing:
                yield _not_made(host, *missing)
                return
            ports, seats = _ports(instances), _seats(instances, topology)
        except Refusal as refusal:
            yield _refused(host, None, refusal.as_dict())
            return
        claims: dict[str, Any] = {}
        for one in instances:
            try:
                plan = self._plan(
                    host,
                    one,
                    {
                        "__sglang_probe": topology,
                        "__sglang_ports": ports,
                        "__sglang_seats": seats,
                        "__sglang_claims": claims,
                    },
                )
            except Refusal as refusal:
                yield _refused(host, one.name, refusal.as_dict())
                continue
            except AnsibleError as error:
                yield _refused(host, one.name, refusal_of({"msg": str(error)}))
                continue
            claims[one.name] = claim(plan, 0)
            yield from _doubts(host, one.name, plan)

    def _topology(self, host: Host, instances: Sequence[Asked]) -> Mapping[str, Any]:
        first = instances[0] if instances else None
        machine = first.mapping("paper_machine") if first else {}
        paper = first.mapping("paper_topology") if first else {}
        return paper or (machine_on_paper(machine) if machine else None) or host.topology or {}

    def _missing(self, host: Host, instances: Sequence[Asked], topology: Mapping[str, Any]) -> tuple[str, ...] | None:
        """What was found, what was expected, and what to do if not the usual; None where all is there."""
        if any(one.get("replica") for one in instances):
            return (
                "a node of a replica",
                "a server that one node holds, which is what is planned",
                "Nothing is to be done; how the ranks divide over the nodes was checked.",
            )
        if not topology:
            return "no machine on paper and no survey", "one of them"
        if any(not one.mapping("paper_model") for one in instances):
            return "no model on paper", "its facts, as gpufleet.sglang.model_info reads them from its folder"
        if any(one.get("version") is None for one in instances):
            return "no sglang_version", "a release", "Set sglang_version."
        if topology is host.topology and _in_use(topology):
            return (
                "a survey that was taken while servers held memory of the GPUs",
                "one of an idle host",
                "Survey the host while it serves nothing, or see what it is planned with there (gpufleet.sglang.plan).",
            )
        return None

    def _plan(self, host: Host, one: Asked, beside: Mapping[str, Any]) -> dict[str, Any]:
        variables = {
            **self._variables,
            **{name: value for name, value in host.variables.items() if name.startswith(f"{ROLE}_")},
            **self._internal,
            **beside,
            "__sglang_asked": self._asked(one),
            "inventory_hostname": host.name,
            "sglang_instance": one.name,
            # The same machine by another way, on which what other instances take is taken off.
            "__sglang_paper_topology": {},
        }
        arguments = self.arguments_of(variables)
        validated = ArgumentSpecValidator(deepcopy(ARGUMENT_SPEC)).validate(arguments)
        if validated.error_messages:
            raise Refusal("arguments_invalid", f"{'. '.join(validated.error_messages)}.", "Correct the values.")
        return plan_of(validated.validated_parameters)

    def _asked(self, one: Asked) -> dict[str, Any]:
        """What the role's own variable of this name is made of by a hundred templates (vars/main/options.yml): the
        option of the instance's entry, else that of the host, else the default. Ansible compiles each of them each
        time.
        """
        asked = {}
        for name, spec in self._role.options.items():
            if name not in OF_THE_NODE:
                key = name.removeprefix(f"{ROLE}_")
                value = one.get(key)
                asked[key] = boolean(value, strict=False) if isinstance(spec.get("default"), bool) else value
        return asked

    def arguments_of(self, variables: Mapping[str, Any]) -> Any:
        """What the role's task hands to memory_plan."""
        return Templar(loader=self._loader, variables=variables).template(self._arguments)


def _ports(instances: Sequence[Asked]) -> dict[str, int]:
    return arrange_ports(
        [
            Wish(
                one.name,
                str(one.get("version")),
                one.whole("port"),
                one.get("host"),
                one.whole("attention_data_parallel_size") or 1,
                one.mapping("extra_arguments"),
            )
            for one in instances
        ],
        [],
    )


def _seats(instances: Sequence[Asked], topology: Mapping[str, Any]) -> dict[str, list[int]]:
    """One instance seats itself, as the role has it."""
    on_gpus = [one for one in instances if one.get("device") != "cpu"]
    if len(on_gpus) < 2:
        return {}
    wishes = [
        Instance(
            one.name,
            (one.whole("tensor_parallel_size") or 1) * (one.whole("pipeline_parallel_size") or 1),
            tuple(one.gpus),
        )
        for one in on_gpus
    ]
    return seated(wishes, [], machine_facts(topology))


def _in_use(topology: Mapping[str, Any]) -> bool:
    return any((gpu.get("memory_used_bytes") or 0) > _IN_USE_BYTES for gpu in topology.get("gpus") or [])


def _not_made(host: Host, found: str, expected: str, remedy: str | None = None) -> Finding:
    return finding("plan_not_made", [host.name], None, found, expected, remedy)


def _refused(host: Host, instance: str | None, refusal: Mapping[str, Any]) -> Finding:
    where = f", in instance {instance}" if instance not in (None, "main") else ""
    return finding(
        "plan_impossible",
        [host.name],
        None,
        f"{refusal['code']}: {str(refusal['message']).rstrip('.')}{where}",
        "a plan that fits",
        str(refusal["remedy"]) or None,
    )


def _doubts(host: Host, instance: str, plan: Mapping[str, Any]) -> Iterator[Finding]:
    for warning in plan["warnings"]:
        if warning["severity"] != "info":
            yield finding(
                "plan_doubtful",
                [host.name],
                None,
                f"{warning['code']}, in instance {instance}: {warning['message']}",
                "a plan without warnings",
                warning["remedy"],
            )
