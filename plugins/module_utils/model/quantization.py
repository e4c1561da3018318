# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a checkpoint is quantised, out of the places where SGLang itself looks; pure, and never an exception.

The order of places is that of C(resolve_checkpoint_quant_spec) (model_loader/checkpoint_quantization.py, 0.5.23) and
C(_parse_quant_hf_config) (configs/model_config.py): quantization_config, the text model's, compression_config, then
hf_quant_config.json of ModelOpt, then quant_model_description.json of ModelSlim. Fields are those that the
C(from_config) of each class in layers/quantization reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.quantization_rules import (
    MAX_PATTERNS,
    QuantizedGroup,
    first_rule,
    flag,
    mapping,
    patterns,
    rule_groups,
    text_value,
    whole,
)

# BASE_QUANTIZATION_METHODS of layers/quantization/__init__.py (0.5.23), with what CPU and NPU builds add.
SGLANG_METHODS = frozenset(
    {"fp8", "mxfp8", "mxfp4", "blockwise_int8", "modelopt", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed"}
    | {"nvfp4_online", "minimax_m3_nvfp4", "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "w4afp8", "awq", "awq_marlin"}
    | {"gptq", "gptq_marlin", "moe_wna16", "compressed-tensors", "bitsandbytes", "gguf", "quark", "quark_mxfp4"}
    | {"quark_int4fp8_moe", "auto-round", "auto-round-int8", "modelslim", "humming", "mxfp_w4a8"}
)


@dataclass(frozen=True)
class QuantizationDetails:
    """What is quantised, how, and what is not. What a checkpoint does not say is None.

    C(method) is SGLang's own name for it, C(declared) the checkpoint's. C(groups) has a rule for each kind of module
    where the checkpoint has several; C(weight_bits) and its kin are those of the first.
    """

    method: str
    declared: str | None
    source: str
    known_to_sglang: bool
    weight_bits: int | None
    weight_type: str | None
    strategy: str | None
    group_size: int | None
    block: tuple[int, ...] | None
    symmetric: bool | None
    act_order: bool | None
    format: str | None
    activation_bits: int | None
    activation_type: str | None
    activation_dynamic: bool | None
    groups: tuple[QuantizedGroup, ...]
    unquantized: tuple[str, ...]
    lm_head_quantized: bool | None
    kv_cache_bits: int | None
    kv_cache_type: str | None
    kv_cache_scheme: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def quantization_details(
    config: Mapping[str, Any],
    text: Mapping[str, Any],
    hf_quant_config: Mapping[str, Any] | None = None,
    quant_model_description: Mapping[str, Any] | None = None,
) -> QuantizationDetails | None:
    """None for a checkpoint that is not quantised. C(text) is the language model's part of C(config)."""
    found = _declaration(config, text, hf_quant_config, quant_model_description)
    if found is None:
        return None
    source, quant = found
    if source == "quant_model_description.json":
        return _model_slim(quant)
    declared = text_value(quant.get("quant_method"))
    method = _method(quant, declared)
    first = first_rule(method, quant)
    groups = rule_groups(quant, method)
    if groups and first.weight_bits is None:
        first = groups[0]
    kv_bits, kv_type, kv_scheme = _kv_cache(quant)
    return QuantizationDetails(
        method=method,
        declared=declared or text_value(quant.get("quant_algo")),
        source=source,
        known_to_sglang=method in SGLANG_METHODS,
        weight_bits=first.weight_bits,
        weight_type=first.weight_type,
        strategy=first.strategy,
        group_size=first.group_size,
        block=first.block,
        symmetric=first.symmetric,
        act_order=flag(quant.get("desc_act")),
        format=text_value(quant.get("format")) or text_value(quant.get("fmt")) or first.format,
        activation_bits=first.activation_bits,
        activation_type=first.activation_type,
        activation_dynamic=first.activation_dynamic,
        groups=groups,
        unquantized=_unquantized(quant),
        lm_head_quantized=flag(quant.get("lm_head")),
        kv_cache_bits=kv_bits,
        kv_cache_type=kv_type,
        kv_cache_scheme=kv_scheme,
    )


def _declaration(
    config: Mapping[str, Any],
    text: Mapping[str, Any],
    hf_quant_config: Mapping[str, Any] | None,
    description: Mapping[str, Any] | None,
) -> tuple[str, dict[str, Any]] | None:
    for source, value in (
        ("quantization_config", config.get("quantization_config")),
        ("text_config.quantization_config", text.get("quantization_config")),
        ("compression_config", config.get("compression_config")),
    ):
        if isinstance(value, Mapping) and value:
            return source, _flat(value)
    if hf_quant_config:
        return "hf_quant_config.json", _flat(hf_quant_config)
    return ("quant_model_description.json", dict(description)) if description else None


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """ModelOpt nests what it means under quantization, once or twice (C(unwrap_modelopt_quantization_config))."""
    flat = dict(value)
    for _round in range(2):
        nested = flat.get("quantization")
        if not isinstance(nested, Mapping):
            break
        flat = {**flat, **nested, "quantization": nested.get("quantization")}
    # A merged checkpoint (llm-compressor) keeps the weights' rules one level deeper.
    inner = flat.get("quantization_config")
    return {**flat, **inner} if isinstance(inner, Mapping) else flat


def _method(quant: Mapping[str, Any], declared: str | None) -> str:
    """SGLang's name: ModelOpt's algorithm decides where no other method is declared."""
    algorithm = (text_value(quant.get("quant_algo")) or "").upper()
    if declared is not None and declared != "modelopt":
        return {"compressed_tensors": "compressed-tensors"}.get(declared, declared)
    if algorithm == "MIXED_PRECISION":
        layers = quant.get("quantized_layers")
        known = layers.values() if isinstance(layers, Mapping) else ()
        algorithms = {str(layer.get("quant_algo", "")).upper() for layer in known if isinstance(layer, Mapping)}
        # C(_parse_modelopt_quant_config): a mixture without NVFP4 is W4AFP8.
        return "modelopt_mixed" if algorithms & {"NVFP4", "W4A16_NVFP4"} else "w4afp8"
    if "FP4" in algorithm:
        return "modelopt_fp4"
    if algorithm == "FP8":
        return "modelopt_fp8"
    if algorithm == "MXFP8":
        return "mxfp8"
    return declared or algorithm.lower() or "unnamed"


def _kv_cache(quant: Mapping[str, Any]) -> tuple[int | None, str | None, str | None]:
    """(bits, type, scheme) of the KV cache that the checkpoint carries scales for."""
    scheme = quant.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        bits, kind = whole(scheme.get("num_bits")), text_value(scheme.get("type"))
        return bits, kind, text_value(scheme.get("strategy")) or "tensor"
    name = text_value(scheme) or text_value(quant.get("kv_cache_quant_algo"))
    if name is None or name.lower() in ("none", "auto"):
        return None, None, None
    upper = name.upper()
    bits = 4 if "4" in upper else 8 if "8" in upper else None
    return bits, "int" if upper.startswith("INT") else "float", name


def _unquantized(quant: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for key in (
        "ignore",
        "ignored_layers",
        "modules_to_not_convert",
        "exclude_modules",
        "exclude",
        "exclude_layers",
        "llm_int8_skip_modules",
    ):
        found += patterns(quant.get(key))
    # GPTQModel's overrides: a rule that begins with "-:" takes its modules out.
    for name in mapping(quant.get("dynamic")):
        if str(name).startswith("-:"):
            found.append(str(name))
    return tuple(dict.fromkeys(found))[:MAX_PATTERNS]


def _model_slim(description: Mapping[str, Any]) -> QuantizationDetails:
    """ModelSlim names the type of every tensor: C("model.layers.0…weight": "W8A8"), FLOAT where there is none."""
    types = {str(name): str(kind) for name, kind in description.items() if isinstance(kind, str)}
    quantized = [kind for name, kind in types.items() if name.endswith("weight") and kind != "FLOAT"]
    most = max(set(quantized), key=quantized.count) if quantized else "FLOAT"
    bits = {"W4": 4, "W8": 8}.get(most[:2])
    return QuantizationDetails(
        method="modelslim",
        declared="modelslim",
        source="quant_model_description.json",
        known_to_sglang=True,
        weight_bits=bits,
        weight_type="int" if bits else None,
        strategy=None,
        group_size=whole(description.get("group_size")),
        block=None,
        symmetric=None,
        act_order=None,
        format=most,
        activation_bits={"A8": 8, "A4": 4}.get(most[2:4]),
        activation_type="int" if most[2:4] in ("A8", "A4") else None,
        activation_dynamic="DYNAMIC" in most,
        groups=(),
        unquantized=tuple(
            name.removesuffix(".weight") for name, kind in types.items() if kind == "FLOAT" and name.endswith("weight")
        )[:MAX_PATTERNS],
        lm_head_quantized=None,
        kv_cache_bits=8 if text_value(description.get("kv_cache_type")) else None,
        kv_cache_type="int" if text_value(description.get("kv_cache_type")) else None,
        kv_cache_scheme=text_value(description.get("kv_cache_type")),
    )
