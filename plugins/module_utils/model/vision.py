# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The size of a vision tower, as SGLang counts it when it leaves room for one.

Source: SGLang, C(adjust_mem_fraction_for_vlm): C(num_hidden_layers) and C(hidden_size) of vision_config, and ViT-L's
where the tower names them otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# What SGLang's own configuration of Kimi's towers renames (configs/kimi_k25.py).
_RENAMED = {"num_hidden_layers": "vt_num_hidden_layers", "hidden_size": "vt_hidden_size"}
# What other towers call them; SGLang then reads its own default.
_LAYERS_OTHERWISE = ("depth", "layers", "num_layers")
_SIZE_OTHERWISE = ("width", "embed_dim", "d_model")
_DEFAULT_LAYERS, _DEFAULT_SIZE = 24, 1024
# Multimodal, without a tower of pictures: these hear.
_WITHOUT_TOWER = frozenset(
    {
        "GlmAsrForConditionalGeneration",
        "MiDashengLMModel",
        "MiMoV2ASRForCausalLM",
        "Qwen2AudioForConditionalGeneration",
        "Qwen3ASRForConditionalGeneration",
        "VoxtralForConditionalGeneration",
    }
)


@dataclass(frozen=True)
class VisionTower:
    """The numbers that SGLang reads; both None for a model that has no tower."""

    num_hidden_layers: int | None
    hidden_size: int | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _number(tower: Mapping[str, Any], key: str, otherwise: tuple[str, ...], default: int) -> int | None:
    value = tower.get(key, tower.get(_RENAMED[key]))
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return default if value is None and any(name in tower for name in otherwise) else None


def vision_from_config(architecture: str | None, config: Mapping[str, Any]) -> VisionTower | None:
    """The tower of a config.json; None where the file does not tell, so that a class's own default would decide."""
    tower = config.get("vision_config")
    if not isinstance(tower, Mapping):
        return VisionTower(None, None) if architecture in _WITHOUT_TOWER else None
    layers = _number(tower, "num_hidden_layers", _LAYERS_OTHERWISE, _DEFAULT_LAYERS)
    size = _number(tower, "hidden_size", _SIZE_OTHERWISE, _DEFAULT_SIZE)
    return None if layers is None or size is None else VisionTower(layers, size)


def vision_facts(given: Any) -> VisionTower | None:
    """The tower out of model facts, None where they do not know."""
    if given is None:
        return None
    numbers = {}
    for key in ("num_hidden_layers", "hidden_size"):
        value = given.get(key) if isinstance(given, Mapping) else given
        text = str(value)
        if value is not None and (isinstance(value, bool) or not text.isascii() or not text.isdigit() or not int(text)):
            raise Refusal(
                "value_malformed",
                f"model.vision.{key} is {value!r}.",
                "Expected a whole number above 0, as gpufleet.sglang.model_info returns it.",
            )
        numbers[key] = None if value is None else int(text)
    return VisionTower(**numbers)
