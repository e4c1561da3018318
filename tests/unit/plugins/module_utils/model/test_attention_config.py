# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import family_of_heads
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import (
    attention_from_config,
    text_config,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    BY_FAMILY,
    DEEPSEEK_V3,
    GLM_5,
    GPT_OSS,
    LLAMA_8B,
    MIMO,
    MINIMAX_M3,
    without,
)


def refused(config: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        attention_from_config(config)
    return refusal.value


@pytest.mark.parametrize("family", sorted(BY_FAMILY))
def test_families(family: str) -> None:
    assert attention_from_config(BY_FAMILY[family]).family == family


@given(st.integers(1, 256), st.integers(1, 256))
def test_a_single_shared_head_is_multi_query_and_equal_counts_are_multi_head(heads: int, kv_heads: int) -> None:
    family = family_of_heads(heads, kv_heads)
    assert (family == "mha") == (heads == kv_heads)
    assert (family == "mqa") == (kv_heads == 1 and heads > 1)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"num_key_value_heads": None}, 32),  # one each
        ({"multi_query": True}, 1),
        ({"multi_query": True, "new_decoder_architecture": True}, 8),
        ({"num_key_value_heads": None, "num_attention_groups": 4}, 4),
        ({"num_key_value_heads": None, "multi_query_group_num": 2}, 2),
        ({"n_head_kv": 16}, 16),
    ],
)
def test_names_under_which_configurations_keep_their_kv_heads(keys: dict[str, Any], expected: int) -> None:
    assert attention_from_config({**LLAMA_8B, **keys}).num_kv_heads == expected


@pytest.mark.parametrize("key", ["llm_config", "language_config", "text_config"])
def test_nested_language_models(key: str) -> None:
    nested = without(LLAMA_8B, "architectures")
    found = attention_from_config({"architectures": ["Qwen2_5_VLForConditionalGeneration"], key: nested})
    assert found == attention_from_config(LLAMA_8B)


def test_thinkers_nest_twice_and_llava_not_at_all() -> None:
    assert text_config({"thinker_config": {"text_config": {"a": 1}}}) == {"a": 1}
    assert text_config({"thinker_config": {"a": 1}}) == {"a": 1}
    llava = {"architectures": ["LlavaLlamaForCausalLM"], "text_config": {"a": 1}}
    assert text_config(llava) is llava


def test_longcat_has_two_attentions_a_layer() -> None:
    config = {**without(DEEPSEEK_V3, "num_hidden_layers"), "architectures": ["LongcatFlashForCausalLM"]}
    assert attention_from_config({**config, "num_layers": 28}).num_layers == 56


def test_latent_attention_can_be_switched_off() -> None:
    config = {
        **LLAMA_8B,
        "architectures": ["DeepseekVL2ForCausalLM"],
        "language_config": {**without(LLAMA_8B, "architectures"), "use_mla": False},
    }
    assert attention_from_config(config).family == "gqa"


def test_sparse_latent_attention_without_an_index_is_plain() -> None:
    assert attention_from_config(without(GLM_5, "index_topk")).family == "mla"


# By hand from dsa_layer_skips_topk: with a frequency of 4 and an offset of 2, layers 1, 5, 9 and so on compute anew.
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, list(range(8))),
        ({"index_topk_freq": 4}, [0, 1, 5]),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, [0, 1, 2, 6]),
        ({"index_topk_pattern": "FSSFSSFF"}, [0, 3, 6, 7]),
        ({"indexer_types": ["full", "shared"] * 4}, [0, 2, 4, 6]),
        ({"indexer_types": ["full", "shared"]}, [0, 2, 3, 4, 5, 6, 7]),
        ({"cli_factor": 3}, [0, 3, 6]),
        ({"index_topk_freq": 0}, list(range(8))),
    ],
)
def test_layers_that_choose_their_own_tokens(keys: dict[str, Any], expected: list[int]) -> None:
    index = attention_from_config({**GLM_5, "num_hidden_layers": 8, **keys}).index
    assert index is not None
    assert list(index.layers) == expected


def test_windows_of_alternating_layers() -> None:
    attention = attention_from_config(GPT_OSS)
    assert attention.window is not None
    assert attention.window.layers == tuple(range(0, 36, 2))
    assert attention.full_layers == tuple(range(1, 36, 2))
    assert attention.window.tokens == 128


def test_windows_with_heads_of_their_own() -> None:
    attention = attention_from_config(MIMO)
    assert attention.window is not None
    assert (attention.num_kv_heads, attention.window.num_kv_heads) == (4, 8)
    assert attention.full_layers == (0, 5)
    assert attention.window.layers == (1, 2, 3, 4)


def test_chunked_attention_is_a_window() -> None:
    text = {**without(LLAMA_8B, "architectures"), "num_hidden_layers": 8, "attention_chunk_size": 8192}
    attention = attention_from_config({"architectures": ["Llama4ForConditionalGeneration"], "text_config": text})
    assert attention.full_layers == (3, 7)
    assert attention.window is not None and attention.window.tokens == 8192


def test_full_layers_of_gemma_4_are_wider() -> None:
    text = {
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "global_head_dim": 512,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    }
    attention = attention_from_config({"architectures": ["Gemma4ForConditionalGeneration"], "text_config": text})
    assert (attention.head_dim, attention.window and attention.window.head_dim) == (512, 256)


def test_a_class_with_windows_whose_model_has_none_is_plain() -> None:
    assert attention_from_config({**GPT_OSS, "layer_types": ["full_attention"] * 36}).family == "gqa"


def test_a_model_of_windows_only_is_refused() -> None:
    refusal = refused({**GPT_OSS, "layer_types": ["sliding_attention"] * 36})
    assert refusal.code == "architecture_unplanned"
    assert "GptOssForCausalLM" in refusal.message


@pytest.mark.parametrize("types", [None, 7, [], ["full_attention"] * 35])
def test_layer_types_that_do_not_cover_the_layers_name_the_key(types: object) -> None:
    refusal = refused({**GPT_OSS, "layer_types": types})
    assert refusal.code == "model_config_incomplete"
    assert "layer_types" in refusal.message


def test_index_values_of_sparse_heads() -> None:
    index = attention_from_config(MINIMAX_M3).index
    assert index is not None
    assert (index.layers, index.value_layers, index.head_dim) == ((1, 2, 3), (1,), 64)
    assert "sparse_attention_config" in refused(without(MINIMAX_M3, "sparse_attention_config")).message


@pytest.mark.parametrize(("config", "key"), [(LLAMA_8B, "num_hidden_layers"), (GPT_OSS, "num_hidden_layers")])
def test_endless_models_are_refused(config: dict[str, Any], key: str) -> None:
    assert refused({**config, key: 10**12}).code == "model_config_malformed"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**13) | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(BY_FAMILY)), st.data())
def test_a_damaged_configuration_is_read_or_refused(family: str, data: st.DataObject) -> None:
    config = dict(BY_FAMILY[family])
    for key in data.draw(st.lists(st.sampled_from(sorted(without(config, "architectures"))), min_size=1, max_size=3)):
        config[key] = data.draw(JUNK)
    try:
        attention = attention_from_config(config)
    except Refusal as refusal:
        assert refusal.remedy
    else:
        assert attention.num_layers >= 1
