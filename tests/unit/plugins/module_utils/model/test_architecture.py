# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import (
    attention_from_config,
    config_dtype,
    model_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import TINY

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_V3 = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8"},
}


@pytest.mark.parametrize(
    ("heads", "kv_heads", "family"), [(32, 32, "mha"), (32, 8, "gqa"), (32, 1, "mqa"), (1, 1, "mha")]
)
def test_family_of_heads(heads: int, kv_heads: int, family: str) -> None:
    config = {**LLAMA_8B, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 128}
    assert attention_from_config(config).family == family


def test_multimodal_models_nest_their_language_model() -> None:
    nested = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "text_config": {**DEEPSEEK_V3, "num_attention_heads": 64},
    }
    attention = attention_from_config(nested)
    assert (attention.family, attention.num_layers, attention.num_attention_heads) == ("mla", 61, 64)


@pytest.mark.parametrize(
    ("architecture", "code", "named"),
    [
        ("LlamaForCausalLM2", "architecture_unknown", "LlamaForCausalLM"),
        ("MyOwnModel", "architecture_unknown", "MyOwnModel"),
        (None, "architecture_unknown", "null"),
        ("HYV4ForCausalLM", "architecture_unplanned", "a pooled index"),
        ("Qwen3NextForCausalLMMTP", "architecture_unplanned", "draft model"),
        ("TransformersForCausalLM", "architecture_unplanned", "generic backend"),
    ],
)
def test_what_is_not_planned_is_refused_by_name(architecture: str | None, code: str, named: str) -> None:
    with pytest.raises(Refusal) as from_config:
        attention_from_config({**LLAMA_8B, "architectures": [architecture] if architecture else None})
    with pytest.raises(Refusal) as from_facts:
        model_facts({**TINY, "architecture": architecture})
    for refusal in (from_config.value, from_facts.value):
        assert refusal.code == code
        assert named in str(refusal)


def test_facts_without_attention_are_refused() -> None:
    with pytest.raises(Refusal) as refused:
        model_facts({**TINY, "attention": None})
    assert refused.value.code == "model_attention_missing"
    assert "attention of LlamaForCausalLM is None, which is no mapping." in refused.value.message
    assert "model_info returns under model.attention" in refused.value.remedy


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads"])
@pytest.mark.parametrize("value", [None, 0, -1, "32", 1.5, True])
def test_incomplete_configurations_name_the_key(key: str, value: object) -> None:
    with pytest.raises(Refusal) as refusal:
        attention_from_config({**LLAMA_8B, key: value})
    assert refusal.value.code == "model_config_incomplete"
    assert key in refusal.value.message


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"torch_dtype": "bfloat16"}, "bfloat16"),
        ({"dtype": "float16", "torch_dtype": "bfloat16"}, "float16"),
        ({"torch_dtype": "float32"}, "float16"),  # SGLang computes such models in half precision
        ({"text_config": {"dtype": "bfloat16"}}, "bfloat16"),
        ({}, "float16"),
    ],
)
def test_dtype_that_auto_takes(config: dict[str, Any], expected: str) -> None:
    assert config_dtype(config) == expected


def test_facts_of_a_draft_and_of_layers_that_draft() -> None:
    eagle = {**LLAMA_8B, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    stated = {"architecture": "LlamaForCausalLMEagle3", "attention": attention_from_config(eagle).as_dict()}
    assert model_facts(stated, may_draft=True).attention.num_layers == 1
    with pytest.raises(Refusal) as refusal:
        model_facts(stated)
    assert refusal.value.code == "architecture_unplanned"
    assert model_facts(TINY).nextn_layers is None
    assert model_facts({**TINY, "structure": {"num_nextn_layers": 1}}).nextn_layers == 1


def test_tensors_are_facts_only_where_they_were_read() -> None:
    assert model_facts(TINY).weights is None
    group = {"name": "lm_head.weight", "part": "lm_head", "scale": False, "dtype": "BF16", "shape": [8, 4]}
    group |= {"tensor_bytes": 64, "layers": [], "per_layer": 1}
    details = {"method": "fp8", "block": [128, 128], "act_order": True, "symmetric": False}
    weights = {"total_bytes": 64, "groups": [group]}
    facts = model_facts({**TINY, "weights": weights, "quantization_details": details}).weights
    assert facts is not None
    assert (facts.method, facts.block, facts.act_order, facts.symmetric) == ("fp8", (128, 128), True, False)
    assert facts.groups[0].size_bytes == 64
    # Groups in another form than model_info's are none.
    assert model_facts({**TINY, "weights": {"total_bytes": 64, "groups": [{"name": "x"}]}}).weights is None
