# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_table import capacity_lines
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.search import boards_asked
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.capacity.workloads import (
    GIB,
    LLAMA,
    QWEN,
    asked,
    box,
    weighed,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import planned

H100, L40S = "NVIDIA H100 80GB HBM3", "NVIDIA L40S"


def refused(arguments: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        weighed(arguments)
    return caught.value


def plan_of(option: dict[str, Any], topology: dict[str, Any]) -> dict[str, Any]:
    """The plan that memory_plan gives for an option."""
    return planned(
        {
            "sglang_version": "0.5.23",
            "model": QWEN,
            "topology": topology,
            "server": {**option["layout"], "mem_fraction_auto": True},
            "hicache": {"auto": True} if option["host_ratio_auto"] else {"enabled": False},
        }
    )


def test_options_of_a_box_are_plans_of_memory_plan() -> None:
    topology = box(8)
    found = weighed(asked(topology=topology))
    assert found["best"] == found["options"][0]
    assert len({tuple(option["layout"].values()) for option in found["options"]}) == len(found["options"]) > 10
    for option in found["options"]:
        if option["mem_fraction_static"] is None:
            continue
        plan = plan_of(option, topology)
        groups = option["layout"]["attention_data_parallel_size"]
        assert option["tokens"] == plan["device"]["max_total_num_tokens"] * groups
        assert option["kv_bytes"] == plan["device"]["kv_pool_bytes"]
        assert option["mem_fraction_static"] == plan["device"]["mem_fraction_static"]
        if option["host_ratio_auto"] is not None:
            assert option["host_ratio_auto"] == plan["host"]["ratio"]
            assert option["host_bytes_total"] == plan["host"]["bytes_total"]


def test_options_of_a_box_are_ranked_by_what_they_serve() -> None:
    options = weighed(asked(topology=box(8)))["options"]
    fitting = [option["requests_at_context"] for option in options if option["fits"]]
    assert fitting == sorted(fitting, reverse=True)
    assert all(requests >= 16 for requests in fitting)
    assert [option["fits"] for option in options] == sorted((option["fits"] for option in options), reverse=True)
    missing = [option["missing_bytes"] * option["gpus"] for option in options if not option["fits"]]
    assert missing == sorted(missing)


def test_the_needed_bytes_are_the_smallest_that_serve() -> None:
    for option in weighed(asked(topology=box(4)))["options"]:
        arguments = {
            "sglang_version": "0.5.23",
            "model": QWEN,
            # A budget may be beyond the card.
            "topology": {**box(4), "gpus": [{**gpu, "memory_total_bytes": None} for gpu in box(4)["gpus"]]},
            "server": option["layout"],
            "hicache": {"enabled": False},
        }
        groups = option["layout"]["attention_data_parallel_size"]
        served = []
        for budget in (option["needed_kv_bytes"], option["needed_kv_bytes"] - (1 << 20)):
            tokens = planned({**arguments, "observed": {"kv_pool_bytes": budget}})["device"]["max_total_num_tokens"]
            served.append(tokens // 32_768 * groups >= 16)
        assert served == [True, False], option["layout"]


def test_the_fewest_boards_that_serve_are_found_with_why_fewer_are_not_enough() -> None:
    found = weighed(asked(boards=[H100, L40S], host_memory_available_bytes=500 * 10**9))
    counts = {option["board"]: option["gpus"] for option in found["options"] if option["fits"]}
    assert counts == {H100: 4, L40S: 8}
    best = found["best"]
    assert (best["board"], best["gpus"], best["layout"]["tensor_parallel_size"]) == (H100, 4, 4)
    assert best["idle_bytes"] == best["kv_bytes"] - best["needed_kv_bytes"] > 0
    assert best["needed_kv_bytes"] == 32 * GIB
    said = [line for line in best["explanation"] if "would not do" in line]
    assert len(said) == 2
    assert said[0].startswith(f"1 x {H100} (tp 1) would not do: ")
    # What is said of the smaller ones is what their options say.
    for option in found["options"]:
        if not option["fits"]:
            assert option["missing_bytes"] == option["needed_kv_bytes"] - option["kv_bytes"]
            assert option["refusal"]["code"] in ("workload_too_large", "kv_budget_empty")
    # Nothing larger than what serves is weighed.
    assert max(option["gpus"] for option in found["options"] if option["board"] == H100) == 4


def test_boards_are_ranked_by_memory_in_all() -> None:
    options = [option for option in weighed(asked())["options"] if option["fits"]]
    memory = [option["gpu_memory_bytes"] * option["gpus"] for option in options]
    assert len(options) > 20
    assert memory == sorted(memory)


def test_the_nearest_miss_names_smaller_workloads_that_fit() -> None:
    found = weighed(asked(boards=[L40S], gpu_counts=[4]))
    assert found["best"] is None
    miss = found["nearest_miss"]
    option = found["options"][0]
    assert miss["missing_bytes_total"] == option["missing_bytes"] * option["gpus"]
    for workload in (
        {"context_tokens": miss["largest_context_tokens"], "concurrent_requests": 16},
        {"context_tokens": 32_768, "concurrent_requests": miss["largest_concurrent_requests"]},
    ):
        assert weighed(asked(boards=[L40S], gpu_counts=[4], workload=workload))["best"] is not None
    for workload in (
        {"context_tokens": miss["largest_context_tokens"] + 1, "concurrent_requests": 16},
        {"context_tokens": 32_768, "concurrent_requests": miss["largest_concurrent_requests"] + 1},
    ):
        layout = tuple(miss["layout"].values())
        options = weighed(asked(boards=[L40S], gpu_counts=[4], workload=workload))["options"]
        assert not any(option["fits"] for option in options if tuple(option["layout"].values()) == layout)


def test_weights_without_room_say_by_how_much() -> None:
    found = weighed(asked(boards=["NVIDIA L4"], gpu_counts=[1]))
    option = found["options"][0]
    assert option["refusal"]["code"] == "kv_budget_empty"
    assert option["kv_bytes"] < 0
    assert option["missing_bytes"] == option["needed_kv_bytes"] - option["kv_bytes"]
    assert found["nearest_miss"]["message"].endswith("it serves no smaller workload either.")


def test_models_that_fit_are_named() -> None:
    found = weighed(asked(models=[QWEN, LLAMA], topology=box(1, 24_564)))
    assert found["models_that_fit"] == []
    small = {"context_tokens": 4096, "concurrent_requests": 1}
    assert weighed(asked(models=[QWEN, LLAMA], topology=box(1, 24_564), workload=small))["models_that_fit"] == [
        "Llama-3.1-8B"
    ]


def test_a_context_beyond_the_model_is_refused_on_every_board() -> None:
    found = weighed(asked(topology=box(8), workload={"context_tokens": 50_000}))
    assert found["best"] is None
    assert {option["refusal"]["code"] for option in found["options"] if option["mem_fraction_static"]} == {
        "context_exceeds_model"
    }


def test_the_host_has_to_keep_what_is_wanted() -> None:
    workload = {"context_tokens": 32_768, "concurrent_requests": 16, "host_cache_tokens": 700_000}
    found = weighed(asked(topology=box(8), workload=workload))
    assert found["best"]["host_tokens"] >= 700_000
    poor = weighed(asked(topology=box(8, memory_available_bytes=100 * 10**9), workload=workload))
    assert poor["best"] is None
    assert "host_cache_too_small" in {option["refusal"]["code"] for option in poor["options"]}


def test_an_unknown_host_says_what_the_wanted_tokens_take() -> None:
    workload = {"context_tokens": 32_768, "concurrent_requests": 16, "host_cache_tokens": 700_000}
    best = weighed(asked(boards=[H100], workload=workload))["best"]
    assert best["host_tokens"] >= 700_000
    assert best["host_required_bytes"] == best["host_bytes_total"] + 10 * GIB
    without = weighed(asked(boards=[H100]))["best"]
    assert (without["host_ratio_auto"], without["host_required_bytes"]) == (None, None)


def test_a_host_without_room_does_not_keep_the_model_from_serving() -> None:
    """SGLang 0.5.9 wants a host pool larger than the device's."""
    arguments = asked(topology=box(8, memory_available_bytes=50 * 10**9), server={"mem_fraction_static": 0.85})
    best = weighed({**arguments, "sglang_version": "0.5.9"})["best"]
    assert best["fits"] and best["host_ratio_auto"] is None
    assert any(line.startswith("no HiCache: ") for line in best["explanation"])


def test_settings_of_ones_own_stand() -> None:
    found = weighed(asked(topology=box(8), server={"mem_fraction_static": 0.8}, hicache={"ratio": 0.1}))
    assert {option["mem_fraction_static"] for option in found["options"]} - {None} == {0.8}
    assert {option["host_ratio_auto"] for option in found["options"]} <= {None, 0.1}
    off = weighed(asked(topology=box(8), hicache={"enabled": False}))
    assert {option["host_ratio_auto"] for option in off["options"]} == {None}


def test_layouts_that_the_model_does_not_allow_are_named_once() -> None:
    found = weighed(asked(models=[{**QWEN, "attention": {**QWEN["attention"], "num_kv_heads": 3}}], topology=box(2)))
    assert [(one["layout"]["tensor_parallel_size"], one["refusal"]["code"]) for one in found["excluded"]] == [
        (2, "tensor_parallel_uneven")
    ]
    # No layout over 7 ranks is weighed: the heads do not divide.
    assert not any(
        option["layout"]["tensor_parallel_size"] in (3, 7) for option in weighed(asked(topology=box(7)))["options"]
    )


def test_what_no_layout_serves_is_refused_with_its_reason() -> None:
    unknown = {**QWEN, "weights": {}}
    refusal = refused(asked(models=[unknown], topology=box(1)))
    assert refusal.code == "weights_unknown"
    assert refused(asked(topology=box(0))).code == "gpus_missing"
    vision = {**QWEN, "architecture": "Gemma3ForConditionalGeneration"}
    several = refused(asked(models=[vision], topology=box(2), server={"max_total_tokens": 63, "page_size": 64}))
    assert several.code == "layouts_excluded"
    assert several.message == "No layout is allowed: tp 1: max_total_tokens is 63, less than a page of 64 tokens."
    assert several.remedy == "Expected 64 or more."
    assert several.evidence["layouts"] == ["tp 1", "tp 2", "tp 2, attention dp 2", "tp 1, pp 2"]


def test_boards_by_name() -> None:
    assert [board.name for board in boards_asked(("NVIDIA L40S",))] == [L40S]
    several = [board.name for board in boards_asked(("H100",))]
    assert {H100, "NVIDIA H100 PCIe", "NVIDIA H100 NVL"} <= set(several)
    assert all("H100" in name for name in several)
    with pytest.raises(Refusal) as caught:
        boards_asked(("H1000",))
    assert caught.value.code == "board_unknown"
    with pytest.raises(Refusal) as caught:
        boards_asked(("Tesla V100-SXM2-32GB",))
    assert caught.value.code == "boards_not_served"
    assert not any("V100" in board.name for board in boards_asked(None))


def test_the_same_question_has_the_same_answer() -> None:
    assert weighed(asked(boards=[H100])) == weighed(asked(boards=[H100]))


def test_table_has_a_row_for_what_fits_and_the_closest_of_what_does_not() -> None:
    found = weighed(asked(boards=[H100, "NVIDIA L4"], host_memory_available_bytes=500 * 10**9))
    lines = capacity_lines(found)
    rows = [line for line in lines if line.startswith(("  fits", "  no"))]
    assert len(rows) == 2
    assert rows[0].startswith("  fits  4 x H100 80GB HBM3")
    assert "32.0 GiB" in rows[0]
    assert "8 x L4" in rows[1]
    assert any(line.startswith("Best: 4 x H100 80GB HBM3, tp 4: ") for line in lines)
    assert any(line.startswith("Nearest miss: ") for line in lines)


def test_table_names_the_model_of_the_best_and_of_the_nearest_miss_where_there_are_several() -> None:
    small = {"context_tokens": 4096, "concurrent_requests": 1}
    lines = capacity_lines(weighed(asked(models=[QWEN, LLAMA], topology=box(1, 24_564), workload=small)))
    assert any(line.startswith("Best: Llama-3.1-8B: 1 x ") for line in lines)
    assert any(line.startswith("Nearest miss: Qwen3-32B: 1 x ") for line in lines)


def test_table_says_why_a_model_has_no_row() -> None:
    found = weighed(asked(models=[QWEN, {**LLAMA, "weights": {}}], topology=box(1)))
    text = " ".join(" ".join(capacity_lines(found)).split())
    assert "Not planned: Llama-3.1-8B, tp 1: The size of the weights of Llama-3.1-8B is not known." in text


SEEN = {
    "kv_pool_bytes": 20 * 2**30,
    "mem_fraction_static": 0.85,
    "assumptions": ["Seen on a Monday."],
}


def test_what_was_observed_holds_for_its_layout_alone() -> None:
    server = {"mem_fraction_static": 0.85}
    workload = {"context_tokens": 32_768, "concurrent_requests": 4}
    common: dict[str, Any] = {"topology": box(4), "server": server, "workload": workload}
    plain = weighed(asked(**common))["options"]
    measured = asked(**common, observed=SEEN, observed_layout={"tensor_parallel_size": 4})
    found = weighed(measured)["options"]
    [option] = [one for one in found if one["observed"]]
    assert option["layout"] == {
        "tensor_parallel_size": 4,
        "pipeline_parallel_size": 1,
        "attention_data_parallel_size": 1,
    }
    arguments = {**measured, "model": QWEN, "server": {**server, **option["layout"]}, "hicache": {"ratio": 1.0}}
    plan = planned(
        {key: arguments[key] for key in ("sglang_version", "model", "topology", "server", "hicache", "observed")}
    )
    assert option["tokens"] == plan["device"]["max_total_num_tokens"]
    assert "Seen on a Monday." in option["assumptions"]

    def others(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted((one for one in options if one["layout"] != option["layout"]), key=lambda one: str(one["layout"]))

    assert others(found) == others(plain)
    assert option["tokens"] not in [one["tokens"] for one in plain]
    rows = [line for line in capacity_lines(weighed(measured)) if "observed" in line and line.startswith("  fits")]
    assert len(rows) == 1 and "tp 4, observed" in rows[0]


def test_layouts_that_a_draft_excludes_are_named_beside_those_that_it_does_not() -> None:
    draft = {
        "algorithm": "EAGLE3",
        "model_path": "/draft",
        "model": {**QWEN, "name": "draft", "weights": {"total_bytes": 10**9}},
    }
    found = weighed(asked(topology=box(2), speculative=draft, workload={"context_tokens": 1000}))
    assert {one["layout"]["pipeline_parallel_size"] for one in found["options"]} == {1}
    text = " ".join(" ".join(capacity_lines(found)).split())
    assert "Not planned: Qwen3-32B, tp 1, pp 2: speculative.algorithm is EAGLE3" in text


@pytest.mark.parametrize("change", [{"boards": [L40S]}, {"topology": box(1), "models": [QWEN, LLAMA]}])
def test_what_was_observed_belongs_to_one_model_on_one_machine(change: dict[str, Any]) -> None:
    assert refused(asked(observed=SEEN, **change)).code == "observed_ambiguous"
