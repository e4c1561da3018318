# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters for instances as a play calls them; what they compute has tests of its own."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.beside_claims import beside_claims
from ansible_collections.gpufleet.sglang.plugins.filter.instance_claim import instance_claim
from ansible_collections.gpufleet.sglang.plugins.filter.instance_clashes import instance_clashes
from ansible_collections.gpufleet.sglang.plugins.filter.instance_gpus import instance_gpus
from ansible_collections.gpufleet.sglang.plugins.filter.instance_ports import instance_ports
from ansible_collections.gpufleet.sglang.plugins.filter.instance_problems import instance_problems
from ansible_collections.gpufleet.sglang.plugins.filter.unguarded import unguarded

TOPOLOGY = {
    "gpus": [{"index": index, "numa_node": index // 2} for index in range(4)],
    "numa_nodes": [{"id": node, "memory_available_bytes": 100 * 10**9} for node in range(2)],
    "host": {"memory_available_bytes": 200 * 10**9},
}
PORT = {"first": 30000, "last": 30000, "address": "127.0.0.1"}


def test_ports_are_chosen_around_what_is_kept() -> None:
    wishes: dict[str, dict[str, Any]] = {"a": {"sglang_version": "0.5.23"}, "b": {"sglang_version": "0.5.9"}}
    assert instance_ports(wishes) == {"a": 30000, "b": 30010}
    assert instance_ports(wishes, {"gone": {"gpus": [], "ports": {"http": PORT}}}) == {"a": 30010, "b": 30020}
    assert instance_ports(wishes, {"b": {"gpus": [], "ports": {"http": PORT}}}) == {"a": 30010, "b": 30000}


def test_gpus_are_chosen_or_the_reason_is_said() -> None:
    assert instance_gpus([{"name": "a", "ranks": 2}, {"name": "b", "ranks": 2}], TOPOLOGY) == {"a": [0, 1], "b": [2, 3]}
    with pytest.raises(AnsibleFilterError, match="4"):
        instance_gpus([{"name": "a", "ranks": 2}, {"name": "b", "ranks": 3}], TOPOLOGY)


def test_a_release_that_is_not_known_is_said() -> None:
    with pytest.raises(AnsibleFilterError, match="nine"):
        instance_ports({"a": {"sglang_version": "nine"}})
    with pytest.raises(AnsibleFilterError, match="nine"):
        unguarded(["admin_api_key"], "nine")


def test_claims_come_from_plans_and_go_into_the_next() -> None:
    plan = {
        "host": {"bytes_total": 50 * 10**9, "numa_binding": "none", "numa": []},
        "placement": [{"rank": 0, "gpu": 1, "numa_node": 0}],
        "unit": {"ports": {"http": PORT}},
    }
    taken = instance_claim(plan)
    assert beside_claims(TOPOLOGY, [taken])["host"]["memory_available_bytes"] == 150 * 10**9
    assert len(instance_clashes({"a": taken, "b": taken})) == 2
    assert instance_clashes({"a": taken}) == []


def test_a_misspelt_key_is_said() -> None:
    (said,) = instance_problems([{"instance": "a", "prot": 1}], {"sglang_port": {"type": "int"}})
    assert "the closest is port" in said
