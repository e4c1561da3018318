# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import CacheType
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    CellSizes,
    Draft,
    Layout,
    cell_sizes,
    index_row_bytes,
    stages,
    token_budget,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    REST_ON_LAST,
    REST_SPREAD,
    pool_facts,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    BY_FAMILY,
    DEEPSEEK_V3,
    GLM_5,
    GPT_OSS,
    KIMI_LINEAR,
    LLAMA_8B,
    MIMO,
    MINIMAX_M3,
    QWEN3_NEXT,
)

BF16, FP8 = CacheType("bfloat16", 2, 2), CacheType("fp8_e4m3", 1, 2)
RAW_FP8, FP4, MXFP8 = replace(FP8, raw_rows=True), CacheType("fp4_e2m1", 1, 2), CacheType("mxfp8", 1, 2)
NEW_FP4 = replace(FP4, name="fp4_mx_block16")


def cells(
    config: dict[str, Any], tp: int = 1, cache: CacheType = BF16, version: str = "0.5.23", **more: Any
) -> CellSizes:
    return cell_sizes(attention_from_config(config), Layout(tp), cache, pool_facts(version), **more)


# 131,072 and 70,272 are also what SGLang's own start-up logs divide to (conformance tests).
@pytest.mark.parametrize(
    ("config", "tp", "cache", "expected"),
    [
        (LLAMA_8B, 1, BF16, 131_072),
        (LLAMA_8B, 8, BF16, 16_384),
        (LLAMA_8B, 16, BF16, 16_384),  # fewer KV heads than ranks: replicated
        (LLAMA_8B, 1, FP8, 65_536),
        ({**LLAMA_8B, "head_dim": 64}, 1, BF16, 65_536),
        ({**LLAMA_8B, "v_head_dim": 64}, 1, BF16, 98_304),
        ({**LLAMA_8B, "num_key_value_heads": None}, 1, BF16, 524_288),
        ({**LLAMA_8B, "num_key_value_heads": 1}, 8, BF16, 16_384),  # one head, on every rank
        (DEEPSEEK_V3, 1, BF16, 70_272),
        (DEEPSEEK_V3, 8, BF16, 70_272),  # the latent is whole on every rank
        (DEEPSEEK_V3, 8, FP8, 35_136),
        (QWEN3_NEXT, 1, BF16, 2 * 2 * 256 * 12 * 2),  # every fourth of 48 layers
        (KIMI_LINEAR, 8, BF16, 576 * 7 * 2),
    ],
)
def test_bytes_of_a_token_in_one_pool(config: dict[str, Any], tp: int, cache: CacheType, expected: int) -> None:
    found = cells(config, tp, cache)
    assert found.pools == {"kv": expected}
    assert found.full_budget == found.allocated == expected
    assert f"{expected:,}" in found.explanation[0]


def test_value_width_was_forgotten_by_older_releases() -> None:
    narrow = {**LLAMA_8B, "v_head_dim": 64}
    for version, budget, allocated in (
        ("0.5.6", 131_072, 131_072),
        ("0.5.9", 98_304, 131_072),
        ("0.5.11", 98_304, 98_304),
    ):
        found = cells(narrow, version=version)
        assert (found.full_budget, found.allocated) == (budget, allocated), version


def test_attention_data_parallelism_divides_the_ranks_that_share_heads() -> None:
    attention, facts = attention_from_config(LLAMA_8B), pool_facts("0.5.23")
    assert cell_sizes(attention, Layout(8, 1, 4), BF16, facts) == cell_sizes(attention, Layout(2), BF16, facts)


# 512 bytes of FP8, a float32 scale for each 128 of them, 64 rotary elements in bfloat16; and the key of the index.
def test_fp8_rows_with_scales() -> None:
    assert cells(GLM_5, cache=FP8).pools == {"kv": 656 * 78, "indexer": 132 * 78}
    assert cells(GLM_5, cache=RAW_FP8).pools["kv"] == 576 * 78
    assert cells(GLM_5).pools["kv"] == 1152 * 78
    assert index_row_bytes(128) == 132


def test_scales_that_older_releases_allocate_without_counting_them() -> None:
    old, new = cells(GLM_5, cache=FP8, version="0.5.16"), cells(GLM_5, cache=FP8, version="0.5.17")
    assert old.pools == new.pools
    assert (old.full_budget, new.full_budget) == ((576 + 132) * 78, (656 + 132) * 78)
    assert any("budgets 576 bytes a row where it allocates 656" in line for line in old.explanation)
    assert not any("budgets" in line for line in new.explanation)


def test_layers_that_reuse_a_choice_keep_no_keys_from_0_5_18_on() -> None:
    shared = {**GLM_5, "index_topk_freq": 4}
    index = attention_from_config(shared).index
    assert index is not None
    own = len(index.layers)
    assert own < 78
    assert cells(shared, version="0.5.17").pools["indexer"] == 132 * 78
    assert cells(shared, version="0.5.18").pools["indexer"] == 132 * own


