# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import gathered
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.inventory.inventories import (
    found,
    node,
    only,
)


@pytest.mark.parametrize(
    ("name", "value", "code", "shown", "expected"),
    [
        ("sglang_port", "30000a", "variable_type", '"30000a"', "int"),
        ("sglang_device", "rocm", "variable_choice", '"rocm"', "one of cuda, cpu"),
        ("sglang_device", None, "variable_choice", "null", "one of cuda, cpu"),
        ("sglang_gpus", [0, "x"], "variable_type", '[0, "x"]', "list of int"),
        ("sglang_hicache_storage", {"backend": "nfs"}, "variable_choice", "value of backend", "dict of backend"),
        ("sglang_hicache_storage", {"max_byte": 1}, "variable_type", "max_byte", "max_bytes"),
        ("site_driver", "maybe", "variable_type", '"maybe"', "bool"),
        ("validate_queries", [{"name": "x"}], "variable_type", "missing required arguments: query", "list of dict"),
    ],
)
def test_a_value_that_no_role_takes(name: str, value: Any, code: str, shown: str, expected: str) -> None:
    one = only(node(**dict[str, Any]({name: value})))
    assert (one.code, one.severity, one.variable) == (code, "error", name)
    assert shown in one.found
    assert expected in one.expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("sglang_port", "30000"), ("sglang_port", None), ("sglang_hicache_ratio", 2), ("sglang_gpus", "0,1")],
)
def test_what_ansible_would_convert_is_right(name: str, value: Any) -> None:
    assert found(node(**dict[str, Any]({name: value}))) == []


def test_a_value_that_may_be_a_key_is_not_shown() -> None:
    for name, value in (("sglang_api_key", "hunter2"), ("sglang_extra_arguments", "hunter2")):
        one = only(node(**dict[str, Any]({name: value})))
        assert one.variable == name
        assert "hunter2" not in str(one)


def test_one_fault_of_many_hosts_is_one_finding() -> None:
    hosts = [node(f"gpu-{number}", sglang_device="rocm") for number in range(1, 1001)]
    [one] = gathered(found(*hosts))
    assert len(one.hosts) == 1000
    assert one.hosts[0] == "gpu-1"


def test_all_faults_of_a_host_are_found() -> None:
    host = node(sglang_device="rocm", sglang_port="x", sglang_hicache_rato=1, site_driver="maybe")
    assert {one.variable for one in found(host)} == {
        "sglang_device",
        "sglang_port",
        "sglang_hicache_rato",
        "site_driver",
    }
