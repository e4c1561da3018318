# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_facts import attention_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.known_architecture import known_architecture
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    BY_FAMILY,
    GPT_OSS,
    KIMI_LINEAR,
    LLAMA_8B,
    QWEN3_NEXT,
)


def facts_of(config: dict[str, Any]) -> dict[str, Any]:
    """As they come back out of a module's JSON."""
    return dict(json.loads(json.dumps(attention_from_config(config).as_dict())))


def read(config: dict[str, Any], facts: dict[str, Any]) -> Any:
    return attention_facts(known_architecture(config["architectures"][0]), facts)


@pytest.mark.parametrize("family", sorted(BY_FAMILY))
def test_facts_of_model_info_are_read_back(family: str) -> None:
    config = BY_FAMILY[family]
    assert read(config, facts_of(config)) == attention_from_config(config)


@pytest.mark.parametrize(
    ("config", "key"), [(GPT_OSS, "window"), (QWEN3_NEXT, "state"), (BY_FAMILY["sparse"], "index")]
)
def test_parts_that_a_family_has_cannot_be_left_out(config: dict[str, Any], key: str) -> None:
    with pytest.raises(Refusal) as refusal:
        read(config, {**facts_of(config), key: None})
    assert refusal.value.code == "model_config_incomplete"
    assert f"attention.{key}" in refusal.value.message


def test_a_family_of_plain_heads_says_that_a_part_is_not_there() -> None:
    facts = {**facts_of(GPT_OSS), "window": None, "full_layers": None, "family": "gqa"}
    assert read(GPT_OSS, facts).family == "gqa"


def test_plain_facts_on_paper_need_no_family_and_no_value_width() -> None:
    facts = {"num_layers": 4, "num_attention_heads": 4, "num_kv_heads": 2, "head_dim": 128}
    attention = read(LLAMA_8B, facts)
    assert (attention.family, attention.v_head_dim) == ("gqa", 128)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("window", {"layers": [0, 0]}),
        ("window", {"layers": [36]}),
        ("window", {"layers": "all"}),
        ("window", {"num_kv_heads": 0}),
        ("window", {"layer": [1]}),
    ],
)
def test_malformed_parts_are_refused(part: str, change: dict[str, Any]) -> None:
    facts = facts_of(GPT_OSS)
    with pytest.raises(Refusal) as refusal:
        read(GPT_OSS, {**facts, part: {**facts[part], **change}})
    assert refusal.value.code in ("model_config_incomplete", "model_config_malformed")


@pytest.mark.parametrize(
    ("config", "change", "said"),
    [
        (LLAMA_8B, {"num_layers": None}, "model.attention.num_layers is None."),
        (LLAMA_8B, {"num_layers": 10_001}, "model.attention.num_layers is 10001."),
        (LLAMA_8B, {"num_kv_heads": 0}, "model.attention.num_kv_heads is 0."),
        (GPT_OSS, {"window": {"head_dim": "64"}}, "model.attention.window.head_dim is '64'."),
        (GPT_OSS, {"window": {"layers": [99]}}, "model.attention.window.layers is [99]."),
        (QWEN3_NEXT, {"state": {"num_heads": 0}}, "model.attention.state.num_heads is 0."),
        (GPT_OSS, {"full_layers": None}, "model.attention.full_layers is None."),
        (GPT_OSS, {"window": None}, "model.attention.window is missing, and the caches of GptOssForCausalLM depend"),
    ],
)
def test_facts_on_paper_are_refused_by_the_key_that_they_stand_under(
    config: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    facts = facts_of(config)
    for key, value in change.items():
        facts[key] = {**facts[key], **value} if isinstance(value, dict) else value
    with pytest.raises(Refusal) as refusal:
        read(config, facts)
    assert refusal.value.message.startswith(said)
    assert "config.json" not in str(refusal.value)


def test_facts_of_a_draft_stand_under_its_own_option() -> None:
    model = {"architecture": "LlamaForCausalLM", "attention": {**facts_of(LLAMA_8B), "head_dim": 0}}
    with pytest.raises(Refusal) as refusal:
        model_facts(model, may_draft=True)
    assert refusal.value.message == "speculative.model.attention.head_dim is 0."
    with pytest.raises(Refusal) as refusal:
        model_facts({"architecture": 7})
    assert "in model.architecture, such as" in refusal.value.remedy


def test_unknown_state_dtypes_are_refused() -> None:
    facts = facts_of(KIMI_LINEAR)
    with pytest.raises(Refusal) as refusal:
        read(KIMI_LINEAR, {**facts, "state": {**facts["state"], "dtype": "int4"}})
    assert "int4" in refusal.value.message


VALUES = st.none() | st.booleans() | st.integers(-3, 10**13) | st.text(max_size=4) | st.lists(st.integers(-1, 40))


@given(st.sampled_from(sorted(BY_FAMILY)), st.data())
def test_damaged_facts_are_read_or_refused(family: str, data: st.DataObject) -> None:
    facts = facts_of(BY_FAMILY[family])
    facts[data.draw(st.sampled_from(sorted(facts)))] = data.draw(VALUES)
    try:
        assert read(BY_FAMILY[family], facts).num_layers >= 1
    except Refusal as refusal:
        assert refusal.remedy
