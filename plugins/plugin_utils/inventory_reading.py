# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An inventory and the collection's roles as the checks take them: out of the variables that Ansible has of each host,
and of the files of the roles. Nothing is connected to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.instances_of_host import ROLE
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import NODES, PAPER, Host, Role
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.replica.variables import OPTIONS

COLLECTION = Path(__file__).resolve().parents[2]
_PLAYED_IN = {ROLE: (NODES, PAPER)}
_NESTED = ("block", "rescue", "always")
_SET_FACT = ("ansible.builtin.set_fact", "set_fact")
_CONNECTION = ("ansible_host", "ansible_port")
# What Ansible adds to the variables of every host, and what it makes of the host's facts.
_MAGIC = frozenset({"environment", "group_names", "groups", "hostvars", "inventory_dir", "inventory_file", "vars"})
_MAGIC_PREFIXES = ("ansible_", "inventory_hostname", "playbook_dir", "role_", "omit", "play_")
TOPOLOGY = "probe_topology"


def roles_of(loader: DataLoader, collection: Path = COLLECTION) -> list[Role]:
    return [_role(loader, specs.parents[1]) for specs in sorted(collection.glob("roles/*/meta/argument_specs.yml"))]


def _role(loader: DataLoader, folder: Path) -> Role:
    points = loader.load_from_file(str(folder / "meta/argument_specs.yml"))["argument_specs"].values()
    options = {name: spec for point in points for name, spec in (point.get("options") or {}).items()}
    handed = {
        name
        for path in sorted((folder / "tasks").glob("*.yml"))
        for name in _handed_over(loader.load_from_file(str(path)) or [])
        if not name.startswith("__")
    }
    # What the role takes itself is as the role has it.
    further = set(OPTIONS) - set(options) if folder.name == ROLE else set()
    options.update({name: OPTIONS[name] for name in further})
    return Role(
        folder.name,
        options,
        frozenset(handed) - frozenset(options),
        _PLAYED_IN.get(folder.name, ()),
        # Where a role refuses unknown variables, it does so there.
        strict=(folder / "tasks/variables.yml").is_file(),
        not_played=frozenset(further),
    )


def _handed_over(tasks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The variables that tasks set for whatever comes after them."""
    for task in tasks:
        for module in _SET_FACT:
            yield from (name for name in task.get(module) or () if name != "cacheable")
        if isinstance(task.get("register"), str):
            yield task["register"]
        for key in _NESTED:
            yield from _handed_over(task.get(key) or [])


def hosts_of(
    names: Iterable[str],
    hostvars: Any,
    loader: DataLoader,
    prefixes: tuple[str, ...],
    topologies: Mapping[str, Mapping[str, Any]],
    everything: bool = False,
) -> Iterator[Host]:
    """C(hostvars) is Ansible's own. C(everything): the variables that are not the collection's as well."""
    for name in names:
        raw = hostvars.raw_get(name)
        templar = Templar(loader=loader, variables=raw)
        variables: dict[str, Any] = {}
        unresolved: dict[str, str] = {}
        for variable, value in raw.items():
            if not (variable.startswith(prefixes) or variable in _CONNECTION or (everything and _is_own(variable))):
                continue
            try:
                variables[variable] = templar.template(value)
            except AnsibleError as error:
                unresolved[variable] = one_line(str(error))
        facts = raw.get("ansible_facts") or {}
        yield Host(
            name,
            frozenset(raw.get("group_names") or ()),
            variables,
            unresolved,
            (*facts.get("all_ipv4_addresses", ()), *facts.get("all_ipv6_addresses", ())),
            interfaces_of(facts),
            variables.get(TOPOLOGY) or facts.get(TOPOLOGY) or topologies.get(name),
        )


def interfaces_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """The interface of each address, out of what ansible.builtin.setup gathers."""
    found = {}
    for name in facts.get("interfaces", ()):
        # As setup names its facts.
        told = facts.get(str(name).replace("-", "_").replace(":", "_"), {})
        for one in [told.get("ipv4") or {}, *(told.get("ipv4_secondaries") or []), *(told.get("ipv6") or [])]:
            if one.get("address"):
                found[str(one["address"])] = str(name)
    return found


def _is_own(variable: str) -> bool:
    return variable not in _MAGIC and not variable.startswith(_MAGIC_PREFIXES)
