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
    Layout,
    cell_sizes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import (
    StateRequest,
    plan_states,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import (
    DevicePool,
    device_pools,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_RATIO, BY_SIZE, Pool, Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import resolve_allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_pools import (
    check_host_pools,
    copies_of,
    host_bytes,
    host_pools,
    larger_than_device,
    mirrored_bytes,
    stages_of_host,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
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


@pytest.mark.parametrize(("page_size", "spare_tokens"), [(64, 64), (1, 2)])
def test_index_keys_of_latent_attention_are_pinned_for_a_page_more(page_size: int, spare_tokens: int) -> None:
    kept, keys = INDEXED
    latent = (kept, replace(keys, index_bytes_per_slot=keys.bytes_per_slot))
    for release in ("0.5.9", "0.5.11", "0.5.23"):
        *_rows, last = host_pools(version_facts(release), latent, page_size, by_ratio(2.0))
        assert last.pinned_bytes == last.bytes_per_rank + spare_tokens * 10_000
        # Keys of sparse attention have no such page.
        for pool in host_pools(version_facts(release), INDEXED, page_size, by_ratio(2.0)):
            assert pool.pinned_bytes == pool.bytes_per_rank


def test_pipeline_stages_of_one_size_keep_the_page_more_of_their_index_keys() -> None:
    facts = version_facts("0.5.23")
    keys = DevicePool("indexer", 6_400, 10_000, 64, 10_000)
    stages = [(INDEXED[0], keys), (replace(INDEXED[0], bytes_per_slot=180_000), keys)]
    built = stages_of_host(facts, stages, 64, by_size(10), resolve_allocation(facts, HiCacheRequest()))
    assert [pools[1].tokens for pools in built] == [built[1][0].tokens] * 2
    assert [pools[1].pinned_bytes - pools[1].bytes_per_rank for pools in built] == [640_000] * 2


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


def test_values_of_another_width_have_no_host_pool_before_0_5_14() -> None:
    attention = replace(attention_from_config(LLAMA_8B), v_head_dim=64)
    for release in ("0.5.11", "0.5.13"):
        with pytest.raises(Refusal) as refusal:
            check_host_pools(version_facts(release), attention)
        assert "0.5.14" in refusal.value.message
    # Before 0.5.11 the device keeps both at the width of the keys.
    for release in ("0.5.10", "0.5.14"):
        check_host_pools(version_facts(release), attention)


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
def test_more_ratio_never_takes_less(family: str, gib: float, _room: float, version: str) -> None:
    facts, device = version_facts(version), pools_of(family, gib, version)
    taken = [host_bytes(host_pools(facts, device, 64, by_ratio(ratio))) for ratio in (1.0, 1.5, 2.0, 4.0)]
    assert taken == sorted(taken)
    # Twice the device pools, but for pages.
    assert taken[2] == pytest.approx(2 * mirrored_bytes(device), rel=0.02)


def test_every_pool_has_to_be_larger_than_its_device_pool_to_0_5_14() -> None:
    for release, taken in (("0.5.14", [False, True]), ("0.5.15", [True, True])):
        facts = version_facts(release)
        found = [
            larger_than_device(facts, INDEXED, host_pools(facts, INDEXED, 64, by_ratio(ratio))) for ratio in (0.5, 1.5)
        ]
        assert found == taken


def test_a_pool_of_nothing_is_never_taken() -> None:
    facts = version_facts("0.5.23")
    empty = [Pool("kv", 0, 100, 0)]
    assert not larger_than_device(facts, INDEXED, empty)


def test_torch_pins_the_next_power_of_two_to_0_5_4() -> None:
    device = (DevicePool("kv", 1_000, 70_272, 1),)
    for release, rounds in (("0.5.4", True), ("0.5.5", False)):
        facts = version_facts(release)
        allocation = resolve_allocation(facts, HiCacheRequest())
        (pool,) = host_pools(facts, device, 1, by_ratio(2.0), allocation)
        assert pool.bytes_per_rank == 2_000 * 70_272
        assert pool.pinned_bytes == (1 << 28 if rounds else pool.bytes_per_rank)


def test_a_size_gives_every_stage_the_tokens_of_the_poorest() -> None:
    stages = ((DevicePool("kv", 10_000, 40_000, 64),), (DevicePool("kv", 10_000, 50_000, 64),))
    for release, together in (("0.5.14", False), ("0.5.15", True)):
        facts = version_facts(release)
        allocation = resolve_allocation(facts, HiCacheRequest())
        first, second = stages_of_host(facts, stages, 64, by_size(10), allocation)
        assert (first[0].tokens == second[0].tokens) == together
        assert second[0].tokens == (10 * GB // 50_000 // 64 + 1) * 64
        # A ratio is of the tokens, which all stages share.
        first, second = stages_of_host(facts, stages, 64, by_ratio(2.0), allocation)
        assert first[0].tokens == second[0].tokens


def test_groups_of_attention_ranks_keep_caches_of_their_own() -> None:
    deepseek, llama = attention_from_config(DEEPSEEK_V3), attention_from_config(LLAMA_8B)
    assert [copies_of(deepseek, "kv", 8, groups) for groups in (1, 2, 8)] == [1, 2, 8]
    # Eight KV heads over sixteen ranks lie twice; over two groups of eight they do not.
    assert [copies_of(llama, "kv", 16, groups) for groups in (1, 2)] == [8, 16]
    assert copies_of(attention_from_config(QWEN3_NEXT), "mamba", 8, 2) == 8
