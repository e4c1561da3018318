# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import (
    ModelStructure,
    structure_from_config,
    structure_from_facts,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.model_configs import (
    DEEPSEEK_V3,
    MIXTRAL_8X7B,
    QWEN3_30B_A3B,
)


@pytest.mark.parametrize(
    ("config", "experts", "head_dim", "rotary"),
    [(DEEPSEEK_V3, 256, 56, 64), (MIXTRAL_8X7B, 8, 128, 128), (QWEN3_30B_A3B, 128, 128, 128)],
)
def test_names_of_several_families(config: dict[str, Any], experts: int, head_dim: int, rotary: int) -> None:
    found = structure_from_config(config, config)
    assert (found.num_experts, found.head_dim, found.rotary_dim) == (experts, head_dim, rotary)


def test_what_is_not_said_is_none() -> None:
    assert structure_from_config({}, {}) == ModelStructure()


@pytest.mark.parametrize("value", [-1, 0, True, "32", 1.5, 1 << 40, [], None])
def test_what_is_no_number_is_none(value: Any) -> None:
    assert structure_from_config({}, {"num_hidden_layers": value}).num_layers is None


def test_tied_weights_by_the_language_model_first() -> None:
    top = {"tie_word_embeddings": False}
    assert structure_from_config(top, {"tie_word_embeddings": True}).tied is True
    assert structure_from_config(top, {}).tied is False
    assert structure_from_config({}, {}).tied is None


def test_rotary_part_of_a_head() -> None:
    assert structure_from_config({}, {"head_dim": 128, "partial_rotary_factor": 0.25}).rotary_dim == 32
    nested = {"head_dim": 256, "rope_parameters": {"partial_rotary_factor": 0.5}}
    assert structure_from_config({}, nested).rotary_dim == 128
    assert structure_from_config({}, {"head_dim": 128, "partial_rotary_factor": "x"}).rotary_dim == 128


def test_facts_survive_the_way_over_json() -> None:
    found = structure_from_config(DEEPSEEK_V3, DEEPSEEK_V3)
    assert structure_from_facts(found.as_dict()) == found
    assert structure_from_facts(None) == structure_from_facts({"num_layers": -3}) == ModelStructure()
