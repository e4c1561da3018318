# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import PAPER, Host, Removal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.inventory.inventories import (
    found,
    node,
    only,
)


def test_nothing_is_wrong_with_what_is_right_and_foreign_variables_are_nobody_s_business() -> None:
    assert found(node(sglang_plan={}, my_sglang_thing=1, site_driver=False, ansible_user="root")) == []


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("sglang_hicache_rato", "sglang_hicache_ratio"),
        ("site_drivr", "site_driver"),
        ("validate_querys", "validate_queries"),
        ("sglang_zzz", None),
    ],
)
def test_an_unknown_variable_has_the_closest_one_beside_it_and_not_its_value(name: str, close: str | None) -> None:
    one = only(node(**dict[str, Any]({name: "hunter2"})))
    assert (one.code, one.severity, one.hosts, one.variable) == ("variable_unknown", "error", ("gpu-1",), name)
    assert one.found == name
    assert (f"the closest is {close}" in one.expected) == (close is not None)
    assert "hunter2" not in str(one)


def test_of_a_role_that_refuses_nothing_it_is_a_warning() -> None:
    assert only(node(probe_shw=True)).severity == "warning"


@pytest.mark.parametrize("replaced_by", ["sglang_hicache_ratio", None])
def test_a_removed_variable_is_told_with_what_replaces_it(replaced_by: str | None) -> None:
    removed = {"sglang_ratio": Removal(replaced_by, "0.2.0", "It counts tokens now.")}
    one = only(node(sglang_ratio=2), removed=removed)
    assert (one.code, one.variable) == ("variable_removed", "sglang_ratio")
    assert "since 0.2.0" in one.found
    assert (replaced_by or "Take it away") in one.remedy
    assert one.remedy.endswith("It counts tokens now.")


def test_a_variable_that_no_role_has_any_more_is_told_though_its_prefix_is_none() -> None:
    removed = {"hicache_ratio": Removal("sglang_hicache_ratio", "0.2.0")}
    assert only(node(hicache_ratio=2), removed=removed).code == "variable_removed"


@pytest.mark.parametrize("missing", ["sglang_version", "sglang_model_path"])
def test_what_a_node_cannot_do_without(missing: str) -> None:
    host = node()
    lacking = Host(host.name, host.groups, {k: v for k, v in host.variables.items() if k != missing})
    assert [(one.code, one.variable) for one in found(lacking)] == [("variable_missing", missing)]
    entries = [{"instance": "a", missing.removeprefix("sglang_"): "x", "port": None}]
    said_by_each = Host(host.name, host.groups, {**lacking.variables, "sglang_instances": entries})
    assert [one for one in found(said_by_each) if one.code == "variable_missing"] == []
    later = Host(host.name, host.groups, lacking.variables, {missing: "'model_store_paths' is undefined"})
    assert [one.code for one in found(later)] == ["variable_set_later"]


def test_a_host_on_paper_needs_no_folder_and_a_node_no_paper() -> None:
    machine: dict[str, Any] = {"sglang_paper_machine": {"board": "NVIDIA H200", "count": 8}}
    assert found(node(group=PAPER, **{**machine, "sglang_model_path": None})) == []
    one = only(node(**machine))
    assert (one.code, one.variable) == ("variable_of_paper", "sglang_paper_machine")


def test_a_host_of_another_group_needs_nothing() -> None:
    assert found(Host("router-1", frozenset({"all", "router"}), {"ansible_host": "192.0.2.1"})) == []


def test_an_inventory_without_hosts_is_no_inventory_without_faults() -> None:
    assert only().code == "inventory_empty"


def test_what_cannot_be_known_yet_and_what_nothing_sets() -> None:
    host = node(
        unresolved={
            "sglang_host": "Error while resolving value: 'model_store_paths' is undefined",
            "sglang_port": "'my_prot' is undefined",
            "sglang_subnet": "A lookup failed.",
        }
    )
    told = {one.variable: (one.code, one.severity, one.found) for one in found(host)}
    assert told["sglang_host"][:2] == ("variable_set_later", "info")
    assert told["sglang_port"] == ("variable_undefined", "warning", "my_prot, which nothing sets")
    assert told["sglang_subnet"][2] == "A lookup failed"
