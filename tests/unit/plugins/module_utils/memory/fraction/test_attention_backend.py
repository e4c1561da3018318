# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.attention_backend import (
    AttentionDefaults,
    attention_backend_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.models import HEADS, INDEXED, model_of

H200_MIB = 143_771


def chosen(
    release: str,
    capability: tuple[int, int] | None,
    architecture: str = "LlamaForCausalLM",
    topk: int | None = 0,
    copies: str | None = None,
    attention: dict[str, Any] | None = None,
    card_mib: int | None = H200_MIB,
    **server: Any,
) -> AttentionDefaults:
    model = model_of(architecture) if attention is None else model_of(architecture, attention=attention)
    drafts = None if topk == 0 else SpeculativeRequest("EAGLE", eagle_topk=topk)
    return attention_backend_default(release, model, ServerRequest(**server), capability, drafts, copies, card_mib)


@pytest.mark.parametrize(
    ("release", "capability", "asked", "backend", "page_size"),
    [
        ("0.5.23", (8, 0), {}, "flashinfer", 1),
        ("0.5.23", (9, 0), {}, "fa3", 1),
        ("0.5.23", (10, 0), {}, "trtllm_mha", 64),
        ("0.5.23", (10, 3), {}, "trtllm_mha", 64),
        ("0.5.23", (12, 0), {}, "flashinfer", 1),
        ("0.5.23", None, {}, "flashinfer", 1),
        # Drafts that branch, or pages beside drafts, are not for fa3 and trtllm.
        ("0.5.23", (9, 0), {"topk": 4}, "flashinfer", 1),
        ("0.5.23", (9, 0), {"topk": 1}, "fa3", 1),
        ("0.5.23", (9, 0), {"topk": 1, "page_size": 64}, "flashinfer", 64),
        ("0.5.23", (10, 0), {"topk": 4}, "flashinfer", 1),
        ("0.5.23", (10, 0), {"topk": None}, "flashinfer", 1),
        # Latents.
        ("0.5.23", (8, 0), {"architecture": "DeepseekV2ForCausalLM"}, "triton", 1),
        ("0.5.23", (9, 0), {"architecture": "DeepseekV2ForCausalLM"}, "fa3", 1),
        ("0.5.23", (10, 0), {"architecture": "DeepseekV2ForCausalLM"}, "flashinfer", 1),
        ("0.5.23", (10, 0), {"architecture": "DeepseekV3ForCausalLM"}, "trtllm_mla", 64),
        ("0.5.3", (10, 0), {"architecture": "DeepseekV3ForCausalLM"}, "flashinfer", 1),
        ("0.5.4", (10, 0), {"architecture": "DeepseekV3ForCausalLM"}, "trtllm_mla", 64),
        ("0.5.23", (10, 0), {"architecture": "DeepseekV3ForCausalLM", "page_size": 32}, "trtllm_mla", 32),
        # Older releases.
        ("0.4.7", (9, 0), {}, "fa3", 1),
        ("0.4.7", (9, 0), {"architecture": "MistralForCausalLM"}, "flashinfer", 1),
        ("0.5.8", (9, 0), {"architecture": "MistralForCausalLM"}, "fa3", 1),
        ("0.5.6", (10, 0), {}, "flashinfer", 1),
        ("0.5.7", (10, 0), {}, "trtllm_mha", 64),
        ("0.4.10", (9, 0), {"copies": "direct"}, "flashinfer", 1),
        # Model classes with a rule of their own.
        ("0.5.9", (8, 0), {"architecture": "GptOssForCausalLM"}, "triton", 1),
        ("0.5.9", (12, 0), {"architecture": "GptOssForCausalLM"}, "triton", 1),
        ("0.5.9", (10, 0), {"architecture": "GptOssForCausalLM"}, "trtllm_mha", 64),
        ("0.5.23", (12, 0), {"architecture": "Step3p5ForCausalLM"}, "fa4", 1),
        ("0.5.23", (7, 5), {"architecture": "Olmo2ForCausalLM"}, "triton", 1),
        ("0.5.23", (8, 0), {"architecture": "Olmo2ForCausalLM"}, "fa3", 1),
        ("0.5.23", (9, 0), {"architecture": "MiniMaxM3SparseForCausalLM"}, "fa3", 128),
        ("0.5.23", (10, 0), {"architecture": "MiniMaxM3SparseForCausalLM"}, "fa4", 128),
        ("0.5.23", (10, 0), {"architecture": "MiniMaxM3SparseForCausalLM", "kv_cache_dtype": "fp8_e4m3"},
         "trtllm_mha", 128),
        ("0.5.23", (10, 0), {"architecture": "Qwen3NextForCausalLM"}, "triton", 1),
        ("0.5.23", (10, 0), {"architecture": "Qwen3NextForCausalLM", "topk": 1}, "trtllm_mha", 64),
        ("0.5.23", (12, 0), {"architecture": "NemotronHForCausalLM", "topk": 1}, "triton", 1),
        ("0.5.23", (10, 0), {"architecture": "NemotronHForCausalLM", "topk": 4}, "triton", 1),
        # Keys and values of different widths.
        ("0.5.16", (10, 0), {"attention": {**HEADS, "v_head_dim": 64}}, "trtllm_mha", 64),
        ("0.5.17", (10, 0), {"attention": {**HEADS, "v_head_dim": 64}}, "fa4", 128),
        # Named by the user.
        ("0.5.23", (10, 0), {"attention_backend": "triton"}, "triton", 1),
        ("0.5.23", (9, 0), {"attention_backend": "cutlass_mla"}, "cutlass_mla", 128),
        ("0.5.23", (9, 0), {"attention_backend": "flashmla", "page_size": 16}, "flashmla", 64),
        ("0.5.12", (10, 0), {"architecture": "GraniteMoeHybridForCausalLM"}, "triton", 1),
        ("0.5.13", (10, 0), {"architecture": "GraniteMoeHybridForCausalLM"}, "flashinfer", 1),
        ("0.5.14", (10, 0), {"attention_backend": "fa4"}, "fa4", 1),
        ("0.5.15", (10, 0), {"attention_backend": "fa4"}, "fa4", 128),
        ("0.5.23", (10, 0), {"page_size": 16}, "trtllm_mha", 16),
        ("0.5.23", (10, 0), {"page_size": 128}, "trtllm_mha", 128),
        ("0.5.16", (10, 0), {"page_size": 128}, "trtllm_mha", 64),
        ("0.5.23", (9, 0), {"kv_cache_dtype": "fp8_e5m2"}, "triton", 1),
    ],
)  # fmt: skip
def test_backend_and_page(
    release: str, capability: tuple[int, int] | None, asked: dict[str, Any], backend: str, page_size: int
) -> None:
    found = chosen(release, capability, **asked)
    assert (found.backend, found.page_size) == (backend, page_size)
    assert found.given is ("attention_backend" in asked)


