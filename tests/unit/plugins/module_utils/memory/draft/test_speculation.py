# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import (
    Speculation,
    resolve_speculation,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts, model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

HEADS = {"num_layers": 32, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128}
LATENT = {**HEADS, "family": "mla", "kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_layers": 61}
EAGLE3_HEAD = {"architecture": "LlamaForCausalLMEagle3", "attention": {**HEADS, "num_layers": 1}}


def model(architecture: str, **more: Any) -> ModelFacts:
    attention = LATENT if architecture.startswith("Deepseek") else HEADS
    return model_facts({"architecture": architecture, "attention": attention, "path": "/srv/model", **more})


LLAMA, DEEPSEEK = model("LlamaForCausalLM"), model("DeepseekV3ForCausalLM", structure={"num_nextn_layers": 1})


def resolved(
    target: ModelFacts, version: str = "0.5.23", server: dict[str, Any] | None = None, **asked: Any
) -> Speculation:
    if isinstance(asked.get("model"), dict):
        asked["model"] = model_facts(asked["model"], may_draft=True)
    found = resolve_speculation(version, target, ServerRequest(**server or {}), SpeculativeRequest(**asked))
    assert found is not None
    return found


def code_of(*arguments: Any, **asked: Any) -> str:
    with pytest.raises(Refusal) as refusal:
        resolved(*arguments, **asked)
    return refusal.value.code


def test_off_when_left_out() -> None:
    assert resolve_speculation("0.5.23", LLAMA, ServerRequest(), None) is None


@pytest.mark.parametrize(
    ("target", "version", "algorithm", "lengths"),
    [
        (LLAMA, "0.5.23", "EAGLE3", (5, 4, 8)),
        (DEEPSEEK, "0.5.23", "EAGLE", (3, 1, 4)),
        (model("Qwen3ForCausalLM"), "0.5.7", "EAGLE3", (5, 4, 8)),
        (model("Qwen3ForCausalLM"), "0.5.8", "EAGLE3", (3, 1, 4)),
        (LLAMA, "0.5.23", "STANDALONE", (3, 1, 4)),
        (LLAMA, "0.5.23", "NGRAM", (12, 1, 12)),
    ],
)
def test_lengths_that_a_release_chooses(
    target: ModelFacts, version: str, algorithm: str, lengths: tuple[int, int, int]
) -> None:
    found = resolved(target, version, algorithm=algorithm, model=EAGLE3_HEAD if algorithm == "EAGLE3" else None)
    assert (found.steps, found.top_k, found.draft_tokens) == lengths
    assert found.tokens_a_request == lengths[0] * lengths[1] + lengths[2]


def test_a_chain_verifies_its_steps_and_one() -> None:
    found = resolved(DEEPSEEK, algorithm="NEXTN", num_steps=2, eagle_topk=1, num_draft_tokens=3)
    assert (found.algorithm, found.draft_tokens) == ("EAGLE", 3)
    assert resolved(DEEPSEEK, algorithm="EAGLE", num_steps=2, eagle_topk=1).draft_tokens == 3
    assert code_of(DEEPSEEK, algorithm="EAGLE", num_steps=2) == "speculative_incomplete"
    assert code_of(DEEPSEEK, algorithm="EAGLE", num_steps=2, eagle_topk=4) == "speculative_incomplete"
    assert code_of(DEEPSEEK, algorithm="EAGLE", num_steps=0) == "value_not_positive"


def test_lengths_that_a_release_would_rewrite_or_could_not_draft() -> None:
    with pytest.raises(Refusal) as refusal:
        resolved(DEEPSEEK, "0.5.9", algorithm="NEXTN", num_steps=3, eagle_topk=1, num_draft_tokens=99)
    assert (refusal.value.code, refusal.value.evidence["in_force"]) == ("speculative_lengths_rewritten", 4)
    assert "0.5.9" in refusal.value.message and "to 4" in refusal.value.remedy
    # Two steps of three: 3 children of the root, and 9 after them.
    tree: dict[str, Any] = {"algorithm": "NEXTN", "num_steps": 2, "eagle_topk": 3}
    assert resolved(DEEPSEEK, **tree, num_draft_tokens=13).draft_tokens == 13
    assert code_of(DEEPSEEK, **tree, num_draft_tokens=14) == "speculative_lengths_unreal"
    assert code_of(DEEPSEEK, algorithm="NEXTN", num_steps=10**6, eagle_topk=1) == "speculative_lengths_unreal"
    assert code_of(LLAMA, algorithm="NGRAM", num_draft_tokens=10**9) == "speculative_lengths_unreal"


