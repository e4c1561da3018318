# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_weights import (
    EVEN,
    DeviceWeights,
    device_weights,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import resolve_speculation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts, model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import Tensor
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import tensor_groups
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import structure_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model import model_configs as models
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.checkpoints import (
    model_tensors,
    tensor,
)


def facts_of(config: dict[str, Any], tensors: list[Tensor], **more: Any) -> ModelFacts:
    """As they come out of model_info, through JSON."""
    structure = structure_from_config(config, config)
    groups = tensor_groups(tensors, structure.num_layers)
    model = {
        "architecture": config["architectures"][0],
        "attention": attention_from_config(config).as_dict(),
        "structure": structure.as_dict(),
        "weights": {
            "total_bytes": sum(group.size_bytes for group in groups),
            "groups": [group.as_dict() for group in groups],
        },
        **more,
    }
    return model_facts(json.loads(json.dumps(model)), may_draft=True)


LLAMA_70B = facts_of(models.LLAMA_31_70B, model_tensors(models.LLAMA_31_70B))
DEEPSEEK = facts_of(
    models.DEEPSEEK_V3,
    model_tensors(models.DEEPSEEK_V3, "fp8-block"),
    quantization_details={"method": "fp8", "block": [128, 128], "act_order": None, "symmetric": True},
)


def held(
    model: ModelFacts, asked: SpeculativeRequest | None = None, version: str = "0.5.23", **server: Any
) -> DeviceWeights:
    request = ServerRequest(**server)
    speculation = resolve_speculation(version, model, request, asked)
    return device_weights(model, request, pool_facts(version), speculation, ())


def test_tensor_by_tensor_where_the_checkpoint_was_read() -> None:
    found = held(LLAMA_70B, tensor_parallel_size=4)
    assert found.stages is not None and found.draft_bytes == 0
    # 70.6 billion parameters of two bytes, all of them divided but for norms and the table of positions.
    assert found.largest == pytest.approx(32.9 * GIB, rel=0.01)
    assert found.assumptions == ()
    assert "weights a rank" in found.explanation[0]


def test_stages_differ_by_their_layers_embedding_and_head() -> None:
    found = held(LLAMA_70B, tensor_parallel_size=2, pipeline_parallel_size=3)
    first, middle, last = found.stages or ()
    # 26, 27 and 27 layers; the embedding on the first stage is more than the layer that it lacks.
    assert middle == last < first == found.largest
    assert [line.split(" = ")[0] for line in found.explanation][0] == "weights a rank of stage 0 (layers 0 to 25)"
    # To 0.5.5 the last stage has the whole rest.
    older = held(LLAMA_70B, version="0.5.5", tensor_parallel_size=2, pipeline_parallel_size=3)
    assert (older.stages or ())[2] > last


def test_groups_of_attention_hold_it_whole() -> None:
    together, apart = (
        held(DEEPSEEK, tensor_parallel_size=8),
        held(DEEPSEEK, tensor_parallel_size=8, attention_data_parallel_size=8),
    )
    assert (apart.largest or 0) > (together.largest or 0) + 8 * GIB
    experts = held(DEEPSEEK, tensor_parallel_size=8, expert_parallel_size=8)
    assert experts.largest == pytest.approx(together.largest, rel=0.01)


def test_own_layers_of_a_draft() -> None:
    found = held(DEEPSEEK, SpeculativeRequest("NEXTN"), tensor_parallel_size=8)
    plain = held(DEEPSEEK, tensor_parallel_size=8)
    assert found.stages == plain.stages
    # One layer of 61 and its projection, of which the experts are divided.
    assert 1.2 * GIB < (found.draft_bytes or 0) < 2.6 * GIB


