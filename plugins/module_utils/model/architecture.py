# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan knows of one model, out of what model_info returned or an inventory states on paper.

The attention facts are in attention.py, read from a config.json in attention_config.py and from a model's facts in
attention_facts.py; the bytes of a token are counted in cell_size.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import MULTIMODAL
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import (
    attention_from_config,
    text_config,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_facts import attention_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.known_architecture import known_architecture
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.vision import VisionTower, vision_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import groups_from_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_shared import WeightFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import (
    ModelStructure,
    structure_from_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

__all__ = [
    "Attention",
    "ModelFacts",
    "attention_from_config",
    "config_dtype",
    "model_facts",
    "text_config",
]


@dataclass(frozen=True)
class ModelFacts:
    """The facts of one model that a plan uses."""

    name: str
    architecture: str
    attention: Attention
    dtype: str
    quantization: str | None
    kv_cache_quantized: bool
    weights_bytes: int | None
    max_position_embeddings: int | None
    path: str | None
    # What the model's configuration says of layers of its own that draft.
    nextn_layers: int | None = None
    # The tensors of the checkpoint, where they were read.
    weights: WeightFacts | None = None
    structure: ModelStructure = ModelStructure()
    # The size of its vision tower; None where nothing is known of it.
    vision: VisionTower | None = None

    @property
    def multimodal(self) -> bool:
        return self.architecture in MULTIMODAL


def config_dtype(config: Mapping[str, Any]) -> str:
    """The dtype that SGLang's C(--dtype auto) takes: the config's, float32 becoming float16 (model_config.py)."""
    text = text_config(config)
    for source in (config, text):
        for key in ("dtype", "torch_dtype"):
            if source.get(key):
                return "float16" if source[key] == "float32" else str(source[key])
    return "float16"


def model_facts(model: Mapping[str, Any], may_draft: bool = False) -> ModelFacts:
    """Facts out of the C(model) that model_info returns, or that an inventory states on paper.

    C(may_draft) admits model classes that only draft for another model.
    """
    architecture, where = model.get("architecture"), "speculative.model" if may_draft else "model"
    known = known_architecture(architecture, may_draft, f"{where}.architecture")
    attention = model.get("attention")
    if not isinstance(attention, Mapping):
        raise Refusal(
            "model_attention_missing",
            f"{where}.attention of {architecture} is {attention!r}, which is no mapping.",
            "Expected the keys that gpufleet.sglang.model_info returns under model.attention.",
            {"architecture": architecture},
        )
    structure = structure_from_facts(model.get("structure"))
    weights = model.get("weights") or {}
    total = weights.get("total_bytes") if isinstance(weights, Mapping) else None
    path = model.get("path")
    return ModelFacts(
        name=str(model.get("name") or (str(path).rstrip("/").rsplit("/", 1)[-1] if path else known.name)),
        architecture=known.name,
        attention=attention_facts(known, attention, f"{where}.attention"),
        # Inventories write it as PyTorch prints it, too.
        dtype=str(model.get("dtype") or "bfloat16").removeprefix("torch."),
        quantization=model.get("quantization"),
        kv_cache_quantized=bool(model.get("kv_cache_quantized", False)),
        weights_bytes=_weights_bytes(total),
        max_position_embeddings=model.get("max_position_embeddings"),
        path=str(path) if path else None,
        nextn_layers=structure.num_nextn_layers,
        weights=_weight_facts(known.name, model),
        structure=structure,
        vision=vision_facts(model.get("vision")),
    )


def _weight_facts(architecture: str, model: Mapping[str, Any]) -> WeightFacts | None:
    weights, details = model.get("weights"), model.get("quantization_details")
    groups = groups_from_facts(weights.get("groups")) if isinstance(weights, Mapping) else None
    if groups is None:
        return None
    details = details if isinstance(details, Mapping) else {}
    block = details.get("block")
    return WeightFacts(
        architecture=architecture,
        structure=structure_from_facts(model.get("structure")),
        groups=groups,
        method=details.get("method"),
        block=tuple(block) if isinstance(block, (list, tuple)) else None,
        act_order=details.get("act_order") is True,
        symmetric=details.get("symmetric") is not False,
    )


def _weights_bytes(total: Any) -> int | None:
    if total is None:
        return None
    # An inventory's template may give the number as text.
    text = str(total)
    if isinstance(total, bool) or not text.isascii() or not text.isdigit() or int(text) == 0:
        raise Refusal(
            "value_malformed", f"model.weights.total_bytes is {total!r}.", "Expected a whole number of bytes above 0."
        )
    return int(text)
