# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.quantization import (
    QuantizationDetails,
    quantization_details,
)


def details(quant: Any, **places: Any) -> QuantizationDetails:
    found = quantization_details({"quantization_config": quant}, {}, **places)
    assert found is not None
    return found


def facts(found: QuantizationDetails) -> tuple[Any, ...]:
    return found.method, found.weight_bits, found.weight_type, found.strategy, found.group_size


@pytest.mark.parametrize(
    ("quant", "expected"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, ("gptq", 4, "int", "group", 128)),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, ("gptq", 8, "int", None, None)),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True}, ("awq", 4, "int", "group", 64)),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 128}, ("awq", 4, "int", "group", 128)),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 32}, ("auto-round", 4, "int", "group", 32)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8", 8, "float", "block", None)),
        ({"quant_method": "fp8", "activation_scheme": "static"}, ("fp8", 8, "float", None, None)),
        ({"quant_method": "mxfp4"}, ("mxfp4", 4, "float", "group", 32)),
        ({"quant_method": "mxfp8"}, ("mxfp8", 8, "float", "group", 32)),
        ({"quant_method": "w8a8_int8"}, ("w8a8_int8", 8, "int", None, None)),
        (
            {"quant_method": "blockwise_int8", "weight_block_size": [64, 64]},
            ("blockwise_int8", 8, "int", "block", None),
        ),
        ({"quant_method": "w4afp8"}, ("w4afp8", 4, "int", "group", 128)),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            ("bitsandbytes", 4, "nf4", "group", 64),
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, ("bitsandbytes", 8, "int", None, None)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, ("modelopt_fp4", 4, "float", "group", 16)),
        ({"quant_algo": "FP8"}, ("modelopt_fp8", 8, "float", None, None)),
        ({"quant_algo": "MXFP8"}, ("mxfp8", 8, "float", "group", 32)),
        ({"quant_method": "never_heard", "bits": 3}, ("never_heard", None, None, None, None)),
        ({"bits": 3}, ("unnamed", None, None, None, None)),
    ],
)
def test_forms(quant: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert facts(details(quant)) == expected


def test_methods_that_sglang_does_not_list_are_told() -> None:
    assert details({"quant_method": "fp8"}).known_to_sglang
    assert not details({"quant_method": "never_heard"}).known_to_sglang


def test_gptq_in_whole() -> None:
    found = details(
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "desc_act": True,
            "sym": True,
            "lm_head": False,
            "dynamic": {"-:.*attn.*": {}, "+:.*mlp.*": {"bits": 8}},
        }
    )
    assert (found.act_order, found.symmetric, found.lm_head_quantized) == (True, True, False)
    assert found.unquantized == ("-:.*attn.*",)


def test_awq_leaves_modules_out() -> None:
    found = details({"quant_method": "awq", "bits": 4, "zero_point": True, "modules_to_not_convert": ["visual"]})
    assert (found.symmetric, found.unquantized) == (False, ("visual",))


def test_fp8_blocks_and_activations() -> None:
    found = details(
        {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "weight_block_size": [128, 128],
            "ignored_layers": ["lm_head"],
        }
    )
    assert (found.block, found.format, found.activation_bits, found.activation_dynamic) == ((128, 128), "e4m3", 8, True)
    assert found.unquantized == ("lm_head",)


def group(bits: int, targets: list[str], **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True, **more}
    return {"targets": targets, "weights": weights}


