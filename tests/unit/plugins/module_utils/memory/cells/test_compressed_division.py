# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import planned
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.compressed_models import (
    SMALL_V4,
    request_for,
)

ATTENTION = attention_from_config(SMALL_V4).as_dict()


def state_slots(**server: Any) -> int:
    pools = planned(request_for(ATTENTION, server=server))["device"]["pools"]
    return int(next(pool["slots"] for pool in pools if pool["kind"] == "c128_state"))


def test_requests_are_256_unless_asked_and_divided_over_groups() -> None:
    assert state_slots() == 257 * 128
    assert state_slots(max_running_requests=64) == 65 * 128
    assert state_slots(max_running_requests=64, attention_data_parallel_size=2) == 33 * 128
    assert state_slots(max_running_requests=1, attention_data_parallel_size=2) == 2 * 128


def test_pages_backend_and_type_are_the_models_own() -> None:
    found = planned(request_for(ATTENTION, server={"page_size": 64, "attention_backend": "dsv4"}))
    assert found["device"]["page_size"] == 256
    assert found["device"]["max_total_num_tokens"] % 256 == 0


def test_a_share_of_the_windows_is_taken_from_its_flag() -> None:
    found = planned(request_for(ATTENTION, server={"extra_arguments": {"swa-full-tokens-ratio": 0.5}}))
    slots = {pool["kind"]: pool["slots"] for pool in found["device"]["pools"]}
    assert slots["swa"] == found["device"]["max_total_num_tokens"] // 2 // 256 * 256


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"server": {"attention_backend": "fa3"}}, "attention_backend_overridden"),
        ({"server": {"kv_cache_dtype": "bfloat16"}}, "kv_cache_dtype_unplanned"),
        ({"server": {"extra_arguments": {"dsv4-attn-backend": "trtllm"}}}, "extra_argument_unplanned"),
        ({"server": {"extra_arguments": {"enable-deepseek-v4-fp4-indexer": True}}}, "extra_argument_unplanned"),
        ({"speculative": {"algorithm": "EAGLE"}}, "speculative_unplanned"),
        ({"release": "0.5.11"}, "architecture_too_new"),
    ],
)
def test_what_is_not_counted_is_refused(more: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal) as refusal:
        planned(request_for(ATTENTION, **more))
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"compress_ratios": [0, 0, 4, 128, 4, 128, 4, 2, 4, 0]}, "architecture_unplanned"),
        ({"index_head_dim": 64}, "architecture_unplanned"),
        ({"head_dim": 256}, "architecture_unplanned"),
        ({"compress_ratios": [4, 128]}, "model_config_incomplete"),
        ({"compress_ratios": [True] * 10}, "model_config_incomplete"),
        ({"compress_ratios": None}, "model_config_incomplete"),
        ({"sliding_window": 0}, "model_config_incomplete"),
    ],
)
def test_configurations_that_were_not_read_are_refused(changed: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal) as refusal:
        attention_from_config({**SMALL_V4, **changed})
    assert refusal.value.code == code


@pytest.mark.parametrize("part", [None, {}, {"ratios": [4]}, {**ATTENTION["compressed"], "ratios": [3] * 9}])
def test_facts_on_paper_are_checked_alike(part: Any) -> None:
    with pytest.raises(Refusal) as refusal:
        planned(request_for({**ATTENTION, "compressed": part}))
    assert refusal.value.code in ("model_config_incomplete", "architecture_unplanned")
