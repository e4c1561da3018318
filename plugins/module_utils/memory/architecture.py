# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a model's config.json to the bytes that one token of KV cache takes on one rank.

Formulas: SGLang, C(get_cell_size_per_token) in model_executor (0.5.9) and mem_cache/kv_cache_configurator.py
(0.5.23); which architecture uses which: configs/model_config.py. An architecture that is not named here is
refused, because a wrong guess at its cache is a server that dies after minutes of loading.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

FAMILY_MHA, FAMILY_GQA, FAMILY_MQA, FAMILY_MLA = "mha", "gqa", "mqa", "mla"

# One key and one value vector per KV head, layer and token, all layers alike.
HEADS_ARCHITECTURES = frozenset(
    {
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
    }
)
# One compressed vector per layer and token, the same on every tensor-parallel rank.
LATENT_ARCHITECTURES = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "KimiK25ForConditionalGeneration",
    }
)
# Known to SGLang and to this collection, but their pools are not planned yet.
UNPLANNED_ARCHITECTURES = {
    "DeepseekV32ForCausalLM": "sparse attention with an indexer pool beside the KV pool",
    "GlmMoeDsaForCausalLM": "sparse attention with an indexer pool beside the KV pool",
    "DeepseekV4ForCausalLM": "paged and state pools of its own",
    "GptOssForCausalLM": "sliding-window layers in a pool of their own",
    "Gemma3ForCausalLM": "sliding-window layers in a pool of their own",
    "Gemma3ForConditionalGeneration": "sliding-window layers in a pool of their own",
    "Gemma4ForConditionalGeneration": "sliding-window layers in a pool of their own",
    "Llama4ForConditionalGeneration": "sliding-window layers in a pool of their own",
    "MiMoV2FlashForCausalLM": "sliding-window layers in a pool of their own",
    "Step3p5ForCausalLM": "sliding-window layers in a pool of their own",
    "Qwen3NextForCausalLM": "linear-attention state beside the KV pool",
    "Qwen3_5ForConditionalGeneration": "linear-attention state beside the KV pool",
    "KimiLinearForCausalLM": "linear-attention state beside the KV pool",
    "GraniteMoeHybridForCausalLM": "state-space layers beside the KV pool",
    "Lfm2ForCausalLM": "state-space layers beside the KV pool",
    "NemotronHForCausalLM": "state-space layers beside the KV pool",
}
# They carry a vision tower, whose memory SGLang reserves outside the KV budget.
MULTIMODAL_ARCHITECTURES = frozenset({"KimiK25ForConditionalGeneration"})

DTYPE_BYTES = {
    "float32": 4,
    "float": 4,
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "half": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}


