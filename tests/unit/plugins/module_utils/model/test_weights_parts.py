# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import is_scale, place


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.embed_tokens.weight", "embedding"),
        ("transformer.wte.weight", "embedding"),
        ("lm_head.weight", "lm_head"),
        ("output.weight", "lm_head"),
        ("model.layers.0.self_attn.q_proj.weight", "attention"),
        ("layers.0.attention.wq.weight", "attention"),
        ("model.layers.3.linear_attn.in_proj_qkvz.weight", "attention"),
        ("backbone.layers.3.mixer.in_proj.weight", "attention"),
        ("backbone.layers.1.mixer.up_proj.weight", "dense"),
        ("model.layers.0.mlp.gate_proj.weight", "dense"),
        ("model.layers.0.feed_forward.w1.weight", "dense"),
        ("model.layers.3.mlp.experts.17.up_proj.weight_packed", "expert"),
        ("model.layers.3.mlp.experts.gate_up_proj_blocks", "expert"),
        ("model.layers.3.block_sparse_moe.experts.0.w1.weight", "expert"),
        ("model.layers.3.mlp.shared_experts.up_proj.weight", "shared_expert"),
        ("model.layers.3.mlp.shared_expert.up_proj.weight", "shared_expert"),
        ("model.layers.3.mlp.gate.weight", "router"),
        ("model.layers.3.mlp.gate.e_score_correction_bias", "router"),
        ("model.layers.3.mlp.shared_expert_gate.weight", "router"),
        ("model.layers.3.mlp.router.bias", "router"),
        ("model.layers.3.block_sparse_moe.gate.weight", "router"),
        ("model.layers.0.input_layernorm.weight", "norm"),
        ("model.layers.0.self_attn.q_a_layernorm.weight", "norm"),
        ("model.norm.weight", "norm"),
        ("vision_tower.encoder.blocks.0.attn.wqkv.weight", "vision"),
        ("model.visual.blocks.0.norm1.weight", "vision"),
        ("visual.merger.mlp.0.weight", "projector"),
        ("mm_projector.proj.0.weight", "projector"),
        ("multi_modal_projector.linear_1.weight", "projector"),
        ("audio_tower.layers.0.self_attn.q_proj.weight", "audio"),
        ("mtp.layers.0.self_attn.q_proj.weight", "mtp"),
        ("model.layers.61.mlp.experts.0.up_proj.weight", "mtp"),
        ("model.layers.61.eh_proj.weight", "mtp"),
        ("model.mystery", "other"),
        ("", "other"),
        ("....", "other"),
    ],
)
def test_part_of_a_tensor(name: str, part: str) -> None:
    assert place(name, num_layers=61).part == part


def test_layer_and_pattern() -> None:
    at = place("model.layers.12.mlp.experts.255.down_proj.weight_scale_inv", 61)
    assert (at.layer, at.pattern, at.scale) == (12, "model.layers.*.mlp.experts.*.down_proj.weight_scale_inv", True)


def test_a_vision_tower_has_layers_of_its_own() -> None:
    assert place("vision_tower.encoder.layers.3.mlp.fc1.weight").layer is None


def test_a_layer_is_a_draft_only_where_the_configuration_tells_how_many_there_are() -> None:
    assert place("model.layers.61.self_attn.o_proj.weight").part == "attention"


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("a.weight_scale_inv", True),
        ("a.weight_scale", True),
        ("a.weight_scale_2", True),
        ("a.input_scale", True),
        ("a.qzeros", True),
        ("a.g_idx", True),
        ("experts.gate_up_proj_scales", True),
        ("a.weight.quant_state.bitsandbytes__nf4", True),
        ("a.weight", False),
        ("a.qweight", False),
        ("logit_scale", False),
    ],
)
def test_scales_are_told_from_weights(name: str, scale: bool) -> None:
    assert is_scale(name) is scale


@given(st.text(alphabet="mlpexrtsn._0123456789٣²", max_size=60))
def test_any_name_has_a_place(name: str) -> None:
    at = place(name, 4)
    assert at.pattern.count(".") == name.count(".")
    assert at.layer is None or 0 <= at.layer < 10**6
