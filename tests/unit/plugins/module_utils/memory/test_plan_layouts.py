# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole plans of layouts with pipeline stages, groups of attention ranks and drafts."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import DRAFT
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    DEEPSEEK_V3,
    GLM_5,
    LLAMA_8B,
    QWEN3_NEXT,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import GIB, changed, planned

BUDGET = 40 * GIB
EAGLE3_HEAD = {
    "path": "/srv/models/head",
    "architecture": "LlamaForCausalLMEagle3",
    "attention": {"num_layers": 1, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128},
    "weights": {"total_bytes": 900_000_000},
}


def request(config: dict[str, Any], ranks: int = 4, **changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "sglang_version": "0.5.23",
        "model": {
            "name": "model",
            "architecture": config["architectures"][0],
            "dtype": "bfloat16",
            "attention": attention_from_config(config).as_dict(),
            "structure": {"num_nextn_layers": config.get("num_nextn_predict_layers")},
        },
        "topology": {
            "gpus": [
                {"index": i, "numa_node": 0, "memory_total_bytes": 80 * GIB, "compute_capability": "9.0"}
                for i in range(ranks)
            ],
            "numa_nodes": [{"id": 0}],
            "host": {"memory_available_bytes": 4000 * 10**9},
        },
        "server": {"tensor_parallel_size": ranks, "mem_fraction_static": 0.88},
        "hicache": {"enabled": False},
        "observed": {"kv_pool_bytes": BUDGET},
    }
    return changed(arguments, changes)


def device_of(arguments: dict[str, Any]) -> dict[str, Any]:
    return dict(planned(arguments)["device"])


def size_of(pools: list[dict[str, Any]], kind: str) -> int:
    return int(next(pool["bytes_per_slot"] for pool in pools if pool["kind"] == kind))


def test_stages_share_the_fewest_tokens_and_differ_in_bytes() -> None:
    # 32 layers over 3 stages: 10, 11 and 11.
    server = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}
    device = device_of(request(LLAMA_8B, 6, server=server))
    layer = 4 * 256 * 2
    assert [size_of(stage["pools"], "kv") for stage in device["stages"]] == [10 * layer, 11 * layer, 11 * layer]
    assert device["max_total_num_tokens"] == BUDGET // (11 * layer)
    assert {pool["slots"] for stage in device["stages"] for pool in stage["pools"]} == {BUDGET // (11 * layer)}
    assert device["pools"] == device["stages"][1]["pools"]
    # Older releases give the rest to the last stage: 10, 10 and 12.
    older = device_of(request(LLAMA_8B, 6, server=server, sglang_version="0.5.5"))
    assert older["max_total_num_tokens"] == BUDGET // (12 * layer)


MISTRAL_SMALL = {
    "architecture": "Mistral3ForConditionalGeneration",
    "attention": {"num_layers": 40, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128},
}


def test_stages_that_do_not_tell_their_layers_keep_the_caches_of_all() -> None:
    # A start of Mistral-Small-3.1 on four stages told 69.15 GiB after 8.22 GiB of weights, and 351,850 tokens.
    before, after = int((69.15 + 8.22) * GIB), int(69.15 * GIB)
    arguments = request(
        LLAMA_8B,
        sglang_version="0.5.6",
        model=MISTRAL_SMALL,
        server={"tensor_parallel_size": 1, "pipeline_parallel_size": 4, "mem_fraction_static": 0.8},
        observed={
            "kv_pool_bytes": None,
            "available_before_load_bytes": before,
            "available_after_load_bytes": after,
        },
    )
    found = planned(arguments)
    assert found["device"]["max_total_num_tokens"] == pytest.approx(351_850, rel=0.005)
    assert {size_of(stage["pools"], "kv") for stage in found["device"]["stages"]} == {40 * 2 * 8 * 128 * 2}
    assert "pipeline_stages_keep_all_layers" in warnings_of(arguments)
    assert any("caches of all layers" in line for line in found["explanation"])
    pinned = planned(changed(arguments, {"hicache": {"enabled": True, "ratio": 2.0}}))["host"]
    alone = changed(arguments, {"hicache": {"enabled": True, "ratio": 2.0}, "server": {"pipeline_parallel_size": 1}})
    # Each of the four ranks pins what one rank with all layers would.
    assert pinned["bytes_total"] == 4 * pinned["bytes_per_rank"]
    assert pinned["bytes_per_rank"] == pytest.approx(planned(alone)["host"]["bytes_per_rank"], rel=0.001)
    assert "pipeline_stages_keep_all_layers" not in warnings_of(alone)


def test_states_of_all_layers_on_every_stage() -> None:
    model = {"architecture": "Qwen3_5MoeForConditionalGeneration"}
    server = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}
    older, newer = (
        device_of(request(QWEN3_NEXT, 6, server=server, model=model, sglang_version=version))
        for version in ("0.5.9", "0.5.10")
    )
    assert [size_of(stage["pools"], "mamba") for stage in older["stages"]] == [
        3 * size_of(stage["pools"], "mamba") for stage in newer["stages"]
    ]


