# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    GIB,
    TINY,
    founding,
    planned,
    rehearsal,
)


def refusal_of(arguments: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        planned(arguments)
    return refusal.value


def codes(plan: dict[str, Any]) -> list[str]:
    """Without what is said of the release itself, whatever the plan."""
    return [item["code"] for item in plan["warnings"] if item["code"] != "hicache_registration_unchecked"]


class TestFoundingCase:
    """The numbers of the record, exactly."""

    def test_device(self) -> None:
        device = planned(founding())["device"]
        assert device["bytes_per_token"] == 70_272
        assert device["max_total_num_tokens"] == 159_277
        assert device["kv_pool_bytes"] == 11_192_713_344
        assert format_gib(device["kv_pool_bytes"]) == "10.42 GiB"
        assert format_gib(device["reserved_bytes"]) == "11.47 GiB"

    def test_host(self) -> None:
        host = planned(founding())["host"]
        assert host["ranks"] == 8
        assert host["tokens"] == 4 * 159_277 + 1
        assert format_gb(host["bytes_per_rank"]) == "44.77 GB"
        assert format_gb(host["bytes_total"]) == "358.17 GB"
        assert format_gb(host["unique_bytes"]) == "44.77 GB"
        assert host["duplication_factor"] == 8.0
        assert format_gb(host["required_available_bytes"], 1) == "368.9 GB"
        assert format_gb(host["left_bytes"], 0) == "38 GB"
        assert host["meter"] == "anon"

    def test_guard_of_its_release_asks_for_one_rank(self) -> None:
        guard = planned(founding())["host"]["guard"]
        assert (guard["variant"], guard["verdict"]) == ("A", "passes")
        assert format_gb(guard["required_bytes"], 1) == "55.5 GB"

    def test_numa_nodes_share_evenly_under_a_named_assumption(self) -> None:
        plan = planned(founding())
        assert [node["pinned_bytes"] for node in plan["host"]["numa"]] == [plan["host"]["bytes_total"] // 2] * 2
        assert [node["available_bytes"] for node in plan["host"]["numa"]] == [198 * 10**9] * 2
        assert any("2 NUMA nodes have equal memory" in text for text in plan["assumptions"])

    def test_idle_bytes_would_need_a_smaller_ratio(self) -> None:
        raised = planned(founding())["device"]["raise"]
        assert raised["mem_fraction_static"] == 0.927
        assert raised["largest_ratio"] == 3.0

    def test_unit_counts_sigkill_as_success(self) -> None:
        assert planned(founding())["unit"]["success_exit_status"] == ["SIGKILL"]
        assert planned(rehearsal())["unit"]["success_exit_status"] == []

    def test_arguments_keep_the_given_fraction(self) -> None:
        arguments = planned(founding())["arguments"]
        assert arguments["mem-fraction-static"] == 0.88
        assert arguments["hicache-ratio"] == 4.0

    def test_assumptions_of_the_inventory_come_first(self) -> None:
        arguments = founding()
        arguments["topology"]["assumptions"] = ["Said in the inventory."]
        assert planned(arguments)["assumptions"][0] == "Said in the inventory."

    def test_assumptions_of_measurements_follow_them(self) -> None:
        arguments = founding()
        arguments["topology"]["assumptions"] = ["Said in the inventory."]
        arguments["observed"] = {**arguments["observed"], "assumptions": ["Said of a figure."]}
        assert planned(arguments)["assumptions"][:2] == ["Said in the inventory.", "Said of a figure."]


def test_plan_is_json_and_the_same_twice() -> None:
    one, two = planned(founding()), planned(founding())
    assert json.dumps(one, allow_nan=False) == json.dumps(two, allow_nan=False)


def test_pool_that_does_not_fit_is_refused_with_the_largest_that_does() -> None:
    refusal = refusal_of(founding(hicache={"ratio": 8.0}))
    assert refusal.code == "host_memory_short"
    assert refusal.evidence["largest_ratio"] == 4.3
    assert "hicache.ratio to 4.3 or less" in refusal.remedy
    assert planned(founding(hicache={"ratio": 4.3}))["host"]["largest_ratio"] == 4.3
    assert refusal_of(founding(hicache={"ratio": 4.31})).code == "host_memory_short"


def test_size_that_does_not_fit_is_refused_with_the_largest_that_does() -> None:
    refusal = refusal_of(founding(hicache={"ratio": None, "size_gb": 49}))
    assert refusal.code == "host_memory_short"
    assert refusal.evidence["largest_size_gb"] == 48
    assert planned(founding(hicache={"ratio": None, "size_gb": 48}))["arguments"]["hicache-size"] == 48


@pytest.mark.parametrize("release", ["0.5.19", "0.5.20", "0.5.23"])
def test_guard_that_counts_peers_twice_is_refused_in_its_worst_order(release: str) -> None:
    refusal = refusal_of(founding(sglang_version=release))
    assert refusal.code == "guard_refuses"
    assert refusal.evidence["largest_ratio"] == 2.29
    host = planned(founding(sglang_version=release, hicache={"ratio": 2.29}))["host"]
    assert host["guard"]["verdict"] == "passes"
    # What the founding ratio would need there.
    enough = founding(sglang_version=release)
    enough["topology"]["host"]["memory_available_bytes"] = 683 * 10**9
    guard = planned(enough)["host"]["guard"]
    assert format_gb(guard["required_bytes"], 1) == "682.3 GB"


def test_auto_sizing_passes_its_own_guard_and_names_the_ratio() -> None:
    plan = planned(founding(sglang_version="0.5.23", hicache={"ratio": None}))
    assert plan["host"]["sizing"] == "fraction"
    assert plan["host"]["ratio"] == 2.0
    assert plan["host"]["guard"]["verdict"] == "passes"
    assert plan["arguments"]["hicache-host-memory-fraction"] == 0.8
    assert "hicache-ratio" not in plan["arguments"]


def test_auto_sizing_shrinks_below_the_default_ratio() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": None})
    arguments["topology"]["host"]["memory_available_bytes"] = 100 * 10**9
    host = planned(arguments)["host"]
    budget = (100 * 10**9 - 10 * GIB) // 8 * 0.8
    # What is mirrored is what is allocated: a page more than the tokens.
    assert host["ratio"] == pytest.approx(budget * 0.95 / (11_192_713_344 + 70_272), rel=1e-12)
    assert host["guard"]["verdict"] == "passes"


def test_strictly_bound_node_that_is_short_is_refused() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    arguments["topology"]["numa_nodes"] = [
        {"id": 0, "memory_available_bytes": 60 * 10**9},
        {"id": 1, "memory_available_bytes": 336 * 10**9},
    ]
    refusal = refusal_of(arguments)
    assert refusal.code == "numa_node_short"
    assert "NUMA node 0" in refusal.message
    # (60 GB - half the reserve) over four ranks
    largest = refusal.evidence["largest_ratio"]
    assert largest == int((60e9 - 5 * GIB) / 4 / 11_192_713_344 * 100) / 100
    arguments["hicache"]["ratio"] = largest
    assert planned(arguments)["host"]["guard"]["verdict"] == "passes"


def test_node_that_is_short_is_only_warned_of_where_binding_is_soft() -> None:
    arguments = founding()
    arguments["topology"]["numa_nodes"] = [
        {"id": 0, "memory_available_bytes": 60 * 10**9},
        {"id": 1, "memory_available_bytes": 336 * 10**9},
    ]
    assert codes(planned(arguments)) == ["numa_node_overflows"]


def test_unknown_affinity_is_warned_of() -> None:
    arguments = founding()
    for gpu in arguments["topology"]["gpus"]:
        gpu["numa_node"] = None
    plan = planned(arguments)
    assert plan["host"]["numa"] == []
    assert codes(plan) == ["numa_affinity_unknown"]


def test_oversubscription_keeps_the_verdict_and_says_so() -> None:
    plan = planned(founding(hicache={"ratio": 8.0}, allow_oversubscription=True))
    assert plan["host"]["left_bytes"] < 0
    # Each rank alone would pass the release's check, and the last ones would not get their memory.
    assert plan["host"]["guard"]["verdict"] == "depends_on_arrival_order"
    assert codes(plan) == ["guard_blind", "oversubscribed"]


def test_what_a_running_instance_holds_is_its_own() -> None:
    arguments = founding()
    arguments["topology"]["host"]["memory_available_bytes"] = 396 * 10**9 - 358 * 10**9
    assert refusal_of(arguments).code == "host_memory_short"
    arguments["observed"]["own_pinned_bytes"] = 358 * 10**9
    plan = planned(arguments)
    assert plan["host"]["left_bytes"] == 396 * 10**9 - plan["host"]["bytes_total"]
    assert [node["available_bytes"] for node in plan["host"]["numa"]] == [198 * 10**9] * 2


def test_cgroup_limit_bounds_what_is_available() -> None:
    arguments = founding()
    arguments["topology"]["host"]["cgroup_limit_bytes"] = 300 * 10**9
    assert refusal_of(arguments).evidence["available_bytes"] == 300 * 10**9


def test_pool_below_the_device_is_refused_where_the_release_asserts() -> None:
    refusal = refusal_of(founding(hicache={"ratio": 0.5}))
    assert refusal.code == "host_pool_below_device"
    assert "159,277" in refusal.message
    assert planned(founding(sglang_version="0.5.23", hicache={"ratio": 0.5}))["host"]["tokens"] == 79_639


def test_unknown_host_memory_is_not_judged() -> None:
    arguments = founding()
    arguments["topology"]["host"] = {}
    plan = planned(arguments)
    assert plan["host"]["left_bytes"] is None
    assert plan["host"]["guard"]["verdict"] == "unknown"
    assert codes(plan) == ["host_memory_unknown"]


@pytest.mark.parametrize(
    ("server", "code"),
    [
        ({"tensor_parallel_size": 9}, "gpus_too_few"),
        ({"tensor_parallel_size": 3}, "tensor_parallel_uneven"),
        ({"gpus": [0, 1, 2, 3, 4, 5, 6, 6]}, "gpu_count_mismatch"),
        ({"gpus": [0, 1]}, "gpu_count_mismatch"),
        ({"gpus": [0, 1, 2, 3, 4, 5, 6, 8]}, "gpu_unknown"),
    ],
)
def test_ranks_that_cannot_be_placed_are_refused(server: dict[str, Any], code: str) -> None:
    assert refusal_of(founding(server=server)).code == code


def test_uneven_kv_heads_name_what_fits() -> None:
    refusal = refusal_of(rehearsal(server={"tensor_parallel_size": 3}))
    assert refusal.code == "tensor_parallel_uneven"
    assert refusal.evidence["fitting"] == [1, 2, 4]


def test_four_ranks_go_to_one_node_and_need_no_environment() -> None:
    plan = planned(founding(server={"tensor_parallel_size": 4}, hicache={"ratio": 2.0}))
    assert [(seat["gpu"], seat["numa_node"]) for seat in plan["placement"]] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert plan["unit"]["environment"] == {}


def test_named_gpus_keep_their_order_by_environment() -> None:
    plan = planned(founding(server={"tensor_parallel_size": 2, "gpus": [5, 2]}, hicache={"ratio": 2.0}))
    assert [(seat["rank"], seat["gpu"], seat["numa_node"]) for seat in plan["placement"]] == [(0, 5, 1), (1, 2, 0)]
    assert plan["unit"]["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "5,2"}


def test_ranks_prefer_a_node_that_has_room_for_all() -> None:
    arguments = founding(server={"tensor_parallel_size": 4}, hicache={"ratio": 2.0})
    for gpu in arguments["topology"]["gpus"]:
        gpu["numa_node"] = 0 if gpu["index"] < 2 else 1
    assert [seat["gpu"] for seat in planned(arguments)["placement"]] == [2, 3, 4, 5]


class TestOnCpu:
    def test_two_ranks_pin_what_the_server_was_seen_to_pin(self) -> None:
        plan = planned(rehearsal())
        host = plan["host"]
        assert host["tokens"] == 4 * 65_536 + 1
        assert host["bytes_per_rank"] == 262_145 * 2_048
        assert host["bytes_total"] == 2 * host["bytes_per_rank"]
        # Two KV heads over two ranks: nothing is held twice.
        assert host["duplication_factor"] == 1.0
        assert host["meter"] == "shmem"
        assert plan["placement"] == [
            {"rank": 0, "gpu": None, "numa_node": 0},
            {"rank": 1, "gpu": None, "numa_node": 0},
        ]
        assert plan["arguments"]["device"] == "cpu"
        assert codes(plan) == []

    def test_device_pools_are_host_memory_too(self) -> None:
        host = planned(rehearsal())["host"]
        assert host["held_by_device_bytes"] == 2 * 65_536 * 2_048 + TINY["weights"]["total_bytes"]
        assert host["required_available_bytes"] == host["bytes_total"] + host["held_by_device_bytes"] + 10 * GIB

    def test_pool_above_the_guard_is_refused_before_the_start(self) -> None:
        refusal = refusal_of(rehearsal(hicache={"ratio": 60.0}))
        assert refusal.code == "guard_refuses"
        largest = refusal.evidence["largest_ratio"]
        assert planned(rehearsal(hicache={"ratio": largest}))["host"]["guard"]["verdict"] == "passes"
        assert "host_memory_fraction" in refusal.remedy

    def test_a_share_of_nothing_is_refused_with_its_numbers_whatever_is_allowed(self) -> None:
        for forced in (False, True):
            refusal = refusal_of(
                rehearsal(
                    hicache={"ratio": None, "host_memory_fraction": 0.42},
                    topology={**rehearsal()["topology"], "host": {"memory_available_bytes": 10 * GIB}},
                    allow_oversubscription=forced,
                )
            )
            assert refusal.code == "host_memory_short"
            assert "10.74 GB are available" in refusal.message
            assert "ratio" not in refusal.message
            assert "-" not in refusal.message

    def test_gpu_copy_kernels_are_warned_of(self) -> None:
        assert codes(planned(rehearsal(hicache={"io_backend": None, "mem_layout": None}))) == ["io_backend_needs_gpu"]

    def test_without_hicache_nothing_is_pinned(self) -> None:
        plan = planned(rehearsal(hicache={"enabled": False}))
        assert plan["host"]["pools"] == []
        assert plan["host"]["bytes_total"] == 0
        assert plan["host"]["guard"] is None
        assert plan["timing"]["pin_seconds"] == 0

    def test_cache_larger_than_the_host_is_refused_without_hicache_too(self) -> None:
        arguments = rehearsal(hicache={"enabled": False}, server={"max_total_tokens": 10_000_000})
        assert refusal_of(arguments).code == "host_memory_short"


def test_releases_that_were_not_held_against_a_server_say_so() -> None:
    assert codes(planned(founding(sglang_version="0.5.12"))) == ["version_not_verified"]
    assert "0.5.11" in planned(founding(sglang_version="0.5.11.post1"))["warnings"][0]["message"]


def test_context_that_the_cache_cannot_hold_is_warned_of() -> None:
    assert codes(planned(founding(server={"context_length": 262_144}))) == ["context_exceeds_cache"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"topology": {"gpus": "eight"}}, "topology.gpus"),
        ({"topology": {"gpus": [{"index": "first"}]}}, "topology.gpus[0].index"),
        ({"topology": {"numa_nodes": [{"id": 1.5}]}}, "topology.numa_nodes[0].id"),
        ({"topology": {"host": {"memory_available_bytes": "lots"}}}, "topology.host.memory_available_bytes"),
        ({"topology": {"host": [1]}}, "topology.host"),
    ],
)
def test_malformed_facts_are_refused_by_name(change: dict[str, Any], named: str) -> None:
    refusal = refusal_of(founding(**change))
    assert refusal.code == "value_malformed"
    assert named in refusal.message


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"observed": {"load_seconds": -4000}}, "value_negative"),
        ({"observed": {"pin_bytes_per_second": 0}}, "value_out_of_range"),
        ({"observed": {"idle_bytes_per_gpu": 10**12}}, "observed_inconsistent"),
        ({"observed": {"kv_pool_bytes": 10**13}}, "observed_inconsistent"),
        ({"observed": {"mem_fraction_static": 7.0}}, "mem_fraction_static_out_of_range"),
        ({"margin_bytes": -(10**12)}, "value_negative"),
        ({"host_reserve_bytes": -1}, "value_negative"),
        ({"hicache": {"ratio": float("nan")}}, "value_malformed"),
        ({"hicache": {"ratio": float("inf")}}, "value_malformed"),
        ({"server": {"port": 70000}}, "port_out_of_range"),
        ({"server": {"port": 0}}, "port_out_of_range"),
        ({"server": {"chunked_prefill_size": -7}}, "value_not_positive"),
        ({"topology": {"numa_nodes": [{"id": 0}]}}, "numa_node_missing"),
        ({"topology": {"numa_nodes": [{"id": 0}, {"id": 0}, {"id": 1}]}}, "topology_ambiguous"),
    ],
)
def test_nonsense_is_refused_and_not_planned_with(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal) as refused:
        planned(founding(**changes))
    assert refused.value.code == code
    assert "xpected" in refused.value.remedy


