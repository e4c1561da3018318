# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of a quantised checkpoint: which modules have which bits, groups and activations; pure, never an exception.

Fields are those that the C(from_config) of each class in SGLang's layers/quantization reads (0.5.23).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

# Sizes that a method has by itself, where the checkpoint does not say: (bits, type, group size).
_BY_METHOD: dict[str, tuple[int, str, int | None]] = {
    "fp8": (8, "float", None),
    "mxfp8": (8, "float", 32),
    "mxfp4": (4, "float", 32),
    "modelopt_fp8": (8, "float", None),
    "modelopt_fp4": (4, "float", 16),
    "minimax_m3_nvfp4": (4, "float", 16),
    "petit_nvfp4": (4, "float", 16),
    "w8a8_fp8": (8, "float", None),
    "w8a8_int8": (8, "int", None),
    "auto-round-int8": (8, "int", None),
    "blockwise_int8": (8, "int", None),
    "w4afp8": (4, "int", 128),
}
MAX_PATTERNS = 512


@dataclass(frozen=True)
class QuantizedGroup:
    """One rule of a checkpoint: which modules (by class, name or pattern) are quantised how."""

    targets: tuple[str, ...]
    weight_bits: int | None
    weight_type: str | None
    strategy: str | None
    group_size: int | None
    block: tuple[int, ...] | None = None
    symmetric: bool | None = None
    activation_bits: int | None = None
    activation_type: str | None = None
    activation_dynamic: bool | None = None
    format: str | None = None


def first_rule(method: str, quant: Mapping[str, Any]) -> QuantizedGroup:
    bits, kind, group_size = _BY_METHOD.get(method, (None, None, None))
    block = _sides(quant.get("weight_block_size"))
    if method == "bitsandbytes":
        four = quant.get("load_in_4bit", quant.get("_load_in_4bit", not quant.get("load_in_8bit")))
        bits, kind = (4, text_value(quant.get("bnb_4bit_quant_type")) or "fp4") if four else (8, "int")
        group_size = 64 if four else None
    if method in ("gptq", "gptq_marlin", "awq", "awq_marlin", "auto-round", "moe_wna16", "quark_int4fp8_moe"):
        bits = whole(quant.get("bits")) or whole(quant.get("w_bit"))
        kind = "int"
        group_size = _group_size(quant, ("group_size", "q_group_size"))
    group_size = _group_size(quant, ("group_size",)) or group_size
    symmetric = flag(quant.get("sym"))
    if symmetric is None and isinstance(quant.get("zero_point"), bool):
        symmetric = not quant["zero_point"]
    return QuantizedGroup(
        targets=(),
        weight_bits=bits,
        weight_type=kind,
        strategy="block" if block else "group" if group_size else None,
        group_size=group_size,
        block=block,
        symmetric=symmetric,
        activation_dynamic={"dynamic": True, "static": False}.get(str(quant.get("activation_scheme"))),
        activation_bits=8 if quant.get("activation_scheme") in ("dynamic", "static") else None,
        activation_type="float" if quant.get("activation_scheme") in ("dynamic", "static") else None,
    )


def rule_groups(quant: Mapping[str, Any], method: str) -> tuple[QuantizedGroup, ...]:
    """Rules of compressed-tensors (config_groups), of ModelOpt mixtures (quantized_layers), of Quark and AutoRound."""
    groups = quant.get("config_groups")
    if isinstance(groups, Mapping):
        return tuple(_group(rule) for rule in list(groups.values())[:MAX_PATTERNS] if isinstance(rule, Mapping))
    layers = quant.get("quantized_layers")
    if isinstance(layers, Mapping):
        return _by_algorithm(layers)
    if method in ("quark", "quark_mxfp4"):
        rules = {"*": quant.get("global_quant_config"), **mapping(quant.get("layer_quant_config"))}
        return tuple(
            replace(_quark_group(rule), targets=(str(target),))
            for target, rule in list(rules.items())[:MAX_PATTERNS]
            if isinstance(rule, Mapping)
        )
    return ()


def _group(rule: Mapping[str, Any]) -> QuantizedGroup:
    weights, inputs = mapping(rule.get("weights")), mapping(rule.get("input_activations"))
    return QuantizedGroup(
        targets=patterns(rule.get("targets")),
        weight_bits=whole(weights.get("num_bits")),
        weight_type=text_value(weights.get("type")),
        strategy=text_value(weights.get("strategy")),
        group_size=_group_size(weights, ("group_size",)),
        block=_sides(weights.get("block_structure")),
        symmetric=flag(weights.get("symmetric")),
        activation_bits=whole(inputs.get("num_bits")),
        activation_type=text_value(inputs.get("type")),
        activation_dynamic=flag(inputs.get("dynamic")),
        format=text_value(rule.get("format")),
    )


def _by_algorithm(layers: Mapping[str, Any]) -> tuple[QuantizedGroup, ...]:
    """A mixture names every layer; those of one algorithm are one rule."""
    targets: dict[tuple[str, int | None], list[str]] = {}
    for name, rule in layers.items():
        values = mapping(rule)
        key = (str(values.get("quant_algo", "")).upper(), whole(values.get("group_size")))
        targets.setdefault(key, []).append(str(name))
    groups = []
    for (algorithm, group_size), names in targets.items():
        bits, kind = (4, "float") if "FP4" in algorithm else (4, "int") if "W4" in algorithm else (8, "float")
        groups.append(
            QuantizedGroup(tuple(names[:MAX_PATTERNS]), bits, kind, None, group_size, format=algorithm.lower() or None)
        )
    return tuple(groups)


def _quark_group(rule: Mapping[str, Any]) -> QuantizedGroup:
    weight, inputs = mapping(rule.get("weight")), mapping(rule.get("input_tensors"))
    bits, kind = _quark_type(weight)
    input_bits, input_kind = _quark_type(inputs)
    return QuantizedGroup(
        targets=(),
        weight_bits=bits,
        weight_type=kind,
        strategy=(text_value(weight.get("qscheme")) or "").replace("per_", "") or None,
        group_size=_group_size(weight, ("group_size",)),
        symmetric=flag(weight.get("symmetric")),
        activation_bits=input_bits,
        activation_type=input_kind,
        activation_dynamic=flag(inputs.get("is_dynamic")),
    )


def _quark_type(tensor: Mapping[str, Any]) -> tuple[int | None, str | None]:
    name = text_value(tensor.get("dtype")) or ""
    if not name:
        return None, None
    digits = "".join(character for character in name.split("_")[0] if character.isdigit())
    return (int(digits) if 0 < len(digits) < 3 else None), ("float" if name.startswith(("fp", "mx")) else "int")


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def text_value(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 32 else None


def _group_size(values: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """-1 and null mean one group for a whole row."""
    return next((size for size in (whole(values.get(key)) for key in keys) if size), None)


def _sides(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, (list, tuple)) or not 0 < len(value) < 5:
        return None
    sides = [whole(side) for side in value]
    return None if None in sides else tuple(side for side in sides if side is not None)


def patterns(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(str(item) for item in value[:MAX_PATTERNS] if isinstance(item, str))
