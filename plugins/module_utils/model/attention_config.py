# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a model's config.json to the facts that its caches depend on.

Source: SGLang, configs/model_config.py (C(_derive_model_shapes), C(get_hybrid_layer_ids), C(get_total_num_kv_heads),
C(dsa_layer_skips_topk)) and C(get_hf_text_config) in utils/hf_transformers/common.py. What a configuration class of
SGLang derives (layers of a pattern, sizes out of others) is derived here in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import (
    COMPRESSED,
    LATENT,
    MAY_HAVE_INDEX,
    SPARSE,
    STATE,
    WINDOW,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import (
    FAMILY_COMPRESSED,
    FAMILY_DSA,
    FAMILY_LINEAR,
    FAMILY_LINEAR_MLA,
    FAMILY_MLA,
    FAMILY_SPARSE,
    FAMILY_SWA,
    MAX_LAYERS,
    Attention,
    Compressed,
    Index,
    Window,
    check_compressed,
    family_of_heads,
    layer_count,
    whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.known_architecture import known_architecture
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.state_config import state_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# In the order in which SGLang looks for the language model.
_NESTED = ("llm_config", "language_config", "text_config")
# get_total_num_kv_heads
_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config.json; multimodal models nest it."""
    architecture = _first_architecture(config)
    if isinstance(architecture, str) and architecture.startswith("Llava") and architecture.endswith("ForCausalLM"):
        return config
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        nested = thinker.get("text_config")
        return nested if isinstance(nested, Mapping) else thinker
    for key in _NESTED:
        nested = config.get(key)
        if isinstance(nested, Mapping):
            return nested
    return config


def _first_architecture(config: Mapping[str, Any]) -> Any:
    architectures = config.get("architectures")
    return architectures[0] if isinstance(architectures, list) and architectures else None


def attention_from_config(config: Mapping[str, Any]) -> Attention:
    """Attention facts of a config.json, of a draft as well; refuses architectures that are not known or not planned."""
    known = known_architecture(_first_architecture(config), may_draft=True)
    name, text = known.name, text_config(config)
    if known.kind == STATE:
        return _with_states(name, text)
    longcat = name == "LongcatFlashForCausalLM"
    key = "num_layers" if longcat and text.get("num_hidden_layers") is None else "num_hidden_layers"
    layers = layer_count(text, key, name)
    if known.kind == LATENT and _is_latent(name, text):
        # LongCat's layers hold two attentions each.
        return _latent(name, text, layers * 2 if longcat else layers)
    plain = _heads(name, text, layers)
    if known.kind == COMPRESSED:
        return _compressed(name, text, plain)
    if known.kind == WINDOW:
        return _with_window(name, text, plain)
    return _sparse(name, text, plain) if known.kind == SPARSE else plain


def _is_latent(name: str, text: Mapping[str, Any]) -> bool:
    if name == "PixtralForConditionalGeneration":
        return text.get("kv_lora_rank") is not None
    return name != "DeepseekVL2ForCausalLM" or text.get("use_mla", True) is not False


def _kv_heads(text: Mapping[str, Any], name: str, heads: int) -> int:
    if text.get("multi_query") is True and text.get("new_decoder_architecture") is not True:
        return 1
    for key in _KV_HEADS:
        if text.get(key) is not None:
            return whole(text, key, name)
    return heads


def _heads(name: str, text: Mapping[str, Any], layers: int) -> Attention:
    heads = whole(text, "num_attention_heads", name)
    if text.get("head_dim") is not None:
        head_dim = whole(text, "head_dim", name)
    else:
        head_dim = whole(text, "hidden_size", name) // heads
        if not head_dim:
            raise Refusal(
                "model_config_malformed",
                f"hidden_size {text.get('hidden_size')} is below num_attention_heads {heads}.",
                "Expected at least one element a head; check config.json.",
            )
    kv_heads = _kv_heads(text, name, heads)
    return Attention(
        family=family_of_heads(heads, kv_heads),
        num_layers=layers,
        num_attention_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=whole(text, "v_head_dim", name) if text.get("v_head_dim") else head_dim,
    )


def _latent(name: str, text: Mapping[str, Any], layers: int) -> Attention:
    index = None
    if name in MAY_HAVE_INDEX and text.get("index_topk") is not None:
        own = _layers_with_own_choice(text)
        index = Index(
            layers=tuple(layer for layer in range(layers) if own(layer)), head_dim=whole(text, "index_head_dim", name)
        )
    heads = whole(text, "num_attention_heads", name)
    rope = 0 if text.get("use_mla_nope") is True else whole(text, "qk_rope_head_dim", name)
    # MiniCPM3 is given a head size of 128 by SGLang whatever its own; nothing here uses it.
    head_dim = whole(text, "qk_nope_head_dim", name) + rope
    return Attention(
        family=FAMILY_MLA if index is None else FAMILY_DSA,
        num_layers=layers,
        num_attention_heads=heads,
        num_kv_heads=whole(text, "num_key_value_heads", name) if text.get("num_key_value_heads") is not None else heads,
        head_dim=head_dim,
        v_head_dim=whole(text, "v_head_dim", name) if text.get("v_head_dim") else head_dim,
        kv_lora_rank=whole(text, "kv_lora_rank", name),
        qk_rope_head_dim=rope,
        index=index,
    )


def _positive(value: Any, fallback: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else fallback


def _layers_with_own_choice(text: Mapping[str, Any]) -> Callable[[int], bool]:
    """Which layers compute their own top tokens, and so keep index keys (C(dsa_layer_skips_topk), negated)."""
    types, pattern = text.get("indexer_types"), text.get("index_topk_pattern")
    if isinstance(types, list):
        return lambda layer: not (layer < len(types) and types[layer] == "shared")
    factor = _positive(text.get("cli_factor"), 1)
    if factor > 1:
        return lambda layer: layer % factor == 0
    if isinstance(pattern, (str, list)):
        return lambda layer: not (layer < len(pattern) and pattern[layer] == "S")
    every, offset = _positive(text.get("index_topk_freq"), 1), _positive(text.get("index_skip_topk_offset"), 2)
    return lambda layer: max(layer - offset + 1, 0) % every == 0


def _of_type(name: str, text: Mapping[str, Any], key: str, layers: int, wanted: Sequence[Any]) -> tuple[int, ...]:
    """The layers whose entry in a list (or a string of letters) under a key is one of those wanted."""
    types = text.get(key)
    if not isinstance(types, (list, str)) or len(types) < layers:
        raise Refusal(
            "model_config_incomplete",
            f"config.json of {name} has {key} = {str(types)[:80]}.",
            f"Expected a list with an entry for each of {layers} layers under {key}.",
            {"architecture": name, "key": key},
        )
    return tuple(layer for layer in range(layers) if types[layer] in wanted)


def _with_window(name: str, text: Mapping[str, Any], plain: Attention) -> Attention:
    """Heads whose window layers have a pool of their own (C(get_hybrid_layer_ids))."""
    layers = plain.num_layers
    if name == "Llama4ForConditionalGeneration":
        # Chunked attention but for every fourth layer.
        full = tuple(range(3, layers, 4))
        windowed = tuple(layer for layer in range(layers) if layer % 4 != 3)
    elif name.startswith("MiMoV2"):
        full = _of_type(name, text, "hybrid_layer_pattern", layers, (0,))
        windowed = _of_type(name, text, "hybrid_layer_pattern", layers, (1,))
    else:
        full = _of_type(name, text, "layer_types", layers, ("full_attention",))
        windowed = _of_type(name, text, "layer_types", layers, ("sliding_attention",))
    if not windowed:
        return plain
    if not full:
        raise Refusal(
            "architecture_unplanned",
            f"All layers of this {name} keep a window only, without a full pool, which the formulas of this release do "
            "not count.",
            "Plan it from an observed start.",
            {"architecture": name},
        )
    tokens = next(
        (
            text[key]
            for key in ("sliding_window_size", "sliding_window", "window_size", "attention_chunk_size")
            if isinstance(text.get(key), int) and not isinstance(text.get(key), bool)
        ),
        None,
    )
    heads, head_dim, v_head_dim = plain.num_kv_heads, plain.head_dim, plain.v_head_dim
    whole_heads, whole_dim, whole_v_dim = heads, head_dim, v_head_dim
    if name.startswith("Gemma4"):
        # Its own keys are those of the window layers; the full layers have theirs under global_*.
        whole_dim = whole_v_dim = _given(text, "global_head_dim", name, head_dim)
        whole_heads = _given(text, "num_global_key_value_heads", name, heads)
        v_head_dim = head_dim
    elif name.startswith("MiMoV2"):
        heads = _given(text, "swa_num_key_value_heads", name, heads)
        head_dim = _given(text, "swa_head_dim", name, head_dim)
        v_head_dim = _given(text, "swa_v_head_dim", name, head_dim)
    elif name.startswith("Step3p"):
        other = text.get("attention_other_setting")
        if isinstance(other, Mapping):
            heads = _given(other, "num_attention_groups", name, heads)
    return Attention(
        family=FAMILY_SWA,
        num_layers=layers,
        num_attention_heads=plain.num_attention_heads,
        num_kv_heads=whole_heads,
        head_dim=whole_dim,
        v_head_dim=whole_v_dim,
        full_layers=full,
        window=Window(layers=windowed, num_kv_heads=heads, head_dim=head_dim, v_head_dim=v_head_dim, tokens=tokens),
    )


def _given(config: Mapping[str, Any], key: str, name: str, fallback: int) -> int:
    return whole(config, key, name) if config.get(key) is not None else fallback


def _sparse(name: str, text: Mapping[str, Any], plain: Attention) -> Attention:
    """Heads with index keys beside them in the sparse layers (C(get_minimax_sparse_attention_config))."""
    settings = text.get("sparse_attention_config")
    if not isinstance(settings, Mapping):
        raise Refusal(
            "model_config_incomplete",
            f"config.json of {name} has no sparse_attention_config.",
            "Expected its mapping beside num_hidden_layers.",
            {"architecture": name, "key": "sparse_attention_config"},
        )
    layers = plain.num_layers
    dense = set(_of_type(name, settings, "sparse_attention_freq", layers, (0,)))
    key_only: tuple[int, ...] = ()
    if settings.get("sparse_disable_index_value") is not None:
        with_value = set(_of_type(name, settings, "sparse_disable_index_value", layers, (0,)))
        key_only = tuple(layer for layer in range(layers) if layer not in with_value)
    sparse = tuple(layer for layer in range(layers) if layer not in dense)
    return Attention(
        family=FAMILY_SPARSE,
        num_layers=layers,
        num_attention_heads=plain.num_attention_heads,
        num_kv_heads=plain.num_kv_heads,
        head_dim=plain.head_dim,
        v_head_dim=plain.head_dim,
        index=Index(
            layers=sparse,
            head_dim=whole(settings, "sparse_index_dim", name),
            value_layers=tuple(layer for layer in sparse if layer not in key_only),
        ),
    )


def _compressed(name: str, text: Mapping[str, Any], plain: Attention) -> Attention:
    """DeepSeek-V4's layers (C(_derive_model_shapes), compress_ratios); those of V4.1 have other ratios."""
    ratios = text.get("compress_ratios")
    if (
        not isinstance(ratios, (list, tuple))
        or not plain.num_layers <= len(ratios) <= MAX_LAYERS
        or not all(isinstance(ratio, int) and not isinstance(ratio, bool) and ratio >= 0 for ratio in ratios)
    ):
        raise Refusal(
            "model_config_incomplete",
            f"config.json of {name} has compress_ratios = {str(ratios)[:80]}.",
            f"Expected a whole number for each of {plain.num_layers} layers at least.",
            {"architecture": name, "key": "compress_ratios"},
        )
    return check_compressed(
        name,
        replace(
            plain,
            family=FAMILY_COMPRESSED,
            v_head_dim=plain.head_dim,
            compressed=Compressed(
                ratios=tuple(ratios),
                rope_head_dim=whole(text, "qk_rope_head_dim", name),
                index_head_dim=whole(text, "index_head_dim", name),
                window_tokens=whole(text, "sliding_window", name),
            ),
        ),
    )


def _with_states(name: str, text: Mapping[str, Any]) -> Attention:
    layers, full, state = state_from_config(name, text)
    if name.startswith(("KimiLinear", "BailingMoeV")):
        base, family = _latent(name, text, layers), FAMILY_LINEAR_MLA
    else:
        base, family = _heads(name, text, layers), FAMILY_LINEAR
    if state is None:
        return base
    return Attention(
        family=family,
        num_layers=layers,
        num_attention_heads=base.num_attention_heads,
        num_kv_heads=base.num_kv_heads,
        head_dim=base.head_dim,
        v_head_dim=base.v_head_dim,
        kv_lora_rank=base.kv_lora_rank,
        qk_rope_head_dim=base.qk_rope_head_dim,
        full_layers=full,
        state=state,
    )
