# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.context_memory import context_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    GIB,
    KIMI,
    MIB,
    TINY,
    founding,
    planned,
    rehearsal,
)

LLAMA_8B = {
    "name": "Llama-3.1-8B",
    "architecture": "LlamaForCausalLM",
    "dtype": "bfloat16",
    "attention": {"num_layers": 32, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128},
    "weights": {"total_bytes": 16 * 10**9},
}


def one_gpu(**changes: Any) -> dict[str, Any]:
    arguments = {
        "sglang_version": "0.5.23",
        "model": LLAMA_8B,
        "topology": {
            "gpus": [{"index": 0, "memory_total_bytes": 81559 * MIB, "numa_node": 0, "compute_capability": "9.0"}],
            "numa_nodes": [{"id": 0}],
            "host": {"memory_available_bytes": 500 * 10**9},
        },
        "server": {},
        "hicache": {"enabled": False},
    }
    arguments.update(changes)
    return arguments


def test_default_fraction_is_used_and_explained() -> None:
    plan = planned(one_gpu())
    assert plan["device"]["mem_fraction_source"] == "default"
    assert any("mem_fraction_static of SGLang 0.5.23 = (81,559 - 13,904) MiB" in line for line in plan["explanation"])
    # 10 GiB floor of cards above 60 GiB does not bind: 512 + 1.5 x 8192 + 2 x 256 + 128 + 58 x 8 MiB.
    assert plan["device"]["mem_fraction_static"] == round((81559 - 13904) / 81559, 3)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"model": KIMI}, "mem_fraction_static_unknown"),
        ({"server": {"mem_fraction_static": 88}}, "mem_fraction_static_out_of_range"),
        ({"server": {"mem_fraction_static": 0.15}}, "kv_budget_empty"),
        ({"model": {**LLAMA_8B, "weights": {}}}, "weights_unknown"),
    ],
)
def test_what_cannot_be_budgeted_is_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal) as refusal:
        planned(one_gpu(**changes))
    assert refusal.value.code == code


@pytest.mark.parametrize("fraction", [None, 0.8])
def test_a_measured_budget_that_holds_nothing_is_named_for_what_it_is(fraction: float | None) -> None:
    """Neither a fraction nor more GPUs would make anything of it."""
    topology = None if fraction else {"gpus": [{"index": 0}]}
    changes: dict[str, Any] = {} if topology is None else {"topology": topology}
    with pytest.raises(Refusal) as refusal:
        planned(one_gpu(observed={"kv_pool_bytes": 1000}, server={"mem_fraction_static": fraction}, **changes))
    assert refusal.value.code == "kv_budget_empty"
    assert "observed.kv_pool_bytes is 1,000 bytes" in refusal.value.message
    assert "None" not in str(refusal.value)
    assert "larger GPUs" not in refusal.value.remedy
    assert "tensor_parallel_size" not in refusal.value.remedy
    assert "leave it out" in refusal.value.remedy


def test_budget_from_measured_memory_follows_the_formula() -> None:
    # 95.6 and 21.89 GiB of the record, to two decimals: 159,184.9 tokens, within their rounding of 159,277.
    arguments = founding(
        observed={"kv_pool_bytes": None, "available_after_load_bytes": int(21.89 * GIB), "idle_bytes_per_gpu": None}
    )
    plan = planned(arguments)
    assert plan["device"]["max_total_num_tokens"] == 159_184
    assert plan["device"]["weights_bytes"] == int(95.6 * GIB) - int(21.89 * GIB)


def test_multimodal_reservation_is_taken_off_where_the_release_does() -> None:
    observed = {"kv_pool_bytes": None, "available_after_load_bytes": 22 * GIB}
    old = planned(founding(observed=observed, hicache={"ratio": 1.0}))
    new = planned(founding(observed=observed, hicache={"ratio": 1.0}, sglang_version="0.5.23"))
    lost = old["device"]["max_total_num_tokens"] - new["device"]["max_total_num_tokens"]
    assert lost == pytest.approx(100 * MIB / 70_272, abs=1)


def test_observed_budget_moves_with_the_fraction() -> None:
    plan = planned(founding(server={"mem_fraction_static": 0.89}, hicache={"ratio": 2.0}))
    more = int(95.6 * GIB * (0.89 - 0.88))
    assert plan["device"]["max_total_num_tokens"] == (11_192_713_344 + more) // 70_272


def test_raised_fraction_gives_idle_bytes_less_the_margin() -> None:
    raised = planned(founding())["device"]["raise"]
    assert raised["mem_fraction_static"] == 0.927
    assert raised["gained_bytes"] <= 7 * 10**9 - 2 * GIB
    # One digit more would go into the margin.
    assert int(95.6 * GIB * (0.928 - 0.88)) > 7 * 10**9 - 2 * GIB
    assert raised["max_total_num_tokens"] == (11_192_713_344 + raised["gained_bytes"]) // 70_272
    assert raised["gained_tokens"] == raised["max_total_num_tokens"] - 159_277


@pytest.mark.parametrize(
    "changes",
    [
        {"observed": {"idle_bytes_per_gpu": 2 * GIB}},
        {"observed": {"idle_bytes_per_gpu": None}},
        {"margin_bytes": 8 * GIB},
    ],
)
def test_no_raise_without_idle_bytes_above_the_margin(changes: dict[str, Any]) -> None:
    assert planned(founding(**changes))["device"]["raise"] is None


def test_smallest_card_counts() -> None:
    topology = {
        "gpus": [
            {"index": 0, "memory_total_bytes": 81559 * MIB, "compute_capability": "9.0"},
            {"index": 1, "memory_total_bytes": 46068 * MIB, "compute_capability": "8.9"},
        ],
        "host": {"memory_available_bytes": 500 * 10**9},
    }
    both = planned(one_gpu(topology=topology, server={"tensor_parallel_size": 2, "mem_fraction_static": 0.8}))
    assert both["device"]["available_before_load_bytes"] == 46068 * MIB - context_bytes(2, (9, 0))


def test_tokens_are_whole_pages() -> None:
    plan = planned(founding(server={"page_size": 64}))
    assert plan["device"]["max_total_num_tokens"] == 159_277 // 64 * 64


def test_token_cap_on_a_gpu_binds_or_is_warned_of() -> None:
    capped = planned(founding(server={"max_total_tokens": 100_000}))
    assert capped["device"]["max_total_num_tokens"] == 100_000
    wide = planned(founding(server={"max_total_tokens": 1_000_000}))
    assert wide["device"]["max_total_num_tokens"] == 159_277
    assert "token_cap_not_reached" in [item["code"] for item in wide["warnings"]]


def test_cpu_takes_its_tokens_from_the_cap() -> None:
    plan = planned(rehearsal())
    assert plan["device"]["bytes_per_token"] == 2048
    assert plan["device"]["max_total_num_tokens"] == 65_536
    assert plan["device"]["mem_fraction_static"] is None
    with pytest.raises(Refusal) as refusal:
        planned(rehearsal(server={"max_total_tokens": None}))
    assert refusal.value.code == "token_cap_missing"


def test_quantised_cache_halves_the_bytes() -> None:
    assert planned(rehearsal(server={"kv_cache_dtype": "fp8_e4m3"}))["device"]["bytes_per_token"] == 1024
    assert TINY["dtype"] == "bfloat16"
