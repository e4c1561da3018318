# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cache_type import CacheType
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cell_size import (
    Layout,
    cell_sizes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_pools import (
    DevicePool,
    device_pools,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import BY_RATIO, BY_SIZE, Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host_pools import (
    check_host_pools,
    copies_of,
    host_bytes,
    host_pools,
    largest_ratio_of,
    largest_size_of,
    mirrored_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.state_pools import (
    StateRequest,
    plan_states,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    BY_FAMILY,
    DEEPSEEK_V3,
    GLM_5,
    GPT_OSS,
    LLAMA_8B,
    MIMO,
    MINIMAX_M3,
    QWEN3_NEXT,
)

GIB, GB = 1 << 30, 10**9
WINDOWED = (DevicePool("kv", 10_000, 40_000, 64), DevicePool("swa", 8_000, 30_000, 64))
HYBRID = (DevicePool("kv", 10_000, 20_000, 64), DevicePool("mamba", 100, 70_000_000, 1))
INDEXED = (DevicePool("kv", 6_400, 90_000, 64), DevicePool("indexer", 6_400, 10_000, 64))


def by_ratio(ratio: float) -> Sizing:
    return Sizing(BY_RATIO, ratio=ratio)


def by_size(size: int) -> Sizing:
    return Sizing(BY_SIZE, size_gb=size)


def test_a_ratio_holds_for_every_pool() -> None:
    facts = version_facts("0.5.23")
    kv, swa = host_pools(facts, WINDOWED, 64, by_ratio(2.0))
    # In pages, and one page more.
    assert (kv.kind, kv.tokens) == ("kv", (20_000 // 64 + 1) * 64)
    assert (swa.kind, swa.tokens) == ("swa", (16_000 // 64 + 1) * 64)
    _kv, states = host_pools(facts, HYBRID, 64, by_ratio(2.0))
    # States are single: no pages.
    assert (states.kind, states.tokens, states.bytes_per_token) == ("mamba", 201, 70_000_000)


def test_a_size_was_that_of_each_pool_and_is_divided_from_0_5_17_on() -> None:
    each = host_pools(version_facts("0.5.16"), WINDOWED, 1, by_size(10))
    assert [round(pool.bytes_per_rank / GB, 2) for pool in each] == [10.0, 10.0]
    shared = host_pools(version_facts("0.5.17"), WINDOWED, 1, by_size(10))
    assert round(host_bytes(shared) / GB, 2) == 10.0
    kv, swa = (pool.allocated_bytes for pool in WINDOWED)
    assert shared[0].bytes_per_rank / shared[1].bytes_per_rank == pytest.approx(kv / swa, rel=1e-3)


def test_the_index_has_the_tokens_of_the_kv_pool_whatever_was_asked_for() -> None:
    facts = version_facts("0.5.23")
    for sizing in (by_ratio(2.0), by_size(10)):
        kv, index = host_pools(facts, INDEXED, 64, sizing)
        assert (index.kind, index.tokens, index.bytes_per_token) == ("indexer", kv.tokens, 10_000)
    # A size is that of the rows alone; the keys come on top.
    assert host_pools(facts, INDEXED, 64, by_size(10))[0].bytes_per_rank == pytest.approx(10 * GB, rel=1e-3)


def test_rows_and_keys_were_one_pool_before_0_5_11() -> None:
    (both,) = host_pools(version_facts("0.5.9"), INDEXED, 64, by_ratio(2.0))
    assert both.bytes_per_token == 100_000


def test_a_draft_has_the_tokens_of_its_target() -> None:
    device = (*INDEXED[:1], DevicePool("draft", 6_400, 576, 64))
    kv, draft = host_pools(version_facts("0.5.23"), device, 64, by_ratio(2.0))
    assert (draft.kind, draft.tokens) == ("draft", kv.tokens)


@pytest.mark.parametrize(
    ("config", "last_without", "first_with"),
    [(GPT_OSS, "0.5.12", "0.5.13"), (QWEN3_NEXT, "0.5.9", "0.5.10")],
)
def test_releases_without_a_host_pool_are_refused(config: dict[str, Any], last_without: str, first_with: str) -> None:
    attention = attention_from_config(config)
    with pytest.raises(Refusal) as refusal:
        check_host_pools(version_facts(last_without), attention)
    assert refusal.value.code == "hicache_unsupported"
    assert first_with in refusal.value.message
    check_host_pools(version_facts(first_with), attention)


def test_index_values_have_no_host_pool() -> None:
    with pytest.raises(Refusal) as refusal:
        check_host_pools(version_facts("0.5.23"), attention_from_config(MINIMAX_M3))
    assert "values" in refusal.value.message
    keys_only = {**MINIMAX_M3, "sparse_attention_config": {**MINIMAX_M3["sparse_attention_config"]}}
    keys_only["sparse_attention_config"]["sparse_disable_index_value"] = [1, 1, 1, 1]
    check_host_pools(version_facts("0.5.23"), attention_from_config(keys_only))


def test_copies_that_ranks_hold() -> None:
    deepseek, llama = attention_from_config(DEEPSEEK_V3), attention_from_config(LLAMA_8B)
    assert copies_of(deepseek, "kv", 8) == 1
    assert [copies_of(llama, "kv", ranks) for ranks in (1, 4, 8, 16)] == [1, 4, 8, 8]
    assert copies_of(attention_from_config(GLM_5), "indexer", 8) == 1
    assert copies_of(attention_from_config(QWEN3_NEXT), "mamba", 8) == 8
    assert [copies_of(attention_from_config(MIMO), kind, 8) for kind in ("kv", "swa")] == [4, 8]
    assert [copies_of(attention, "draft", 8) for attention in (deepseek, llama)] == [1, 8]


def pools_of(family: str, gib: float, version: str) -> tuple[DevicePool, ...]:
    attention, facts = attention_from_config(BY_FAMILY[family]), pool_facts(version)
    cells, budget, states = cell_sizes(attention, Layout(), CacheType("bfloat16", 2, 2), facts), gib * GIB, None
    if attention.state is not None:
        states = plan_states(attention.state, 1, budget, StateRequest(), facts)
        budget = states.left_bytes
    return device_pools(attention, cells, facts, budget, 64, states=states).pools


CASES = (
    st.sampled_from(sorted(BY_FAMILY)),
    st.floats(16.0, 150.0),
    st.floats(1.0, 2000.0),
    st.sampled_from(["0.5.16", "0.5.18", "0.5.23"]),
)


@given(*CASES)
def test_the_largest_ratio_fits_and_the_next_does_not(family: str, gib: float, room: float, version: str) -> None:
    facts, device, limit = version_facts(version), pools_of(family, gib, version), int(room * GIB)
    ratio = largest_ratio_of(facts, device, 64, limit)
    if ratio is None:
        assert host_bytes(host_pools(facts, device, 64, by_ratio(0.01))) > limit
        return
    assert host_bytes(host_pools(facts, device, 64, by_ratio(ratio))) <= limit
    assert host_bytes(host_pools(facts, device, 64, by_ratio(round(ratio * 100 + 1) / 100))) > limit


@given(*CASES)
def test_the_largest_size_fits_and_the_next_does_not(family: str, gib: float, room: float, version: str) -> None:
    facts, device, limit = version_facts(version), pools_of(family, gib, version), int(room * GIB)
    size = largest_size_of(facts, device, 64, limit)
    if size is None:
        assert host_bytes(host_pools(facts, device, 64, by_size(1))) > limit
        return
    assert host_bytes(host_pools(facts, device, 64, by_size(size))) <= limit
    assert host_bytes(host_pools(facts, device, 64, by_size(size + 1))) > limit


@given(*CASES)
def test_more_ratio_never_takes_less(family: str, gib: float, _room: float, version: str) -> None:
    facts, device = version_facts(version), pools_of(family, gib, version)
    taken = [host_bytes(host_pools(facts, device, 64, by_ratio(ratio))) for ratio in (1.0, 1.5, 2.0, 4.0)]
    assert taken == sorted(taken)
    # Twice the device pools, but for pages.
    assert taken[2] == pytest.approx(2 * mirrored_bytes(device), rel=0.02)


def test_every_pool_has_to_be_larger_than_its_device_pool_to_0_5_14() -> None:
    needed = sum(pool.allocated_bytes for pool in INDEXED)
    assert largest_ratio_of(version_facts("0.5.14"), INDEXED, 64, needed // 2) is None
    assert largest_ratio_of(version_facts("0.5.15"), INDEXED, 64, needed // 2) is not None
