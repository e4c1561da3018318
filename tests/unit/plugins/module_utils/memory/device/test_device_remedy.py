# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import GPT_OSS
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding, planned

WINDOWED: dict[str, Any] = {
    "name": "gpt-oss-120b",
    "architecture": "GptOssForCausalLM",
    "dtype": "bfloat16",
    "attention": attention_from_config(GPT_OSS).as_dict(),
    "weights": {"total_bytes": 65 * 10**9},
}


def windowed(**server: Any) -> dict[str, Any]:
    """Windows of 128 tokens, on whose pool SGLang 0.5.23 insists."""
    return founding(
        sglang_version="0.5.23",
        model=WINDOWED,
        observed={"kv_pool_bytes": None, "mem_fraction_static": None, "idle_bytes_per_gpu": None},
        hicache={"enabled": False},
        server={"mem_fraction_static": None, **server},
    )


def refusal_of(arguments: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        planned(arguments)
    return refusal.value


@pytest.mark.parametrize(
    "server",
    [
        {"mem_fraction_static": 0.8},
        {"mem_fraction_static": 0.8, "page_size": 64},
        {"mem_fraction_auto": True},
        {"device": "cpu", "page_size": 1},
    ],
)
def test_a_cap_below_a_window_is_told_the_smallest_that_holds_one(server: dict[str, Any]) -> None:
    refusal = refusal_of(windowed(max_total_tokens=130, **server))
    assert refusal.code == "window_pool_too_small"
    least: Any = refusal.evidence["smallest_max_total_tokens"]
    assert f"Set server.max_total_tokens to {least} or more" in refusal.remedy
    assert planned(windowed(max_total_tokens=least, **server))["device"]["max_total_num_tokens"] > 128
    assert refusal_of(windowed(max_total_tokens=least - 1, **server)).code == "window_pool_too_small"


def test_what_the_smallest_cap_meets_next_is_told_with_it() -> None:
    arguments = windowed(max_total_tokens=130, mem_fraction_static=0.8)
    arguments["hicache"] = {"size_gb": 300}
    refusal = refusal_of(arguments)
    assert refusal.code == "window_pool_too_small"
    following: Any = refusal.evidence["then"]
    arguments["server"]["max_total_tokens"] = refusal.evidence["smallest_max_total_tokens"]
    assert refusal_of(arguments).code == following["code"]
