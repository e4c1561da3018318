# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replicas out of the variables of hosts. What members have to agree on is tested where it is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory import addresses, replicas
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.inventory.inventories import (
    ROLES,
    SGLANG,
    found,
    node,
    only,
)


def member(number: int = 1, **said: Any) -> Host:
    shared = {"sglang_replica": "kimi", "sglang_subnet": "10.0.0.0/24", "sglang_tensor_parallel_size": 16}
    return node(f"gpu-{number}", ansible_host=f"10.0.0.{number}", **{**shared, **said})


def test_a_replica_of_two_nodes() -> None:
    assert found(member(1), member(2)) == []


@pytest.mark.parametrize(
    ("second", "code", "hosts"),
    [
        ({"sglang_version": "0.5.22"}, "replica_differs", ("gpu-1", "gpu-2")),
        ({"sglang_served_model_name": "x"}, "replica_differs", ("gpu-1", "gpu-2")),
        ({"sglang_gpus": [0, 1]}, "replica_indivisible", ("gpu-2",)),
        ({"sglang_subnet": None}, "replica_without_address", ("gpu-2",)),
        ({"sglang_subnet": "10.1.0.0/24"}, "subnet_without_host", ("gpu-2",)),
    ],
)
def test_what_keeps_hosts_from_being_one(second: dict[str, Any], code: str, hosts: tuple[str, ...]) -> None:
    other = member(2, **second)
    if second.get("sglang_subnet", "") is None:
        other = replace(other, variables={k: v for k, v in other.variables.items() if k != "sglang_subnet"})
    one = only(member(1), other)
    assert (one.code, one.hosts) == (code, hosts)


def test_three_nodes_cannot_share_sixteen_ranks_and_one_host_twice_is_no_two() -> None:
    one = only(member(1), member(2), member(3))
    assert (one.code, one.hosts) == ("replica_indivisible", ("gpu-1", "gpu-2", "gpu-3"))
    twice = member(1, sglang_instances=[{"instance": "a", "port": None}, {"instance": "b", "port": None}])
    assert {one.code for one in found(twice)} == {"replica_member_twice"}


def test_the_ports_of_replicas_and_of_prefill_are_taken() -> None:
    one = only(member(1, sglang_port=20000), member(2))
    assert (one.code, one.hosts) == ("host_port_twice", ("gpu-1",))
    prefill: dict[str, Any] = {"sglang_disaggregation_mode": "prefill", "sglang_disaggregation_bootstrap_port": 30000}
    assert {one.code for one in found(node(**prefill))} == {"host_port_twice", "disaggregation_alone"}


def test_prefill_and_decode() -> None:
    pair = [
        node(name, sglang_served_model_name="kimi", sglang_disaggregation_mode=mode)
        for name, mode in (("gpu-1", "prefill"), ("gpu-2", "decode"))
    ]
    assert found(*pair) == []
    one = only(pair[0])
    assert (one.code, one.severity) == ("disaggregation_alone", "warning")
    smoke = replace(pair[0], variables={**pair[0].variables, "sglang_disaggregation_transfer_backend": "smoke"})
    assert {one.code for one in found(smoke, pair[1])} == {"disaggregation_impossible"}


def test_what_the_role_does_not_take_yet_is_said_of_nodes_and_not_of_paper() -> None:
    checked = [replace(SGLANG, not_played=frozenset({"sglang_replica"})), *ROLES[1:]]
    told = found(member(1), member(2), roles=checked)
    assert [(one.code, one.variable) for one in told] == [("variable_not_played", "sglang_replica")] * 2
    assert found(member(1, group="sglang_paper"), member(2, group="sglang_paper"), roles=checked) == []


def test_without_netaddr_members_have_no_addresses_and_only_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (addresses, replicas):
        monkeypatch.setattr(module, "HAS_NETADDR", False)
    assert only(member(1), member(2)).code == "python_library_missing"
