# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.layout_check import check_layout, layout_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts, model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import GPT_OSS, LLAMA_8B
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import KIMI
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.models import INDEXED


def model_of(config: dict[str, Any]) -> ModelFacts:
    attention = attention_from_config(config).as_dict()
    return model_facts({"architecture": config["architectures"][0], "attention": attention})


# 32 heads and 8 KV heads.
LLAMA, LATENT, WINDOWS = model_of(LLAMA_8B), model_facts(KIMI), model_of(GPT_OSS)


def refusal(model: ModelFacts, version: str = "0.5.23", **server: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        check_layout(version, model, ServerRequest(**server))
    return caught.value


@pytest.mark.parametrize(
    "server",
    [
        {"tensor_parallel_size": 8},
        {"tensor_parallel_size": 16},
        {"tensor_parallel_size": 8, "attention_data_parallel_size": 8},
        {"tensor_parallel_size": 8, "expert_parallel_size": 4},
        {"tensor_parallel_size": 2, "pipeline_parallel_size": 3},
    ],
)
def test_layouts_that_pass(server: dict[str, Any]) -> None:
    check_layout("0.5.23", LLAMA, ServerRequest(**server))


@pytest.mark.parametrize(
    ("server", "code", "fitting"),
    [
        ({"tensor_parallel_size": 3}, "tensor_parallel_uneven", [1, 2, 4]),
        (
            {"tensor_parallel_size": 12, "attention_data_parallel_size": 2},
            "tensor_parallel_uneven",
            [2, 4, 8, 16],
        ),
        (
            {"tensor_parallel_size": 8, "attention_data_parallel_size": 3},
            "attention_data_parallel_uneven",
            [1, 2, 4, 8],
        ),
        ({"tensor_parallel_size": 8, "expert_parallel_size": 16}, "expert_parallel_uneven", [1, 2, 4, 8]),
    ],
)
def test_uneven_layouts_are_refused_with_sizes_that_pass(server: dict[str, Any], code: str, fitting: list[int]) -> None:
    found = refusal(LLAMA, **server)
    assert (found.code, found.evidence["fitting"]) == (code, fitting)
    option = {"tensor_parallel_uneven": "tensor_parallel_size"}.get(code, f"{code.removesuffix('_uneven')}_size")
    for size in fitting:
        check_layout("0.5.23", LLAMA, ServerRequest(**{**server, option: size}))


def test_latent_heads_are_whole_on_every_rank() -> None:
    check_layout("0.5.23", LATENT, ServerRequest(tensor_parallel_size=64))
    assert refusal(LATENT, tensor_parallel_size=128).code == "tensor_parallel_uneven"


@pytest.mark.parametrize("option", ["attention_data_parallel_size", "expert_parallel_size", "max_running_requests"])
def test_sizes_of_nothing(option: str) -> None:
    asked: dict[str, Any] = {option: 0}
    assert refusal(LLAMA, **asked).code == "value_not_positive"


def test_classes_that_run_over_no_stages() -> None:
    def model(name: str) -> ModelFacts:
        return replace(LLAMA, architecture=name)

    never = refusal(model("Gemma3ForConditionalGeneration"), pipeline_parallel_size=2)
    assert (never.code, never.evidence["since"]) == ("pipeline_unsupported", None)
    assert "Gemma3ForConditionalGeneration" in never.message and "0.5.23" in never.message
    assert never.remedy.startswith("Set pipeline_parallel_size to 1") and "newer" not in never.remedy
    later = refusal(model("MiniMaxM2ForCausalLM"), "0.5.9", pipeline_parallel_size=2)
    assert later.code == "pipeline_unsupported" and "SGLang 0.5.10 or newer" in later.remedy
    check_layout("0.5.10", model("MiniMaxM2ForCausalLM"), ServerRequest(pipeline_parallel_size=2))
    check_layout("0.5.9", model("MiniMaxM2ForCausalLM"), ServerRequest())


def test_stages_that_keep_all_layers_are_told_of() -> None:
    model, two = replace(LLAMA, architecture="MiniMaxM2ForCausalLM"), ServerRequest(pipeline_parallel_size=2)
    [problem] = layout_problems("0.5.10", model, two)
    assert problem.code == "pipeline_stages_keep_all_layers" and "all 32 layers" in problem.message
    assert layout_problems("0.5.10", model, ServerRequest()) == []
    assert layout_problems("0.5.10", LLAMA, two) == []


def test_stages() -> None:
    assert refusal(LLAMA, pipeline_parallel_size=33).code == "pipeline_parallel_uneven"
    assert refusal(LLAMA, "0.5.1", pipeline_parallel_size=2).code == "pipeline_parallel_unplanned"
    check_layout("0.5.2", LLAMA, ServerRequest(pipeline_parallel_size=2))
    # Windows are divided a second time in each stage.
    assert refusal(WINDOWS, "0.5.10", pipeline_parallel_size=2).code == "pipeline_parallel_unplanned"
    check_layout("0.5.11", WINDOWS, ServerRequest(pipeline_parallel_size=2))


def test_experts_divide_with_the_redundant_ones() -> None:
    entry: dict[str, Any] = {
        "name": "model.layers.*.mlp.experts.*.up_proj.weight",
        "part": "expert",
        "dtype": "BF16",
        "scale": False,
    }
    entry |= {"shape": [8, 8], "tensor_bytes": 128, "layers": [[0, 31]], "per_layer": 6}
    model = model_facts(
        {
            "architecture": "Qwen3MoeForCausalLM",
            "attention": {"num_layers": 32, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128},
            "structure": {"num_experts": 6},
            "weights": {"groups": [entry]},
        }
    )
    found = refusal(model, tensor_parallel_size=8, expert_parallel_size=4)
    assert (found.code, found.evidence["fitting"]) == ("expert_parallel_uneven", [1, 2])
    redundant = {"ep-num-redundant-experts": 2}
    check_layout(
        "0.5.23", model, ServerRequest(tensor_parallel_size=8, expert_parallel_size=4, extra_arguments=redundant)
    )


def test_releases_that_make_every_rank_a_group_take_no_other_number() -> None:
    indexed = model_facts({"architecture": "DeepseekV32ForCausalLM", "attention": INDEXED})
    for release in ("0.5.3", "0.5.5"):
        found = refusal(indexed, release, tensor_parallel_size=8)
        assert found.code == "attention_data_parallel_rewritten"
        assert found.evidence["rewritten_attention_data_parallel_size"] == 8
        check_layout(release, indexed, ServerRequest(tensor_parallel_size=8, attention_data_parallel_size=8))
        check_layout(release, LATENT, ServerRequest(tensor_parallel_size=8))
    for release in ("0.5.2", "0.5.6"):
        check_layout(release, indexed, ServerRequest(tensor_parallel_size=8))
