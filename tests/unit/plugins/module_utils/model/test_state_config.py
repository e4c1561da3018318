# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.state_config import state_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    KIMI_LINEAR,
    QWEN3_NEXT,
    without,
)

NEMOTRON: dict[str, Any] = {
    "hybrid_override_pattern": "M-M*E",
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
}
MAMBA2: dict[str, Any] = {
    "num_hidden_layers": 4,
    "hidden_size": 2048,
    "mamba_expand": 2,
    "mamba_n_heads": 64,
    "mamba_d_head": 64,
    "mamba_n_groups": 1,
    "mamba_d_state": 128,
    "mamba_d_conv": 4,
    "mamba_ssm_dtype": "bfloat16",
}
LFM2: dict[str, Any] = {
    "num_hidden_layers": 3,
    "hidden_size": 2048,
    "conv_L_cache": 3,
    "layer_types": ["conv", "short_conv", "full_attention"],
}
BAILING: dict[str, Any] = {
    "num_hidden_layers": 6,
    "num_attention_heads": 32,
    "head_dim": 128,
    "layer_group_size": 3,
}


def test_gated_delta_networks() -> None:
    layers, full, state = state_from_config("Qwen3NextForCausalLM", QWEN3_NEXT)
    assert (layers, full) == (48, tuple(range(3, 48, 4)))
    assert state is not None
    assert (len(state.layers), state.intermediate_size, state.num_groups, state.num_heads) == (36, 4096, 16, 32)
    assert (state.head_dim, state.state_size, state.conv_kernel, state.dtype) == (128, 128, 4, "float32")
    _layers, _full, narrow = state_from_config(
        "Qwen3_5ForConditionalGeneration", {**QWEN3_NEXT, "mamba_ssm_dtype": "bfloat16"}
    )
    assert narrow is not None and narrow.dtype == "bfloat16"


def test_layers_of_kimi_are_numbered_from_one() -> None:
    layers, full, state = state_from_config("KimiLinearForCausalLM", KIMI_LINEAR)
    assert (layers, full) == (27, (3, 7, 11, 15, 19, 23, 26))
    assert state is not None and state.num_groups == state.num_heads == 32


def test_patterns_of_nemotron() -> None:
    layers, full, state = state_from_config("NemotronHForCausalLM", NEMOTRON)
    assert (layers, full) == (5, (3,))
    assert state is not None
    assert (state.layers, state.intermediate_size) == ((0, 2), 10_240)
    listed = {**without(NEMOTRON, "hybrid_override_pattern"), "layers_block_type": ["mamba", "moe", "attention"]}
    assert state_from_config("NemotronHForCausalLM", listed)[:2] == (3, (2,))


def test_every_layer_of_falcon_has_both() -> None:
    layers, full, state = state_from_config("FalconH1ForCausalLM", {**MAMBA2, "mamba_d_ssm": 3072})
    assert state is not None
    assert full == state.layers == tuple(range(layers))
    assert (state.intermediate_size, state.dtype) == (3072, "bfloat16")
    _layers, _full, wide = state_from_config("FalconH1ForCausalLM", MAMBA2)
    assert wide is not None and wide.intermediate_size == 4096


def test_granite_keeps_float32_whatever_it_says() -> None:
    types = {**MAMBA2, "layer_types": ["mamba", "attention", "mamba", "mamba"]}
    _layers, full, state = state_from_config("GraniteMoeHybridForCausalLM", types)
    assert full == (1,)
    assert state is not None and (state.layers, state.dtype) == ((0, 2, 3), "float32")
    plain = {**MAMBA2, "layer_types": ["attention"] * 4}
    assert state_from_config("GraniteMoeHybridForCausalLM", plain)[2] is None


def test_short_convolutions_have_no_recurrent_state() -> None:
    _layers, full, state = state_from_config("Lfm2ForCausalLM", LFM2)
    assert full == (2,)
    assert state is not None
    assert (state.layers, state.state_size, state.intermediate_size, state.conv_kernel) == ((0, 1), 0, 2048, 3)


def test_lightning_attention_has_no_convolution() -> None:
    _layers, full, state = state_from_config("BailingMoeV2_5ForCausalLM", BAILING)
    assert full == (2, 5)
    assert state is not None and (state.intermediate_size, state.conv_kernel) == (0, 1)
    _layers, _full, delta = state_from_config("BailingMoeV3ForCausalLM", {**BAILING, "short_conv_kernel_size": 4})
    assert delta is not None and delta.conv_kernel == 4
    scheduled = {**BAILING, "layer_group_size": [1, 0, 1, 1, 1, 0]}
    assert state_from_config("BailingMoeV3ForCausalLM", scheduled)[1] == (1, 5)


@pytest.mark.parametrize(
    ("name", "config", "key"),
    [
        ("KimiLinearForCausalLM", without(KIMI_LINEAR, "linear_attn_config"), "linear_attn_config"),
        ("NemotronHForCausalLM", without(NEMOTRON, "hybrid_override_pattern"), "hybrid_override_pattern"),
        ("Lfm2ForCausalLM", {**LFM2, "layer_types": ["conv"]}, "layer_types"),
        ("Qwen3NextForCausalLM", without(QWEN3_NEXT, "linear_num_value_heads"), "linear_num_value_heads"),
        ("JambaForCausalLM", MAMBA2, "JambaForCausalLM"),
    ],
)
def test_what_is_missing_is_named(name: str, config: dict[str, Any], key: str) -> None:
    with pytest.raises(Refusal) as refusal:
        state_from_config(name, config)
    assert key in refusal.value.message


def test_endless_patterns_are_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        state_from_config("NemotronHForCausalLM", {**NEMOTRON, "hybrid_override_pattern": "M" * 10_001})
    assert refusal.value.code == "model_config_malformed"
