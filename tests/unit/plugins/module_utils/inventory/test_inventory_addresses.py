# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory import addresses
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import PAPER
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.inventory.inventories import (
    found,
    node,
    only,
)


def test_two_hosts_that_are_one_machine() -> None:
    pair = (node("gpu-1", ansible_host="10.0.0.1"), node("gpu-2", ansible_host="10.0.0.1"))
    one = only(*pair)
    assert (one.code, one.severity, one.hosts) == ("address_shared", "error", ("gpu-1", "gpu-2"))
    assert one.found == "10.0.0.1"
    # Written in two ways.
    assert only(node("a", ansible_host="fd00::1"), node("b", ansible_host="fd00:0:0::1")).found == "fd00::1"
    # Behind one address with ports of their own they are two.
    assert found(pair[0], node("gpu-2", ansible_host="10.0.0.1", ansible_port=2222)) == []


def test_a_machine_may_be_on_paper_as_well() -> None:
    there, paper = (node(name, ansible_host="10.0.0.1", group=group) for name, group in (("a", "sglang"), ("b", PAPER)))
    assert found(there, paper) == []
    assert only(paper, replace(paper, name="c")).severity == "warning"


def test_servers_of_two_hosts_with_one_address() -> None:
    one = only(node("gpu-1", sglang_host="10.0.0.7"), node("gpu-2", sglang_host="10.0.0.7"))
    assert (one.code, one.variable, one.hosts) == ("address_shared", "sglang_host", ("gpu-1", "gpu-2"))
    for everywhere in ("0.0.0.0", "::", "127.0.0.1", "::1"):
        assert found(node("gpu-1", sglang_host=everywhere), node("gpu-2", sglang_host=everywhere)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("ansible_host", "10.0.0.300"), ("ansible_host", "10.0.1"), ("ansible_host", "fd00:::1"), ("sglang_host", "node")],
)
def test_what_is_no_address(name: str, value: str) -> None:
    one = only(node(**dict[str, Any]({name: value})))
    assert (one.code, one.variable) == ("address_impossible", name)
    assert value in one.found


@pytest.mark.parametrize("name", ["gpu-1.example.org", "10-0-0-1.example.org", "fe80::1%eth0", "a"])
def test_names_of_hosts_are_no_addresses(name: str) -> None:
    assert found(node(ansible_host=name)) == []


@pytest.mark.parametrize(
    ("declared", "code", "expected"),
    [
        ("10.0.0.0/33", "subnet_impossible", "10.0.0.0/24"),
        ("10.0.0.1", "subnet_impossible", "such as"),
        ("10.0.0.7/24", "subnet_impossible", "10.0.0.0/24"),
        ("10.0.1.0/24", "subnet_without_host", "10.0.1.0/24"),
    ],
)
def test_subnets_that_do_not_hold(declared: str, code: str, expected: str) -> None:
    one = only(node(ansible_host="10.0.0.1", sglang_subnet=declared))
    assert (one.code, one.variable) == (code, "sglang_subnet")
    assert expected in one.expected


def test_the_address_of_a_host_in_a_subnet() -> None:
    host = replace(node(ansible_host="gpu-1", sglang_subnet="10.0.0.0/24"), addresses=("192.0.2.1", "10.0.0.9"))
    assert found(host) == []
    assert addresses.address_in("10.0.0.0/24", host) == "10.0.0.9"
    assert addresses.address_in("10.1.0.0/24", host) is None
    both = replace(host, addresses=("10.0.0.8", "10.0.0.9"))
    assert addresses.address_in("10.0.0.0/24", both) is None
    assert only(both).code == "subnet_ambiguous"
    assert only(replace(host, addresses=())).code == "subnet_unproven"


def test_without_netaddr_it_is_said_once_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "HAS_NETADDR", False)
    hosts: list[Any] = [node(f"gpu-{number}", ansible_host="10.0.0.300") for number in (1, 2)]
    one = only(*hosts)
    assert (one.code, one.severity, one.hosts) == ("python_library_missing", "error", ("gpu-1", "gpu-2"))
    assert "pip install netaddr" in one.remedy