@dataclass(frozen=True)
class Attention:
    """What the size of the KV cache depends on; latent fields are None outside MLA."""

    family: str
    num_layers: int
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ModelFacts:
    """The facts of one model that a plan uses."""

    name: str
    architecture: str
    attention: Attention
    dtype: str
    quantization: str | None
    kv_cache_quantized: bool
    weights_bytes: int | None
    max_position_embeddings: int | None
    path: str | None

    @property
    def multimodal(self) -> bool:
        return self.architecture in MULTIMODAL_ARCHITECTURES


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config.json; multimodal models nest it."""
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else config


def attention_family(num_attention_heads: int, num_kv_heads: int) -> str:
    if num_kv_heads == 1 and num_attention_heads > 1:
        return FAMILY_MQA
    return FAMILY_MHA if num_kv_heads == num_attention_heads else FAMILY_GQA


def check_architecture(architecture: str | None) -> None:
    """Refuse, by name, what cannot be planned."""
    known = sorted(HEADS_ARCHITECTURES | LATENT_ARCHITECTURES)
    if architecture is not None and not isinstance(architecture, str):
        raise Refusal(
            "model_config_malformed",
            f"The architecture is {architecture!r}, which is not a name.",
            "Expected the name of a model class in architectures of config.json, such as LlamaForCausalLM.",
        )
    if architecture in known:
        return
    if architecture in UNPLANNED_ARCHITECTURES:
        raise Refusal(
            "architecture_unplanned",
            f"Architecture {architecture} is not planned yet: it has {UNPLANNED_ARCHITECTURES[architecture]}, "
            "which the formulas of this release do not count.",
            f"Planned are {', '.join(known)}.",
            {"architecture": architecture},
        )
    closest = difflib.get_close_matches(str(architecture), known, n=1)
    raise Refusal(
        "architecture_unknown",
        f"Architecture {architecture or 'null'} is not known to this collection, and its KV cache is not guessed.",
        (f"The closest known is {closest[0]}. " if closest else "") + f"Planned are {', '.join(known)}.",
        {"architecture": architecture},
    )


def _whole(config: Mapping[str, Any], key: str, architecture: str) -> int:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Refusal(
            "model_config_incomplete",
            f"config.json of {architecture} has {key} = {value!r}.",
            f"Expected a whole number above 0 under {key}.",
            {"architecture": architecture, "key": key},
        )
    return value


def attention_from_config(config: Mapping[str, Any]) -> Attention:
    """Attention facts of a config.json; refuses architectures that are not known."""
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    check_architecture(architecture)
    name = str(architecture)
    text = text_config(config)
    layers = _whole(text, "num_hidden_layers", name)
    heads = _whole(text, "num_attention_heads", name)
    kv_heads = _whole(text, "num_key_value_heads", name) if text.get("num_key_value_heads") is not None else heads
    if name in LATENT_ARCHITECTURES:
        return Attention(
            family=FAMILY_MLA,
            num_layers=layers,
            num_attention_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=_whole(text, "qk_nope_head_dim", name) + _whole(text, "qk_rope_head_dim", name),
            v_head_dim=_whole(text, "v_head_dim", name),
            kv_lora_rank=_whole(text, "kv_lora_rank", name),
            qk_rope_head_dim=_whole(text, "qk_rope_head_dim", name),
        )
    if text.get("head_dim") is not None:
        head_dim = _whole(text, "head_dim", name)
    else:
        head_dim = _whole(text, "hidden_size", name) // heads
        if not head_dim:
            raise Refusal(
                "model_config_malformed",
                f"hidden_size {text.get('hidden_size')} is below num_attention_heads {heads}.",
                "Expected at least one element a head; check config.json.",
            )
    v_head_dim = _whole(text, "v_head_dim", name) if text.get("v_head_dim") is not None else head_dim
    return Attention(
        family=attention_family(heads, kv_heads),
        num_layers=layers,
        num_attention_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
    )


def config_dtype(config: Mapping[str, Any]) -> str:
    """The dtype that SGLang's C(--dtype auto) takes: the config's, float32 becoming float16 (model_config.py)."""
    text = text_config(config)
    for source in (config, text):
        for key in ("dtype", "torch_dtype"):
            if source.get(key):
                return "float16" if source[key] == "float32" else str(source[key])
    return "float16"


def quantization_of(config: Mapping[str, Any]) -> tuple[str | None, bool]:
    """(method, whether the checkpoint also asks for a quantised KV cache)."""
    text = text_config(config)
    quantization = config.get("quantization_config") or text.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return None, False
    method = quantization.get("quant_method") or quantization.get("quant_algo") or "unnamed"
    kv = quantization.get("kv_cache_scheme") or quantization.get("kv_cache_quant_algo")
    return str(method), kv is not None


def model_facts(model: Mapping[str, Any]) -> ModelFacts:
    """Facts out of the C(model) that model_info returns, or that an inventory states on paper."""
    architecture = model.get("architecture")
    check_architecture(architecture)
    attention = model.get("attention")
    if not isinstance(attention, Mapping):
        raise Refusal(
            "model_attention_missing",
            f"The model facts of {architecture} have no attention (found {attention!r}).",
            "Expected the keys that gpufleet.sglang.model_info returns under model.attention.",
            {"architecture": architecture},
        )
    name = str(architecture)
    latent = name in LATENT_ARCHITECTURES
    heads = _whole(attention, "num_attention_heads", name)
    kv_heads = _whole(attention, "num_kv_heads", name)
    head_dim = _whole(attention, "head_dim", name)
    facts = Attention(
        family=FAMILY_MLA if latent else attention_family(heads, kv_heads),
        num_layers=_whole(attention, "num_layers", name),
        num_attention_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=_whole(attention, "v_head_dim", name) if attention.get("v_head_dim") is not None else head_dim,
        kv_lora_rank=_whole(attention, "kv_lora_rank", name) if latent else None,
        qk_rope_head_dim=_whole(attention, "qk_rope_head_dim", name) if latent else None,
    )
    weights = model.get("weights") or {}
    total = weights.get("total_bytes") if isinstance(weights, Mapping) else None
    path = model.get("path")
    return ModelFacts(
        name=str(model.get("name") or (str(path).rstrip("/").rsplit("/", 1)[-1] if path else name)),
        architecture=name,
        attention=facts,
        dtype=str(model.get("dtype") or "bfloat16"),
        quantization=model.get("quantization"),
        kv_cache_quantized=bool(model.get("kv_cache_quantized", False)),
        weights_bytes=_weights_bytes(total),
        max_position_embeddings=model.get("max_position_embeddings"),
        path=str(path) if path else None,
    )


def _weights_bytes(total: Any) -> int | None:
    if total is None:
        return None
    # An inventory's template may give the number as text.
    text = str(total)
    if isinstance(total, bool) or not text.isascii() or not text.isdigit() or int(text) == 0:
        raise Refusal(
            "value_malformed", f"model.weights.total_bytes is {total!r}.", "Expected a whole number of bytes above 0."
        )
    return int(text)


def kv_element_bytes(facts: ModelFacts, kv_cache_dtype: str, dtype: str) -> int:
    """Bytes of one element of the KV cache under C(--kv-cache-dtype) and C(--dtype)."""
    if kv_cache_dtype == "auto" and facts.kv_cache_quantized:
        raise Refusal(
            "kv_cache_dtype_ambiguous",
            "kv_cache_dtype is auto and the checkpoint carries a quantised KV cache, so the element size would be "
            "the checkpoint's affair.",
            "Set kv_cache_dtype explicitly, for example fp8_e4m3 or bfloat16.",
        )
    effective = kv_cache_dtype
    if effective == "auto":
        effective = facts.dtype if dtype == "auto" else dtype
    if effective not in DTYPE_BYTES:
        raise Refusal(
            "kv_cache_dtype_unplanned",
            f"The KV cache data type {effective} is not planned: its scales are not counted by this release.",
            f"Planned are {', '.join(DTYPE_BYTES)}.",
            {"kv_cache_dtype": effective},
        )
    return DTYPE_BYTES[effective]


def kv_heads_per_rank(attention: Attention, tensor_parallel_size: int) -> int:
    """KV heads of one rank; fewer heads than ranks are replicated (C(get_num_kv_heads))."""
    return max(1, attention.num_kv_heads // tensor_parallel_size)


def bytes_per_token(attention: Attention, tensor_parallel_size: int, element_bytes: int) -> int:
    """Bytes of KV cache that one token takes on one rank."""
    if attention.family == FAMILY_MLA:
        width = (attention.kv_lora_rank or 0) + (attention.qk_rope_head_dim or 0)
    else:
        width = kv_heads_per_rank(attention, tensor_parallel_size) * (attention.head_dim + attention.v_head_dim)
    return width * attention.num_layers * element_bytes


def explain_bytes_per_token(attention: Attention, tensor_parallel_size: int, element_bytes: int) -> str:
    total = bytes_per_token(attention, tensor_parallel_size, element_bytes)
    if attention.family == FAMILY_MLA:
        return (
            f"bytes a token and rank = (kv_lora_rank {attention.kv_lora_rank} + qk_rope_head_dim "
            f"{attention.qk_rope_head_dim}) x {attention.num_layers} layers x {element_bytes} bytes = {total:,}"
        )
    return (
        f"bytes a token and rank = {kv_heads_per_rank(attention, tensor_parallel_size)} KV heads x (head_dim "
        f"{attention.head_dim} + v_head_dim {attention.v_head_dim}) x {attention.num_layers} layers x "
        f"{element_bytes} bytes = {total:,}"
    )


def distinct_copies(attention: Attention, tensor_parallel_size: int) -> int:
    """How many ranks hold a KV cache of their own; the others hold a copy.

    MLA caches are alike on every rank; with fewer KV heads than ranks each head lives on several.
    """
    if attention.family == FAMILY_MLA:
        return 1
    return min(tensor_parallel_size, attention.num_kv_heads)
