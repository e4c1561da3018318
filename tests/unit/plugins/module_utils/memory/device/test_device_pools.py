# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import CacheType
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    Layout,
    cell_sizes,
    token_budget,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import (
    StateRequest,
    plan_states,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import (
    DevicePool,
    DevicePools,
    describe,
    device_pools,
    pools_of_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    BY_FAMILY,
    GLM_5,
    GPT_OSS,
    LLAMA_8B,
    QWEN3_NEXT,
)

GIB = 1 << 30
BF16 = CacheType("bfloat16", 2, 2)


def divided(
    config: dict[str, Any], budget: float, version: str = "0.5.23", page: int = 1, cap: int | None = None, **more: Any
) -> DevicePools:
    attention, facts = attention_from_config(config), pool_facts(version)
    cells, states = cell_sizes(attention, Layout(), BF16, facts), None
    if attention.state is not None:
        states = plan_states(attention.state, 1, budget, StateRequest(), facts)
        budget = states.left_bytes
    return device_pools(attention, cells, facts, budget, page, cap, states=states, **more)


def test_plain_tokens_in_whole_pages_with_a_page_for_padding() -> None:
    found = divided(LLAMA_8B, 131_072 * 1000 + 5, page=64)
    assert (found.tokens, found.profiled) == (960, 960)
    assert found.pools == (DevicePool("kv", 960, 131_072, 64),)
    assert found.pools[0].used_bytes == 960 * 131_072
    assert found.pools[0].allocated_bytes == 1024 * 131_072
    assert describe(found.pools) == []


def test_a_cap_binds_from_above_only() -> None:
    assert divided(LLAMA_8B, 131_072 * 1000, cap=500, page=64).tokens == 448
    found = divided(LLAMA_8B, 131_072 * 1000, cap=5000)
    assert (found.tokens, found.profiled) == (1000, 1000)


def test_the_index_is_a_pool_with_the_same_tokens() -> None:
    found = divided(GLM_5, (1152 + 132) * 78 * 6400, page=64)
    assert found.pools == (DevicePool("kv", 6400, 1152 * 78, 64), DevicePool("indexer", 6400, 132 * 78, 64))
    assert len(describe(found.pools)) == 2


# GPT-OSS: 36,864 bytes a token in the full layers and as many in the windows.
def test_one_budget_for_both_pools() -> None:
    found = divided(GPT_OSS, 36_864 * 1.8 * 10_000)
    assert (found.tokens, found.slots("swa")) == (10_000, 8_000)
    assert "window tokens = 10,000 x 0.8 = 8,000" in found.explanation


def test_two_steps_before_0_5_11() -> None:
    """Whole tokens of both pools first, 9,000 here; then their bytes once more, by the ratio."""
    found = divided(GPT_OSS, 36_864 * 2 * 9_000, version="0.5.9")
    assert (found.tokens, found.slots("swa")) == (10_000, 8_000)
    # A cap counts tokens of both pools as well, and so is not the number that comes out.
    capped = divided(GPT_OSS, 36_864 * 2 * 9_000, version="0.5.9", cap=900)
    assert capped.tokens == 1_000


def test_windows_are_a_part_of_whole_pages_in_0_5_10() -> None:
    """9,050 tokens of both become 10,055 full ones: 0.8 of them is 8,044, and 0.8 of their whole pages 8,042."""
    budget, page = 36_864 * 2 * 9_050, 2
    before, after = (divided(GPT_OSS, budget, version, page) for version in ("0.5.9", "0.5.10"))
    assert (before.tokens, before.slots("swa")) == (10_054, 8_044)
    assert (after.tokens, after.slots("swa")) == (10_054, 8_042)


def test_other_ratios_of_windows() -> None:
    found = divided(GPT_OSS, 36_864 * 1.5 * 10_000, window_ratio=0.5)
    assert (found.tokens, found.slots("swa")) == (10_000, 5_000)


@pytest.mark.parametrize(("version", "refused"), [("0.5.15", False), ("0.5.16", True)])
def test_a_window_pool_below_one_request_is_refused_from_0_5_16_on(version: str, refused: bool) -> None:
    budget = 36_864 * 1.8 * 150  # 120 tokens for windows of 128
    if not refused:
        assert divided(GPT_OSS, budget, version).slots("swa") == 120
        return
    with pytest.raises(Refusal) as refusal:
        divided(GPT_OSS, budget, version)
    assert refusal.value.code == "window_pool_too_small"


def test_states_are_a_pool_with_a_slot_for_padding() -> None:
    found = divided(QWEN3_NEXT, 40 * GIB)
    states = next(pool for pool in found.pools if pool.kind == "mamba")
    assert (states.padding, found.slots("kv")) == (1, found.tokens)
    assert any("state pool" in line for line in describe(found.pools))


def test_pools_of_a_number_of_tokens() -> None:
    facts, attention = pool_facts("0.5.23"), attention_from_config(GPT_OSS)
    cells = cell_sizes(attention, Layout(), BF16, facts)
    found = pools_of_tokens(attention, cells, facts, 10_010, 64)
    assert (found.tokens, found.slots("swa")) == (9_984, 7_936)
    old = pools_of_tokens(attention, cells, pool_facts("0.5.9"), 9_000, 1)
    assert (old.tokens, old.slots("swa")) == (10_000, 8_000)


VERSIONS = ["0.5.16", "0.5.17", "0.5.18", "0.5.23"]


@given(
    st.sampled_from(sorted(BY_FAMILY)),
    st.floats(16.0, 400.0),
    st.sampled_from(VERSIONS),
    st.sampled_from([1, 16, 64]),
)
def test_pools_never_take_more_than_the_budget_and_leave_less_than_a_page(
    family: str, gib: float, version: str, page: int
) -> None:
    found, facts = divided(BY_FAMILY[family], gib * GIB, version, page), pool_facts(version)
    used = sum(pool.used_bytes for pool in found.pools)
    assert used <= gib * GIB
    assert all(pool.slots % page == 0 for pool in found.pools if pool.kind != "mamba")
    cells = cell_sizes(attention_from_config(BY_FAMILY[family]), Layout(), BF16, facts)
    states = max((pool.bytes_per_slot for pool in found.pools if pool.kind == "mamba"), default=0)
    assert gib * GIB - used < (page + 2) * token_budget(cells, facts, 0.8) * 2 + 3 * states


@given(st.sampled_from(sorted(BY_FAMILY)), st.floats(16.0, 200.0), st.floats(0.0, 200.0))
def test_more_memory_never_gives_fewer_tokens(family: str, gib: float, more: float) -> None:
    assert divided(BY_FAMILY[family], (gib + more) * GIB).tokens >= divided(BY_FAMILY[family], gib * GIB).tokens
