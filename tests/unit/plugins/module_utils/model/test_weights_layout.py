# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import TensorGroup
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import (
    RankLayout,
    check_layout,
    stage_layers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import ModelStructure
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def test_later_stages_take_the_rest() -> None:
    assert stage_layers(61, RankLayout(pipeline_parallel=4)) == ((0, 14), (15, 29), (30, 44), (45, 60))
    assert stage_layers(94, RankLayout(pipeline_parallel=4)) == ((0, 22), (23, 45), (46, 69), (70, 93))


def test_a_partition_of_one_s_own() -> None:
    assert stage_layers(10, RankLayout(pipeline_parallel=2, layer_partition=(7, 3))) == ((0, 6), (7, 9))


@given(st.integers(1, 200), st.integers(1, 32))
def test_every_layer_has_one_stage(layers: int, stages: int) -> None:
    found = stage_layers(layers, RankLayout(pipeline_parallel=stages))
    assert [layer for first, last in found for layer in range(first, last + 1)] == list(range(layers))
    sizes = [last - first + 1 for first, last in found]
    assert sizes == sorted(sizes)
    assert sizes[-1] - sizes[0] <= 1


HEADS = ModelStructure(num_attention_heads=28, num_kv_heads=4)


@pytest.mark.parametrize(
    ("structure", "layout", "said"),
    [
        (HEADS, RankLayout(tensor_parallel=0), "Tensor_parallel is 0"),
        (HEADS, RankLayout(tensor_parallel=8, attention_data_parallel=3), "Attention_data_parallel 3 does not divide"),
        (HEADS, RankLayout(tensor_parallel=8, expert_parallel=3), "Expert_parallel 3 does not divide"),
        (
            HEADS,
            RankLayout(tensor_parallel=8),
            "The number of attention ranks 8 does not divide num_attention_heads",
        ),
        (HEADS, RankLayout(tensor_parallel=14), "4 KV heads and 14 attention ranks"),
        (HEADS, RankLayout(pipeline_parallel=29), "28 layers cannot be given to 29"),
        (HEADS, RankLayout(pipeline_parallel=2, layer_partition=(20, 9)), "The partition 20, 9"),
        (HEADS, RankLayout(pipeline_parallel=2, layer_partition=(28,)), "The partition 28 does"),
        (
            ModelStructure(num_experts=10),
            RankLayout(tensor_parallel=4, expert_parallel=4),
            "Expert_parallel 4 does not",
        ),
    ],
)
def test_layouts_that_the_server_refuses(structure: ModelStructure, layout: RankLayout, said: str) -> None:
    expert = TensorGroup("model.layers.*.mlp.experts.*.w1.weight", "expert", False, "BF16", (4, 4), 32, ((0, 27),), 10)
    with pytest.raises(Refusal) as refused:
        check_layout(structure, [expert], layout, 28)
    assert refused.value.code == "layout_indivisible"
    assert refused.value.message.startswith(said)


def test_redundant_experts_count_as_experts() -> None:
    expert = TensorGroup("model.layers.*.mlp.experts.*.w1.weight", "expert", False, "BF16", (4, 4), 32, ((0, 27),), 10)
    layout = RankLayout(tensor_parallel=4, expert_parallel=4, redundant_experts=2)
    check_layout(ModelStructure(num_experts=10), [expert], layout, 28)


def test_sizes_that_would_do_are_named() -> None:
    with pytest.raises(Refusal, match="2, 4, 7, 14"):
        check_layout(ModelStructure(num_attention_heads=28), (), RankLayout(tensor_parallel=8), 28)
