# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import (
    StatePlan,
    StateRequest,
    plan_states,
    slot_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import State
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    KIMI_LINEAR,
    QWEN3_NEXT,
)

GIB = 1 << 30


def state_of(config: dict[str, Any]) -> State:
    state = attention_from_config(config).state
    assert state is not None
    return state


QWEN, KIMI = state_of(QWEN3_NEXT), state_of(KIMI_LINEAR)
# The tail of the convolution over values and both keys, and 32 heads of 128 x 128 float32.
QWEN_LAYER = (4096 + 2 * 2048) * 3 * 2 + 32 * 128 * 128 * 4


def planned(budget: float = 40 * GIB, version: str = "0.5.23", **request: Any) -> StatePlan:
    return plan_states(QWEN, 1, budget, StateRequest(**request), pool_facts(version))


def test_bytes_of_a_state() -> None:
    assert slot_bytes(QWEN, 1) == QWEN_LAYER * 36
    assert slot_bytes(QWEN, 4) == QWEN_LAYER * 36 // 4
    assert slot_bytes(QWEN, 1, layers=3) == QWEN_LAYER * 3
    assert slot_bytes(QWEN, 1, dtype="bfloat16") == (QWEN_LAYER - 32 * 128 * 128 * 2) * 36
    assert slot_bytes(KIMI, 8) == ((4096 * 3) // 8 * 3 * 2 + 4 * 128 * 128 * 4) * 20


def test_groups_are_replicated_until_every_rank_has_one() -> None:
    one_group = State((0,), 4096, 1, 64, 64, 128, 4)
    assert slot_bytes(one_group, 8) == (4096 // 8 + 2 * 128) * 3 * 2 + 8 * 64 * 128 * 4


def test_short_convolutions_keep_their_tail_only() -> None:
    assert slot_bytes(State((0, 1), 2048, 1, 1, 2048, 0, 3), 4) == 512 * 2 * 2 * 2


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        slot_bytes(QWEN, 64)
    assert refusal.value.code == "tensor_parallel_uneven"


@pytest.mark.parametrize(("version", "padding"), [("0.5.16", 0), ("0.5.17", 1)])
def test_the_padding_slot_is_counted_from_0_5_17_on(version: str, padding: int) -> None:
    found, slot = planned(version=version), QWEN_LAYER * 36
    part = 40 * GIB * 0.9 / 1.9
    assert found.slots == int((part - slot * padding) // slot)
    assert found.left_bytes == 40 * GIB - (found.slots + padding) * slot
    # The pool has it in every release.
    assert (found.padding_slots, found.bytes_per_slot) == (1, slot)


def test_slots_that_are_asked_for_are_divided_between_replicas() -> None:
    assert planned(slots=60).slots == 60
    assert planned(slots=60, replicas=4).slots == 15
    assert planned(radix_cache=False, running_requests=32).slots == 32


def test_states_of_drafts_are_taken_before_or_with_the_slots() -> None:
    asked: dict[str, Any] = {"draft_tokens": 4, "running_requests": 32}
    slot = QWEN_LAYER * 36
    before = planned(version="0.5.9", **asked)
    assert before.draft_bytes == slot * 32 * 4
    assert before.slots == int((40 * GIB - slot * 32 * 4) * 0.9 / 1.9 // slot)
    joint = planned(version="0.5.13", **asked)
    assert joint.slots == int(40 * GIB * 0.9 / 1.9 // (slot * (1 + 4 / 3)))
    assert joint.draft_bytes == slot * min(32, joint.slots // 3) * 4
    padded = planned(version="0.5.17", **asked)
    assert padded.slots == int((40 * GIB * 0.9 / 1.9 - slot * 5) // (slot * (1 + 4 / 3)))


def test_drafts_need_a_number_of_requests() -> None:
    with pytest.raises(Refusal) as refusal:
        planned(draft_tokens=4)
    assert refusal.value.code == "running_requests_missing"


def test_a_budget_without_a_state_is_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        planned(budget=GIB / 8)
    assert refusal.value.code == "state_pool_empty"


def test_stages_are_charged_their_own_layers_from_0_5_17_on() -> None:
    layers = (9, 9, 18)
    half = plan_states(QWEN, 1, 40 * GIB, StateRequest(), pool_facts("0.5.17"), layers)
    whole = plan_states(QWEN, 1, 40 * GIB, StateRequest(), pool_facts("0.5.16"), layers)
    assert half.slots > whole.slots
    assert whole.slots == planned(version="0.5.16").slots


@given(st.floats(2.0, 500.0), st.floats(0.05, 5.0), st.sampled_from(["0.5.9", "0.5.13", "0.5.17", "0.5.23"]))
def test_states_stay_within_their_share(gib: float, ratio: float, version: str) -> None:
    budget = gib * GIB
    try:
        found = planned(budget, version, ratio=ratio)
    except Refusal as refusal:
        assert budget * ratio / (1 + ratio) < 2 * QWEN_LAYER * 36
        assert refusal.code == "state_pool_empty"
        return
    assert found.slots * QWEN_LAYER * 36 <= budget * ratio / (1 + ratio)
    assert 0 <= found.left_bytes <= budget
    assert planned(budget * 2, version, ratio=ratio).slots >= 2 * found.slots
