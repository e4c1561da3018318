# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.beside import claim, without_claims

PLAN: dict[str, Any] = {
    "host": {
        "bytes_total": 100,
        "numa_binding": "strict",
        "numa": [{"node": 0, "pinned_bytes": 75}, {"node": 1, "pinned_bytes": 25}],
    },
    "placement": [{"gpu": 0, "numa_node": 0}, {"gpu": None, "numa_node": 1}],
    "unit": {"ports": {"http": {"first": 1, "last": 1, "address": "::"}}},
}
TOPOLOGY: dict[str, Any] = {
    "host": {"memory_available_bytes": 500, "cgroup_available_bytes": None},
    "numa_nodes": [{"id": 0, "memory_available_bytes": 60}, {"id": 1, "memory_available_bytes": None}],
}


def test_what_is_held_is_no_claim() -> None:
    taken = claim(PLAN, 60)
    assert taken["host_bytes"] == 40
    assert taken["node_bytes"] == {"0": 30, "1": 10}
    assert taken["gpus"] == [0]
    assert claim(PLAN, 200)["host_bytes"] == 0


def test_ranks_that_are_not_bound_claim_no_node() -> None:
    assert claim({**PLAN, "host": {**PLAN["host"], "numa_binding": "none"}}, 0)["node_bytes"] == {}


def test_claims_are_taken_off_what_is_available() -> None:
    left = without_claims(TOPOLOGY, [claim(PLAN, 0), {"host_bytes": 1}])
    assert left["host"]["memory_available_bytes"] == 399
    assert left["host"]["cgroup_available_bytes"] is None
    assert left["numa_nodes"] == [
        {"id": 0, "memory_available_bytes": 0},
        {"id": 1, "memory_available_bytes": None},
    ]
    assert TOPOLOGY["host"]["memory_available_bytes"] == 500


def test_without_claims_nothing_changes() -> None:
    assert without_claims(TOPOLOGY, []) == TOPOLOGY
