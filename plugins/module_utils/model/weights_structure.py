# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the split of a model's weights over ranks needs to know from its config.json, under one name each; pure.

Configurations name the same thing in several ways; what none of them names is None and never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

# The largest numbers seen are vocabularies and contexts of some millions.
MAX_NUMBER = 1 << 31


@dataclass(frozen=True)
class ModelStructure:
    """Counts and sizes of the language model; C(tied) is None where only the weights can tell."""

    num_layers: int | None = None
    num_attention_heads: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    hidden_size: int | None = None
    num_experts: int | None = None
    num_shared_experts: int | None = None
    num_nextn_layers: int | None = None
    max_position_embeddings: int | None = None
    rotary_dim: int | None = None
    tied: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def structure_from_config(config: Mapping[str, Any], text: Mapping[str, Any]) -> ModelStructure:
    """C(text) is the language model's part of C(config)."""
    heads = _first(text, "num_attention_heads", "n_head", "num_heads")
    hidden = _first(text, "hidden_size", "n_embd", "d_model")
    head_dim = _first(text, "head_dim", "attention_head_dim") or (hidden // heads if hidden and heads else None)
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    return ModelStructure(
        num_layers=_first(text, "num_hidden_layers", "n_layer", "num_layers"),
        num_attention_heads=heads,
        num_kv_heads=_first(text, "num_key_value_heads", "num_kv_heads", "multi_query_group_num") or heads,
        head_dim=head_dim,
        vocab_size=_first(text, "vocab_size", "padded_vocab_size"),
        hidden_size=hidden,
        num_experts=_first(text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
        num_shared_experts=_first(text, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
        num_nextn_layers=_first(text, "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"),
        max_position_embeddings=_first(text, "max_position_embeddings", "n_positions", "seq_length"),
        rotary_dim=_rotary_dim(text, head_dim),
        tied=tied if isinstance(tied, bool) else None,
    )


def structure_from_facts(facts: Any) -> ModelStructure:
    """Out of the C(structure) that model_info returned; what is not a number there is None."""
    if not isinstance(facts, Mapping):
        return ModelStructure()
    values: dict[str, Any] = {
        field.name: _number(facts.get(field.name)) for field in fields(ModelStructure) if field.name != "tied"
    }
    tied = facts.get("tied")
    return ModelStructure(**values, tied=tied if isinstance(tied, bool) else None)


def _rotary_dim(text: Mapping[str, Any], head_dim: int | None) -> int | None:
    rope = _first(text, "qk_rope_head_dim", "rotary_dim")
    if rope or head_dim is None:
        return rope
    parameters = text.get("rope_parameters")
    partial = text.get("partial_rotary_factor")
    if partial is None and isinstance(parameters, Mapping):
        partial = parameters.get("partial_rotary_factor")
    if isinstance(partial, (int, float)) and not isinstance(partial, bool) and 0 < partial <= 1:
        return int(head_dim * partial)
    return head_dim


def _first(values: Mapping[str, Any], *keys: str) -> int | None:
    return next((number for number in (_number(values.get(key)) for key in keys) if number is not None), None)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_NUMBER else None
