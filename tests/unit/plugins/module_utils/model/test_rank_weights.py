# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.rank_weights import (
    MLA_ABSORBED,
    POSITION_CACHE,
    StageWeights,
    WeightFacts,
    rank_weights,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import Tensor
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import tensor_groups
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import RankLayout
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import structure_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model import model_configs as models
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.checkpoints import (
    kimi_vision,
    linear,
    model_tensors,
    qwen3_next_tensors,
    tensor,
)


def facts(config: dict[str, Any], tensors: list[Tensor], method: str | None = None, **more: Any) -> WeightFacts:
    structure = structure_from_config(config, config)
    groups = tensor_groups(tensors, structure.num_layers)
    return WeightFacts(config["architectures"][0], structure, groups, method, **more)


@functools.cache
def built(name: str, form: str) -> WeightFacts:
    config = getattr(models, name)
    tensors = qwen3_next_tensors(config) if name.startswith("QWEN3_NEXT") else model_tensors(config, form)
    return facts(config, tensors, "awq" if form == "awq" else None)


def parameters(stage: StageWeights) -> int:
    """Without what SGLang derives from parameters."""
    return sum(size for part, size in stage.by_part.items() if part not in (MLA_ABSORBED, POSITION_CACHE))


TP, PP, EP, DP = "tensor_parallel", "pipeline_parallel", "expert_parallel", "attention_data_parallel"

# Bytes of all parameters of one rank, as SGLang 0.5.23's own model classes have them when they are built for that rank
# (on torch's meta device, from the configuration alone; scales of the KV cache left out).
BUILT: list[tuple[str, str, dict[str, Any], int, int]] = [
    ("LLAMA_31_8B", "BF16", {TP: 4}, 0, 4015529984),
    ("LLAMA_31_70B", "BF16", {TP: 8}, 0, 17640734720),
    ("LLAMA_31_70B", "BF16", {TP: 8, PP: 2}, 0, 9083027456),
    ("LLAMA_31_70B", "BF16", {TP: 8, PP: 2}, 1, 8820375552),
    ("LLAMA_31_8B", "awq", {TP: 2}, 0, 2864193536),
    ("QWEN25_05B", "BF16", {TP: 2}, 0, 494076672),
    ("QWEN25_7B", "BF16", {TP: 4}, 0, 3808114688),
    ("QWEN2_72B", "BF16", {TP: 8}, 0, 18178859008),
    ("R1_DISTILL_QWEN_14B", "BF16", {TP: 4, PP: 3}, 0, 2591678464),
    ("R1_DISTILL_QWEN_14B", "BF16", {TP: 4, PP: 3}, 1, 2202394624),
    ("R1_DISTILL_QWEN_14B", "BF16", {TP: 4, PP: 3}, 2, 2591688704),
    ("QWEN3_06B", "BF16", {}, 0, 1192099840),
    ("QWEN3_06B", "BF16", {TP: 4}, 0, 298123264),
    ("QWEN3_06B", "BF16", {TP: 2, PP: 2}, 0, 375847936),
    ("QWEN3_06B", "BF16", {TP: 2, PP: 2}, 1, 375849984),
    ("QWEN3_30B_A3B", "BF16", {TP: 8}, 0, 7680585728),
    ("QWEN3_30B_A3B", "BF16", {TP: 8, EP: 8}, 0, 7680585728),
    ("QWEN3_30B_A3B", "BF16", {TP: 8, EP: 4}, 0, 7680585728),
    ("QWEN3_235B_A22B", "BF16", {TP: 8}, 0, 58959617024),
    ("QWEN3_235B_A22B", "fp8-block", {TP: 4}, 0, 59186485760),
    ("QWEN3_235B_A22B", "BF16", {TP: 8, DP: 8, EP: 8}, 0, 71679499264),
    ("QWEN3_235B_A22B", "BF16", {TP: 4, PP: 4}, 0, 29249891840),
    ("QWEN3_235B_A22B", "BF16", {TP: 4, PP: 4}, 1, 28938726912),
    ("QWEN3_235B_A22B", "BF16", {TP: 4, PP: 4}, 2, 30183403520),
    ("QWEN3_235B_A22B", "BF16", {TP: 4, PP: 4}, 3, 30183411712),
    ("QWEN3_NEXT_80B_A3B", "BF16", {}, 0, 159348784896),
    ("QWEN3_NEXT_80B_A3B", "BF16", {TP: 4}, 0, 39925738176),
    ("QWEN3_NEXT_80B_A3B", "BF16", {TP: 4, DP: 4, EP: 4}, 0, 42691428096),
    ("MIXTRAL_8X7B", "BF16", {TP: 4}, 0, 23353368576),
    ("DEEPSEEK_V2_LITE", "BF16", {}, 0, 31412968448),
    ("DEEPSEEK_V2_LITE", "BF16", {TP: 4}, 0, 7906319360),
    ("DEEPSEEK_V25", "BF16", {TP: 8}, 0, 60156651520),
    ("DEEPSEEK_V3", "fp8-block", {TP: 8}, 0, 85140130848),
    ("DEEPSEEK_V3", "fp8-block", {TP: 16}, 0, 43139382208),
    ("DEEPSEEK_V3", "fp8-block", {TP: 8, EP: 8}, 0, 85140130848),
    ("DEEPSEEK_V3", "fp8-block", {TP: 8, DP: 8}, 0, 95942770080),
    ("DEEPSEEK_V3", "fp8-block", {TP: 16, DP: 4, EP: 16}, 0, 45454233472),
    ("DEEPSEEK_V3", "fp8-block", {TP: 8, DP: 8, "dp_lm_head": True}, 0, 97564458400),
    (
        "DEEPSEEK_V3",
        "fp8-block",
        {TP: 8, DP: 8, "dp_lm_head": True, "dense_tensor_parallel": 1},
        0,
        98605161952,
    ),
    ("DEEPSEEK_V3", "fp8-block", {TP: 8, PP: 2}, 0, 39788440768),
    ("DEEPSEEK_V3", "fp8-block", {TP: 8, PP: 2}, 1, 45351690080),
    ("GLM_47_FLASH", "BF16", {TP: 2}, 0, 30091113472),
]