def test_windows_have_a_pool_of_their_own() -> None:
    found = cells(GPT_OSS)
    assert found.pools == {"kv": 18 * 8 * 128 * 2, "swa": 18 * 8 * 128 * 2}
    assert found.allocated == found.pools["kv"]
    assert token_budget(found, pool_facts("0.5.23"), 0.8) == 36_864 + 0.8 * 36_864
    # A token of both pools, before 0.5.11 divided the bytes again.
    assert token_budget(found, pool_facts("0.5.9"), 0.8) == 73_728


def test_windows_with_other_heads_than_the_full_layers() -> None:
    assert cells(MIMO, 4).pools == {"kv": 1 * 320 * 2 * 2, "swa": 2 * 320 * 4 * 2}


def test_index_keys_beside_heads_are_in_the_models_own_type() -> None:
    found = cells(MINIMAX_M3, 8)
    # Three layers with keys, one of them with values as well.
    assert found.pools == {"kv": 4 * 2 * 128 * 2, "indexer": (3 + 1) * 64 * 2}


def test_four_bit_rows_and_their_scales() -> None:
    heads, elements = 8 * 128 * 32, 2 * 8 * 128 * 32
    packed = elements // 2 + elements // 16
    assert cells(LLAMA_8B, cache=NEW_FP4).pools["kv"] == packed
    assert [cells(LLAMA_8B, cache=FP4, version=version).full_budget for version in ("0.5.9", "0.5.16")] == [
        packed,
        packed + heads // 32 * 2,  # a workspace of one layer
    ]
    assert cells(DEEPSEEK_V3, cache=NEW_FP4).pools["kv"] == (288 + 36) * 61


def test_block_scales_of_eight_bit_rows() -> None:
    assert cells(LLAMA_8B, cache=MXFP8).allocated == 65_536 + 65_536 // 32


def test_drafts_are_counted_from_0_5_14_on() -> None:
    draft = Draft(layers=1)
    for version, counted in (("0.5.13", 131_072), ("0.5.14", 131_072 // 32 * 33), ("0.5.23", 131_072 // 32 * 33)):
        found = cells(LLAMA_8B, version=version, draft=draft)
        assert found.full_budget == counted, version
        assert found.pools == {"kv": 131_072, "draft": 4_096}
    assert any("does not count the draft" in line for line in cells(LLAMA_8B, version="0.5.9", draft=draft).explanation)


def test_drafts_beside_windows_are_counted_from_0_5_15_and_in_the_window_pool_from_0_5_19_on() -> None:
    draft = Draft(layers=2, window_layers=1)
    budgets = {
        version: (found.full_budget // 2048, found.window_budget // 2048)
        for version in ("0.5.14", "0.5.15", "0.5.18", "0.5.19")
        for found in [cells(GPT_OSS, version=version, draft=draft)]
    }
    assert budgets == {"0.5.14": (18, 18), "0.5.15": (20, 18), "0.5.18": (20, 18), "0.5.19": (19, 19)}


def test_a_draft_of_another_shape() -> None:
    eagle = attention_from_config({**LLAMA_8B, "num_hidden_layers": 1})
    found = cells(DEEPSEEK_V3, 8, draft=Draft(1, attention=eagle))
    assert found.pools["draft"] == 1 * 2 * 128 * 2


@given(st.integers(1, 200), st.integers(1, 16), st.sampled_from([REST_ON_LAST, REST_SPREAD]))
def test_stages_divide_the_layers(layers: int, count: int, division: str) -> None:
    divided = stages(layers, count, division)
    assert [layer for stage in divided for layer in stage] == list(range(layers))
    assert len(divided) == count
    # The last stage holds most.
    assert len(divided[-1]) == max(len(stage) for stage in divided)
    if division == REST_SPREAD:
        assert len(divided[-1]) - len(divided[0]) <= 1


def test_a_rest_of_layers() -> None:
    assert [len(stage) for stage in stages(62, 4, REST_SPREAD)] == [15, 15, 16, 16]
    assert [len(stage) for stage in stages(62, 4, REST_ON_LAST)] == [15, 15, 15, 17]


@given(
    st.sampled_from(sorted(BY_FAMILY)),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 4),
    st.sampled_from(["0.5.16", "0.5.18", "0.5.23"]),
)
def test_stages_hold_what_the_whole_model_holds(family: str, tp: int, count: int, version: str) -> None:
    config = BY_FAMILY[family]
    attention, facts = attention_from_config(config), pool_facts(version)
    whole = cells(config, tp, version=version)
    parts = [
        cell_sizes(attention, Layout(tp, count), BF16, facts, stage)
        for stage in stages(attention.num_layers, count, facts.pipeline_division)
    ]
    for kind, size in whole.pools.items():
        assert sum(part.pools[kind] for part in parts) == size
    assert sum(part.full_budget for part in parts) == whole.full_budget


@given(st.sampled_from(sorted(BY_FAMILY)), st.sampled_from([1, 2, 4, 8]))
def test_more_ranks_never_take_more_a_rank_and_never_less_in_all(family: str, tp: int) -> None:
    one, two = cells(BY_FAMILY[family], tp), cells(BY_FAMILY[family], tp * 2)
    for kind, size in one.pools.items():
        assert two.pools[kind] <= size <= two.pools[kind] * 2