def eagle(layers: int = 1, **more: Any) -> dict[str, Any]:
    config = {**models.LLAMA_31_70B, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": layers}
    return {**config, **more}


def test_a_draft_takes_the_embedding_of_its_target() -> None:
    config = eagle()
    wide = config["hidden_size"]
    own = [tensor("midlayer.mlp.up_proj.weight", "BF16", 28672, wide), tensor("lm_head.weight", "BF16", 32000, wide)]
    with_embedding = [*own, tensor("model.embed_tokens.weight", "BF16", 128256, wide)]
    sizes = [
        held(LLAMA_70B, SpeculativeRequest("EAGLE3", facts_of(config, tensors)), tensor_parallel_size=4).draft_bytes
        for tensors in (own, with_embedding)
    ]
    assert sizes[0] == sizes[1]
    # Both are divided; the head has the rows of its tensor, not those of the target's vocabulary.
    positions = config["max_position_embeddings"] * 128 * 4
    assert sizes[0] == pytest.approx((28672 + 32000) * wide * 2 / 4 + positions, rel=0.02)


def test_embedding_and_head_of_a_draft_while_the_pools_are_sized() -> None:
    config = models.DEEPSEEK_V3
    one = config["vocab_size"] * config["hidden_size"] * 2
    asked = SpeculativeRequest("NEXTN")
    assert held(DEEPSEEK, asked, tensor_parallel_size=8).draft_vocabulary_bytes == 2 * one // 8
    assert held(DEEPSEEK, tensor_parallel_size=8).draft_vocabulary_bytes == 0
    # Older releases size the pools before they load the draft.
    assert held(DEEPSEEK, asked, "0.5.13", tensor_parallel_size=8).draft_vocabulary_bytes == 0
    assert held(DEEPSEEK, asked, "0.5.14", tensor_parallel_size=8).draft_vocabulary_bytes == 2 * one // 8
    groups = held(DEEPSEEK, asked, tensor_parallel_size=8, attention_data_parallel_size=8)
    assert groups.draft_vocabulary_bytes == one + one // 8


def test_an_eagle_head_of_its_own_stays() -> None:
    wide = models.LLAMA_31_70B["hidden_size"]
    whole = 128256 * wide * 2 // 4
    head = [tensor("lm_head.weight", "BF16", 32000, wide)]
    sizes = {}
    for name, tensors in (("own", head), ("taken", [tensor("midlayer.mlp.up_proj.weight", "BF16", 28672, wide)])):
        found = held(LLAMA_70B, SpeculativeRequest("EAGLE3", facts_of(eagle(), tensors)), tensor_parallel_size=4)
        sizes[name] = found.draft_vocabulary_bytes
    assert sizes == {"own": whole, "taken": 2 * whole}
    # Its embedding is divided over all ranks, with groups of attention ranks or without.
    draft = SpeculativeRequest("EAGLE3", facts_of(eagle(), head))
    groups = held(LLAMA_70B, draft, tensor_parallel_size=4, attention_data_parallel_size=4)
    assert groups.draft_vocabulary_bytes == whole
    same = facts_of({**eagle(), "architectures": ["LlamaForCausalLMEagle"]}, head)
    assert (
        held(LLAMA_70B, SpeculativeRequest("EAGLE", same), tensor_parallel_size=4).draft_vocabulary_bytes == 2 * whole
    )


def test_the_vocabulary_of_a_draft_on_paper() -> None:
    def model(**structure: Any) -> ModelFacts:
        return model_facts(
            {
                "architecture": "DeepseekV3ForCausalLM",
                "attention": attention_from_config(models.DEEPSEEK_V3).as_dict(),
                "structure": {"num_nextn_layers": 1, **structure},
                "weights": {"total_bytes": 10**9},
            }
        )

    known = held(model(vocab_size=248320, hidden_size=5120), SpeculativeRequest("NEXTN"))
    # A public start told twice 2.54 GB.
    assert known.draft_vocabulary_bytes == 2 * 248320 * 5120 * 2 == pytest.approx(2 * 2.54e9, rel=0.002)
    unknown = held(model(), SpeculativeRequest("NEXTN"))
    assert unknown.draft_vocabulary_bytes == 0
    assert any("vocab_size" in said for said in unknown.assumptions)
    assert not any("vocab_size" in said for said in known.assumptions)


def test_sizes_alone_divide_evenly() -> None:
    paper = {"num_layers": 32, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128}
    model = model_facts(
        {"architecture": "LlamaForCausalLM", "attention": paper, "weights": {"total_bytes": 16_000_001}}
    )
    found = held(model, tensor_parallel_size=2, pipeline_parallel_size=2)
    assert (found.stages, found.assumptions) == ((4_000_001, 4_000_001), (EVEN,))
    draft = model_facts({"architecture": "LlamaForCausalLM", "attention": paper, "weights": {"total_bytes": 4_000_000}})
    with_draft = held(model, SpeculativeRequest("STANDALONE", draft), tensor_parallel_size=2)
    assert with_draft.draft_bytes == 2_000_000
    assert len(with_draft.assumptions) == 2
    assert held(model, SpeculativeRequest("EAGLE3"), tensor_parallel_size=2).draft_bytes is None
    assert held(model, SpeculativeRequest("NGRAM"), tensor_parallel_size=2).draft_bytes == 0


def test_four_bit_floats_are_said_to_be_as_in_the_files() -> None:
    model = facts_of(models.QWEN3_06B, model_tensors(models.QWEN3_06B), quantization_details={"method": "modelopt_fp4"})
    assert any("four-bit floats" in said for said in held(model).assumptions)
