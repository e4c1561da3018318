# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A layout of ranks as its flags give it, what SGLang refuses about one, and which layers each stage has; pure.

Widths as C(derive_parallel_widths) of runtime_context.py (0.5.23) has them: attention TP is TP over attention DP,
experts' TP is TP over EP.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import TensorGroup
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import EXPERT
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import ModelStructure
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# lm_head only where pp_group.is_last_rank; all others build it on every stage (llama.py, mixtral.py, qwen3_moe.py …).
HEAD_ON_LAST_STAGE = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV4ForCausalLM",
        "GlmMoeDsaForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
        "KimiLinearForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Glm4ForCausalLM",
        "Glm4vForConditionalGeneration",
        "Glm4vMoeForConditionalGeneration",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "MiMoV2ForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiniMaxM2ForCausalLM",
        "NemotronHForCausalLM",
        "Step3p5ForCausalLM",
        "SolarForCausalLM",
        "OrionForCausalLM",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
    }
)
# VocabParallelEmbedding without use_attn_tp_group: split over all ranks of a stage, DP attention or not.
EMBEDDING_OVER_ALL_RANKS = frozenset(
    {
        "LlamaForCausalLM",
        "LlamaForCausalLMEagle",
        "LlamaForCausalLMEagle3",
        "Qwen2ForCausalLMEagle",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "DeepseekForCausalLM",
        "Exaone4ForCausalLM",
        "GraniteForCausalLM",
        "GraniteMoeForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "KimiLinearForCausalLM",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "OlmoeForCausalLM",
        "Olmo2ForCausalLM",
        "PhiMoEForCausalLM",
        "XverseForCausalLM",
        "XverseMoeForCausalLM",
    }
)
# enable_tp=not is_dp_attention_enabled().
EMBEDDING_WHOLE_WITH_DP_ATTENTION = frozenset(
    {
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
        "DeepseekV4ForCausalLM",
        "ExaoneMoEForCausalLM",
        "Grok1ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Step3p5ForCausalLM",
    }
)
# The router's weight is made float32 (0.5.23; 16 bits in 0.5.9: glm4_moe.py, glm4_moe_lite.py, minimax_m2.py, grok.py).
FLOAT32_ROUTER = frozenset(
    {"Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "Glm4vMoeForConditionalGeneration", "MiniMaxM2ForCausalLM"}
    | {"Grok1ForCausalLM"}
)
# Their towers are built of VisionAttention and parallel linear layers; --mm-enable-dp-encoder makes them whole.
VISION_SPLIT = frozenset(
    {
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Glm4vForConditionalGeneration",
        "Glm4vMoeForConditionalGeneration",
    }
)


# Of their towers only the attention is split; feed-forward and projector are ReplicatedLinear (kimi_vl_moonvit.py).
VISION_ATTENTION_SPLIT = frozenset({"KimiK25ForConditionalGeneration"})


@dataclass(frozen=True)
class RankLayout:
    """Flags that decide where weights lie; the defaults are the server's."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    # The groups of --enable-dp-attention, 1 without it.
    attention_data_parallel: int = 1
    # --moe-dense-tp-size; only 1 is taken by the server.
    dense_tensor_parallel: int | None = None
    # Any --moe-a2a-backend but none: shared experts are whole on every rank.
    expert_all_to_all: bool = False
    redundant_experts: int = 0
    dp_lm_head: bool = False
    # --mm-enable-dp-encoder.
    whole_vision: bool = False
    # A draft out of the checkpoint's own layers: NEXTN, or EAGLE without a model of its own.
    with_mtp: bool = False
    speculative: bool = False
    # SGLANG_PP_LAYER_PARTITION.
    layer_partition: tuple[int, ...] | None = None
    # cuda, or rocm, where FP8 kv_b_proj is absorbed as FP8.
    hardware: str = "cuda"
    # DeepGEMM on compute capability 10.0: scales of 128 x 128 blocks become one exponent a row and block.
    packed_block_scales: bool = False
    # To 0.5.9 the block scales of NVFP4 experts stay beside their swizzled copy.
    nvfp4_scale_copies: bool = False

    @property
    def attention_tensor_parallel(self) -> int:
        return max(1, self.tensor_parallel // self.attention_data_parallel)

    @property
    def expert_tensor_parallel(self) -> int:
        return max(1, self.tensor_parallel // self.expert_parallel)


def stage_layers(layers: int, layout: RankLayout) -> tuple[tuple[int, int], ...]:
    """First and last layer of each stage: C(get_pp_indices) of distributed/utils.py gives later stages the rest."""
    stages = layout.pipeline_parallel
    sizes = layout.layer_partition
    if sizes is None or stages == 1:
        base, rest = divmod(layers, stages)
        sizes = tuple(base + (1 if stage >= stages - rest else 0) for stage in range(stages))
    found, start = [], 0
    for size in sizes:
        found.append((start, start + size - 1))
        start += size
    return tuple(found)


def check_layout(structure: ModelStructure, groups: Iterable[TensorGroup], layout: RankLayout, layers: int) -> None:
    """What SGLang asserts while it builds the model."""
    for name, size in (
        ("tensor_parallel", layout.tensor_parallel),
        ("pipeline_parallel", layout.pipeline_parallel),
        ("expert_parallel", layout.expert_parallel),
        ("attention_data_parallel", layout.attention_data_parallel),
    ):
        if size < 1:
            raise _refused(f"{name} is {size}.", "Expected a whole number above 0.")
    _divides("attention_data_parallel", layout.attention_data_parallel, "tensor_parallel", layout.tensor_parallel)
    _divides("expert_parallel", layout.expert_parallel, "tensor_parallel", layout.tensor_parallel)
    ranks = layout.attention_tensor_parallel
    if structure.num_attention_heads:
        _divides("the number of attention ranks", ranks, "num_attention_heads", structure.num_attention_heads)
    kv_heads = structure.num_kv_heads
    if kv_heads and kv_heads % ranks and ranks % kv_heads:
        raise _refused(
            f"{kv_heads} KV heads and {ranks} attention ranks: neither divides the other.",
            "Choose tensor_parallel (over attention_data_parallel) so that one divides the other.",
        )
    has_experts = any(group.part == EXPERT for group in groups)
    if has_experts and structure.num_experts:
        experts = structure.num_experts + layout.redundant_experts
        _divides("expert_parallel", layout.expert_parallel, "the experts, redundant ones included,", experts)
    if layers < layout.pipeline_parallel:
        raise _refused(
            f"{layers} layers cannot be given to {layout.pipeline_parallel} pipeline stages.",
            "Choose at most as many stages as layers.",
        )
    partition = layout.layer_partition
    if partition is None or layout.pipeline_parallel == 1:
        return
    if len(partition) != layout.pipeline_parallel or sum(partition) != layers or min(partition) < 0:
        raise _refused(
            f"The partition {', '.join(map(str, partition))} does not give {layers} layers to "
            f"{layout.pipeline_parallel} stages.",
            "Expected one number a stage, which add up to the layers.",
        )


def _divides(name: str, divisor: int, of: str, number: int) -> None:
    if number % divisor:
        fitting = [candidate for candidate in range(1, min(number, divisor * 2, 4096) + 1) if number % candidate == 0][
            -4:
        ]
        raise _refused(
            f"{name} {divisor} does not divide {of} {number}.",
            f"Sizes that do are, for example, {', '.join(map(str, fitting))}.",
        )


def _refused(message: str, remedy: str) -> Refusal:
    return Refusal("layout_indivisible", message[0].upper() + message[1:], remedy)
