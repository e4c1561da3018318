# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.concurrency import (
    largest_context,
    requests_at,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest, plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.capacity.workloads import LLAMA, box
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import GPT_OSS, QWEN3_NEXT
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.compressed_models import SMALL_V4


def planned(model: dict[str, Any], budget_bytes: int, **server: Any) -> tuple[PlanRequest, DevicePlan]:
    request = plan_request(
        {
            "sglang_version": "0.5.23",
            "model": model,
            "topology": box(4),
            "server": {"tensor_parallel_size": 4, **server},
            "hicache": {"enabled": False},
            "observed": {"kv_pool_bytes": budget_bytes},
        }
    )
    return request, plan(request).device


def of(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "architecture": config["architectures"][0],
        "dtype": "bfloat16",
        "attention": plain(attention_from_config(config)),
        "weights": {"total_bytes": 10**10},
    }


def count(case: tuple[PlanRequest, DevicePlan], context: int) -> int:
    request, device = case
    return requests_at(device, request.model.attention, request.server, context)


def test_requests_take_whole_pages() -> None:
    # 32,768 bytes a token and rank, 10,000 tokens.
    case = planned(LLAMA, 32_768 * 10_000)
    assert case[1].max_total_num_tokens == 10_000
    assert (count(case, 1000), count(case, 1001), count(case, 10_001)) == (10, 9, 0)
    paged = planned(LLAMA, 32_768 * 10_000, page_size=64)
    assert paged[1].max_total_num_tokens == 9984
    # 1,000 tokens take 16 pages of 64.
    assert count(paged, 1000) == 9


def test_groups_of_attention_have_requests_of_their_own() -> None:
    one, four = planned(LLAMA, 10**9), planned(LLAMA, 10**9, attention_data_parallel_size=4)
    tokens = four[1].max_total_num_tokens
    assert count(four, 1000) == tokens // 1000 * 4
    assert count(one, 1000) == one[1].max_total_num_tokens // 1000


def test_running_requests_are_a_bound() -> None:
    assert count(planned(LLAMA, 32_768 * 10_000, max_running_requests=4), 1000) == 4


def test_windows_keep_no_more_than_a_window() -> None:
    case = planned(of(GPT_OSS), 10**9)
    slots = {pool.kind: pool.slots for pool in case[1].pools}
    assert count(case, 10_000) == slots["kv"] // 10_000
    # Of many short ones each keeps 129 in the window pool.
    assert count(case, 129) == slots["swa"] // 129 < slots["kv"] // 129


def test_states_are_a_bound_of_their_own() -> None:
    case = planned(of(QWEN3_NEXT), 4 * 10**9)
    slots = {pool.kind: pool.slots for pool in case[1].pools}
    states = case[1].division.asked.states
    assert count(case, 64) == slots["mamba"] // states.slots_per_request
    assert count(case, 64) < slots["kv"] // 64


def test_the_largest_context_is_the_last_that_serves_as_many() -> None:
    case = planned(LLAMA, 32_768 * 10_000)
    request, device = case
    most = largest_context(device, request.model.attention, request.server, 7)
    assert count(case, most) >= 7 > count(case, most + 1)
    assert largest_context(device, request.model.attention, request.server, 10_001) == 0


def test_compressed_windows_and_the_release_s_own_requests_bound_them() -> None:
    budget = 8 << 30
    wide = planned(of(SMALL_V4), budget, mem_fraction_static=0.9)
    _request, device = wide
    slots = {pool.kind: pool.slots for pool in device.pools}
    # A window of 128 tokens and a page take two pages of 256, and 256 requests run without more being asked for.
    assert count(wide, 4096) == min(device.max_total_num_tokens // 4096, slots["swa"] // 512, 256) == 256
    many = planned(of(SMALL_V4), budget, mem_fraction_static=0.9, max_running_requests=4000)
    slots = {pool.kind: pool.slots for pool in many[1].pools}
    assert count(many, 4096) == slots["swa"] // 512 < many[1].max_total_num_tokens // 4096
