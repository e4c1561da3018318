# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many tokens and bytes the pools of one rank have, for models of plain heads and of latent attention.

Written down from the releases and not taken from the planner, so that what the planner says of a server is held
against something else than itself: mem_cache/memory_pool_host.py to 0.5.13, mem_cache/pool_host/ since;
configs/model_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

GB = 1_000_000_000
RESERVE_BYTES = 10 << 30
DEFAULT_RATIO = 2.0
HEADS = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
)
LATENT = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration", "Glm4MoeLiteForCausalLM")
CACHE_BYTES = {"fp8_e5m2": 1, "fp8_e4m3": 1, "bf16": 2, "bfloat16": 2}
MODEL_BYTES = {"half": 2, "float16": 2, "bfloat16": 2, "float": 4, "float32": 4}


class ModelError(ValueError):
    """A model whose pools are of another kind."""


@dataclass(frozen=True)
class Model:
    """C(heads) and C(head_dim) of keys and values, or C(latent) numbers a token and layer."""

    architecture: str
    layers: int
    context_tokens: int
    value_bytes: int
    heads: int = 0
    head_dim: int = 0
    latent: int = 0


def model_of(config: Mapping[str, Any]) -> Model:
    """Out of config.json; raises C(ModelError)."""
    architecture = (config.get("architectures") or ["none"])[0]
    inner: Mapping[str, Any] = config.get("text_config") or config
    if architecture not in (*HEADS, *LATENT):
        raise ModelError(
            f"Model architectures ['{architecture}'] are not played; known are {', '.join(HEADS + LATENT)}."
        )
    if inner.get("index_topk"):
        raise ModelError(f"{architecture} with index keys (index_topk) is not played.")
    dtype = str(inner.get("dtype") or inner.get("torch_dtype") or config.get("torch_dtype") or "bfloat16")
    found = Model(
        architecture=architecture,
        layers=int(inner["num_hidden_layers"]),
        context_tokens=int(inner.get("max_position_embeddings") or 2048),
        # A model in float32 is loaded in float16 (configs/model_config.py, _get_and_verify_dtype).
        value_bytes=2 if dtype == "float32" else MODEL_BYTES[dtype],
    )
    if architecture in LATENT:
        return replace(found, latent=int(inner["kv_lora_rank"]) + int(inner["qk_rope_head_dim"]))
    attention_heads = int(inner["num_attention_heads"])
    return replace(
        found,
        heads=int(inner.get("num_key_value_heads") or attention_heads),
        head_dim=int(inner.get("head_dim") or int(inner["hidden_size"]) // attention_heads),
    )


def bytes_per_token(model: Model, ranks: int, dtype: str = "auto", cache_dtype: str = "auto") -> int:
    """Of one rank. Heads are divided among the ranks, and each has one at least; latents lie on each whole."""
    value_bytes = CACHE_BYTES.get(cache_dtype) or MODEL_BYTES.get(dtype) or model.value_bytes
    width = model.latent or 2 * model.head_dim * max(1, model.heads // ranks)
    return width * model.layers * value_bytes


def device_tokens(max_total_tokens: int, page_size: int) -> int:
    return max_total_tokens // page_size * page_size


def host_tokens(
    release: tuple[int, ...], device: int, page_size: int, token_bytes: int, *, ratio: float | None, size_gb: int
) -> int:
    """A size counts before a ratio. From 0.5.6 on there is a page more than the whole ones."""
    if size_gb > 0:
        wanted = int(size_gb * 1e9 // token_bytes)
    elif ratio is None and release >= (0, 5, 21):
        raise ValueError("A share of the host's memory is not played; expected --hicache-ratio or --hicache-size.")
    else:
        wanted = int(device * (DEFAULT_RATIO if ratio is None else ratio))
    return (wanted // page_size + (release >= (0, 5, 6))) * page_size


def host_refusal(
    release: tuple[int, ...], device: int, host: int, token_bytes: int, available_bytes: int, ranks: int
) -> str | None:
    """What the release raises instead of allocating the pool, None where it allocates it."""
    if host <= device and release < (0, 5, 15):
        return "AssertionError: The host memory should be larger than the device memory with the current protocol"
    # Of what is available each rank is given its part from 0.5.19 on; until then whoever came first took it.
    free = (available_bytes - RESERVE_BYTES) // (ranks if release >= (0, 5, 19) else 1)
    if host * token_bytes <= free:
        return None
    return (
        f"ValueError: Not enough host memory available. Requesting {host * token_bytes / GB:.2f} GB but only have "
        f"{free / GB:.2f} GB free. Please reduce the size of the hierarchical cache."
    )
