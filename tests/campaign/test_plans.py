# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to hold of every plan, whatever the machine, the model, the release, the layout and the request."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.tests.campaign.plan_requests import requests

Examples = Callable[[Callable[[Any], None], st.SearchStrategy[Any]], None]
Request = dict[str, Any]

# Differences that may go below zero, so that a reader sees by how much.
SIGNED = frozenset({"left_bytes", "headroom_bytes", "gained_bytes", "rest_bytes"})
SCALES_COUNTED = parse_version("0.5.17")
# Ways to size host pools by the memory that there is.
GROWS = frozenset({"host_memory_fraction", "auto", "leave_bytes"})
HARDLY_MORE = 1.01
# What a ratio of two decimals may be off by, beyond a hundredth part.
ROUNDING = 0.02


def outcome(request: Request) -> dict[str, Any] | Refusal:
    try:
        return plan_as_dict(plan(plan_request(copy.deepcopy(request))))
    except Refusal as refusal:
        return refusal


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every number in a plan, under the name that is next to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, str(key))
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value


def held(pools: list[dict[str, Any]]) -> int:
    return sum(pool["slots"] * pool["bytes_per_slot"] for pool in pools)


def with_hicache(request: Request, **hicache: Any) -> Request:
    kept = {name: value for name, value in request["hicache"].items() if name == "mem_layout"}
    return {**request, "hicache": {**kept, **hicache}}


def with_server(request: Request, **server: Any) -> Request:
    return {**request, "server": {**request["server"], **server}}


def with_host_memory(request: Request, factor: float) -> Request:
    """The same request on a machine with so much more host memory."""
    changed = copy.deepcopy(request)
    for place in (changed["topology"]["host"], *changed["topology"]["numa_nodes"]):
        for name in ("memory_available_bytes", "cgroup_available_bytes"):
            if place.get(name) is not None:
                place[name] = int(place[name] * factor)
    return changed


def each_plan(examples: Examples, judge: Callable[[Request, dict[str, Any]], None]) -> None:
    """Judges every plan that is drawn, and that there were any."""
    planned = 0

    def check(request: Request) -> None:
        nonlocal planned
        result = outcome(request)
        if not isinstance(result, Refusal):
            planned += 1
            judge(request, result)

    examples(check, requests())
    assert planned, "nothing was planned"


def test_a_plan_is_plain_data_and_the_same_every_time(examples: Examples) -> None:
    planned = 0

    def check(request: Request) -> None:
        nonlocal planned
        before = json.dumps(request)
        result = outcome(request)
        assert json.dumps(request) == before, "the plan has changed its request"
        again = outcome(request)
        if isinstance(result, Refusal):
            assert isinstance(again, Refusal)
            assert again.as_dict() == result.as_dict()
            assert json.loads(json.dumps(result.as_dict(), allow_nan=False)) == result.as_dict()
            assert (result.message + result.remedy).count("None") == 0
            return
        planned += 1
        assert again == result
        assert json.loads(json.dumps(result, allow_nan=False)) == result
        for name, number in numbers(result):
            if name.endswith("_bytes") or name.startswith("bytes_") or name in ("tokens", "slots", "ranks"):
                assert isinstance(number, int), (name, number)
                assert number >= 0 or name in SIGNED, (name, number)

    examples(check, requests())
    assert planned, "nothing was planned"


def test_no_pool_exceeds_its_budget(examples: Examples) -> None:
    def judge(request: Request, result: dict[str, Any]) -> None:
        device, host = result["device"], result["host"]
        memory = request["topology"]["gpus"][0]["memory_total_bytes"]
        assert device["budget_bytes"] < memory
        above = device["kv_pool_bytes"] > device["budget_bytes"]
        assert above == ("pools_exceed_budget" in {warning["code"] for warning in result["warnings"]})
        # To 0.5.16 the server itself counts too little for rows with scales, and the plan tells of it.
        counted = parse_version(result["sglang_version"]) >= SCALES_COUNTED
        if request["model"]["attention"]["family"] != "dsa" or counted:
            assert not above
            assert held(device["pools"]) <= device["budget_bytes"]
        cap = request["server"]["max_total_tokens"]
        assert cap is None or device["max_total_num_tokens"] <= cap
        if not host["enabled"]:
            assert host["bytes_total"] == 0
            return
        assert host["bytes_total"] == sum(stage["bytes_per_rank"] * len(stage["ranks"]) for stage in host["stages"])
        assert sum(pool["bytes_per_rank"] for pool in host["pools"]) in {
            stage["bytes_per_rank"] for stage in host["stages"]
        }
        assert host["unique_bytes"] <= host["bytes_total"]
        # More is pinned than the pools hold where the allocator rounds up.
        assert sum(node["pinned_bytes"] for node in host["numa"]) == host["pinned_bytes_total"] >= host["bytes_total"]
        assert host["left_bytes"] >= host["reserve_bytes"]
        for limit in host["limits"]:
            assert host["bytes_per_rank"] <= limit["bytes_per_rank"], limit
        if host["numa_binding"] == "strict":
            assert all(node["left_bytes"] >= 0 for node in host["numa"] if node["ranks"])

    each_plan(examples, judge)


def test_pools_are_of_whole_pages(examples: Examples) -> None:
    def judge(request: Request, result: dict[str, Any]) -> None:
        device, host = result["device"], result["host"]
        assert device["max_total_num_tokens"] % device["page_size"] == 0
        for pool in device["pools"]:
            padding, rest = divmod(
                pool["allocated_bytes"] - pool["slots"] * pool["bytes_per_slot"], pool["bytes_per_slot"]
            )
            assert rest == 0
            assert padding == (1 if pool["kind"] == "mamba" else device["page_size"])
            assert pool["kind"] == "mamba" or pool["slots"] % device["page_size"] == 0
        for pool in host["pools"]:
            assert pool["kind"] == "mamba" or pool["tokens"] % device["page_size"] == 0
            assert pool["bytes_per_rank"] == pool["tokens"] * pool["bytes_per_token"]

    each_plan(examples, judge)


