# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a refusal for lack of memory names has to pass, or to meet the bound that it tells of."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Callable

from hypothesis import strategies

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import BY_FAMILY

Examples = Callable[[Callable[[Any], None], strategies.SearchStrategy[Any]], None]
GB = 10**9
CARDS_BYTES = {"NVIDIA L40S": 48 * GB, "NVIDIA H100 80GB HBM3": 85 * GB, "NVIDIA H200": 150 * GB}
DEVICE_GOALS = ("mem_fraction_auto", "leave_bytes", "target_tokens")
DEVICE_SHORT = ("kv_budget_empty", "state_pool_empty", "window_pool_too_small")
HOST_SIZES = ("ratio", "size_gb", "host_memory_fraction", "auto", "leave_bytes", "target_tokens")
HOST_SHORT = ("host_memory_short", "host_pool_below_device", "guard_refuses", "numa_node_short")
# What refuses a plan because there is no room for what was asked; all others are about what was asked.
NO_ROOM = (
    *DEVICE_SHORT,
    *HOST_SHORT,
    "leave_bytes_too_large",
    "target_tokens_out_of_reach",
    "host_target_tokens_out_of_reach",
)


@strategies.composite
def requests(draw: strategies.DrawFn) -> dict[str, Any]:
    """A model that is often too large for its cards, pools that are too large for the host, and goals out of reach."""

    def one_of(*values: Any) -> Any:
        return draw(strategies.sampled_from(values))

    config = BY_FAMILY[one_of(*sorted(BY_FAMILY))]
    board, cards = one_of(*CARDS_BYTES), one_of(1, 2, 4, 8)
    ranks = one_of(*(size for size in (1, 2, 4, 8) if size <= cards))
    server = one_of(
        {"mem_fraction_static": draw(strategies.integers(30, 950)) / 1000},
        {"mem_fraction_auto": True},
        {"leave_bytes": draw(strategies.integers(0, 100 * GB))},
        {"target_tokens": draw(strategies.integers(1, 10**8))},
        {"max_total_tokens": draw(strategies.integers(1, 10**6))},
        {},
    )
    hicache = one_of(
        {"enabled": False},
        {"ratio": draw(strategies.integers(1, 400)) / 100},
        {"size_gb": draw(strategies.integers(1, 300))},
        {"auto": True},
        {"leave_bytes": draw(strategies.integers(0, 500 * GB))},
        {"target_tokens": draw(strategies.integers(1, 10**9))},
    )
    topology = machine_on_paper(
        {
            "board": board,
            "count": cards,
            "numa_nodes": one_of(*(nodes for nodes in (1, 2) if nodes <= cards)),
            "memory_gb": one_of(8, 30, 64, 300, 1024, 2048),
        }
    )
    if draw(strategies.booleans()):
        for node in topology["numa_nodes"]:
            node["memory_available_bytes"] = node["memory_total_bytes"] * draw(strategies.integers(1, 4)) // 4
        measured = sum(node["memory_available_bytes"] for node in topology["numa_nodes"])
        topology["host"]["memory_available_bytes"] = measured
    return {
        "sglang_version": one_of("0.5.9", "0.5.11", "0.5.14", "0.5.16", "0.5.20", "0.5.23"),
        "model": {
            "architecture": config["architectures"][0],
            "dtype": "bfloat16",
            "attention": plain(attention_from_config(config)),
            "weights": {"total_bytes": draw(strategies.integers(GB, 2 * ranks * CARDS_BYTES[board]))},
        },
        "topology": topology,
        "server": {"tensor_parallel_size": ranks, **server},
        "hicache": hicache,
    }


def refusal_of(arguments: Mapping[str, Any]) -> Refusal | None:
    try:
        plan(plan_request(arguments))
    except Refusal as refusal:
        return refusal
    return None