def test_compressed_tensors_of_two_groups() -> None:
    found = details(
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "ignore": ["lm_head", "re:.*self_attn.*"],
            "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False},
            "config_groups": {
                "group_0": group(4, ["re:.*experts.*"]),
                "group_1": {
                    **group(8, ["Linear"], type="float", strategy="channel", group_size=None),
                    "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
                },
            },
        }
    )
    assert facts(found) == ("compressed-tensors", 4, "int", "group", 32)
    assert found.format == "pack-quantized"
    assert [(rule.targets, rule.weight_bits, rule.group_size) for rule in found.groups] == [
        (("re:.*experts.*",), 4, 32),
        (("Linear",), 8, None),
    ]
    assert (found.groups[1].activation_bits, found.groups[1].activation_dynamic) == (8, True)
    assert found.unquantized == ("lm_head", "re:.*self_attn.*")
    assert (found.kv_cache_bits, found.kv_cache_type, found.kv_cache_scheme) == (8, "float", "tensor")


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ({"kv_cache_quant_algo": "FP8"}, (8, "float", "FP8")),
        ({"kv_cache_quant_algo": "NVFP4"}, (4, "float", "NVFP4")),
        ({"kv_cache_scheme": "INT8"}, (8, "int", "INT8")),
        ({"kv_cache_scheme": "auto"}, (None, None, None)),
        ({"kv_cache_scheme": None}, (None, None, None)),
        ({"kv_cache_scheme": {}}, (None, None, "tensor")),
    ],
)
def test_kv_cache(scheme: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = details({"quant_method": "modelopt", "quant_algo": "FP8", **scheme})
    assert (found.kv_cache_bits, found.kv_cache_type, found.kv_cache_scheme) == expected


@pytest.mark.parametrize(
    ("algorithms", "method"), [(("NVFP4", "FP8"), "modelopt_mixed"), (("W4A8_AWQ", "FP8"), "w4afp8"), ((), "w4afp8")]
)
def test_mixtures_of_modelopt(algorithms: tuple[str, ...], method: str) -> None:
    layers = {f"model.layers.{number}": {"quant_algo": name} for number, name in enumerate(algorithms)}
    found = details({"quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    assert found.method == method
    assert [rule.targets for rule in found.groups] == [(name,) for name in layers]


def test_quark() -> None:
    weight = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "symmetric": None}
    rule = {"weight": weight, "input_tensors": {"dtype": "fp4", "is_dynamic": True}}
    found = details({"quant_method": "quark", "global_quant_config": rule, "exclude": ["lm_head"]})
    assert facts(found) == ("quark", 4, "float", "group", 32)
    assert (found.activation_bits, found.activation_dynamic, found.unquantized) == (4, True, ("lm_head",))


def test_places_in_their_order() -> None:
    def source(config: Any, text: Any = None, **files: Any) -> str | None:
        found = quantization_details(config, text or {}, **files)
        return None if found is None else found.source

    fp8 = {"quant_method": "fp8"}
    hf = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    assert source({"quantization_config": fp8, "compression_config": fp8}, hf_quant_config=hf) == "quantization_config"
    assert source({"compression_config": fp8}, {"quantization_config": fp8}) == "text_config.quantization_config"
    assert source({"compression_config": fp8}, hf_quant_config=hf) == "compression_config"
    assert source({}, hf_quant_config=hf) == "hf_quant_config.json"
    assert source({}, quant_model_description={"a.weight": "W8A8"}) == "quant_model_description.json"
    assert source({}) is None
    assert source({"quantization_config": None}) is None
    assert source({"quantization_config": []}) is None


def test_hf_quant_config_of_modelopt() -> None:
    quantization = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    for nested in ({"quantization": quantization}, {"quantization": {"quantization": quantization}}):
        found = quantization_details({}, {}, nested)
        assert found is not None
        assert facts(found) == ("modelopt_fp4", 4, "float", "group", 16)
        assert (found.declared, found.unquantized, found.kv_cache_scheme) == ("NVFP4", ("lm_head",), "FP8")


def test_model_slim() -> None:
    types = {
        "model_quant_type": "W8A8_DYNAMIC",
        "a.weight": "W8A8_DYNAMIC",
        "b.weight": "W8A8_DYNAMIC",
        "a.weight_scale": "W8A8_DYNAMIC",
        "c.weight": "FLOAT",
        "c.bias": "FLOAT",
    }
    found = quantization_details({}, {}, None, types)
    assert found is not None
    assert facts(found) == ("modelslim", 8, "int", None, None)
    assert (found.activation_bits, found.activation_dynamic, found.unquantized) == (8, True, ("c",))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "quant_method",
                    "quant_algo",
                    "bits",
                    "group_size",
                    "weights",
                    "targets",
                    "config_groups",
                    "ignore",
                    "sym",
                    "kv_cache_scheme",
                    "quantization",
                    "quantized_layers",
                    "weight_block_size",
                    "dynamic",
                    "weight",
                    "dtype",
                    "global_quant_config",
                    "input_activations",
                    "num_bits",
                    "quantization_config",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(_JSON)
def test_no_json_makes_it_fail(value: Any) -> None:
    for found in (
        quantization_details({"quantization_config": value}, {}),
        quantization_details({}, {}, value if isinstance(value, dict) else None),
        quantization_details({}, {}, None, value if isinstance(value, dict) else None),
    ):
        assert found is None or isinstance(found.as_dict()["method"], str)