def test_more_of_a_card_never_holds_fewer_tokens(examples: Examples) -> None:
    compared = 0

    def check(drawn: tuple[Request, float]) -> None:
        nonlocal compared
        request, factor = drawn
        if request["server"].get("mem_fraction_static") is None:
            # A default is chosen by classes of memory, so that more memory may well mean a lower one; a goal by itself.
            return
        larger = copy.deepcopy(request)
        for gpu in larger["topology"]["gpus"]:
            gpu["memory_total_bytes"] = int(gpu["memory_total_bytes"] * factor)
        higher = copy.deepcopy(request)
        higher["server"]["mem_fraction_static"] = min(0.99, request["server"]["mem_fraction_static"] * factor)
        # The host is not what is compared.
        first, *others = (outcome(with_hicache(one, enabled=False)) for one in (request, larger, higher))
        if isinstance(first, Refusal):
            return
        for other in others:
            assert not isinstance(other, Refusal), str(other)
            compared += 1
            assert other["device"]["max_total_num_tokens"] >= first["device"]["max_total_num_tokens"]
            assert held(other["device"]["pools"]) >= held(first["device"]["pools"])

    examples(check, st.tuples(requests(), st.floats(1, 2)))
    assert compared, "nothing was compared"


def test_a_higher_ratio_never_pins_less(examples: Examples) -> None:
    compared = 0

    def check(drawn: tuple[Request, int, int]) -> None:
        nonlocal compared
        request, *hundredths = drawn
        low, high = (
            outcome({**with_hicache(request, ratio=ratio / 100), "allow_oversubscription": True})
            for ratio in sorted(hundredths)
        )
        if isinstance(low, Refusal) or isinstance(high, Refusal):
            return
        compared += 1
        assert low["device"] == high["device"]
        for lower, higher in zip(low["host"]["pools"], high["host"]["pools"]):
            assert lower["kind"] == higher["kind"]
            assert lower["tokens"] <= higher["tokens"]
        assert low["host"]["required_available_bytes"] <= high["host"]["required_available_bytes"]
        assert low["host"]["largest_ratio"] == high["host"]["largest_ratio"]

    hundredths = st.integers(20, 2000)
    examples(check, st.tuples(requests(), hundredths, hundredths))
    assert compared, "nothing was compared"


def test_more_host_memory_never_fits_less(examples: Examples) -> None:
    compared = 0

    def check(drawn: tuple[Request, float]) -> None:
        nonlocal compared
        request, factor = drawn
        if GROWS & set(request["hicache"]):
            # The pools then follow the memory that there is.
            return
        result, richer = outcome(request), outcome(with_host_memory(request, factor))
        if isinstance(result, Refusal):
            return
        assert not isinstance(richer, Refusal), str(richer)
        compared += 1
        assert richer["host"]["bytes_total"] == result["host"]["bytes_total"]
        assert (richer["host"]["largest_ratio"] or 0) >= (result["host"]["largest_ratio"] or 0)
        assert (richer["host"]["largest_size_gb"] or 0) >= (result["host"]["largest_size_gb"] or 0)

    examples(check, st.tuples(requests(), st.floats(1, 4)))
    assert compared, "nothing was compared"


def mended(request: Request, code: str, name: str, value: Any) -> Request | None:
    """The request with a value that a refusal names in the place of what was asked for."""
    if name == "largest_ratio":
        return with_hicache(request, ratio=value)
    if name == "largest_size_gb":
        return with_hicache(request, size_gb=value)
    if name == "largest_target_tokens" and code == "target_tokens_out_of_reach":
        # Only the card is what this is about.
        return with_hicache(with_server(request, target_tokens=value), enabled=False)
    if name == "largest_target_tokens":
        return with_hicache(request, target_tokens=value)
    if name == "largest_leave_bytes" and "leave_bytes" in request["server"]:
        return with_hicache(with_server(request, leave_bytes=value), enabled=False)
    return None


def test_what_a_refusal_names_then_passes(examples: Examples) -> None:
    tried = 0

    def check(request: Request) -> None:
        nonlocal tried
        refused = outcome(request)
        if not isinstance(refused, Refusal):
            return
        for name, value in refused.evidence.items():
            # A ratio that is named beside another reserve than the plan's own fits that one.
            changed = mended(request, refused.code, name, value) if value is not None else None
            if changed is None or (
                name in ("largest_ratio", "largest_size_gb") and "leave_bytes" in request["hicache"]
            ):
                continue
            repeated = outcome(changed)
            tried += 1
            assert not isinstance(repeated, Refusal), f"{refused} Yet {name} {value}: {repeated}"

    examples(check, requests())
    assert tried, "no refusal named a value"


def test_the_largest_ratio_is_the_largest(examples: Examples) -> None:
    tried = 0

    def check(request: Request) -> None:
        nonlocal tried
        result = outcome(request)
        if isinstance(result, Refusal) or result["host"]["largest_ratio"] is None:
            return
        if "leave_bytes" in request["hicache"]:
            # A ratio by itself leaves the plan's own reserve.
            return
        tried += 1
        largest = result["host"]["largest_ratio"]
        assert not isinstance(outcome(with_hicache(request, ratio=largest)), Refusal)
        assert isinstance(outcome(with_hicache(request, ratio=largest * HARDLY_MORE + ROUNDING)), Refusal), largest

    examples(check, requests())
    assert tried, "no plan named a ratio"
