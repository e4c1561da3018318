# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.prefill_graphs import (
    PrefillGraphs,
    exchange_of,
    prefill_graph_sizes,
    prefill_graphs,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.memory_versions import fraction_rules
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.models import INDEXED, model_of


@pytest.mark.parametrize(
    ("limit", "count"), [(512, 30), (1024, 38), (2048, 42), (4096, 50), (8192, 58), (16384, 74), (4, 1), (3, 0)]
)
def test_prefill_graphs_captured_up_to(limit: int, count: int) -> None:
    assert prefill_graph_sizes(limit) == count


def captured(
    release: str,
    architecture: str = "LlamaForCausalLM",
    chunk: int = 8192,
    drafts: bool = False,
    hicache: bool = False,
    attention: dict[str, Any] | None = None,
    **server: Any,
) -> PrefillGraphs:
    model = model_of(architecture) if attention is None else model_of(architecture, attention=attention)
    asked = ServerRequest(**server)
    drafting = SpeculativeRequest("EAGLE") if drafts else None
    return prefill_graphs(fraction_rules(release), model, asked, drafting, hicache, model.multimodal, chunk)


@pytest.mark.parametrize(
    ("release", "asked", "backend"),
    [
        ("0.5.9", {}, "disabled"),
        ("0.5.10", {}, "tc_piecewise"),
        ("0.5.10", {"drafts": True}, "disabled"),
        ("0.5.11", {"drafts": True}, "tc_piecewise"),
        ("0.5.14", {"hicache": True}, "disabled"),
        ("0.5.15", {"hicache": True}, "breakable"),
        ("0.5.15", {"attention_data_parallel_size": 2}, "disabled"),
        ("0.5.17", {"attention_data_parallel_size": 2}, "breakable"),
        ("0.5.18", {"pipeline_parallel_size": 2}, "breakable"),
        ("0.5.19", {"pipeline_parallel_size": 2}, "disabled"),
        ("0.5.16", {"architecture": "DeepseekV3ForCausalLM"}, "disabled"),
        ("0.5.17", {"architecture": "DeepseekV3ForCausalLM"}, "disabled"),
        ("0.5.17", {"architecture": "DeepseekV32ForCausalLM", "attention": INDEXED}, "breakable"),
        ("0.5.18", {"architecture": "DeepseekV3ForCausalLM"}, "breakable"),
        ("0.5.15", {"architecture": "Qwen2_5_VLForConditionalGeneration"}, "disabled"),
        ("0.5.23", {"architecture": "Qwen2_5_VLForConditionalGeneration"}, "disabled"),
        ("0.5.23", {"architecture": "KimiK25ForConditionalGeneration"}, "breakable"),
        # Captured in another way for these releases, which HiCache then keeps it from.
        ("0.5.16", {"architecture": "KimiK25ForConditionalGeneration"}, "tc_piecewise"),
        ("0.5.16", {"architecture": "KimiK25ForConditionalGeneration", "hicache": True}, "disabled"),
        ("0.5.23", {"extra_arguments": {"disable-cuda-graph": True}}, "disabled"),
        ("0.5.23", {"extra_arguments": {"--disable-prefill-cuda-graph": True}}, "disabled"),
        ("0.5.23", {"extra_arguments": {"cuda_graph_backend_prefill": "full"}}, "full"),
        ("0.5.23", {"extra_arguments": {"moe-a2a-backend": "deepep"}}, "breakable"),
        ("0.5.23", {"extra_arguments": {"moe-a2a-backend": "mooncake"}}, "disabled"),
        ("0.5.16", {"extra_arguments": {"moe-a2a-backend": "deepep"}}, "disabled"),
        ("0.5.14", {"extra_arguments": {"expert-distribution-recorder-mode": "stat"}}, "disabled"),
        ("0.5.14", {"extra_arguments": {"lora-paths": []}}, "tc_piecewise"),
        ("0.5.9", {"extra_arguments": {"enable-piecewise-cuda-graph": True}}, "tc_piecewise"),
    ],
)
def test_what_captures_prefill(release: str, asked: dict[str, Any], backend: str) -> None:
    found = captured(release, **asked)
    assert found.backend == backend
    assert (found.count == 0) is (backend == "disabled")


@pytest.mark.parametrize(
    ("release", "asked", "tokens"),
    [
        ("0.5.23", {}, 8192),
        ("0.5.23", {"max_total_tokens": 3000}, 3000),
        ("0.5.8", {"max_total_tokens": 3000}, 8192),
        ("0.5.13", {"context_length": 4096}, 4096),
        ("0.5.17", {"context_length": 4096}, 8192),
        ("0.5.6", {}, 4096),
        ("0.5.7", {"architecture": "DeepseekV3ForCausalLM"}, 8192),
        ("0.5.8", {"architecture": "DeepseekV3ForCausalLM"}, 2048),
        ("0.5.22", {"architecture": "DeepseekV3ForCausalLM"}, 2048),
        ("0.5.23", {"architecture": "DeepseekV3ForCausalLM", "chunk": 16_384}, 8192),
        ("0.5.23", {"architecture": "DeepseekV3ForCausalLM", "chunk": 1024}, 1024),
        ("0.5.23", {"model_path": "/models/Llama-2-7b"}, 4096),
        ("0.5.23", {"extra_arguments": {"cuda-graph-max-bs-prefill": 256}}, 256),
    ],
)
def test_how_far_prefill_is_captured(release: str, asked: dict[str, Any], tokens: int) -> None:
    assert captured(release, **asked).tokens == tokens


def test_a_smaller_step_leaves_fewer_graphs() -> None:
    graphs = captured("0.5.23")
    assert graphs.within(1024) == PrefillGraphs("breakable", 1024, 38)
    assert graphs.within(9000) == graphs
    assert captured("0.5.9").within(1024).tokens == 8192


def test_an_exchange_captures_multiples_of_eight() -> None:
    exchange: dict[str, Any] = {"extra_arguments": {"moe-a2a-backend": "deepep"}}
    assert captured("0.5.17", **exchange) == PrefillGraphs("breakable", 2048, 38, aligned=True)
    assert captured("0.5.17", **exchange).largest == 2048
    assert captured("0.5.17", **exchange).within(32) == PrefillGraphs("breakable", 32, 4, aligned=True)
    asked: dict[str, Any] = {"extra_arguments": {"moe-a2a-backend": "deepep", "cuda-graph-max-bs-prefill": 20}}
    # 4, 8, 12, 16 and 20 tokens.
    assert captured("0.5.17", **asked) == PrefillGraphs("breakable", 24, 3, aligned=True)


@pytest.mark.parametrize(
    ("flags", "name"),
    [({}, "none"), ({"moe-a2a-backend": "deepep"}, "deepep"), ({"enable-deepep-moe": True}, "deepep")],
)
def test_exchange_between_experts(flags: dict[str, Any], name: str) -> None:
    assert exchange_of(flags) == name
