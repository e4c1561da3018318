# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.fraction_default import (
    FractionDefault,
    factor_of_load,
    fraction_default,
    tower_factor,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.models import model_of

H100, T4, RTX4090, B200 = 81_559, 15_360, 24_564, 183_359


def default(
    release: str,
    card: int | None = H100,
    architecture: str = "LlamaForCausalLM",
    algorithm: str | None = None,
    copies: str | None = None,
    environment: dict[str, str] | None = None,
    vision: dict[str, int] | None = None,
    capability: tuple[int, int] = (9, 0),
    **server: Any,
) -> FractionDefault:
    drafts = None if algorithm is None else SpeculativeRequest(algorithm, eagle_topk=1)
    model = model_of(architecture, vision=vision)
    asked = ServerRequest(environment=environment or {}, **server)
    return fraction_default(release, model, asked, card, capability, drafts, copies)


@pytest.mark.parametrize(
    ("release", "asked", "fraction"),
    [
        # A share by ranks.
        ("0.4.7", {}, 0.88),
        ("0.4.7", {"tensor_parallel_size": 8}, 0.81),
        ("0.4.7", {"tensor_parallel_size": 8, "pipeline_parallel_size": 2}, 0.79),
        ("0.4.7", {"algorithm": "EAGLE"}, 0.88 * 0.95),
        ("0.4.7", {"card": B200}, 0.79),
        ("0.4.7", {"card": 143_771}, (143_771 - 18 * 1024) / 143_771),
        ("0.4.7", {"card": 143_771, "algorithm": "EAGLE"}, (143_771 - 20 * 1024) / 143_771),
        # A reserve by card.
        ("0.4.8", {}, round(1 - (9.5 + 0.5) * 1024 / H100, 3)),
        ("0.4.8", {"tensor_parallel_size": 8}, round(1 - (9.5 + 4) * 1024 / H100, 3)),
        ("0.4.8", {"card": T4}, round(1 - 2.9 * 1024 / T4, 3)),
        ("0.4.8", {"card": B200, "tensor_parallel_size": 8}, round(1 - 32 * 1024 / B200, 3)),
        ("0.5.1", {"algorithm": "STANDALONE"}, round(1 - 12 * 1024 / H100, 3)),
        ("0.5.2", {"algorithm": "STANDALONE"}, round(1 - 16 * 1024 / H100, 3)),
        ("0.5.2", {"tensor_parallel_size": 8, "attention_data_parallel_size": 8}, round(1 - 17.5 * 1024 / H100, 3)),
        # A reserve by parts.
        ("0.5.3", {}, round(1 - (512 + 12_288 + 512 + 128) / H100, 3)),
        ("0.5.9", {"algorithm": "EAGLE"}, round(1 - (13_440 + 2048) / H100, 3)),
        ("0.5.9", {"algorithm": "STANDALONE"}, round(1 - (13_440 + 6144) / H100, 3)),
        ("0.5.9", {"algorithm": "NGRAM"}, round(1 - 13_440 / H100, 3)),
        ("0.5.10", {"algorithm": "EAGLE"}, round(1 - (13_440 + 4096) / H100, 3)),
        ("0.5.14", {"algorithm": "EAGLE"}, round(1 - (13_440 + 58 * 8) / H100, 3)),
        # The floor alone: 512 + 3,072 + 512 + 128 + 42 x 8 MiB are less than 10 GiB.
        ("0.5.23", {"chunked_prefill_size": 2048}, round(1 - 10_240 / H100, 3)),
        ("0.5.23", {"chunked_prefill_size": -1}, round(1 - (512 + 24_576 + 512 + 128) / H100, 3)),
        # Without a card.
        ("0.5.19", {"card": None}, 0.88),
        ("0.5.20", {"card": None}, 0.95),
        # Requests at once bound the graphs.
        ("0.5.21", {"max_running_requests": 16}, round(1 - (13_440 + 464) / H100, 3)),
        ("0.5.22", {"max_running_requests": 16}, round(1 - (13_440 - 480 + 464) / H100, 3)),
        # Cards below 20 and 35 GiB.
        ("0.5.23", {"card": T4}, round(1 - (512 + 3072 + 16 + 128 + 42 * 8) / T4, 3)),
        ("0.5.4", {"card": RTX4090}, round(1 - (512 + 3072 + 32 + 128) / RTX4090, 3)),
        ("0.5.5", {"card": RTX4090}, round(1 - (512 + 3072 + 48 + 128) / RTX4090, 3)),
        ("0.5.20", {"card": RTX4090}, round(1 - (512 + 6144 + 96 + 128 + 50 * 8) / RTX4090, 3)),
        # What experts exchange.
        ("0.5.14", {"extra_arguments": {"moe-a2a-backend": "deepep"}}, round(1 - 13_440 / H100, 3)),
        ("0.5.15", {"extra_arguments": {"moe-a2a-backend": "deepep"}}, round(1 - (13_440 + 2048) / H100, 3)),
        # Its graphs are fewer, too, at multiples of eight up to 2048 tokens.
        ("0.5.17", {"extra_arguments": {"moe-a2a-backend": "deepep"}}, round(1 - (13_440 + 304 + 3072) / H100, 3)),
        # No graphs, nothing kept for them.
        ("0.5.14", {"extra_arguments": {"disable-cuda-graph": True}}, round(1 - 13_440 / H100, 3)),
        ("0.5.15", {"extra_arguments": {"disable-cuda-graph": True}}, round(1 - (13_440 - 512) / H100, 3)),
        ("0.5.9", {"extra_arguments": {"cuda-graph-max-bs": 64}}, round(1 - (13_440 - 384) / H100, 3)),
        # Graphs of prefill on request.
        ("0.5.5", {"extra_arguments": {"enable-piecewise-cuda-graph": True}}, round(1 - 13_440 / H100, 3)),
        ("0.5.6", {"extra_arguments": {"enable-piecewise-cuda-graph": True}}, round(1 - (13_440 + 1024) / H100, 3)),
        ("0.5.7", {"extra_arguments": {"enable-piecewise-cuda-graph": True}}, round(1 - (13_440 + 1024) / H100, 3)),
        ("0.5.9", {"extra_arguments": {"enable-piecewise-cuda-graph": True}}, round(1 - (13_440 + 464) / H100, 3)),
    ],
)
def test_fraction_by_release(release: str, asked: dict[str, Any], fraction: float) -> None:
    assert default(release, **asked).fraction == pytest.approx(fraction, abs=1e-12)