@pytest.mark.parametrize(
    ("release", "capability", "backend", "dtype"),
    [
        # As the model has it, before 0.5.5.
        ("0.5.4", (9, 0), "nsa", "auto"),
        ("0.5.4", (10, 0), "nsa", "fp8_e4m3"),
        ("0.5.5", (9, 0), "nsa", "bfloat16"),
        ("0.5.9", (9, 0), "nsa", "bfloat16"),
        ("0.5.13", (9, 0), "dsa", "bfloat16"),
        ("0.5.13", (10, 0), "dsa", "fp8_e4m3"),
        ("0.5.13", (12, 0), "dsa", "fp8_e4m3"),
    ],
)
def test_an_index_has_its_own_backend_page_and_type(
    release: str, capability: tuple[int, int], backend: str, dtype: str
) -> None:
    found = chosen(release, capability, "DeepseekV32ForCausalLM", attention=INDEXED, page_size=16)
    assert (found.backend, found.page_size, found.kv_cache_dtype) == (backend, 64, dtype)


@pytest.mark.parametrize(
    ("release", "architecture", "copies", "decode"),
    [
        ("0.5.9", "LlamaForCausalLM", "kernel", "flashinfer"),
        ("0.5.9", "LlamaForCausalLM", "direct", "fa3"),
        ("0.5.9", "LlamaForCausalLM", None, "fa3"),
        ("0.5.9", "DeepseekV3ForCausalLM", "kernel", "triton"),
        ("0.5.10", "GptOssForCausalLM", "kernel", "flashinfer"),
        ("0.5.11", "GptOssForCausalLM", "kernel", "triton"),
        ("0.5.14", "LlamaForCausalLM", "kernel", "fa3"),
    ],
)
def test_hicache_keeps_fa3_from_decoding(release: str, architecture: str, copies: str | None, decode: str) -> None:
    found = chosen(release, (9, 0), architecture, copies=copies)
    assert (found.prefill, found.decode) == ("fa3", decode)


def test_pictures_are_decoded_by_another_backend_on_large_hopper_cards() -> None:
    asked: dict[str, Any] = {"architecture": "Qwen3VLForConditionalGeneration"}
    assert chosen("0.5.20", (9, 0), **asked).decode == "flashinfer"
    assert chosen("0.5.20", (9, 0), card_mib=46_068, **asked).decode == "fa3"
    assert chosen("0.5.19", (9, 0), **asked).decode == "fa3"


def test_parts_that_are_told_apart() -> None:
    flags = {"prefill-attention-backend": "fa3", "--decode_attention_backend": "flashmla"}
    found = chosen("0.5.23", (9, 0), "DeepseekV2ForCausalLM", extra_arguments=flags)
    assert (found.prefill, found.decode, found.page_size, found.given) == ("fa3", "flashmla", 64, True)
