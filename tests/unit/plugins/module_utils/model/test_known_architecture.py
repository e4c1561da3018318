# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import (
    ARCHITECTURES,
    DRAFT_ARCHITECTURES,
    DRAFTS,
    LATENT,
    PLAIN_HEADS,
    UNPLANNED,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.known_architecture import (
    check_release,
    known_architecture,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    GLM_5,
    GPT_OSS,
    LLAMA_8B,
    MINIMAX_M3,
    QWEN3_NEXT,
)


def refusal_of(name: object) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        known_architecture(name)
    return refusal.value


def test_every_class_is_in_one_table() -> None:
    assert not set(ARCHITECTURES) & set(UNPLANNED)
    assert not set(ARCHITECTURES) & set(DRAFTS)
    assert all(name == known.name for name, known in ARCHITECTURES.items())


@pytest.mark.parametrize("name", sorted(UNPLANNED))
def test_what_is_not_planned_says_why(name: str) -> None:
    refusal = refusal_of(name)
    assert refusal.code == "architecture_unplanned"
    assert name in refusal.message and UNPLANNED[name] in refusal.message


@pytest.mark.parametrize("name", sorted(DRAFTS))
def test_drafts_are_no_models_to_serve(name: str) -> None:
    assert "draft model" in refusal_of(name).message


@pytest.mark.parametrize("name", sorted(DRAFTS))
def test_drafts_with_caches_of_their_own_are_known_as_drafts(name: str) -> None:
    if name in DRAFT_ARCHITECTURES:
        assert known_architecture(name, may_draft=True).kind in (PLAIN_HEADS, LATENT)
        assert "speculative.model" in refusal_of(name).remedy
        return
    with pytest.raises(Refusal):
        known_architecture(name, may_draft=True)


def test_a_name_that_is_spelt_wrong_gets_the_closest() -> None:
    refusal = refusal_of("Qwen3NextForCasualLM")
    assert refusal.code == "architecture_unknown"
    assert "The closest known is Qwen3NextForCausalLM." in str(refusal)


@pytest.mark.parametrize("name", [7, ["LlamaForCausalLM"], {}, True])
def test_what_is_no_name(name: object) -> None:
    assert refusal_of(name).code == "model_config_malformed"


@pytest.mark.parametrize(
    ("config", "version", "code"),
    [
        (LLAMA_8B, "0.4.7", None),
        (GPT_OSS, "0.5.9", None),
        (GPT_OSS, "0.5.5", "architecture_unplanned"),
        (GPT_OSS, "0.4.7", "architecture_too_new"),
        (QWEN3_NEXT, "0.5.23", None),
        (QWEN3_NEXT, "0.5.7", "architecture_unplanned"),
        (GLM_5, "0.5.9", None),
        (MINIMAX_M3, "0.5.9", "architecture_too_new"),
        (MINIMAX_M3, "0.5.23", None),
        ({**GLM_5, "architectures": ["LongcatFlashForCausalLM"]}, "0.5.15", "architecture_too_new"),
        ({**GLM_5, "architectures": ["LongcatFlashForCausalLM"]}, "0.5.16", None),
    ],
)
def test_releases(config: dict[str, Any], version: str, code: str | None) -> None:
    name, attention = str(config["architectures"][0]), attention_from_config(config)
    if code is None:
        check_release(name, attention, version)
        return
    with pytest.raises(Refusal) as refusal:
        check_release(name, attention, version)
    assert refusal.value.code == code
    assert name in refusal.value.message and version in refusal.value.message
