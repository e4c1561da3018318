# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attention facts out of C(model.attention): what model_info returned, or what an inventory states on paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import (
    COMPRESSED,
    LATENT,
    PLAIN_HEADS,
    SPARSE,
    STATE,
    WINDOW,
    Architecture,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import (
    FAMILY_COMPRESSED,
    FAMILY_DSA,
    FAMILY_LINEAR,
    FAMILY_LINEAR_MLA,
    FAMILY_MLA,
    FAMILY_SPARSE,
    FAMILY_SWA,
    MAX_LAYERS,
    Attention,
    Compressed,
    Index,
    State,
    Window,
    check_compressed,
    family_of_heads,
    layer_count,
    whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.state_config import STATE_DTYPES
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def attention_facts(known: Architecture, attention: Mapping[str, Any], where: str = "model.attention") -> Attention:
    """The facts, checked against the kind of the model class: what its kind has must be there.

    C(where) is the option that they stand under.
    """
    name = known.name
    layers = layer_count(attention, "num_layers", name, where)
    heads = whole(attention, "num_attention_heads", name, where=where)
    kv_heads = whole(attention, "num_kv_heads", name, where=where)
    head_dim = whole(attention, "head_dim", name, where=where)
    state = _state(name, attention, layers, where) if known.kind == STATE else None
    window = _window(name, attention, layers, where) if known.kind == WINDOW else None
    index = _index(name, attention, layers, where) if known.kind in (LATENT, SPARSE) else None
    latent = known.kind == LATENT or (known.kind == STATE and attention.get("kv_lora_rank") is not None)
    # A class that may be latent or have windows or states is plain where its configuration says so, and model_info
    # returns such facts without them; on paper, leaving them out has to be said by the family.
    family = _family(known, attention, where, latent, window, index, state) or family_of_heads(heads, kv_heads)
    if known.kind == LATENT and family not in (FAMILY_MLA, FAMILY_DSA):
        latent = False
    has_parts = window is not None or state is not None
    found = Attention(
        family=family,
        num_layers=layers,
        num_attention_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=whole(attention, "v_head_dim", name, where=where)
        if attention.get("v_head_dim") is not None
        else head_dim,
        kv_lora_rank=whole(attention, "kv_lora_rank", name, where=where) if latent else None,
        qk_rope_head_dim=whole(attention, "qk_rope_head_dim", name, least=0, where=where) if latent else None,
        full_layers=_layers(name, attention, "full_layers", layers, where) if has_parts else None,
        window=window,
        index=index,
        state=state,
        compressed=_compressed(name, attention, layers, where) if known.kind == COMPRESSED else None,
    )
    return check_compressed(name, found)


def _family(
    known: Architecture,
    attention: Mapping[str, Any],
    where: str,
    latent: bool,
    window: Window | None,
    index: Index | None,
    state: State | None,
) -> str | None:
    """The family of what is there; None for plain heads."""
    if state is not None:
        return FAMILY_LINEAR_MLA if latent else FAMILY_LINEAR
    if window is not None:
        return FAMILY_SWA
    if known.kind == COMPRESSED:
        return FAMILY_COMPRESSED
    if known.kind == SPARSE:
        if index is None:
            raise _incomplete(known.name, "index", where)
        return FAMILY_SPARSE
    if known.kind == LATENT:
        plain = attention.get("family") in ("mha", "gqa", "mqa") and attention.get("kv_lora_rank") is None
        return None if plain else FAMILY_MLA if index is None else FAMILY_DSA
    stated = attention.get("family")
    if known.kind != PLAIN_HEADS and stated not in ("mha", "gqa", "mqa"):
        raise _incomplete(known.name, "window" if known.kind == WINDOW else "state", where)
    return None


def _incomplete(name: str, key: str, where: str) -> Refusal:
    return Refusal(
        "model_config_incomplete",
        f"{where}.{key} is missing, and the caches of {name} depend on it.",
        f"Expected the mapping that gpufleet.sglang.model_info returns under model.attention.{key}.",
        {"architecture": name, "key": key},
    )


def _part(name: str, attention: Mapping[str, Any], where: str, key: str, form: type[Any]) -> Mapping[str, Any] | None:
    part = attention.get(key)
    if part is None:
        return None
    known = {field.name for field in fields(form)}
    if not isinstance(part, Mapping) or not set(part) <= known:
        raise Refusal(
            "model_config_malformed",
            f"{where}.{key} is {str(part)[:120]}.",
            f"Expected a mapping with keys out of {', '.join(sorted(known))}.",
            {"architecture": name, "key": key},
        )
    return part


def _layers(name: str, part: Mapping[str, Any], key: str, layers: int, where: str) -> tuple[int, ...]:
    listed = part.get(key)
    if (
        not isinstance(listed, (list, tuple))
        or not all(isinstance(layer, int) and not isinstance(layer, bool) and 0 <= layer < layers for layer in listed)
        or len(set(listed)) != len(listed)
    ):
        raise Refusal(
            "model_config_incomplete",
            f"{where}.{key} is {str(listed)[:80]}.",
            f"Expected the numbers of layers, each once, from 0 to {layers - 1}.",
            {"architecture": name, "key": key},
        )
    return tuple(sorted(listed))


def _window(name: str, attention: Mapping[str, Any], layers: int, where: str) -> Window | None:
    at = f"{where}.window"
    part = _part(name, attention, where, "window", Window)
    if part is None:
        return None
    return Window(
        layers=_layers(name, part, "layers", layers, at),
        num_kv_heads=whole(part, "num_kv_heads", name, where=at),
        head_dim=whole(part, "head_dim", name, where=at),
        v_head_dim=whole(part, "v_head_dim", name, where=at),
        tokens=whole(part, "tokens", name, where=at) if part.get("tokens") is not None else None,
    )


def _index(name: str, attention: Mapping[str, Any], layers: int, where: str) -> Index | None:
    at = f"{where}.index"
    part = _part(name, attention, where, "index", Index)
    if part is None:
        return None
    return Index(
        layers=_layers(name, part, "layers", layers, at),
        head_dim=whole(part, "head_dim", name, where=at),
        value_layers=_layers(name, part, "value_layers", layers, at) if part.get("value_layers") else (),
    )


def _compressed(name: str, attention: Mapping[str, Any], layers: int, where: str) -> Compressed:
    at = f"{where}.compressed"
    part = _part(name, attention, where, "compressed", Compressed)
    if part is None:
        raise _incomplete(name, "compressed", where)
    ratios = part.get("ratios")
    if (
        not isinstance(ratios, (list, tuple))
        or not layers <= len(ratios) <= MAX_LAYERS
        or not all(isinstance(ratio, int) and not isinstance(ratio, bool) and ratio >= 0 for ratio in ratios)
    ):
        raise Refusal(
            "model_config_incomplete",
            f"{where}.compressed.ratios is {str(ratios)[:80]}.",
            f"Expected a whole number for each of {layers} layers at least.",
            {"architecture": name, "key": "ratios"},
        )
    sizes = {key: whole(part, key, name, where=at) for key in ("rope_head_dim", "index_head_dim", "window_tokens")}
    return Compressed(ratios=tuple(ratios), **sizes)


def _state(name: str, attention: Mapping[str, Any], layers: int, where: str) -> State | None:
    at = f"{where}.state"
    part = _part(name, attention, where, "state", State)
    if part is None:
        return None
    dtype = part.get("dtype", "float32")
    if dtype not in STATE_DTYPES:
        raise Refusal(
            "model_config_malformed",
            f"{where}.state.dtype is {dtype!r}.",
            f"Expected one of {', '.join(STATE_DTYPES)}.",
            {"architecture": name, "key": "dtype"},
        )
    sizes = {
        key: whole(part, key, name, 1 if key in ("num_heads", "head_dim", "conv_kernel") else 0, at)
        for key in ("intermediate_size", "num_groups", "num_heads", "head_dim", "state_size", "conv_kernel")
    }
    return State(layers=_layers(name, part, "layers", layers, at), dtype=str(dtype), **sizes)
