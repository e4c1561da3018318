# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.playbook_variables import PLAYBOOKS
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.inventory_reading import (
    COLLECTION,
    hosts_of,
    interfaces_of,
    roles_of,
)


def read(folder: Path, inventory: dict[str, Any], everything: bool = False) -> dict[str, Host]:
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[str(path)])
    hostvars = HostVars(manager, VariableManager(loader=loader, inventory=manager), loader)
    found = hosts_of(list(manager.hosts), hostvars, loader, ("sglang_",), {"gpu-2": {"gpus": []}}, everything)
    return {host.name: host for host in found}


def test_each_role_with_all_that_it_knows_and_hands_over() -> None:
    """What a role refuses as unknown is told by its own variables; a check of the inventory has to say the same."""
    roles = {role.name: role for role in roles_of(DataLoader())}
    assert sorted(roles) == sorted(path.name for path in (COLLECTION / "roles").iterdir())
    for name, role in roles.items():
        texts = [path.read_text(encoding="utf-8") for path in (COLLECTION / "roles" / name / "vars").rglob("*.yml")]
        known = re.search(rf"^__{name}_known_variables: >-\n((?:  .*\n)+)", "".join(texts), re.MULTILINE)
        assert (known is not None) == role.strict
        if known:
            assert set(re.findall(rf"'({name}_\w+)'", known[1])) == role.handed_over
    assert roles["sglang"].options["sglang_version"]["required"]
    assert "sglang_rollback_reason" in roles["sglang"].options


@pytest.mark.parametrize("role", PLAYBOOKS, ids=lambda role: role.name)
def test_the_variables_of_playbooks_are_those_that_they_ask_for(role: Any) -> None:
    text = (COLLECTION / "playbooks" / f"{role.name}.yml").read_text(encoding="utf-8")
    # Not the ones that a playbook keeps for itself.
    asked = set(re.findall(rf"(?<!_)\b{role.prefix}\w+", text))
    assert asked == set(role.options)


def test_values_are_made_of_templates_and_what_cannot_be_made_says_why(tmp_path: Path) -> None:
    hosts = {
        "gpu-1": {
            "ansible_host": "10.0.0.{{ number }}",
            "number": 7,
            "sglang_port": "{{ 30000 + number }}",
            "sglang_environment": {"A": ["{{ number }}"]},
            "sglang_host": "{{ nothing_of_the_kind }}",
            "sglang_model_path": "{{ broken",
        },
        "gpu-2": {"sglang_port": 1},
    }
    found = read(tmp_path, {"sglang": {"hosts": hosts}})
    one = found["gpu-1"]
    assert one.groups == {"sglang"}
    assert one.variables == {"ansible_host": "10.0.0.7", "sglang_port": 30007, "sglang_environment": {"A": [7]}}
    assert "'nothing_of_the_kind' is undefined" in one.unresolved["sglang_host"]
    assert sorted(one.unresolved) == ["sglang_host", "sglang_model_path"]
    assert (one.topology, found["gpu-2"].topology) == (None, {"gpus": []})


def test_for_queries_the_user_s_own_variables_are_read_and_ansible_s_are_not(tmp_path: Path) -> None:
    found = read(tmp_path, {"sglang": {"hosts": {"gpu-1": {"rack": "a", "ansible_user": "root"}}}}, everything=True)
    assert found["gpu-1"].variables == {"rack": "a"}


def test_the_interface_of_each_address_by_the_facts_of_a_host() -> None:
    facts = {
        "interfaces": ["lo", "ib-0", "eth0"],
        "lo": {"ipv4": {"address": "127.0.0.1"}},
        "ib_0": {"ipv4": {"address": "10.0.0.1"}, "ipv6": [{"address": "fd00::1"}]},
        "eth0": {"active": True, "ipv4_secondaries": [{"address": "192.0.2.9"}]},
    }
    assert interfaces_of(facts) == {
        "127.0.0.1": "lo",
        "10.0.0.1": "ib-0",
        "fd00::1": "ib-0",
        "192.0.2.9": "eth0",
    }
