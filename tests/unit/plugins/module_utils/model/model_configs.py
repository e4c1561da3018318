# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of the config.json of well-known models, as far as the sizes of their weights need them."""

from __future__ import annotations

from typing import Any


def _dense(
    architecture: str,
    model_type: str,
    hidden: int,
    wide: int,
    layers: int,
    heads: int,
    keys: int,
    vocab: int,
    **more: Any,
) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": vocab,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        **more,
    }


def _llama(hidden: int, wide: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return _dense(
        "LlamaForCausalLM", "llama", hidden, wide, layers, heads, 8, 128256, max_position_embeddings=131072, **more
    )


def _qwen2(hidden: int, wide: int, layers: int, heads: int, keys: int, vocab: int, **more: Any) -> dict[str, Any]:
    return _dense("Qwen2ForCausalLM", "qwen2", hidden, wide, layers, heads, keys, vocab, **more)


LLAMA_31_8B = _llama(4096, 14336, 32, 32)
LLAMA_31_70B = _llama(8192, 28672, 80, 64)
QWEN2_72B = _qwen2(8192, 29568, 80, 64, 8, 152064, max_position_embeddings=32768)
# Its GPTQ form has wider feed-forward layers, so that groups of 128 divide over 8 ranks.
QWEN2_72B_GPTQ = _qwen2(8192, 29696, 80, 64, 8, 152064, max_position_embeddings=32768)
QWEN25_05B = _qwen2(896, 4864, 24, 14, 2, 151936, max_position_embeddings=32768, tie_word_embeddings=True)
QWEN25_7B = _qwen2(3584, 18944, 28, 28, 4, 152064, max_position_embeddings=32768)
R1_DISTILL_QWEN_14B = _qwen2(5120, 13824, 48, 40, 8, 152064, max_position_embeddings=131072)
QWEN3_06B = _dense(
    "Qwen3ForCausalLM",
    "qwen3",
    1024,
    3072,
    28,
    16,
    8,
    151936,
    head_dim=128,
    max_position_embeddings=40960,
    tie_word_embeddings=True,
)
QWEN3_MOE: dict[str, Any] = {
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "max_position_embeddings": 40960,
}
QWEN3_MOE |= {"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
QWEN3_30B_A3B = _dense(
    "Qwen3MoeForCausalLM", "qwen3_moe", 2048, 6144, 48, 32, 4, 151936, moe_intermediate_size=768, **QWEN3_MOE
)
QWEN3_235B_A22B = _dense(
    "Qwen3MoeForCausalLM", "qwen3_moe", 4096, 12288, 94, 64, 4, 151936, moe_intermediate_size=1536, **QWEN3_MOE
)
MIXTRAL_8X7B = _dense(
    "MixtralForCausalLM",
    "mixtral",
    4096,
    14336,
    32,
    32,
    8,
    32000,
    num_local_experts=8,
    num_experts_per_tok=2,
    max_position_embeddings=32768,
)
_DEEPSEEK_YARN: dict[str, Any] = {
    "type": "yarn",
    "factor": 40,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
_DEEPSEEK_YARN |= {"original_max_position_embeddings": 4096}
_LATENT: dict[str, Any] = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_LATENT |= {"rope_scaling": _DEEPSEEK_YARN, "max_position_embeddings": 163840, "moe_layer_freq": 1}
_LATENT |= {"norm_topk_prob": True, "scoring_func": "softmax", "n_group": 8, "topk_group": 3}
_LATENT |= {"routed_scaling_factor": 16.0}
DEEPSEEK_V2_LITE = _dense(
    "DeepseekV2ForCausalLM",
    "deepseek_v2",
    2048,
    10944,
    27,
    16,
    16,
    102400,
    q_lora_rank=None,
    n_routed_experts=64,
    n_shared_experts=2,
    moe_intermediate_size=1408,
    num_experts_per_tok=6,
    first_k_dense_replace=1,
    topk_method="greedy",
    **_LATENT,
)
DEEPSEEK_V25 = _dense(
    "DeepseekV2ForCausalLM",
    "deepseek_v2",
    5120,
    12288,
    60,
    128,
    128,
    102400,
    q_lora_rank=1536,
    n_routed_experts=160,
    n_shared_experts=2,
    moe_intermediate_size=1536,
    num_experts_per_tok=6,
    first_k_dense_replace=1,
    topk_method="group_limited_greedy",
    **_LATENT,
)
DEEPSEEK_V3 = _dense(
    "DeepseekV3ForCausalLM",
    "deepseek_v3",
    7168,
    18432,
    61,
    128,
    128,
    129280,
    q_lora_rank=1536,
    n_routed_experts=256,
    n_shared_experts=1,
    moe_intermediate_size=2048,
    num_experts_per_tok=8,
    first_k_dense_replace=3,
    topk_method="noaux_tc",
    num_nextn_predict_layers=1,
    quantization_config={
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "weight_block_size": [128, 128],
    },
    **_LATENT,
)
KIMI_K2 = _dense(
    "DeepseekV3ForCausalLM",
    "kimi_k2",
    7168,
    18432,
    61,
    64,
    64,
    163840,
    q_lora_rank=1536,
    n_routed_experts=384,
    n_shared_experts=1,
    moe_intermediate_size=2048,
    num_experts_per_tok=8,
    first_k_dense_replace=1,
    topk_method="noaux_tc",
    **{**_LATENT, "max_position_embeddings": 262144},
)
GLM_47_FLASH = _dense(
    "Glm4MoeLiteForCausalLM",
    "glm4_moe_lite",
    2048,
    10240,
    47,
    20,
    20,
    154880,
    q_lora_rank=768,
    n_routed_experts=64,
    n_shared_experts=1,
    moe_intermediate_size=1536,
    num_experts_per_tok=4,
    first_k_dense_replace=1,
    topk_method="noaux_tc",
    num_nextn_predict_layers=1,
    **{**_LATENT, "qk_nope_head_dim": 192, "v_head_dim": 256, "max_position_embeddings": 202752},
)
KIMI_K25 = {**KIMI_K2, "architectures": ["KimiK25ForConditionalGeneration"]}
QWEN3_NEXT_80B_A3B = _dense(
    "Qwen3NextForCausalLM",
    "qwen3_next",
    2048,
    5120,
    48,
    16,
    2,
    151936,
    head_dim=256,
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    full_attention_interval=4,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    partial_rotary_factor=0.25,
    max_position_embeddings=262144,
)