@pytest.mark.parametrize(("name", "form", "layout", "stage", "expected"), BUILT)
def test_as_the_model_classes_build_it(name: str, form: str, layout: dict[str, Any], stage: int, expected: int) -> None:
    found = rank_weights(built(name, form), RankLayout(**layout))
    assert parameters(found.stages[stage]) == expected


@pytest.mark.parametrize(("ranks", "expected"), [(1, 596846517216), (8, 78242471424)])
def test_int4_experts_beside_a_vision_tower(ranks: int, expected: int) -> None:
    """Its class holds index placeholders that C(process_weights_after_loading) empties, and shapes as other numbers."""
    config = models.KIMI_K25
    tensors = model_tensors(config, "int4-experts", "language_model.") + kimi_vision()
    placeholders = 60 * 384 * (7168 + 2048 // ranks) * 4 * 2
    found = rank_weights(facts(config, tensors, "compressed-tensors"), RankLayout(tensor_parallel=ranks))
    assert parameters(found.largest) == pytest.approx(expected - placeholders, abs=MIB)


def small(**changes: Any) -> dict[str, Any]:
    return {**models.DEEPSEEK_V3, "num_hidden_layers": 5, "n_routed_experts": 8, **changes}


def small_facts(form: str = "fp8-block", **changes: Any) -> WeightFacts:
    config = small(**changes)
    return facts(config, model_tensors(config, form), "fp8", block=(128, 128))


def test_the_draft_s_layer_is_left_out_unless_speculation_asks() -> None:
    without = rank_weights(small_facts(), RankLayout(tensor_parallel=2)).largest
    with_mtp = rank_weights(small_facts(), RankLayout(tensor_parallel=2, with_mtp=True)).largest
    assert "mtp" not in without.by_part
    layer = without.by_part["expert"] // 2  # two of the five layers have experts
    # One layer more, and the projection of 2 x 7168 to 7168 in 16 bits that is whole on every rank.
    assert with_mtp.by_part["mtp"] > layer + 2 * 7168 * 7168 * 2
    assert with_mtp.by_part["mtp"] < 2 * layer + 2 * 7168 * 7168 * 2


@pytest.mark.parametrize("experts", [1, 8])
def test_as_the_draft_s_class_builds_it(experts: int) -> None:
    """Less the embedding and the head, which it takes from the target once both are built."""
    found = rank_weights(built("DEEPSEEK_V3", "fp8-block"), RankLayout(8, expert_parallel=experts, with_mtp=True))
    assert found.largest.by_part["mtp"] == 2124387488 - 2 * 231669760
    without = rank_weights(built("DEEPSEEK_V3", "fp8-block"), RankLayout(8, expert_parallel=experts))
    assert found.largest.by_part[MLA_ABSORBED] * 61 == without.largest.by_part[MLA_ABSORBED] * 62


def test_the_draft_lies_beside_the_last_stage() -> None:
    found = rank_weights(small_facts(), RankLayout(pipeline_parallel=2, with_mtp=True, speculative=True))
    assert [("mtp" in stage.by_part) for stage in found.stages] == [False, True]
    # The draft takes the embedding of the last stage (pp_stage_needs_embedding).
    assert [("embedding" in stage.by_part) for stage in found.stages] == [True, True]


@pytest.mark.parametrize(
    ("form", "block", "hardware", "width"),
    [
        ("BF16", None, "cuda", 2),
        ("fp8-block", (128, 128), "cuda", 2),
        ("fp8-block", (128, 128), "rocm", 1),
        ("fp8-block", None, "cuda", 1),
    ],
)
def test_latent_attention_keeps_copies_of_its_projection(
    form: str, block: tuple[int, int] | None, hardware: str, width: int
) -> None:
    config = small()
    held = rank_weights(
        facts(config, model_tensors(config, form), "fp8", block=block),
        RankLayout(tensor_parallel=4, hardware=hardware),
    )
    assert held.largest.by_part[MLA_ABSORBED] == 5 * (128 // 4) * (128 + 128) * 512 * width


def test_shared_experts_are_whole_beside_an_all_to_all_backend() -> None:
    split = rank_weights(small_facts(), RankLayout(tensor_parallel=8, expert_parallel=8)).largest
    whole = rank_weights(
        small_facts(), RankLayout(tensor_parallel=8, expert_parallel=8, expert_all_to_all=True)
    ).largest
    assert whole.by_part["shared_expert"] == pytest.approx(8 * split.by_part["shared_expert"], rel=1e-3)


def test_redundant_experts_are_held_too() -> None:
    few = rank_weights(small_facts(), RankLayout(tensor_parallel=8, expert_parallel=8)).largest
    more = rank_weights(small_facts(), RankLayout(tensor_parallel=8, expert_parallel=8, redundant_experts=8)).largest
    assert more.by_part["expert"] == 2 * few.by_part["expert"]


def test_exponents_a_row_for_deepgemm_on_blackwell() -> None:
    plain = rank_weights(small_facts(), RankLayout(tensor_parallel=2)).largest
    packed = rank_weights(small_facts(), RankLayout(tensor_parallel=2, packed_block_scales=True)).largest
    # 128 rows x 1 byte against 4 bytes a block, with blocks of a row rounded up to 4.
    scales = plain.by_part["shared_expert"] - 2 * 3 * 1024 * 7168
    grown = packed.by_part["shared_expert"] - 2 * 3 * 1024 * 7168
    assert grown == 32 * scales


def test_gptq_for_marlin_drops_what_it_does_not_read() -> None:
    config = models.LLAMA_31_8B
    tensors = model_tensors(config, "gptq4")
    kept = rank_weights(facts(config, tensors, "gptq", act_order=True, symmetric=False), RankLayout()).largest
    dropped = rank_weights(facts(config, tensors, "gptq"), RankLayout()).largest
    indexes = sum(item.size_bytes for item in tensors if item.name.endswith("g_idx"))
    zeros = sum(item.size_bytes for item in tensors if item.name.endswith("qzeros"))
    assert parameters(kept) - parameters(dropped) == 2 * indexes + zeros


def test_act_order_keeps_all_groups_of_an_input_on_every_rank() -> None:
    config = models.LLAMA_31_8B
    tensors = model_tensors(config, "gptq4")
    plain = rank_weights(facts(config, tensors, "gptq", symmetric=False), RankLayout(tensor_parallel=2)).largest
    ordered = rank_weights(
        facts(config, tensors, "gptq", symmetric=False, act_order=True), RankLayout(tensor_parallel=2)
    ).largest
    assert ordered.by_part["attention"] > plain.by_part["attention"]


def test_block_scales_of_nvfp4_experts_may_be_held_twice() -> None:
    config = small(quantization_config=None)
    held = facts(config, model_tensors(config, "BF16", expert_form="nvfp4"), "modelopt_fp4")
    once = rank_weights(held, RankLayout(tensor_parallel=2)).largest.by_part["expert"]
    twice = rank_weights(held, RankLayout(tensor_parallel=2, nvfp4_scale_copies=True)).largest.by_part["expert"]
    assert twice - once == 2 * 8 * 3 * 7168 * 2048 // 16 // 2


def test_a_vocabulary_that_does_not_divide_is_padded() -> None:
    config = {**models.QWEN25_05B, "vocab_size": 1000}
    found = rank_weights(facts(config, model_tensors(config)), RankLayout(tensor_parallel=2)).largest
    assert found.by_part["embedding"] == 1024 // 2 * 896 * 2
    # 1000 rows: 1024 after padding do not divide by 3, so 64 x 3 is the padding.
    three = {**config, "num_attention_heads": 12, "num_key_value_heads": 3}
    found = rank_weights(facts(three, model_tensors(three)), RankLayout(tensor_parallel=3)).largest
    assert found.by_part["embedding"] == 1152 // 3 * 896 * 2


def test_tied_weights_are_two_where_they_lie_apart() -> None:
    config = models.QWEN3_06B
    whole = rank_weights(facts(config, model_tensors(config)), RankLayout()).largest
    assert "lm_head" not in whole.by_part
    stages = rank_weights(facts(config, model_tensors(config)), RankLayout(pipeline_parallel=2)).stages
    assert stages[1].by_part["lm_head"] == stages[0].by_part["embedding"] == whole.by_part["embedding"]


def test_tied_is_told_by_the_weights_where_the_configuration_does_not() -> None:
    config = {key: value for key, value in models.QWEN3_06B.items() if key != "tie_word_embeddings"}
    tied = [item for item in model_tensors(config) if item.name != "lm_head.weight"]
    assert "lm_head" not in rank_weights(facts(config, tied), RankLayout()).largest.by_part
    assert "lm_head" in rank_weights(facts(config, model_tensors(config)), RankLayout()).largest.by_part


def test_a_quantised_head_is_divided_and_not_counted_twice() -> None:
    tensors = [
        tensor("model.embed_tokens.weight", "F16", 1024, 64),
        *linear("lm_head", 1024, 128, "gptq4"),
    ]
    config = {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False}
    held = facts(config, [item for item in tensors if not item.name.endswith("bias")], "gptq", symmetric=False)
    packed, zeros, scales = 128 * 1024 // 2, 1024 // 2, 1024 * 2
    assert rank_weights(held, RankLayout()).largest.by_part["lm_head"] == packed + zeros + scales
    assert rank_weights(held, RankLayout(2)).largest.by_part["lm_head"] == (packed + zeros + scales) // 2


def test_float32_becomes_what_the_model_computes_in_but_for_the_router_s_bias() -> None:
    tensors = [
        tensor("model.layers.0.self_attn.o_proj.weight", "F32", 8, 8),
        tensor("model.layers.0.mlp.gate.e_score_correction_bias", "F32", 8),
    ]
    found = rank_weights(facts({"architectures": ["X"]}, tensors), RankLayout()).largest
    assert found.by_part == {"attention": 8 * 8 * 2, "router": 8 * 4}


def test_mxfp4_experts_are_padded_to_64_a_rank() -> None:
    base = "model.layers.0.mlp.experts"
    tensors = [
        tensor(f"{base}.gate_up_proj_blocks", "U8", 4, 5760, 90, 16),
        tensor(f"{base}.gate_up_proj_scales", "U8", 4, 5760, 90),
        tensor(f"{base}.gate_up_proj_bias", "BF16", 4, 5760),
        tensor(f"{base}.down_proj_blocks", "U8", 4, 2880, 90, 16),
        tensor(f"{base}.down_proj_scales", "U8", 4, 2880, 90),
        tensor(f"{base}.down_proj_bias", "BF16", 4, 2880),
    ]
    held = facts({"architectures": ["GptOssForCausalLM"]}, tensors, "mxfp4")
    # 2880 / 8 = 360 becomes 384.
    rows, blocks = 2 * 384, 384 // 32
    expected = 4 * (rows * 90 * 17 + rows * 2 + 2880 * blocks * 17 + 2880 * 2)
    assert rank_weights(held, RankLayout(tensor_parallel=8)).largest.by_part["expert"] == expected
    # Experts over ranks keep their width.
    rows, blocks = 2 * 2880, 90
    expected = rows * 90 * 17 + rows * 2 + 2880 * blocks * 17 + 2880 * 2
    found = rank_weights(held, RankLayout(tensor_parallel=4, expert_parallel=4)).largest
    assert found.by_part["expert"] == expected


def test_a_layout_that_does_not_divide_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        rank_weights(small_facts(), RankLayout(tensor_parallel=3))
    assert refused.value.code == "layout_indivisible"


def test_what_the_allocator_takes_is_more_than_the_tensors_and_not_much() -> None:
    config = models.QWEN25_7B
    found = rank_weights(facts(config, model_tensors(config)), RankLayout()).largest
    # Every layer's four matrices are rounded up to 2 MiB: 0.5, 1.5, 1 and 0.5 MiB each.
    assert found.allocated_bytes - found.weight_bytes == pytest.approx(28 * 3.5 * MIB, abs=4 * MIB)


def test_the_largest_stage_and_the_sum_over_all_ranks() -> None:
    found = rank_weights(built("DEEPSEEK_V3", "fp8-block"), RankLayout(8, 2))
    assert found.largest is found.stages[1]
    assert found.all_ranks_bytes == 8 * sum(stage.weight_bytes for stage in found.stages)
    assert found.rank(7, 1) is found.stages[1]
    with pytest.raises(IndexError):
        found.rank(8, 0)
    assert found.as_dict()["largest_bytes"] == found.largest.weight_bytes
    assert found.largest.weight_bytes > 42 * GIB


def test_groups_that_were_summed_up_are_whole_on_every_rank() -> None:
    held = small_facts()
    rest = dataclasses.replace(held.groups[0], name="(more)", part="other", shape=None, tensor_bytes=1, per_layer=999)
    found = rank_weights(dataclasses.replace(held, groups=(*held.groups, rest)), RankLayout(tensor_parallel=8))
    assert found.largest.by_part["other"] == 999


HELD = small_facts()
UNSPLIT = rank_weights(HELD, RankLayout()).stages[0]


@settings(max_examples=60)
@given(
    tensor_parallel=st.sampled_from([1, 2, 4, 8]),
    stages=st.integers(1, 5),
    expert_parallel=st.sampled_from([1, 2, 4, 8]),
    groups=st.sampled_from([1, 2, 4, 8]),
)
def test_ranks_together_hold_at_least_the_model_and_each_at_most_all_of_it(
    tensor_parallel: int, stages: int, expert_parallel: int, groups: int
) -> None:
    layout = RankLayout(tensor_parallel, stages, min(expert_parallel, tensor_parallel), min(groups, tensor_parallel))
    found = rank_weights(HELD, layout)
    assert found.all_ranks_bytes >= UNSPLIT.weight_bytes
    for stage in found.stages:
        assert parameters(stage) <= parameters(UNSPLIT)
        assert stage.allocated_bytes >= stage.weight_bytes
    # Parts that are split are never held in fewer bytes than their share.
    experts = sum(stage.by_part.get("expert", 0) for stage in found.stages) * tensor_parallel
    assert UNSPLIT.by_part["expert"] <= experts <= UNSPLIT.by_part["expert"] * 1.01


@given(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]))
def test_more_ranks_never_hold_more_each(ranks: int) -> None:
    fewer = rank_weights(HELD, RankLayout(max(1, ranks // 2))).largest.weight_bytes
    assert rank_weights(HELD, RankLayout(ranks)).largest.weight_bytes <= fewer
