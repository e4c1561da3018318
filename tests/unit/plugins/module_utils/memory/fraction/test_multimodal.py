# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import (
    multimodal_in_force,
    multimodal_reservation,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts, model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts

HEADS = {"num_layers": 4, "num_attention_heads": 4, "num_kv_heads": 2, "head_dim": 128}
MIB = 1 << 20


def model(architecture: str, **more: Any) -> ModelFacts:
    return model_facts({"architecture": architecture, "attention": HEADS, **more})


@pytest.mark.parametrize(
    ("release", "architecture", "flags", "expected"),
    [
        ("0.5.23", "LlamaForCausalLM", {}, False),
        ("0.5.23", "Qwen3VLForConditionalGeneration", {}, True),
        ("0.5.23", "Gemma3ForConditionalGeneration", {}, False),
        ("0.4.7", "Gemma3ForConditionalGeneration", {}, False),
        ("0.5.23", "Gemma3ForConditionalGeneration", {"--enable-multimodal": True}, True),
        ("0.5.23", "Gemma3ForConditionalGeneration", {"enable_multimodal": False}, False),
        ("0.4.10", "Step3VLForConditionalGeneration", {}, True),
        ("0.5.1", "Step3VLForConditionalGeneration", {}, False),
    ],
)
def test_towers_that_are_loaded(release: str, architecture: str, flags: dict[str, Any], expected: bool) -> None:
    server = ServerRequest(extra_arguments=flags)
    assert multimodal_in_force(release, model(architecture), server) is expected


@pytest.mark.parametrize(
    ("release", "architecture", "capability", "card_mib", "running", "expected_mib"),
    [
        ("0.5.17", "Qwen2_5_VLForConditionalGeneration", (9, 0), 143_771, None, 0),
        ("0.5.18", "Qwen2_5_VLForConditionalGeneration", (9, 0), 143_771, None, 100),
        ("0.5.18", "Gemma3ForConditionalGeneration", (9, 0), 143_771, None, 0),
        ("0.5.18", "Qwen3VLForConditionalGeneration", (9, 0), 143_771, None, 100),
        # Features travel through GPU memory there.
        ("0.5.20", "Qwen3VLForConditionalGeneration", (9, 0), 143_771, None, 1024),
        ("0.5.20", "Qwen3VLForConditionalGeneration", (9, 0), 143_771, 400, 3072),
        ("0.5.20", "Qwen3VLForConditionalGeneration", (9, 0), 46_068, None, 100),
        ("0.5.20", "Qwen3VLForConditionalGeneration", (10, 0), 183_359, None, 100),
    ],
)
def test_what_a_tower_takes_off_the_budget(
    release: str,
    architecture: str,
    capability: tuple[int, int],
    card_mib: int,
    running: int | None,
    expected_mib: int,
) -> None:
    server = ServerRequest(max_running_requests=running)
    found = multimodal_reservation(version_facts(release), model(architecture), server, capability, card_mib)
    assert found == expected_mib * MIB


LARGE_HOPPER = {"architecture": "Qwen3VLForConditionalGeneration", "capability": (9, 0), "card_mib": 143_771}
BLACKWELL = {"architecture": "Qwen3VLForConditionalGeneration", "capability": (10, 0), "card_mib": 183_359}


@pytest.mark.parametrize(
    ("where", "environment", "flags", "expected_mib"),
    [
        (BLACKWELL, {"SGLANG_VLM_CACHE_SIZE_MB": "250"}, {}, 250),
        (BLACKWELL, {"SGLANG_VLM_CACHE_SIZE_MB": "0"}, {}, 0),
        # A pool that nothing travels through is not made.
        (BLACKWELL, {"SGLANG_MM_FEATURE_CACHE_MB": "2048"}, {}, 100),
        (BLACKWELL, {"SGLANG_MM_FEATURE_CACHE_MB": "2048"}, {"mm-feature-transport": "cuda_vmm"}, 100 + 2048),
        (BLACKWELL, {"SGLANG_USE_CUDA_IPC_TRANSPORT": "1"}, {}, 100 + 1024),
        (BLACKWELL, {"SGLANG_USE_CUDA_IPC_TRANSPORT": "1"}, {"mm-feature-transport": "cpu"}, 100),
        (BLACKWELL, {}, {"enable-deterministic-inference": True}, 0),
        (LARGE_HOPPER, {"SGLANG_MM_FEATURE_CACHE_MB": "2048"}, {}, 2048),
        # Who keeps embeddings or prepared pictures, keeps features off the GPU.
        (LARGE_HOPPER, {"SGLANG_VLM_CACHE_SIZE_MB": "250"}, {}, 250),
        (LARGE_HOPPER, {}, {"mm-preprocess-cache-size-mb": 64}, 0),
        (LARGE_HOPPER, {}, {"mm-feature-transport": "cpu"}, 0),
    ],
)
def test_what_variables_and_flags_make_of_it(
    where: dict[str, Any], environment: dict[str, str], flags: dict[str, Any], expected_mib: int
) -> None:
    server = ServerRequest(environment=environment, extra_arguments=flags)
    found = multimodal_reservation(
        version_facts("0.5.23"), model(where["architecture"]), server, where["capability"], where["card_mib"]
    )
    assert found == expected_mib * MIB
