# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.pools import (
    Model,
    ModelError,
    bytes_per_token,
    device_tokens,
    host_refusal,
    host_tokens,
    model_of,
)
from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.make_model import config

LLAMA = model_of(config())
DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 163840,
}


def test_heads_are_divided_among_ranks_down_to_one() -> None:
    assert Model("LlamaForCausalLM", 4, 8192, 2, heads=2, head_dim=128) == LLAMA
    # K and V of 128 numbers of 2 bytes, in 4 layers.
    assert [bytes_per_token(LLAMA, ranks) for ranks in (1, 2, 4)] == [4096, 2048, 2048]


def test_the_width_of_a_head_follows_from_the_hidden_size_where_it_is_not_said() -> None:
    said = {name: value for name, value in config().items() if name != "head_dim"}
    assert model_of({**said, "hidden_size": 256, "num_attention_heads": 4}).head_dim == 64
    assert model_of({**said, "num_key_value_heads": None}).heads == 4


def test_latents_lie_on_every_rank_whole() -> None:
    model = model_of(DEEPSEEK)
    assert [bytes_per_token(model, ranks) for ranks in (1, 8)] == [70272, 70272]
    nested = {"architectures": ["KimiK25ForConditionalGeneration"], "text_config": DEEPSEEK}
    assert bytes_per_token(model_of(nested), 8) == 70272


@pytest.mark.parametrize(
    ("dtype", "cache", "expected"),
    [("auto", "fp8_e4m3", 2048), ("float32", "auto", 8192), ("float32", "bf16", 4096), ("half", "auto", 4096)],
)
def test_the_type_of_the_cache_counts_before_that_of_the_model(dtype: str, cache: str, expected: int) -> None:
    assert bytes_per_token(LLAMA, 1, dtype, cache) == expected


def test_a_model_in_float32_is_served_in_two_bytes() -> None:
    assert model_of({**config(), "dtype": "float32"}).value_bytes == 2


def test_other_families_are_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"\['GptOssForCausalLM'\] are not played; known are LlamaForCausalLM, "):
        model_of({**config(), "architectures": ["GptOssForCausalLM"]})


def test_latents_with_index_keys_are_refused() -> None:
    with pytest.raises(ModelError, match="index keys"):
        model_of({**DEEPSEEK, "index_topk": 2048})


def test_device_tokens_are_whole_pages() -> None:
    assert [device_tokens(4097, page) for page in (1, 16, 8192)] == [4097, 4096, 0]


@pytest.mark.parametrize(
    ("release", "page", "expected"),
    [((0, 5, 5), 1, 8192), ((0, 5, 5), 3, 8190), ((0, 5, 6), 1, 8193), ((0, 5, 23), 16, 8208)],
)
def test_a_page_more_from_0_5_6_on(release: tuple[int, ...], page: int, expected: int) -> None:
    assert host_tokens(release, 4096, page, 2048, ratio=2.0, size_gb=0) == expected


def test_a_size_counts_before_a_ratio() -> None:
    # 1e9 // 2048 = 488,281 tokens in pages of 64, and one more.
    assert host_tokens((0, 5, 23), 4096, 64, 2048, ratio=2.0, size_gb=1) == (488281 // 64 + 1) * 64


def test_what_is_neither_sized_nor_by_ratio() -> None:
    assert host_tokens((0, 5, 20), 100, 1, 2048, ratio=None, size_gb=0) == 201
    with pytest.raises(ValueError, match="expected --hicache-ratio or --hicache-size"):
        host_tokens((0, 5, 21), 100, 1, 2048, ratio=None, size_gb=0)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("release", "ranks", "fits"), [((0, 5, 18), 2, True), ((0, 5, 19), 2, False), ((0, 5, 19), 1, True)]
)
def test_more_than_is_available_less_10_gib_is_refused(release: tuple[int, ...], ranks: int, fits: bool) -> None:
    error = host_refusal(release, 1, 3 * GIB // 2, 1, 12 * GIB, ranks)
    assert (error is None) is fits
    assert error is None or "Requesting 1.61 GB but only have 1.07 GB free." in error


def test_a_host_pool_no_larger_than_the_device_pool_is_refused_to_0_5_14() -> None:
    assert "larger than the device memory" in str(host_refusal((0, 5, 14), 100, 100, 1, 20 * GIB, 1))
    assert host_refusal((0, 5, 15), 100, 100, 1, 20 * GIB, 1) is None