def test_attention_dp_divides_the_chunk_after_the_reserve() -> None:
    found = default("0.5.23", tensor_parallel_size=8, attention_data_parallel_size=8)
    assert (found.chunk, found.prefill.tokens, found.prefill.count) == (1024, 1024, 38)
    assert found.parts.activations == 8192 * 1.5
    assert found.parts.attention_dp == 512 * 8 * 4.5
    assert default("0.5.14", tensor_parallel_size=8, attention_data_parallel_size=8).prefill.tokens == 8192


@pytest.mark.parametrize(
    ("layers", "size", "factor"),
    [(24, 1024, 0.95), (24, 1280, 0.95 * (1 - 0.1 * (1280**2 / 1024**2 - 1))), (60, 3200, 0.76), (2, 64, 0.9975)],
)
def test_a_larger_tower_leaves_less(layers: int, size: int, factor: float) -> None:
    assert tower_factor(layers, size) == pytest.approx(factor)


def test_towers_by_release() -> None:
    tower = {"num_hidden_layers": 24, "hidden_size": 1024}
    asked: dict[str, Any] = {"architecture": "Qwen2_5_VLForConditionalGeneration", "vision": tower}
    plain = default("0.5.9").fraction
    assert default("0.5.9", **asked).fraction == plain * 0.95
    assert default("0.4.9", **asked).fraction == default("0.4.9").fraction * 0.9
    # When it loads the model, and of a given fraction, too.
    assert default("0.4.8", **asked).fraction == default("0.4.8").fraction
    model = model_of("Qwen2_5_VLForConditionalGeneration")
    assert factor_of_load("0.4.8", model, ServerRequest()) == 0.9
    assert factor_of_load("0.4.9", model, ServerRequest()) == 1.0


def test_an_unknown_tower_is_refused_where_it_counts() -> None:
    with pytest.raises(Refusal) as refusal:
        default("0.5.9", architecture="Qwen2_5_VLForConditionalGeneration")
    assert refusal.value.code == "mem_fraction_static_unknown"
    assert default("0.4.9", architecture="Qwen2_5_VLForConditionalGeneration").fraction > 0
    # Served without its tower unless asked.
    assert default("0.5.9", architecture="Gemma3ForConditionalGeneration").fraction == default("0.5.9").fraction


def test_sizing_after_the_capture_keeps_little() -> None:
    switched = {"SGLANG_ENABLE_POST_CAPTURE_KV_SIZING": "1"}
    assert default("0.5.15", environment=switched).fraction == default("0.5.15").fraction
    assert default("0.5.16", environment=switched).fraction == round(1 - (512 + 128) / H100, 3)
    assert default("0.5.23", environment=switched).fraction == round(1 - (1536 + 128) / H100, 3)
    latent: dict[str, Any] = {"architecture": "DeepseekV3ForCausalLM"}
    assert default("0.5.23", environment=switched, **latent).fraction == default("0.5.23", **latent).fraction
    # A chunk that no graph covers runs without one.
    wide: dict[str, Any] = {"chunked_prefill_size": 5000}
    assert default("0.5.23", environment=switched, **wide).fraction == default("0.5.23", **wide).fraction


@pytest.mark.parametrize(
    ("release", "capability", "architecture", "flags", "captures"),
    [
        ("0.5.10", (10, 0), "Qwen3MoeForCausalLM", {}, False),
        ("0.5.13", (10, 0), "Qwen3MoeForCausalLM", {}, True),
        ("0.5.10", (9, 0), "Qwen3MoeForCausalLM", {}, True),
        ("0.5.10", (10, 0), "Qwen3MoeForCausalLM", {"moe-runner-backend": "triton"}, True),
        ("0.5.10", (10, 0), "Qwen3MoeForCausalLM", {"quantization": "awq"}, True),
        ("0.5.10", (10, 0), "DeepseekV3ForCausalLM", {}, False),
        ("0.5.11", (10, 0), "DeepseekV3ForCausalLM", {}, True),
        ("0.5.11", (10, 0), "DeepseekV3ForCausalLM", {"quantization": "fp8"}, False),
        ("0.5.10", (10, 0), "LlamaForCausalLM", {}, True),
    ],
)
def test_experts_that_keep_prefill_from_being_captured(
    release: str, capability: tuple[int, int], architecture: str, flags: dict[str, Any], captures: bool
) -> None:
    found = default(release, B200, capability=capability, architecture=architecture, extra_arguments=flags)
    assert (found.prefill.count > 0) is captures
    # The reserve was made before.
    assert found.parts.prefill_graphs > 0


@pytest.mark.parametrize("release", [str(version) for version in EXAMINED])
def test_every_release_has_a_default_that_its_parts_add_up_to(release: str) -> None:
    for card in (T4, RTX4090, 46_068, H100, 143_771, B200, 275_040):
        found = default(release, card, tensor_parallel_size=2)
        assert 0.3 < found.fraction < 1
        if found.parts.total:
            assert found.fraction == round((card - found.parts.total) / card, 3)