def test_a_guest_that_does_not_know_the_node_of_its_gpus_is_planned() -> None:
    gpus = [{"index": 0, "numa_node": -1, "memory_total_bytes": 97887 << 20, "compute_capability": "12.0"}]
    plan = planned(founding(topology={"gpus": gpus * 1, "numa_nodes": [{"id": 0}]}, server={"tensor_parallel_size": 1}))
    assert plan["placement"][0]["gpu"] == 0


def test_host_pools_lie_on_no_node_without_cpus() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    arguments["topology"]["numa_nodes"] += [
        {"id": 2, "has_cpus": False, "kind": "gpu_memory", "memory_available_bytes": 90 * 10**9},
        {"id": 3, "has_cpus": False, "kind": "memory", "memory_available_bytes": 500 * 10**9},
    ]
    host = planned(arguments)["host"]
    assert [node["node"] for node in host["numa"]] == [0, 1]
    # Their memory is not spread over the others, and takes no part of the reserve.
    assert [node["available_bytes"] for node in host["numa"]] == [198 * 10**9] * 2
    assert host["limits"] == planned(founding(sglang_version="0.5.23", hicache={"ratio": 2.0}))["host"]["limits"]


def test_a_guest_with_one_node_is_planned_on_that_node() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    arguments["topology"]["numa_nodes"] = [{"id": 0}]
    for gpu in arguments["topology"]["gpus"]:
        gpu["numa_node"] = -1
    plan = planned(arguments)
    assert {seat["numa_node"] for seat in plan["placement"]} == {0}
    assert [node["ranks"] for node in plan["host"]["numa"]] == [list(range(8))]
    # One node leaves nothing to bind to.
    assert plan["host"]["numa_binding"] == "none"
    assert codes(plan) == []


