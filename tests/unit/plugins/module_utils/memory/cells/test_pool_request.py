# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.pool_request import (
    attention_in_force,
    forced_page_size,
    pool_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    GLM_5,
    GPT_OSS,
    LLAMA_8B,
    MIMO,
)


def test_defaults_are_those_of_sglang() -> None:
    asked = pool_request({})
    assert (asked.window_ratio, asked.states.ratio, asked.states.slots, asked.states.radix_cache) == (
        0.8,
        0.9,
        None,
        True,
    )


def test_flags_are_read_however_they_are_spelt() -> None:
    asked = pool_request(
        {
            "--swa-full-tokens-ratio": "0.5",
            "mamba_full_memory_ratio": 1.5,
            "max-mamba-cache-size": "60",
            "mamba-ssm-dtype": "bfloat16",
            "mamba_scheduler_strategy": "extra_buffer",
            "disable-radix-cache": True,
            "dsa-decode-backend": "trtllm",
        }
    )
    assert asked.window_ratio == 0.5
    assert (asked.states.ratio, asked.states.slots, asked.states.dtype) == (1.5, 60, "bfloat16")
    assert (asked.state_strategy, asked.states.radix_cache) == ("extra_buffer", False)
    assert asked.index_backends == frozenset({"trtllm"})


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("swa-full-tokens-ratio", 0),
        ("swa-full-tokens-ratio", 1.5),
        ("swa-full-tokens-ratio", "much"),
        ("swa-full-tokens-ratio", True),
        ("swa-full-tokens-ratio", float("nan")),
        ("mamba-full-memory-ratio", -1),
        ("max-mamba-cache-size", 0),
        ("max-mamba-cache-size", "60.5"),
        ("mamba-ssm-dtype", "float8"),
    ],
)
def test_malformed_values_name_the_flag(flag: str, value: object) -> None:
    with pytest.raises(Refusal) as refusal:
        pool_request({flag: value})
    assert refusal.value.code == "value_malformed"
    assert flag in refusal.value.message


@pytest.mark.parametrize("flag", ["enable-hisparse", "enable-linear-replayssm", "enable-kv-cache-sharding"])
def test_flags_whose_pools_are_not_counted_are_refused(flag: str) -> None:
    with pytest.raises(Refusal) as refusal:
        pool_request({flag: True})
    assert refusal.value.code == "extra_argument_unplanned"
    assert pool_request({flag: False}) == pool_request({})


def in_force(config: dict[str, Any], version: str, flags: dict[str, Any], **more: Any) -> tuple[str, str | None]:
    settings: dict[str, Any] = {"attention_backend": None, "hicache": False, "blackwell": False, **more}
    attention, cause = attention_in_force(
        config["architectures"][0], attention_from_config(config), version, pool_request(flags), **settings
    )
    return attention.family, cause


def test_what_switches_the_window_pool_off() -> None:
    assert in_force(GPT_OSS, "0.5.9", {}) == ("swa", None)
    assert in_force(GPT_OSS, "0.5.9", {}, attention_backend="trtllm_mha") == ("gqa", "trtllm_mha")
    # The default of Blackwell.
    assert in_force(GPT_OSS, "0.5.9", {}, blackwell=True) == ("gqa", "trtllm_mha")
    assert in_force(GPT_OSS, "0.5.10", {}, blackwell=True) == ("swa", None)
    whole = {"disable-hybrid-swa-memory": True}
    assert in_force(GPT_OSS, "0.5.23", whole) == ("gqa", "disable-hybrid-swa-memory")
    assert in_force(LLAMA_8B, "0.5.23", whole) == ("gqa", None)


def test_windows_with_heads_of_their_own_cannot_be_kept_whole() -> None:
    with pytest.raises(Refusal) as refusal:
        in_force(MIMO, "0.5.13", {}, hicache=True)
    assert refusal.value.code == "architecture_unplanned"
    assert "hicache" in refusal.value.message
    assert in_force(MIMO, "0.5.23", {}, hicache=True) == ("swa", None)


def test_pages_of_the_index() -> None:
    assert forced_page_size(attention_from_config(GLM_5)) == 64
    assert forced_page_size(attention_from_config(LLAMA_8B)) is None