def test_only_planned_algorithms_are_offered() -> None:
    with pytest.raises(Refusal) as refusal:
        resolved(LLAMA, algorithm="MEDUSA")
    offered, known = refusal.value.remedy.split(". ")
    assert "EAGLE3" in offered and "DFLASH" not in offered and "DFLASH" not in str(refusal.value.evidence)
    assert "DFLASH and " in known and known.endswith("which are not planned.")
    with pytest.raises(Refusal) as refusal:
        resolved(LLAMA, "0.5.9", algorithm="MEDUSA")
    assert "not planned" not in refusal.value.remedy


@pytest.mark.parametrize(
    ("version", "algorithm", "code"),
    [
        ("0.5.1", "STANDALONE", "choice_unknown"),
        ("0.5.2", "NGRAM", "choice_unknown"),
        ("0.5.23", "MEDUSA", "choice_unknown"),
        ("0.5.10", "DFLASH", "choice_unknown"),
        ("0.5.11", "DFLASH", "speculative_unplanned"),
        ("0.5.23", "UNO", "speculative_unplanned"),
    ],
)
def test_algorithms_of_a_release(version: str, algorithm: str, code: str) -> None:
    assert code_of(LLAMA, version, algorithm=algorithm) == code


@pytest.mark.parametrize(
    ("algorithm", "server", "code"),
    [
        ("EAGLE", {"pipeline_parallel_size": 2}, "speculative_with_pipeline"),
        ("STANDALONE", {"tensor_parallel_size": 2, "attention_data_parallel_size": 2}, "speculative_with_attention_dp"),
        ("NGRAM", {"tensor_parallel_size": 2, "attention_data_parallel_size": 2}, "speculative_with_attention_dp"),
    ],
)
def test_layouts_without_speculation(algorithm: str, server: dict[str, Any], code: str) -> None:
    assert code_of(DEEPSEEK, "0.5.23", server, algorithm=algorithm) == code


def test_a_draft_of_its_own() -> None:
    found = resolved(LLAMA, algorithm="EAGLE3", model=EAGLE3_HEAD)
    assert found.known and found.draft is not None and not found.own_layers
    assert (found.draft.layers, found.draft.counted_layers) == (1, 1)
    assert found.draft.attention is not None and found.draft.attention.num_kv_heads == 8


def test_a_draft_without_facts_is_not_known() -> None:
    found = resolved(LLAMA, algorithm="EAGLE3")
    assert (found.known, found.draft, found.own_layers) == (False, None, 0)


def test_drafts_whose_layers_keep_no_tokens_are_refused() -> None:
    windows = {"layers": [1], "num_kv_heads": 8, "head_dim": 64, "v_head_dim": 64, "tokens": 128}
    oss = {"architecture": "GptOssForCausalLM", "attention": {**HEADS, "full_layers": [0], "window": windows}}
    assert code_of(LLAMA, algorithm="STANDALONE", model=oss) == "speculative_unplanned"


@pytest.mark.parametrize(
    ("target", "version", "layers", "counted"),
    [
        # Read as a draft, as its path becomes the target's.
        (DEEPSEEK, "0.5.14", 1, 1),
        (model("Qwen3NextForCausalLM", attention={**HEADS, "family": "gqa"}), "0.5.23", 1, 0),
        # The target's own configuration is counted from 0.5.20 on.
        (model("MiMoForCausalLM", structure={"num_nextn_layers": 1}), "0.5.19", 1, 0),
        (model("MiMoForCausalLM", structure={"num_nextn_layers": 1}), "0.5.20", 1, 1),
    ],
)
def test_own_layers_and_what_a_budget_counts_of_them(
    target: ModelFacts, version: str, layers: int, counted: int
) -> None:
    found = resolved(target, version, algorithm="NEXTN")
    assert found.draft is not None and found.own_layers == layers
    assert (found.draft.layers, found.draft.counted_layers) == (layers, counted)
    # Named as a draft, the same checkpoint is counted as one.
    named = resolved(target, version, algorithm="NEXTN", model_path="/srv/model")
    assert named.draft is not None and named.draft.counted_layers == layers


def test_own_layers_that_are_not_there() -> None:
    assert code_of(LLAMA, algorithm="NEXTN") == "speculative_model_missing"
    assert code_of(model("DeepseekV3ForCausalLM"), algorithm="NEXTN") == "speculative_layers_unknown"
    assert code_of(model("Glm4MoeForCausalLM"), "0.4.9", algorithm="NEXTN") == "speculative_model_missing"


def test_draft_weights_are_counted_from_0_5_14_on() -> None:
    assert not resolved(DEEPSEEK, "0.5.13", algorithm="NEXTN").counts_draft_weights
    assert resolved(DEEPSEEK, "0.5.14", algorithm="NEXTN").counts_draft_weights
