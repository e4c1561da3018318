# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states of a model's linear, state-space and convolution layers out of its config.json.

Source: C(mamba2_cache_params) and the layer properties of SGLang's configuration classes: configs/qwen3_next.py,
qwen3_5.py, nemotron_h.py, falcon_h1.py, granitemoehybrid.py, lfm2.py, lfm2_moe.py, lfm2_vl.py, kimi_linear.py and
bailing_hybrid.py. Which of them take the state's data type from the configuration: those that pass
C(dtype=mamba2_state_dtype(self)); the others keep float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import (
    MAX_LAYERS,
    State,
    layer_count,
    whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

STATE_DTYPES = ("float32", "bfloat16", "float16")

# (number of layers, layers that keep tokens, states of the others or None where there are none).
Read = tuple[int, tuple[int, ...], "State | None"]


def state_from_config(name: str, text: Mapping[str, Any]) -> Read:
    for beginning, read in _READERS:
        if name.startswith(beginning):
            return read(name, text)
    raise Refusal(
        "architecture_unplanned",
        f"The states of {name} were not read.",
        "Plan it from an observed start.",
        {"architecture": name},
    )


def _stated_dtype(text: Mapping[str, Any]) -> str:
    stated = text.get("mamba_ssm_dtype")
    return stated if isinstance(stated, str) and stated in STATE_DTYPES else "float32"


def _listed(name: str, text: Mapping[str, Any], key: str, layers: int) -> list[Any]:
    listed = text.get(key)
    if not isinstance(listed, list) or len(listed) != layers:
        raise Refusal(
            "model_config_incomplete",
            f"config.json of {name} has {key} = {str(listed)[:80]}.",
            f"Expected a list with an entry for each of {layers} layers under {key}.",
            {"architecture": name, "key": key},
        )
    return listed


def _divide(layers: int, is_full: Callable[[int], bool]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    full = tuple(layer for layer in range(layers) if is_full(layer))
    return full, tuple(layer for layer in range(layers) if not is_full(layer))


def _gated_delta(name: str, text: Mapping[str, Any]) -> Read:
    layers = layer_count(text, "num_hidden_layers", name)
    interval = whole(text, "full_attention_interval", name) if text.get("full_attention_interval") is not None else 4
    full, linear = _divide(layers, lambda layer: (layer + 1) % interval == 0)
    heads, head_dim = whole(text, "linear_num_value_heads", name), whole(text, "linear_value_head_dim", name)
    state = State(
        layers=linear,
        intermediate_size=heads * head_dim,
        num_groups=whole(text, "linear_num_key_heads", name),
        num_heads=heads,
        head_dim=head_dim,
        state_size=whole(text, "linear_key_head_dim", name),
        conv_kernel=whole(text, "linear_conv_kernel_dim", name),
        dtype=_stated_dtype(text),
    )
    return layers, full, state if linear else None


def _delta_heads(layers: tuple[int, ...], heads: int, head_dim: int, kernel: int) -> State:
    """Kimi delta attention: keys, queries and values of one size, each through the convolution."""
    return State(layers, heads * head_dim, heads, heads, head_dim, head_dim, kernel)


def _kimi_linear(name: str, text: Mapping[str, Any]) -> Read:
    layers = layer_count(text, "num_hidden_layers", name)
    settings = text.get("linear_attn_config")
    if not isinstance(settings, Mapping) or not isinstance(settings.get("kda_layers"), list):
        raise Refusal(
            "model_config_incomplete",
            f"config.json of {name} has no linear_attn_config with kda_layers.",
            "Expected its mapping beside num_hidden_layers.",
            {"architecture": name, "key": "linear_attn_config"},
        )
    # Its layers are numbered from 1.
    delta = {layer - 1 for layer in settings["kda_layers"] if isinstance(layer, int)}
    full, linear = _divide(layers, lambda layer: layer not in delta)
    state = _delta_heads(
        linear,
        whole(settings, "num_heads", name),
        whole(settings, "head_dim", name),
        whole(settings, "short_conv_kernel_size", name),
    )
    return layers, full, state if linear else None


def _bailing(name: str, text: Mapping[str, Any]) -> Read:
    layers = layer_count(text, "num_hidden_layers", name)
    group = text.get("layer_group_size")
    if isinstance(group, list):
        schedule = _listed(name, text, "layer_group_size", layers)
        full, linear = _divide(layers, lambda layer: schedule[layer] != 1)
    else:
        size = whole(text, "layer_group_size", name)
        full, linear = _divide(layers, lambda layer: (layer + 1) % size == 0)
    heads = whole(text, "num_attention_heads", name)
    head_dim = whole(text, "head_dim", name) if text.get("head_dim") else whole(text, "hidden_size", name) // heads
    if text.get("short_conv_kernel_size") is not None:
        state = _delta_heads(linear, heads, head_dim, whole(text, "short_conv_kernel_size", name))
    else:
        state = State(linear, 0, 0, heads, head_dim, head_dim, 1)
    return layers, full, state if linear else None


def _nemotron(name: str, text: Mapping[str, Any]) -> Read:
    pattern, types = text.get("hybrid_override_pattern"), text.get("layers_block_type")
    if isinstance(pattern, str) and pattern:
        kinds = ["mamba" if letter == "M" else "attention" if letter == "*" else "" for letter in pattern]
    elif isinstance(types, list) and types:
        kinds = [str(kind) for kind in types]
    else:
        raise Refusal(
            "model_config_incomplete",
            f"config.json of {name} has hybrid_override_pattern = {pattern!r}.",
            "Expected a letter for each layer: M, *, - or E.",
            {"architecture": name, "key": "hybrid_override_pattern"},
        )
    if len(kinds) > MAX_LAYERS:
        raise Refusal("model_config_malformed", f"{name} has {len(kinds)} layers.", f"Expected at most {MAX_LAYERS}.")
    heads, head_dim = whole(text, "mamba_num_heads", name), whole(text, "mamba_head_dim", name)
    linear = tuple(layer for layer, kind in enumerate(kinds) if kind == "mamba")
    state = State(
        layers=linear,
        intermediate_size=heads * head_dim,
        num_groups=whole(text, "n_groups", name),
        num_heads=heads,
        head_dim=head_dim,
        state_size=whole(text, "ssm_state_size", name),
        conv_kernel=whole(text, "conv_kernel", name),
        dtype=_stated_dtype(text),
    )
    full = tuple(layer for layer, kind in enumerate(kinds) if kind == "attention")
    return len(kinds), full, state if linear else None


def _mamba2(name: str, text: Mapping[str, Any], layers: tuple[int, ...], intermediate: int, dtype: str) -> State:
    heads = whole(text, "mamba_n_heads", name)
    head_dim = text.get("mamba_d_head")
    return State(
        layers=layers,
        intermediate_size=intermediate,
        num_groups=whole(text, "mamba_n_groups", name),
        num_heads=heads,
        head_dim=head_dim if isinstance(head_dim, int) and not isinstance(head_dim, bool) else intermediate // heads,
        state_size=whole(text, "mamba_d_state", name),
        conv_kernel=whole(text, "mamba_d_conv", name),
        dtype=dtype,
    )


def _falcon(name: str, text: Mapping[str, Any]) -> Read:
    """Every layer has both: attention and a state."""
    layers = layer_count(text, "num_hidden_layers", name)
    both = tuple(range(layers))
    if text.get("mamba_d_ssm") is not None:
        intermediate = whole(text, "mamba_d_ssm", name)
    else:
        intermediate = whole(text, "mamba_expand", name) * whole(text, "hidden_size", name)
    return layers, both, _mamba2(name, text, both, intermediate, _stated_dtype(text))


def _granite(name: str, text: Mapping[str, Any]) -> Read:
    layers = layer_count(text, "num_hidden_layers", name)
    types = _listed(name, text, "layer_types", layers)
    linear = tuple(layer for layer in range(layers) if types[layer] == "mamba")
    full = tuple(layer for layer in range(layers) if types[layer] == "attention")
    if not linear:
        return layers, full, None
    intermediate = whole(text, "mamba_expand", name) * whole(text, "hidden_size", name)
    return layers, full, _mamba2(name, text, linear, intermediate, "float32")


def _lfm2(name: str, text: Mapping[str, Any]) -> Read:
    layers = layer_count(text, "num_hidden_layers", name)
    types = _listed(name, text, "layer_types", layers)
    linear = tuple(layer for layer in range(layers) if types[layer] in ("conv", "short_conv"))
    full = tuple(layer for layer in range(layers) if types[layer] == "full_attention")
    hidden = whole(text, "hidden_size", name)
    # One head, and a recurrent state of nothing.
    return layers, full, State(linear, hidden, 1, 1, hidden, 0, whole(text, "conv_L_cache", name)) if linear else None


_READERS: tuple[tuple[str, Callable[[str, Mapping[str, Any]], Read]], ...] = (
    ("Qwen3Next", _gated_delta),
    ("Qwen3_5", _gated_delta),
    ("KimiLinear", _kimi_linear),
    ("BailingMoeV", _bailing),
    ("NemotronH", _nemotron),
    ("FalconH1", _falcon),
    ("GraniteMoeHybrid", _granite),
    ("Lfm2", _lfm2),
)