def test_stated_nodes_are_told_to_the_server() -> None:
    nodes = [1, 1, 1, 1, 0, 0, 0, 0]
    plan = planned(founding(server={"numa_nodes": nodes}))
    assert [seat["numa_node"] for seat in plan["placement"]] == nodes
    assert plan["arguments"]["numa-node"] == nodes
    assert plan["host"]["numa_binding"] == "strict"
    assert codes(plan) == ["numa_node_remote", "numa_node_remote"]
    assert "numa-node" not in planned(founding())["arguments"]
    assert refusal_of(founding(server={"numa_nodes": [0, 1]})).code == "numa_node_count_mismatch"
    assert refusal_of(founding(server={"numa_nodes": [0] * 7 + [2]})).code == "numa_node_unfit"
    extra = founding(server={"extra_arguments": {"numa-node": nodes}})
    assert refusal_of(extra).remedy == "Set server.numa_nodes instead."


def test_ids_with_gaps_are_told_to_the_server_as_it_would_not_find_them() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    arguments["topology"]["numa_nodes"] = [{"id": 0}, {"id": 8}]
    for gpu in arguments["topology"]["gpus"]:
        gpu["numa_node"] = 8 * (gpu["index"] // 4)
    assert planned(arguments)["arguments"]["numa-node"] == [0] * 4 + [8] * 4


def test_a_gpu_that_cannot_be_used_is_planned_around() -> None:
    arguments = founding(server={"tensor_parallel_size": 4}, hicache={"ratio": 2.0})
    arguments["topology"]["gpus"][0].update(usable=False, state="lost")
    assert [seat["gpu"] for seat in planned(arguments)["placement"]] == [4, 5, 6, 7]
    for gpu in arguments["topology"]["gpus"]:
        gpu["uuid"] = f"GPU-{gpu['index']}"
    assert planned(arguments)["unit"]["environment"]["CUDA_VISIBLE_DEVICES"] == "GPU-4,GPU-5,GPU-6,GPU-7"
    arguments["server"]["tensor_parallel_size"] = 8
    refusal = refusal_of(arguments)
    assert "GPU 0 (the driver has lost it)" in refusal.message
    assert refusal.remedy == "Lower tensor_parallel_size to 7 or less."


@pytest.mark.parametrize(
    ("tensor", "stages", "said"),
    [
        (1, 40, "1 x 40 = 40, to 8 or less: tensor_parallel_size 1 with 8 stages or fewer."),
        (
            4,
            4,
            "4 x 4 = 16, to 8 or less: tensor_parallel_size 4 with 2 stages or fewer, or 4 stages with "
            "tensor_parallel_size 2 or less.",
        ),
    ],
)
def test_too_few_gpus_for_stages_names_the_product(tensor: int, stages: int, said: str) -> None:
    refusal = refusal_of(founding(server={"tensor_parallel_size": tensor, "pipeline_parallel_size": stages}))
    assert refusal.code == "gpus_too_few"
    assert refusal.remedy == f"Lower tensor_parallel_size x pipeline_parallel_size, which is {said}"


def test_whoever_uses_a_gpu_now_does_not_move_a_plan() -> None:
    arguments = founding(server={"tensor_parallel_size": 4}, hicache={"ratio": 2.0})
    before = planned(arguments)
    arguments["topology"]["gpus"][1]["processes"] = [{"pid": 7, "name": "sglang::scheduler_TP1"}]
    assert planned(arguments) == before
    arguments["topology"]["gpus"][1]["processes"] = [{"pid": 7, "name": "python3"}]
    after = planned(arguments)
    assert after["placement"] == before["placement"]
    assert codes(after) == ["gpus_in_use"]


def test_what_is_left_below_a_control_groups_limit_bounds_what_is_available() -> None:
    arguments = founding()
    arguments["topology"]["host"]["cgroup_available_bytes"] = 250 * 10**9
    assert refusal_of(arguments).evidence["available_bytes"] == 250 * 10**9
    # What the running instance holds below the limit comes back with its restart.
    arguments["observed"]["own_pinned_bytes"] = 358 * 10**9
    arguments["topology"]["host"]["cgroup_available_bytes"] = 30 * 10**9
    assert planned(arguments)["host"]["available_bytes"] == 388 * 10**9


def test_a_machine_whose_gpus_are_all_held_by_another_driver_says_so() -> None:
    arguments = founding()
    for gpu in arguments["topology"]["gpus"]:
        gpu.update(usable=False, kernel_driver="vfio-pci")
    refusal = refusal_of(arguments)
    assert "GPU 0 (the kernel driver vfio-pci holds it)" in refusal.message
    assert "gpu_topology_info" in refusal.remedy
    assert "cpu" in refusal_of(founding(topology={"gpus": []})).remedy
