# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.vision import (
    VisionTower,
    vision_facts,
    vision_from_config,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

ARCHITECTURE = "Gemma3ForConditionalGeneration"


@pytest.mark.parametrize(
    ("tower", "expected"),
    [
        ({"num_hidden_layers": 27, "hidden_size": 1152}, VisionTower(27, 1152)),
        # Named otherwise, SGLang reads its own default.
        ({"depth": 32, "hidden_size": 1280}, VisionTower(24, 1280)),
        ({"layers": 27, "width": 1152}, VisionTower(24, 1024)),
        # SGLang's own configuration renames these.
        ({"vt_num_hidden_layers": 27, "vt_hidden_size": 1152}, VisionTower(27, 1152)),
        # What the configuration class would put there is not known.
        ({"hidden_size": 1280}, None),
        ({"num_hidden_layers": 27}, None),
        ({"num_hidden_layers": "27", "hidden_size": 1152}, None),
        ({}, None),
        (None, None),
    ],
)
def test_towers_of_configurations(tower: Any, expected: VisionTower | None) -> None:
    assert vision_from_config(ARCHITECTURE, {"vision_config": tower}) == expected


def test_what_only_hears_has_no_tower() -> None:
    assert vision_from_config("Qwen2AudioForConditionalGeneration", {}) == VisionTower(None, None)


def test_facts_go_there_and_back() -> None:
    tower = VisionTower(27, 1152)
    assert vision_facts(tower.as_dict()) == tower
    assert vision_facts({"num_hidden_layers": "27", "hidden_size": "1152"}) == tower
    assert vision_facts(None) is None


@pytest.mark.parametrize("given", [{"num_hidden_layers": 0}, {"hidden_size": -1}, {"hidden_size": True}, "large", 27.5])
def test_malformed_facts_are_refused(given: Any) -> None:
    with pytest.raises(Refusal) as refusal:
        vision_facts(given)
    assert refusal.value.code == "value_malformed"
