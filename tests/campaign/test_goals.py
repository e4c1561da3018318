# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to hold of every setting that is chosen for a goal, whatever the model, the machine and the goal."""

from __future__ import annotations

from typing import Any, Callable

from hypothesis import strategies

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import MEASUREMENT_BYTES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import BY_FAMILY

Examples = Callable[[Callable[[Any], None], strategies.SearchStrategy[Any]], None]
GIB = 1 << 30
MIB = 1 << 20
CARDS_MIB = (24564, 46068, 81559, 97887, 143771, 183359)


@strategies.composite
def requests(draw: strategies.DrawFn) -> dict[str, Any]:
    """A model of any family on one to eight cards of one size, with or without an observed start."""
    family = draw(strategies.sampled_from(sorted(BY_FAMILY)))
    config = BY_FAMILY[family]
    ranks = draw(strategies.sampled_from([1, 2, 4, 8]))
    card = draw(strategies.sampled_from(CARDS_MIB)) * MIB
    nodes = draw(strategies.sampled_from([1, 2]))
    gpu = {"memory_total_bytes": card, "compute_capability": "9.0"}
    arguments: dict[str, Any] = {
        "sglang_version": draw(strategies.sampled_from(["0.5.9", "0.5.14", "0.5.18", "0.5.20", "0.5.23"])),
        "model": {
            "architecture": config["architectures"][0],
            "dtype": "bfloat16",
            "attention": plain(attention_from_config(config)),
            "weights": {"total_bytes": draw(strategies.integers(10**9, ranks * card // 2))},
        },
        "topology": {
            "gpus": [{"index": index, "numa_node": index * nodes // ranks, **gpu} for index in range(ranks)],
            "numa_nodes": [{"id": node} for node in range(nodes)],
            "host": {"memory_available_bytes": draw(strategies.integers(20, 2000)) * 10**9},
        },
        "server": {"tensor_parallel_size": ranks, "page_size": draw(strategies.sampled_from([1, 16, 64]))},
        "hicache": {"enabled": False},
        "margin_bytes": draw(strategies.integers(0, 4 * GIB)),
        # Every gain is worth a restart here.
        "change_threshold": 0,
    }
    if draw(strategies.booleans()):
        arguments["observed"] = {
            "mem_fraction_static": draw(strategies.integers(700, 930)) / 1000,
            "idle_bytes_per_gpu": draw(strategies.integers(0, card // 5)),
        }
        if draw(strategies.booleans()):
            arguments["observed"]["available_before_load_bytes"] = card - draw(strategies.integers(1, 3)) * GIB
    return arguments


def with_server(arguments: dict[str, Any], **server: Any) -> dict[str, Any]:
    return {**arguments, "server": {**arguments["server"], **server}}


def outcome(arguments: dict[str, Any]) -> dict[str, Any] | Refusal:
    try:
        return plan_as_dict(plan(plan_request(arguments)))
    except Refusal as refusal:
        return refusal


def given(arguments: dict[str, Any], fraction: float) -> dict[str, Any] | Refusal:
    return outcome(with_server(arguments, mem_fraction_static=fraction))


def left_idle(arguments: dict[str, Any], fraction: float) -> float:
    """What stays idle at least, worked out anew: a share of the memory before loading, or of the whole card."""
    observed = arguments["observed"]
    card = arguments["topology"]["gpus"][0]["memory_total_bytes"]
    step = fraction - observed["mem_fraction_static"]
    before = observed.get("available_before_load_bytes")
    if before is None:
        # Nobody measured it: it is less than the card, and no less than the plan's own estimate.
        before = card if step >= 0 else card - (1 if len(arguments["topology"]["gpus"]) == 1 else 3) * GIB
    return float(observed["idle_bytes_per_gpu"] - step * before)


def test_a_chosen_fraction_leaves_what_it_has_to_and_no_thousandth_more(examples: Examples) -> None:
    def check(arguments: dict[str, Any]) -> None:
        chosen = outcome(with_server(arguments, mem_fraction_auto=True))
        if isinstance(chosen, Refusal):
            most = chosen.evidence.get("largest_leave_bytes")
            if most is not None:
                mended = {**with_server(arguments, mem_fraction_auto=True), "margin_bytes": most}
                assert not isinstance(outcome(mended), Refusal), "the margin that a refusal names does not pass"
            return
        fraction = chosen["device"]["mem_fraction_static"]
        same = given(arguments, fraction)
        assert not isinstance(same, Refusal)
        assert same["device"]["pools"] == chosen["device"]["pools"], "the plan is not that of the fraction it names"
        if "observed" in arguments:
            margin = arguments["margin_bytes"]
            # What is in force stays while it is short by less than two figures of a log can tell.
            unmeasured = MEASUREMENT_BYTES if fraction == arguments["observed"]["mem_fraction_static"] else 0
            assert left_idle(arguments, fraction) >= margin - 1 - unmeasured
            if fraction < 0.999:
                assert left_idle(arguments, round(fraction + 0.001, 3)) < margin + 1
        else:
            default = outcome(arguments)
            assert not isinstance(default, Refusal)
            assert (
                default["device"]["mem_fraction_static"] - 0.001 < fraction <= default["device"]["mem_fraction_static"]
            )

    examples(check, requests())


def test_a_target_is_met_by_the_smallest_fraction(examples: Examples) -> None:
    def check(drawn: tuple[dict[str, Any], float]) -> None:
        arguments, share = drawn
        largest = outcome(with_server(arguments, mem_fraction_auto=True))
        if isinstance(largest, Refusal):
            return
        reach = largest["device"]["max_total_num_tokens"]
        target = max(1, int(reach * share))
        chosen = outcome(with_server(arguments, target_tokens=target))
        if target > reach:
            assert isinstance(chosen, Refusal)
            assert chosen.evidence["largest_target_tokens"] == reach
            chosen = outcome(with_server(arguments, target_tokens=reach))
            target = reach
        assert not isinstance(chosen, Refusal), str(chosen)
        fraction = chosen["device"]["mem_fraction_static"]
        assert chosen["device"]["max_total_num_tokens"] >= target
        assert fraction <= largest["device"]["mem_fraction_static"]
        less = given(arguments, round(fraction - 0.001, 3))
        assert isinstance(less, Refusal) or less["device"]["max_total_num_tokens"] < target

    examples(check, strategies.tuples(requests(), strategies.floats(0.01, 1.2)))


def test_more_to_leave_is_never_a_higher_fraction(examples: Examples) -> None:
    def check(drawn: tuple[dict[str, Any], int, int]) -> None:
        arguments, *amounts = drawn
        less, more = (outcome(with_server(arguments, leave_bytes=amount)) for amount in sorted(amounts))
        if isinstance(less, Refusal):
            assert isinstance(more, Refusal)
        elif not isinstance(more, Refusal):
            assert more["device"]["mem_fraction_static"] <= less["device"]["mem_fraction_static"]
            assert more["device"]["max_total_num_tokens"] <= less["device"]["max_total_num_tokens"]

    amount = strategies.integers(0, 20 * GIB)
    examples(check, strategies.tuples(requests(), amount, amount))


def test_more_seen_idle_is_never_a_lower_fraction(examples: Examples) -> None:
    def check(drawn: tuple[dict[str, Any], int]) -> None:
        arguments, more = drawn
        if "observed" not in arguments:
            return
        roomier = {**arguments, "observed": {**arguments["observed"]}}
        roomier["observed"]["idle_bytes_per_gpu"] += more
        chosen, grown = (outcome(with_server(each, mem_fraction_auto=True)) for each in (arguments, roomier))
        if isinstance(chosen, Refusal):
            return
        assert not isinstance(grown, Refusal), str(grown)
        assert grown["device"]["mem_fraction_static"] >= chosen["device"]["mem_fraction_static"]
        assert grown["device"]["max_total_num_tokens"] >= chosen["device"]["max_total_num_tokens"]

    examples(check, strategies.tuples(requests(), strategies.integers(0, 4 * GIB)))


def test_a_chosen_ratio_fits_every_bound_beside_the_slack_and_a_hundredth_more_does_not(examples: Examples) -> None:
    def check(arguments: dict[str, Any]) -> None:
        base = with_server(arguments, mem_fraction_auto=True)
        chosen = outcome({**base, "hicache": {"auto": True}})
        if isinstance(chosen, Refusal):
            return
        host = chosen["host"]
        assert host["left_bytes"] >= host["reserve_bytes"]
        assert host["guard"]["verdict"] == "passes"
        assert all(host["bytes_per_rank"] <= limit["bytes_per_rank"] for limit in host["limits"])
        assert chosen["arguments"]["hicache-ratio"] == host["ratio"]
        memory = base["topology"]["host"]["memory_available_bytes"]
        slack = max(2 * GIB, memory // 100)

        def with_memory(hicache: dict[str, Any], available: int) -> dict[str, Any] | Refusal:
            topology = {**base["topology"], "host": {"memory_available_bytes": available}}
            return outcome({**base, "hicache": hicache, "topology": topology})

        # The nodes have equal parts of the memory, and so have a slack of their own that is no less.
        above = with_memory({"ratio": round(host["ratio"] + 0.01, 2)}, memory - 2 * slack)
        # A hundredth of a very small pool may still be the same page.
        assert isinstance(above, Refusal) or above["host"]["tokens"] == host["tokens"]
        less = with_memory({"ratio": host["ratio"]}, memory - slack)
        smallest = any("is the smallest that the release takes" in line for line in chosen["explanation"])
        assert smallest or not isinstance(less, Refusal), str(less)
        grown = with_memory({"auto": True}, memory + 10**10)
        assert not isinstance(grown, Refusal)
        assert grown["host"]["ratio"] >= host["ratio"], "more memory, and a smaller ratio"

    examples(check, requests())


def test_a_host_target_is_met_by_the_smallest_ratio(examples: Examples) -> None:
    def check(drawn: tuple[dict[str, Any], float]) -> None:
        arguments, share = drawn
        base = with_server(arguments, mem_fraction_auto=True)
        auto = outcome({**base, "hicache": {"auto": True}})
        if isinstance(auto, Refusal):
            return
        # A target may use up the slack that a choice of its own leaves.
        largest = outcome({**base, "hicache": {"ratio": auto["host"]["largest_ratio"]}})
        assert not isinstance(largest, Refusal)
        reach = largest["host"]["tokens"]
        target = max(1, int(reach * share))
        chosen = outcome({**base, "hicache": {"target_tokens": target}})
        if target > reach:
            assert isinstance(chosen, Refusal)
            assert chosen.evidence["largest_target_tokens"] == reach
            target = reach
            chosen = outcome({**base, "hicache": {"target_tokens": target}})
        assert not isinstance(chosen, Refusal), str(chosen)
        assert chosen["host"]["tokens"] >= target
        assert chosen["host"]["ratio"] <= largest["host"]["ratio"]
        ratio = round(chosen["host"]["ratio"] - 0.01, 2)
        less = outcome({**base, "hicache": {"ratio": ratio}}) if ratio > 0 else None
        assert less is None or isinstance(less, Refusal) or less["host"]["tokens"] < target

    examples(check, strategies.tuples(requests(), strategies.floats(0.01, 1.2)))