def fed_back(arguments: dict[str, Any], refusal: Refusal) -> dict[str, Any] | None:
    """The request with the value that a refusal names; None where it names none."""
    again = copy.deepcopy(arguments)
    told: Mapping[str, Any] = refusal.evidence
    server, hicache, cards = again["server"], again["hicache"], len(again["topology"]["gpus"])
    if told.get("without_max_total_tokens"):
        server.pop("max_total_tokens")
    if told.get("smallest_max_total_tokens"):
        server["max_total_tokens"] = told["smallest_max_total_tokens"]
    elif told.get("smallest_mem_fraction_static"):
        _replace(server, DEVICE_GOALS, mem_fraction_static=told["smallest_mem_fraction_static"])
    elif told.get("smallest_tensor_parallel_size"):
        size = told["smallest_tensor_parallel_size"]
        _replace(server, DEVICE_GOALS, mem_fraction_static=told["with_mem_fraction_static"], tensor_parallel_size=size)
        again["topology"].pop("gpu_links", None)
        gpus = again["topology"]["gpus"]
        gpus += [{**gpus[index % cards], "index": index} for index in range(cards, size)]
    elif refusal.code == "leave_bytes_too_large":
        server["leave_bytes"] = told["largest_leave_bytes"]
    elif refusal.code == "target_tokens_out_of_reach":
        server["target_tokens"] = told["largest_target_tokens"]
    elif refusal.code == "host_target_tokens_out_of_reach":
        hicache["target_tokens"] = told["largest_target_tokens"]
    elif told.get("largest_ratio"):
        _replace(hicache, HOST_SIZES, ratio=told["largest_ratio"])
    elif told.get("largest_size_gb"):
        _replace(hicache, HOST_SIZES, size_gb=told["largest_size_gb"])
    elif told.get("largest_max_total_tokens"):
        server["max_total_tokens"] = told["largest_max_total_tokens"]
        if told.get("with_ratio"):
            _replace(hicache, HOST_SIZES, ratio=told["with_ratio"])
    else:
        return freed(arguments, refusal)
    return again


def freed(arguments: dict[str, Any], refusal: Refusal) -> dict[str, Any] | None:
    """The request on a host with the memory that a refusal misses, and as much on each node that was measured."""
    told: Mapping[str, Any] = refusal.evidence
    missing = told.get("missing_bytes") or 0
    if refusal.code not in HOST_SHORT or missing < 1:
        return None
    again = copy.deepcopy(arguments)
    host, nodes = again["topology"]["host"], again["topology"]["numa_nodes"]
    host["memory_available_bytes"] += missing
    host["memory_total_bytes"] += missing
    for node in nodes:
        node["memory_total_bytes"] += missing
        if node.get("memory_available_bytes") is not None:
            node["memory_available_bytes"] += missing
    if told.get("ratio_then"):
        _replace(again["hicache"], HOST_SIZES, ratio=told["ratio_then"])
    return again


def _replace(options: dict[str, Any], taken: tuple[str, ...], **given: Any) -> None:
    for name in taken:
        options.pop(name, None)
    options.update(given)


def named_a_value(refusal: Refusal, again: Mapping[str, Any] | None) -> bool:
    """Whether there was a value to name: no number of cards holds some models, and what is missing is told then."""
    return again is not None or (refusal.code in DEVICE_SHORT and refusal.evidence.get("missing_bytes") is not None)


def test_what_a_refusal_for_lack_of_memory_names_passes(examples: Examples) -> None:
    def check(arguments: dict[str, Any]) -> None:
        refusal = refusal_of(arguments)
        if refusal is None or refusal.code not in NO_ROOM:
            return
        again = fed_back(arguments, refusal)
        assert named_a_value(refusal, again), f"{refusal.code} names no value: {refusal}"
        following = None if again is None else refusal_of(again)
        if following is None:
            return
        named: Mapping[str, Any] = refusal.evidence
        if len(arguments["topology"]["gpus"]) < (named.get("smallest_tensor_parallel_size") or 0):
            # What the host of a larger machine has, nobody said.
            assert following.code not in DEVICE_SHORT, f"{refusal.code}: {refusal} FED BACK: {following}"
            return
        told: Mapping[str, Any] = named.get("then") or {}
        assert following.code == told.get("code"), f"{refusal.code}: {refusal} FED BACK: {following}"

    examples(check, requests())


def test_what_is_missing_on_the_host_is_enough(examples: Examples) -> None:
    def check(arguments: dict[str, Any]) -> None:
        # A goal takes more where there is more: only what is asked for by size stays the same.
        if not {"ratio", "size_gb"} & set(arguments["hicache"]):
            return
        refusal = refusal_of(arguments)
        again = None if refusal is None else freed(arguments, refusal)
        following = None if again is None else refusal_of(again)
        assert following is None, f"{refusal} FREED: {following}"

    examples(check, requests())
