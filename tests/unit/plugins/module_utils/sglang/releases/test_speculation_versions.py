# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import (
    ARCHITECTURES,
    DRAFT_ARCHITECTURES,
    DRAFTS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases import speculation_versions as table
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import (
    counted_own_layers,
    own_draft_layers,
    speculation_facts,
    state_slots_a_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED


def test_algorithms_only_ever_grow() -> None:
    known: set[str] = set()
    for version in EXAMINED:
        algorithms = set(speculation_facts(str(version)).algorithms)
        assert known <= algorithms
        known = algorithms
    assert set(table.UNPLANNED_ALGORITHMS) < known


def test_tables_name_classes_that_are_planned() -> None:
    for names in (table._OWN_LAYERS, table._OWN_PATH, table.WITHOUT_THE_KEY, table._KNOWS_BUFFER):
        assert set(names) <= set(ARCHITECTURES)
    assert set(table._OWN_PATH) <= set(table._OWN_LAYERS)
    assert set(DRAFT_ARCHITECTURES) <= DRAFTS


@pytest.mark.parametrize(
    ("version", "architecture", "configured", "layers"),
    [
        ("0.4.7", "DeepseekV3ForCausalLM", 1, 1),
        ("0.4.7", "DeepseekV3ForCausalLM", None, 0),
        ("0.4.9", "Glm4MoeForCausalLM", 1, None),
        ("0.5.23", "Qwen3NextForCausalLM", None, 1),
        ("0.5.23", "Step3p5ForCausalLM", 3, 1),
        ("0.5.23", "LlamaForCausalLM", 1, None),
    ],
)
def test_layers_of_a_models_own(version: str, architecture: str, configured: int | None, layers: int | None) -> None:
    assert own_draft_layers(version, architecture, configured) == layers


def test_what_a_budget_counts_depends_on_whose_configuration_is_read() -> None:
    assert counted_own_layers("0.5.19", "MiMoForCausalLM", 1, path_given=False) is None
    assert counted_own_layers("0.5.20", "MiMoForCausalLM", 1, path_given=False) == 1
    assert counted_own_layers("0.5.14", "MiMoForCausalLM", 1, path_given=True) == 1
    assert counted_own_layers("0.5.23", "Qwen3_5MoeForConditionalGeneration", 1, path_given=False) is None


@pytest.mark.parametrize(
    ("version", "architecture", "strategy", "slots"),
    [
        ("0.5.13", "Qwen3NextForCausalLM", None, 3),
        ("0.5.14", "Qwen3NextForCausalLM", None, 5),
        ("0.5.14", "Qwen3NextForCausalLM", "no_buffer", 3),
        ("0.5.14", "Qwen3NextForCausalLM", "extra_buffer_lazy", 4),
        ("0.5.13", "Qwen3NextForCausalLM", "extra_buffer", 5),
        ("0.5.15", "KimiLinearForCausalLM", "auto", 3),
        ("0.5.16", "KimiLinearForCausalLM", "auto", 5),
        ("0.5.18.post1", "NemotronHForCausalLM", None, 5),
        ("0.5.19", "NemotronHForCausalLM", None, 3),
    ],
)
def test_state_slots_of_a_request(version: str, architecture: str, strategy: str | None, slots: int) -> None:
    assert state_slots_a_request(version, architecture, strategy) == slots
