# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.goals import (
    AUTO,
    TARGET,
    Choice,
    Goal,
    smallest,
    stays,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    GIB,
    changed,
    founding,
    planned,
    rehearsal,
)


def wanted(**hicache: Any) -> dict[str, Any]:
    return founding(hicache={"ratio": None, **hicache}, change_threshold=0)


def refused(arguments: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        planned(arguments)
    return caught.value


def said(plan: dict[str, Any], text: str) -> bool:
    return any(text in line for line in plan["explanation"])


def less(arguments: dict[str, Any], taken: int) -> dict[str, Any]:
    """On a host with so much less available memory."""
    available = arguments["topology"]["host"]["memory_available_bytes"] - taken
    return changed(arguments, {"topology": {"host": {"memory_available_bytes": available}}})


def test_auto_takes_the_largest_ratio_that_every_bound_allows_beside_the_slack() -> None:
    plan = planned(wanted(auto=True))
    assert (plan["host"]["ratio"], plan["host"]["largest_ratio"]) == (4.25, 4.3)
    assert plan["arguments"]["hicache-ratio"] == 4.25
    assert not {"hicache-size", "hicache-host-memory-fraction"} & set(plan["arguments"])
    assert said(plan, "HiCache ratio 4.25 is the largest, in hundredths, that the host allows beside 10.74 GB")
    assert said(plan, "a slack of 3.96 GB (1/100 of what is available, at least 2.15 GB)")
    # It would still fit with a hundredth less available, and the next larger one would not.
    assert plan["host"]["left_bytes"] >= plan["host"]["reserve_bytes"] + 3_960_000_000
    assert planned(less(wanted(ratio=4.25), 3_960_000_000))["host"]["ratio"] == 4.25
    assert refused(less(wanted(ratio=4.26), 3_960_000_000)).evidence["largest_ratio"] == 4.25
    assert refused(wanted(ratio=4.31)).evidence["largest_ratio"] == 4.3


def test_a_small_host_keeps_the_least_slack() -> None:
    small = less(wanted(auto=True), 290 * 10**9)
    plan = planned(small)
    assert said(plan, "a slack of 2.15 GB")
    ratio = plan["host"]["ratio"]
    assert planned(less({**small, "hicache": {"ratio": ratio}}, 2 * GIB))["host"]["ratio"] == ratio
    assert refused(less({**small, "hicache": {"ratio": round(ratio + 0.01, 2)}}, 2 * GIB)).code == "host_memory_short"


def test_where_no_ratio_leaves_the_slack_it_is_the_smallest_of_the_release() -> None:
    needed = planned(wanted(ratio=1.0))["host"]["required_available_bytes"]
    barely = changed(wanted(auto=True), {"topology": {"host": {"memory_available_bytes": needed + 10**9}}})
    plan = planned(barely)
    assert plan["host"]["ratio"] == 1.0
    assert said(plan, "HiCache ratio 1.0 is the smallest that the release takes, and the host allows none beside")


def test_founding_case_with_both_goals() -> None:
    plan = planned(
        founding(server={"mem_fraction_static": None, "mem_fraction_auto": True}, hicache={"ratio": None, "auto": True})
    )
    assert (plan["arguments"]["mem-fraction-static"], plan["arguments"]["hicache-ratio"]) == (0.927, 2.97)
    assert (plan["host"]["largest_ratio"], plan["device"]["max_total_num_tokens"]) == (3.0, 227_932)
    assert plan["host"]["bytes_total"] + 10 * (1 << 30) <= 396 * 10**9


def test_auto_respects_the_check_of_the_server_itself() -> None:
    """Guard B counts the pools of peers twice, so that its bound lies far below the memory of the host."""
    plan = planned({**wanted(auto=True), "sglang_version": "0.5.20"})
    assert plan["host"]["guard"]["verdict"] == "passes"
    ratio = plan["host"]["ratio"]
    assert ratio < plan["host"]["largest_ratio"] < 4.3
    before = less({**wanted(ratio=ratio), "sglang_version": "0.5.20"}, 3_960_000_000)
    assert planned(before)["host"]["guard"]["verdict"] == "passes"
    assert refused({**before, "hicache": {"ratio": round(ratio + 0.01, 2)}}).code == "guard_refuses"


def test_where_a_guard_stands_in_the_way_the_servers_own_sizing_is_named() -> None:
    small = {"sglang_version": "0.5.23", "topology": {"host": {"memory_available_bytes": 250 * 10**9}}}
    plan = planned(changed(wanted(auto=True), small))
    assert plan["host"]["sizing"] == "ratio"
    by_share = planned(changed(wanted(host_memory_fraction=0.8), small))
    assert by_share["host"]["tokens"] > plan["host"]["tokens"]
    assert said(plan, "hicache.host_memory_fraction 0.8 in its place")


def test_auto_respects_a_node_that_ranks_are_bound_to() -> None:
    arguments = {**wanted(auto=True), "sglang_version": "0.5.18"}
    arguments["topology"]["numa_nodes"] = [
        {"id": 0, "memory_available_bytes": 120 * 10**9},
        {"id": 1, "memory_available_bytes": 276 * 10**9},
    ]
    plan = planned(arguments)
    assert plan["host"]["limits"][0]["name"] == "NUMA node 0"
    assert plan["host"]["numa"][0]["pinned_bytes"] <= 120 * 10**9 - 2 * GIB - 5 * GIB
    assert plan["host"]["ratio"] < plan["host"]["largest_ratio"] < 4.3
    assert said(plan, "that NUMA node 0 allows beside 10.74 GB left available and a slack of 2.15 GB")


def test_auto_is_above_one_where_the_release_insists() -> None:
    arguments = changed(wanted(auto=True), {"topology": {"host": {"memory_available_bytes": 100 * 10**9}}})
    assert refused(arguments).code == "host_memory_short"
    later = {**arguments, "sglang_version": "0.5.18"}
    assert planned(later)["host"]["ratio"] < 1


def test_leave_bytes_is_another_reserve() -> None:
    plan = planned(wanted(leave_bytes=100 * 10**9))
    assert plan["host"]["left_bytes"] >= 100 * 10**9
    assert plan["host"]["reserve_bytes"] == 100 * 10**9
    assert planned(wanted(leave_bytes=10 * GIB))["host"]["ratio"] == 4.25
    step = plan["host"]["bytes_total"] / plan["host"]["ratio"] / 100
    assert 0 <= plan["host"]["left_bytes"] - 100 * 10**9 - 3_960_000_000 < 1.01 * step


def test_target_takes_the_smallest_ratio() -> None:
    plan = planned(wanted(target_tokens=500_000))
    assert plan["host"]["tokens"] >= 500_000
    less = planned(wanted(ratio=round(plan["host"]["ratio"] - 0.01, 2)))
    assert less["host"]["tokens"] < 500_000
    assert said(plan, "is the smallest, in hundredths, with 500,000 tokens a rank")


def test_target_below_the_device_is_the_smallest_that_the_release_takes() -> None:
    # The page that comes on top makes a pool of the device's own size the larger one.
    assert planned(wanted(target_tokens=1))["host"]["ratio"] == 1.0
    older = {**rehearsal(hicache={"ratio": None, "target_tokens": 1}), "sglang_version": "0.5.5"}
    older["hicache"]["mem_layout"] = "layer_first"
    assert planned(older)["host"]["ratio"] == 1.01
    assert planned({**wanted(target_tokens=1), "sglang_version": "0.5.18"})["host"]["ratio"] == 0.01


def test_target_beyond_the_host_names_what_passes() -> None:
    refusal = refused(wanted(target_tokens=5_000_000))
    assert refusal.code == "host_target_tokens_out_of_reach"
    most = refusal.evidence["largest_target_tokens"]
    assert planned(wanted(target_tokens=most))["host"]["tokens"] == most
    forced = planned({**wanted(target_tokens=5_000_000), "allow_oversubscription": True})
    assert forced["host"]["tokens"] >= 5_000_000
    assert "oversubscribed" in {warning["code"] for warning in forced["warnings"]}


def test_forcing_does_not_make_auto_oversubscribe() -> None:
    assert planned({**wanted(auto=True), "allow_oversubscription": True})["host"]["ratio"] == 4.25
    short = changed(wanted(auto=True), {"topology": {"host": {"memory_available_bytes": 50 * 10**9}}})
    assert refused({**short, "allow_oversubscription": True}).code == "host_memory_short"


def test_without_a_host_only_a_target_can_be_chosen() -> None:
    bare = {**founding()["topology"], "host": {}}
    assert refused({**wanted(auto=True), "topology": bare}).code == "host_memory_unknown"
    assert refused({**wanted(leave_bytes=1), "topology": bare}).code == "host_memory_unknown"
    assert planned({**wanted(target_tokens=500_000), "topology": bare})["host"]["tokens"] >= 500_000


def test_auto_on_a_cpu_leaves_room_for_the_device_pools_there() -> None:
    plan = planned(rehearsal(hicache={"ratio": None, "auto": True}))
    host = plan["host"]
    assert host["ratio"] < host["largest_ratio"]
    assert host["left_bytes"] >= host["reserve_bytes"] + 2 * GIB


# Later releases take a hundredth of the device's tokens.
@pytest.mark.parametrize(("version", "available"), [("0.5.9", 60), ("0.5.20", 11), ("0.5.23", 11)])
@pytest.mark.parametrize("goal", [{"auto": True}, {"leave_bytes": 5 * 10**9}, {"target_tokens": 100}])
def test_where_no_ratio_fits_the_tokens_beside_which_one_does_are_named(
    version: str, available: int, goal: dict[str, Any]
) -> None:
    memory = {"topology": {"host": {"memory_available_bytes": available * 10**9}}}
    short = changed({**wanted(**goal), "sglang_version": version}, memory)
    refusal = refused(short)
    most = int(str(refusal.evidence["largest_max_total_tokens"]))
    assert f"With server.max_total_tokens {most} or less it fits." in refusal.remedy
    plan = planned(changed(short, {"server": {"max_total_tokens": most}}))
    assert plan["device"]["max_total_num_tokens"] == most
    assert plan["host"]["left_bytes"] >= plan["host"]["reserve_bytes"]
    assert refused(changed(short, {"server": {"max_total_tokens": most + 1}})).evidence["largest_ratio"] is None


def test_tokens_are_named_on_a_cpu_whose_own_pools_take_host_memory_too() -> None:
    short = rehearsal(hicache={"ratio": None, "auto": True}, server={"max_total_tokens": 20_000_000, "page_size": 64})
    refusal = refused(short)
    most = int(str(refusal.evidence["largest_max_total_tokens"]))
    assert most % 64 == 0
    assert planned(changed(short, {"server": {"max_total_tokens": most}}))["host"]["ratio"] > 0
    assert refused(changed(short, {"server": {"max_total_tokens": most + 64}})).evidence["largest_ratio"] is None


def test_no_tokens_are_named_where_none_help() -> None:
    refusal = refused(changed(wanted(auto=True), {"topology": {"host": {"memory_available_bytes": 10**9}}}))
    assert "largest_max_total_tokens" not in refusal.evidence


@pytest.mark.parametrize("other", [{"ratio": 2.0}, {"size_gb": 40}, {"target_tokens": 1}, {"leave_bytes": 0}])
def test_a_goal_and_a_size_exclude_each_other(other: dict[str, Any]) -> None:
    assert refused(wanted(auto=True, **other)).code == "hicache_sizing_ambiguous"


def test_a_goal_of_a_cache_that_is_off_asks_for_nothing() -> None:
    assert planned(wanted(auto=True, enabled=False))["host"]["enabled"] is False


def test_a_value_in_force_stays_for_a_small_step_only() -> None:
    goal, now = Goal(AUTO), Choice(3.0, 1000)
    assert stays(goal, now, Choice(3.01, 1019), 0.02)
    assert not stays(goal, now, Choice(3.1, 1020), 0.02)
    assert not stays(goal, now, now, 0.02)
    target = Goal(TARGET, 1000)
    assert stays(target, Choice(3.0, 1010), Choice(2.98, 1000), 0.02)
    assert not stays(target, Choice(3.0, 1030), Choice(2.9, 1000), 0.02)
    assert not stays(target, Choice(2.9, 990), Choice(3.0, 1000), 0.02)


def test_smallest_is_found_at_both_ends() -> None:
    for edge in range(1, 10):
        assert smallest(1, 9, edge.__le__) == edge


def test_what_a_host_without_room_misses_for_a_target_is_that_of_the_target() -> None:
    short = wanted(target_tokens=500_000)
    short["topology"]["host"]["memory_available_bytes"] = 12 * 10**9
    refusal = refused(short)
    assert refusal.code == "host_memory_short"
    missing: Any = refusal.evidence["missing_bytes"]
    assert planned(less(short, -missing))["host"]["tokens"] >= 500_000
    # A GB less is not enough.
    assert refused(less(short, 10**9 - missing)).code in ("host_memory_short", "host_target_tokens_out_of_reach")


def test_a_host_pool_that_is_no_larger_than_the_devices_is_told_ratio_and_memory_together() -> None:
    short = founding(hicache={"ratio": None, "size_gb": 1})
    short["topology"]["host"]["memory_available_bytes"] = 60 * 10**9
    refusal = refused(short)
    assert (refusal.code, refusal.evidence["largest_ratio"], refusal.evidence["ratio_then"]) == (
        "host_pool_below_device",
        None,
        1.1,
    )
    missing: Any = refusal.evidence["missing_bytes"]
    enough = less(founding(hicache={"ratio": 1.1}), 396 * 10**9 - 60 * 10**9 - missing)
    assert planned(enough)["host"]["ratio"] == 1.1
    assert refused(less(enough, 1)).code == "host_memory_short"
