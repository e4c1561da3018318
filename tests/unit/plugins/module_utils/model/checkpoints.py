# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tensors of well-known checkpoints, made from the facts of their config.json: names, types and shapes, no data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import Tensor

BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4, "I8": 1, "U8": 1, "I64": 8}


def tensor(name: str, dtype: str, *shape: int) -> Tensor:
    size = BYTES[dtype]
    for side in shape:
        size *= side
    return Tensor(name, dtype, size, shape)


def linear(name: str, out: int, wide: int, form: str, bias: bool = False) -> Iterator[Tensor]:
    """One linear layer as a checkpoint of this form keeps it."""
    if form == "fp8-block":
        yield tensor(f"{name}.weight", "F8_E4M3", out, wide)
        yield tensor(f"{name}.weight_scale_inv", "F32", -(-out // 128), -(-wide // 128))
    elif form == "int8-channel":
        yield tensor(f"{name}.weight", "I8", out, wide)
        yield tensor(f"{name}.weight_scale", "F32", out, 1)
    elif form.startswith("gptq"):
        bits = int(form[4])
        yield tensor(f"{name}.qweight", "I32", wide * bits // 32, out)
        yield tensor(f"{name}.qzeros", "I32", wide // 128, out * bits // 32)
        yield tensor(f"{name}.scales", "F16", wide // 128, out)
        yield tensor(f"{name}.g_idx", "I32", wide)
        # Their exporters write a bias where the model has none.
        bias = True
    elif form == "awq":
        yield tensor(f"{name}.qweight", "I32", wide, out // 8)
        yield tensor(f"{name}.qzeros", "I32", wide // 128, out // 8)
        yield tensor(f"{name}.scales", "F16", wide // 128, out)
    elif form == "int4-packed":
        yield tensor(f"{name}.weight_packed", "I32", out, wide // 8)
        yield tensor(f"{name}.weight_scale", "BF16", out, wide // 32)
        yield tensor(f"{name}.weight_shape", "I64", 2)
    elif form == "nvfp4":
        yield tensor(f"{name}.weight", "U8", out, wide // 2)
        yield tensor(f"{name}.weight_scale", "F8_E4M3", out, wide // 16)
        yield tensor(f"{name}.weight_scale_2", "F32")
        yield tensor(f"{name}.input_scale", "F32")
    else:
        yield tensor(f"{name}.weight", form, out, wide)
    if bias:
        yield tensor(f"{name}.bias", "F16" if form.startswith("gptq") else "BF16", out)


def model_tensors(config: dict[str, Any], form: str = "BF16", prefix: str = "", expert_form: str = "") -> list[Tensor]:
    """The whole checkpoint. C(form) is that of linear layers, C(expert_form) that of routed experts if it differs."""
    return list(_model(config, form, prefix, expert_form or form))


def _model(config: dict[str, Any], form: str, prefix: str, expert_form: str) -> Iterator[Tensor]:
    hidden = config["hidden_size"]
    plain = "F16" if form.startswith(("gptq", "awq")) else "BF16"
    yield tensor(f"{prefix}model.embed_tokens.weight", plain, config["vocab_size"], hidden)
    # Kimi's INT4 leaves everything but the experts as it was.
    quantized = "BF16" if form == "int4-experts" else form
    experts = "int4-packed" if form == "int4-experts" else expert_form
    for layer in range(config["num_hidden_layers"]):
        yield from _layer(config, f"{prefix}model.layers.{layer}", layer, quantized, experts, plain)
    for draft in range(config.get("num_nextn_predict_layers", 0)):
        layer = config["num_hidden_layers"] + draft
        base = f"{prefix}model.layers.{layer}"
        yield from _layer(config, base, layer, quantized, experts, plain)
        yield tensor(f"{base}.eh_proj.weight", "BF16", hidden, 2 * hidden)
        for name in ("enorm", "hnorm", "shared_head.norm"):
            yield tensor(f"{base}.{name}.weight", "BF16", hidden)
        yield tensor(f"{base}.embed_tokens.weight", "BF16", config["vocab_size"], hidden)
        yield tensor(f"{base}.shared_head.head.weight", "BF16", config["vocab_size"], hidden)
    yield tensor(f"{prefix}model.norm.weight", plain, hidden)
    if not config.get("tie_word_embeddings"):
        yield tensor(f"{prefix}lm_head.weight", plain, config["vocab_size"], hidden)


def _layer(config: dict[str, Any], base: str, layer: int, form: str, expert_form: str, plain: str) -> Iterator[Tensor]:
    hidden = config["hidden_size"]
    yield tensor(f"{base}.input_layernorm.weight", plain, hidden)
    yield tensor(f"{base}.post_attention_layernorm.weight", plain, hidden)
    latent = "kv_lora_rank" in config
    yield from (_latent if latent else _heads)(config, f"{base}.self_attn", form, plain)
    experts = config.get("n_routed_experts") or config.get("num_experts") or config.get("num_local_experts")
    if not experts or layer < config.get("first_k_dense_replace", 0):
        yield from _mlp(f"{base}.mlp", hidden, config["intermediate_size"], form)
        return
    mixtral = config["model_type"] == "mixtral"
    block = f"{base}.block_sparse_moe" if mixtral else f"{base}.mlp"
    yield tensor(f"{block}.gate.weight", plain, experts, hidden)
    if config.get("topk_method") == "noaux_tc":
        yield tensor(f"{block}.gate.e_score_correction_bias", "F32", experts)
    wide = config.get("moe_intermediate_size", config["intermediate_size"])
    for expert in range(experts):
        yield from _mlp(f"{block}.experts.{expert}", hidden, wide, expert_form, ("w1", "w3", "w2") if mixtral else None)
    shared = config.get("n_shared_experts")
    if shared:
        yield from _mlp(f"{block}.shared_experts", hidden, wide * shared, form)


def _mlp(base: str, hidden: int, wide: int, form: str, names: tuple[str, str, str] | None = None) -> Iterator[Tensor]:
    gate, up, down = names or ("gate_proj", "up_proj", "down_proj")
    yield from linear(f"{base}.{gate}", wide, hidden, form)
    yield from linear(f"{base}.{up}", wide, hidden, form)
    yield from linear(f"{base}.{down}", hidden, wide, form)


def _heads(config: dict[str, Any], base: str, form: str, plain: str) -> Iterator[Tensor]:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    size = config.get("head_dim") or hidden // heads
    keys = config.get("num_key_value_heads", heads) * size
    bias = config["model_type"] in ("qwen2", "qwen2_moe")
    yield from linear(f"{base}.q_proj", heads * size, hidden, form, bias)
    yield from linear(f"{base}.k_proj", keys, hidden, form, bias)
    yield from linear(f"{base}.v_proj", keys, hidden, form, bias)
    yield from linear(f"{base}.o_proj", hidden, heads * size, form)
    if config["model_type"] in ("qwen3", "qwen3_moe"):
        yield tensor(f"{base}.q_norm.weight", plain, size)
        yield tensor(f"{base}.k_norm.weight", plain, size)


def _latent(config: dict[str, Any], base: str, form: str, plain: str) -> Iterator[Tensor]:
    hidden, heads, rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    query = config.get("q_lora_rank")
    if query:
        yield from linear(f"{base}.q_a_proj", query, hidden, form)
        yield tensor(f"{base}.q_a_layernorm.weight", plain, query)
        yield from linear(f"{base}.q_b_proj", heads * (nope + rope), query, form)
    else:
        yield from linear(f"{base}.q_proj", heads * (nope + rope), hidden, form)
    yield from linear(f"{base}.kv_a_proj_with_mqa", rank + rope, hidden, form)
    yield tensor(f"{base}.kv_a_layernorm.weight", plain, rank)
    yield from linear(f"{base}.kv_b_proj", heads * (nope + value), rank, form)
    yield from linear(f"{base}.o_proj", hidden, heads * value, form)


def kimi_vision(hidden: int = 1152, wide: int = 4304, blocks: int = 27, text: int = 7168) -> list[Tensor]:
    """The tower and projector of Kimi K2.5."""
    found = [
        tensor("vision_tower.patch_embed.proj.weight", "BF16", hidden, 3, 14, 14),
        tensor("vision_tower.patch_embed.proj.bias", "BF16", hidden),
        tensor("vision_tower.patch_embed.pos_emb.weight", "BF16", 64, 64, hidden),
    ]
    for block in range(blocks):
        base = f"vision_tower.encoder.blocks.{block}"
        for name, out, into in (
            ("wqkv", 3 * hidden, hidden),
            ("wo", hidden, hidden),
            ("mlp.fc0", wide, hidden),
            ("mlp.fc1", hidden, wide),
        ):
            found += linear(f"{base}.{name}", out, into, "BF16", bias=True)
        for name in ("norm0", "norm1"):
            found += [tensor(f"{base}.{name}.{kind}", "BF16", hidden) for kind in ("weight", "bias")]
    for name, width in (("vision_tower.encoder.final_layernorm", hidden), ("mm_projector.pre_norm", hidden)):
        found += [tensor(f"{name}.{kind}", "BF16", width) for kind in ("weight", "bias")]
    found += linear("mm_projector.proj.0", 4 * hidden, 4 * hidden, "BF16", bias=True)
    found += linear("mm_projector.proj.2", text, 4 * hidden, "BF16", bias=True)
    return found


def qwen3_next_tensors(config: dict[str, Any]) -> list[Tensor]:
    """Three layers of linear attention to one of full attention, and a gate beside each query head."""
    hidden, size = config["hidden_size"], config["head_dim"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    value_heads = config["linear_num_value_heads"]
    values = value_heads * config["linear_value_head_dim"]
    found = [tensor("model.embed_tokens.weight", "BF16", config["vocab_size"], hidden)]
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}"
        found += [tensor(f"{base}.{name}_layernorm.weight", "BF16", hidden) for name in ("input", "post_attention")]
        if (layer + 1) % config["full_attention_interval"]:
            found += [
                *linear(f"{base}.linear_attn.in_proj_qkvz", 2 * keys + 2 * values, hidden, "BF16"),
                *linear(f"{base}.linear_attn.in_proj_ba", 2 * value_heads, hidden, "BF16"),
                *linear(f"{base}.linear_attn.out_proj", hidden, values, "BF16"),
                tensor(f"{base}.linear_attn.conv1d.weight", "BF16", 2 * keys + values, 1, 4),
                tensor(f"{base}.linear_attn.A_log", "BF16", value_heads),
                tensor(f"{base}.linear_attn.dt_bias", "BF16", value_heads),
                tensor(f"{base}.linear_attn.norm.weight", "BF16", config["linear_value_head_dim"]),
            ]
        else:
            query, key = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
            for name, out, into in (
                ("q_proj", 2 * query, hidden),
                ("k_proj", key, hidden),
                ("v_proj", key, hidden),
                ("o_proj", hidden, query),
            ):
                found += linear(f"{base}.self_attn.{name}", out, into, "BF16")
            found += [tensor(f"{base}.self_attn.{name}_norm.weight", "BF16", size) for name in ("q", "k")]
        found += linear(f"{base}.mlp.gate", config["num_experts"], hidden, "BF16")
        found += linear(f"{base}.mlp.shared_expert_gate", 1, hidden, "BF16")
        found += _mlp(f"{base}.mlp.shared_expert", hidden, config["shared_expert_intermediate_size"], "BF16")
        for expert in range(config["num_experts"]):
            found += _mlp(f"{base}.mlp.experts.{expert}", hidden, config["moe_intermediate_size"], "BF16")
    found += [
        tensor("model.norm.weight", "BF16", hidden),
        tensor("lm_head.weight", "BF16", config["vocab_size"], hidden),
    ]
    return found
