# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two instances of a host, or an instance and another service, would both take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.inventory.inventories import (
    found,
    node,
    only,
)


def two(first: dict[str, Any], second: dict[str, Any], **said: Any) -> Any:
    return node(sglang_instances=[{"instance": "a", **first}, {"instance": "b", **second}], **said)


def test_instances_that_leave_each_other_alone() -> None:
    assert found(two({"port": 30000, "gpus": [0, 1]}, {"port": 30010, "gpus": [2, 3]})) == []
    assert found(two({"port": None}, {"port": None})) == []
    # Each binds an address of its own.
    assert found(two({"host": "127.0.0.2"}, {"host": "127.0.0.3"}, sglang_port=30000)) == []


def test_two_instances_with_one_port() -> None:
    one = only(two({"gpus": [0]}, {"gpus": [1]}))
    assert (one.code, one.variable) == ("host_port_twice", "sglang_port")
    assert one.found == "30000 for instance a (http) and for instance b (http)"


@pytest.mark.parametrize(
    ("first", "second", "port"),
    [
        # The ports of the processes under attention DP lie behind that for HTTP.
        ({"attention_data_parallel_size": 2}, {"port": 30234}, None),
        ({"extra_arguments": {"disaggregation-bootstrap-port": 30010}}, {"port": 30010}, 30010),
        ({"extra_arguments": {"nccl-port": 30010}}, {"port": 30010}, 30010),
        ({"extra_arguments": {"dist-init-addr": "10.0.0.1:30010"}}, {"port": 30010}, 30010),
    ],
)
def test_a_port_beside_the_one_for_http(first: dict[str, Any], second: dict[str, Any], port: int | None) -> None:
    one = only(two({"port": 30000, **first}, second))
    assert one.code == "host_port_twice"
    assert one.found.startswith(f"{port or 30234} for instance a (")


def test_the_meeting_point_of_a_replica_is_bound_by_its_first_node_alone() -> None:
    later = {"extra_arguments": {"dist-init-addr": "10.0.0.1:30010", "node-rank": 1}}
    assert found(two({"port": 30000, **later}, {"port": 30010})) == []


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ({"sglang_port": 70000}, "host_port_impossible", "70000"),
        (
            {"sglang_extra_arguments": {"grpc-port": 30000}},
            "host_port_twice",
            "grpc_port takes 30000",
        ),
        (
            {"sglang_extra_arguments": {"dist-init-addr": "10.0.0.1:30000"}},
            "host_port_twice",
            "dist-init-addr names port 30000, which http takes",
        ),
        ({"sglang_extra_arguments": {"dist-init-addr": "10.0.0.1:99999"}}, "host_port_impossible", "99999"),
        ({"sglang_version": "banana"}, "variable_choice", "banana"),
    ],
)
def test_ports_that_one_instance_cannot_have(said: dict[str, Any], code: str, words: str) -> None:
    one = only(node(**said))
    assert one.code == code
    assert words in one.found
    assert one.remedy


def test_one_gpu_for_two_ranks() -> None:
    one = only(two({"gpus": [0, 1], "port": 30000}, {"gpus": [1, 2], "port": 30010}))
    assert (one.code, one.found) == ("instance_gpu_twice", "GPU 1 in the instances a and b")
    one = only(node(sglang_gpus=[0, 3, 3]))
    assert (one.code, one.found) == ("instance_gpu_twice", "GPU 3 twice in instance main")


def test_entries_that_cannot_be_meant() -> None:
    told = found(node(sglang_instances=[{"instance": "a", "prt": 1}, {"instance": "a", "port": 30010}]))
    wrong = [one for one in told if one.code == "list_of_instances_wrong"]
    assert len(wrong) == 2
    assert "prt" in wrong[0].found
    assert "closest is port" in wrong[0].expected


def test_another_service_of_the_host() -> None:
    host = node(router_port=30000)
    one = only(host)
    assert (one.code, one.found) == ("host_port_twice", "30000 for router_port and for instance main (http)")
    # A variable of a group of routers is none of the nodes that are no routers.
    router = replace(node("router-1"), groups=frozenset({"all", "router"}))
    assert found(host, router) == []
    both = replace(host, groups=frozenset({"all", "router", "sglang"}))
    assert only(both, router).hosts == ("gpu-1",)
