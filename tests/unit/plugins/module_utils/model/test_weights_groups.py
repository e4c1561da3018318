# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import Tensor
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import (
    MAX_GROUPS,
    REST,
    bytes_by_dtype,
    bytes_by_kind,
    bytes_by_part,
    groups_from_facts,
    layer_sizes,
    layers_within,
    runs,
    scale_bytes_by_part,
    tensor_groups,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.checkpoints import model_tensors
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.model_configs import DEEPSEEK_V3


def small_deepseek() -> list[Tensor]:
    return model_tensors({**DEEPSEEK_V3, "num_hidden_layers": 6, "n_routed_experts": 4}, "fp8-block")


def test_tensors_that_differ_in_their_numbers_are_one_group() -> None:
    tensors = small_deepseek()
    groups = tensor_groups(tensors, 6)
    experts = [group for group in groups if group.name == "model.layers.*.mlp.experts.*.up_proj.weight"]
    assert [(group.layers, group.per_layer, group.part) for group in experts] == [
        (((3, 5),), 4, "expert"),
        (((6, 6),), 4, "mtp"),
    ]
    assert sum(group.count for group in groups) == len(tensors)


def test_sums_agree_with_the_tensors() -> None:
    tensors = small_deepseek()
    groups = tensor_groups(tensors, 6)
    total = sum(tensor.size_bytes for tensor in tensors)
    for sums in (bytes_by_dtype(groups), bytes_by_kind(groups), bytes_by_part(groups)):
        assert sum(sums.values()) == total
    parts, kinds = bytes_by_part(groups), bytes_by_kind(groups)
    assert kinds["embedding"] == parts["embedding"] + parts["lm_head"]
    assert kinds["expert"] == parts["expert"] + parts["shared_expert"]
    scales = scale_bytes_by_part(groups)
    assert scales["expert"] == 3 * 4 * 3 * (16 * 56) * 4
    assert "norm" not in scales


def test_layers_that_are_alike_are_one_entry() -> None:
    layers = layer_sizes(tensor_groups(small_deepseek(), 6))
    assert [(entry["first"], entry["last"]) for entry in layers] == [(0, 2), (3, 5), (6, 6)]
    assert "expert" in layers[1]["by_part"]
    assert list(layers[2]["by_part"]) == ["mtp"]


def test_layers_with_unequal_counts_are_groups_of_their_own() -> None:
    tensors = [
        Tensor(f"model.layers.{layer}.mlp.experts.{expert}.w1", "BF16", 2, (1,))
        for layer, expert in ((0, 0), (1, 0), (1, 1), (2, 0))
    ]
    groups = tensor_groups(tensors, None)
    assert [(group.layers, group.per_layer) for group in groups] == [(((0, 0), (2, 2)), 1), (((1, 1),), 2)]


def test_a_million_names_stay_few_groups_and_all_bytes() -> None:
    tensors = [Tensor(f"x{number}.weight", "BF16", 3, (number,)) for number in range(MAX_GROUPS + 500)]
    groups = tensor_groups(tensors, None)
    assert len(groups) == MAX_GROUPS + 1
    assert groups[-1].name == REST
    assert sum(group.size_bytes for group in groups) == 3 * len(tensors)


def test_facts_survive_the_way_over_json() -> None:
    groups = tensor_groups(small_deepseek(), 6)
    assert groups_from_facts([group.as_dict() for group in groups]) == groups


def test_facts_of_another_shape_are_none() -> None:
    good = tensor_groups(small_deepseek(), 6)[0].as_dict()
    assert groups_from_facts([good]) is not None
    for change in (
        {"shape": [-1]},
        {"shape": ["1"]},
        {"layers": "01"},
        {"layers": [[0]]},
        {"per_layer": True},
        {"tensor_bytes": None},
    ):
        assert groups_from_facts([{**good, **change}]) is None
    assert groups_from_facts([]) is groups_from_facts(None) is groups_from_facts([3]) is None


@given(st.sets(st.integers(0, 60)))
def test_runs_hold_exactly_their_numbers(numbers: set[int]) -> None:
    found = runs(numbers)
    assert {number for first, last in found for number in range(first, last + 1)} == numbers
    assert all(first > before[1] + 1 for before, (first, _last) in zip(found, found[1:]))
    assert layers_within(found, 10, 20) == len(numbers & set(range(10, 21)))