def test_a_cap_holds_for_every_stage() -> None:
    server = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3, "max_total_tokens": 1000}
    device = device_of(request(LLAMA_8B, 6, server=server))
    assert {pool["slots"] for stage in device["stages"] for pool in stage["pools"]} == {1000}


def test_states_are_kept_by_the_stage_that_has_their_layers() -> None:
    # 48 layers, every fourth of them with tokens; stages of 16 layers with 12 state layers each.
    server = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}
    model = {"architecture": "Qwen3_5MoeForCausalLM"}
    one = device_of(request(QWEN3_NEXT, 6, server={"tensor_parallel_size": 2}, model=model))
    three = device_of(request(QWEN3_NEXT, 6, server=server, model=model))
    whole = size_of(one["pools"], "mamba")
    assert [size_of(stage["pools"], "mamba") for stage in three["stages"]] == [whole // 3] * 3
    slots = {pool["slots"] for stage in three["stages"] for pool in stage["pools"] if pool["kind"] == "mamba"}
    assert len(slots) == 1 and slots.pop() > 2.9 * one["pools"][1]["slots"]


def test_each_group_of_attention_ranks_keeps_tokens_of_its_own() -> None:
    server = {"tensor_parallel_size": 8, "attention_data_parallel_size": 4}
    device = device_of(request(LLAMA_8B, 8, server=server))
    # Two ranks share 8 KV heads.
    assert device["bytes_per_token"] == 4 * 256 * 2 * 32
    assert device["token_groups"] == 4
    assert device["total_num_tokens"] == 4 * device["max_total_num_tokens"]
    assert device["max_total_num_tokens"] == BUDGET // device["bytes_per_token"]


def test_states_are_divided_between_groups() -> None:
    states = {"max-mamba-cache-size": 80}
    plain = device_of(request(QWEN3_NEXT, server={"extra_arguments": states}))
    groups = device_of(request(QWEN3_NEXT, server={"extra_arguments": states, "attention_data_parallel_size": 4}))
    assert [device["pools"][1]["slots"] for device in (plain, groups)] == [80, 20]
    # All heads on one rank.
    assert size_of(groups["pools"], "mamba") == 4 * size_of(plain["pools"], "mamba")


def test_draft_layers_are_counted_from_0_5_14_on() -> None:
    cell = (512 + 64) * 61 * 2
    asked = {"algorithm": "NEXTN"}
    model = {"structure": {"num_nextn_layers": 1}, "weights": {"total_bytes": 10**9}}
    older = planned(request(DEEPSEEK_V3, speculative=asked, model=model, sglang_version="0.5.13"))["device"]
    newer = planned(request(DEEPSEEK_V3, speculative=asked, model=model))["device"]
    assert older["max_total_num_tokens"] == BUDGET // cell
    assert newer["max_total_num_tokens"] == BUDGET // (cell + 1152)
    assert [size_of(device["pools"], DRAFT) for device in (older, newer)] == [1152, 1152]
    # What the budget does not count is not part of what it pays for.
    assert older["kv_pool_bytes"] == older["max_total_num_tokens"] * cell
    assert newer["kv_pool_bytes"] == newer["max_total_num_tokens"] * (cell + 1152)


def test_a_draft_of_another_shape_takes_its_own_bytes() -> None:
    asked = {"algorithm": "EAGLE3", "model": EAGLE3_HEAD}
    device = device_of(request(DEEPSEEK_V3, speculative=asked))
    # Counted as one more latent layer, kept as two heads on each of four ranks.
    assert device["max_total_num_tokens"] == BUDGET // ((512 + 64) * 62 * 2)
    assert size_of(device["pools"], DRAFT) == 2 * 256 * 2
    assert device["draft_weights_bytes"] == 225_000_000


def test_an_index_is_drafted_as_well() -> None:
    asked, model = {"algorithm": "NEXTN"}, {"structure": {"num_nextn_layers": 1}}
    device = device_of(request(GLM_5, speculative=asked, model=model))
    assert size_of(device["pools"], DRAFT) == 1152 + 132


def test_older_releases_add_tokens_for_drafts() -> None:
    asked = {"algorithm": "EAGLE3", "model": EAGLE3_HEAD}
    plain, drafted = (device_of(request(LLAMA_8B, sglang_version="0.5.6", speculative=each)) for each in (None, asked))
    # 48 requests of 5 x 4 + 8 tokens, and 100.
    assert drafted["max_total_num_tokens"] - plain["max_total_num_tokens"] == 48 * 28 + 100
    fewer = device_of(request(LLAMA_8B, sglang_version="0.5.6", speculative=asked, server={"max_running_requests": 10}))
    assert fewer["max_total_num_tokens"] - plain["max_total_num_tokens"] == 10 * 28 + 100
    newer = device_of(request(LLAMA_8B, sglang_version="0.5.7", speculative=asked))
    assert newer["max_total_num_tokens"] == plain["max_total_num_tokens"]


def test_states_of_draft_tokens_are_kept_for_every_running_request() -> None:
    asked = {"algorithm": "NEXTN"}
    plain, drafted = (device_of(request(QWEN3_NEXT, speculative=each)) for each in (None, asked))
    slots = [pool["slots"] for device in (plain, drafted) for pool in device["pools"] if pool["kind"] == "mamba"]
    # Three and two slots a request, of which four draft tokens take a part each.
    assert slots[1] == pytest.approx(slots[0] / (1 + 4 / 5), abs=4)
    more = device_of(request(QWEN3_NEXT, speculative=asked, server={"max_running_requests": 200}))
    assert more["max_total_num_tokens"] < drafted["max_total_num_tokens"]


def test_weights_of_the_draft_are_loaded_before_the_pools_are_sized() -> None:
    asked = {"algorithm": "EAGLE3", "model": EAGLE3_HEAD}
    loaded: dict[str, Any] = {"observed": {"kv_pool_bytes": None}, "model": {"weights": {"total_bytes": 16 * GIB}}}
    older, newer = (
        device_of(request(LLAMA_8B, **loaded, speculative=asked, sglang_version=version))
        for version in ("0.5.13", "0.5.14")
    )
    assert older["weights_bytes"] == newer["weights_bytes"] == 4 * GIB
    budgets = [
        device_of(request(LLAMA_8B, **loaded, sglang_version=version))["max_total_num_tokens"]
        for version in ("0.5.13", "0.5.14")
    ]
    assert older["max_total_num_tokens"] == budgets[0] == budgets[1]
    cell = 2 * 256 * 2 * 32
    assert newer["max_total_num_tokens"] == pytest.approx((budgets[1] * cell - 225_000_000) / (cell * 33 / 32), abs=2)


def test_the_embedding_of_a_draft_is_there_while_the_pools_are_sized() -> None:
    structure = {"vocab_size": 128256, "hidden_size": 4096}
    head = {**EAGLE3_HEAD, "structure": structure}
    loaded: dict[str, Any] = {"observed": {"kv_pool_bytes": None}, "model": {"weights": {"total_bytes": 16 * GIB}}}

    def tokens(version: str, draft: dict[str, Any]) -> int:
        asked = {"algorithm": "EAGLE3", "model": draft}
        return int(
            device_of(request(LLAMA_8B, **loaded, speculative=asked, sglang_version=version))["max_total_num_tokens"]
        )

    cell = 2 * 256 * 2 * 33
    assert tokens("0.5.14", EAGLE3_HEAD) - tokens("0.5.14", head) == pytest.approx(128256 * 4096 * 2 / 4 / cell, abs=2)
    assert tokens("0.5.13", EAGLE3_HEAD) == tokens("0.5.13", head)


def test_a_draft_that_no_argument_names_is_refused() -> None:
    unnamed = {key: value for key, value in EAGLE3_HEAD.items() if key != "path"}
    for asked in ({"algorithm": "EAGLE3", "model": unnamed}, {"algorithm": "EAGLE", "model": unnamed}):
        with pytest.raises(Refusal) as refusal:
            planned(request(LLAMA_8B, speculative=asked))
        assert refusal.value.code == "speculative_model_missing"
        named = planned(request(LLAMA_8B, speculative={**asked, "model_path": "/srv/models/other"}))
        assert named["arguments"]["speculative-draft-model-path"] == "/srv/models/other"
    with pytest.raises(Refusal):
        planned(request(LLAMA_8B, speculative={"algorithm": "EAGLE3"}))
    held = planned(request(LLAMA_8B, speculative={"algorithm": "EAGLE3", "model": EAGLE3_HEAD}))
    assert held["arguments"]["speculative-draft-model-path"] == "/srv/models/head"


def warnings_of(arguments: dict[str, Any]) -> dict[str, str]:
    return {warning["code"]: warning["message"] for warning in planned(arguments)["warnings"]}


def test_a_draft_that_is_not_known() -> None:
    asked = {"algorithm": "EAGLE3", "model_path": "/srv/models/head"}
    loaded: dict[str, Any] = {"model": {"weights": {"total_bytes": 16 * GIB}}}
    arguments = request(LLAMA_8B, speculative=asked)
    assert "its weights and its KV cache are not counted" in warnings_of(arguments)["draft_not_planned"]
    # A start with the draft has told what it leaves of the device, and not what it takes of the host.
    seen = changed(arguments, {"observed": {"idle_bytes_per_gpu": 3 * GIB}})
    assert "draft_not_planned" not in warnings_of(seen)
    pinned = changed(seen, {"hicache": {"enabled": True, "ratio": 2.0}})
    assert "its host pool is not counted" in warnings_of(pinned)["draft_not_planned"]
    # Which it has from 0.5.11 on.
    assert "draft_not_planned" not in warnings_of(changed(pinned, {"sglang_version": "0.5.10"}))
    with pytest.raises(Refusal) as refusal:
        planned(request(LLAMA_8B, **loaded, speculative=asked, observed={"kv_pool_bytes": None}))
    assert refusal.value.code == "draft_weights_unknown"


def test_a_draft_that_eats_the_reserve_is_warned_of() -> None:
    head = {**EAGLE3_HEAD, "weights": {"total_bytes": 28 * GIB}}
    older = request(LLAMA_8B, sglang_version="0.5.13", speculative={"algorithm": "EAGLE3", "model": head})
    assert "draft_in_reserve" in warnings_of(older)
    seen = changed(older, {"observed": {"idle_bytes_per_gpu": 3 * GIB}})
    assert "draft_in_reserve" not in warnings_of(seen)
    newer = changed(older, {"sglang_version": "0.5.14"})
    assert "draft_in_reserve" not in warnings_of(newer)


def test_a_draft_whose_rows_are_wider_than_what_is_counted_is_warned_of() -> None:
    wide = {"num_layers": 1, "num_attention_heads": 64, "num_kv_heads": 64, "head_dim": 128}
    head = {**EAGLE3_HEAD, "attention": wide}
    # Eight groups hold all heads of the draft: 32,768 bytes a token where one more latent layer has 1,152.
    server = {"tensor_parallel_size": 8, "attention_data_parallel_size": 8}
    arguments = request(DEEPSEEK_V3, 8, server=server, speculative={"algorithm": "EAGLE3", "model": head})
    assert "draft_in_reserve" in warnings_of(arguments)
    narrow = changed(arguments, {"speculative": {"model": EAGLE3_HEAD}, "server": {"attention_data_parallel_size": 1}})
    assert "draft_in_reserve" not in warnings_of(narrow)


def test_a_cap_below_a_page_is_refused() -> None:
    arguments = request(LLAMA_8B, server={"page_size": 64, "max_total_tokens": 63})
    with pytest.raises(Refusal) as refusal:
        planned(arguments)
    assert (refusal.value.code, refusal.value.evidence["page_size"]) == ("token_cap_below_a_page", 64)
    assert device_of(changed(arguments, {"server": {"max_total_tokens": 64}}))["max_total_num_tokens"] == 64
