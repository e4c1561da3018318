# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of models whose layers do not all keep heads of every token: one of each family, from facts to pools."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    DEEPSEEK_V3,
    GLM_5,
    GPT_OSS,
    KIMI_LINEAR,
    LLAMA_8B,
    MIMO,
    MINIMAX_M3,
    QWEN3_NEXT,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import GIB, changed, planned


def request(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Four 80 GB cards with 40 GiB left each, and plenty of host memory."""
    arguments: dict[str, Any] = {
        "sglang_version": "0.5.23",
        "model": {
            "name": "model",
            "architecture": config["architectures"][0],
            "dtype": "bfloat16",
            "attention": attention_from_config(config).as_dict(),
        },
        "topology": {
            "gpus": [
                {"index": i, "numa_node": 0, "memory_total_bytes": 80 * GIB, "compute_capability": "9.0"}
                for i in range(4)
            ],
            "numa_nodes": [{"id": 0}],
            "host": {"memory_available_bytes": 2000 * 10**9},
        },
        "server": {"tensor_parallel_size": 4, "mem_fraction_static": 0.88},
        "hicache": {"ratio": 2.0},
        "observed": {"kv_pool_bytes": 40 * GIB},
    }
    return changed(arguments, changes)


def refusal_of(arguments: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        planned(arguments)
    return refusal.value


def slots(plan: dict[str, Any]) -> dict[str, int]:
    return {pool["kind"]: pool["slots"] for pool in plan["device"]["pools"]}


@pytest.mark.parametrize(
    ("config", "device", "host"),
    [
        (LLAMA_8B, ["kv"], ["kv"]),
        (DEEPSEEK_V3, ["kv"], ["kv"]),
        (GLM_5, ["kv", "indexer"], ["kv", "indexer"]),
        (GPT_OSS, ["kv", "swa"], ["kv", "swa"]),
        (MIMO, ["kv", "swa"], ["kv", "swa"]),
        (QWEN3_NEXT, ["kv", "mamba"], ["kv", "mamba"]),
        (KIMI_LINEAR, ["kv", "mamba"], ["kv", "mamba"]),
    ],
)
def test_each_family_is_planned_by_pool(config: dict[str, Any], device: list[str], host: list[str]) -> None:
    plan = planned(request(config))
    assert [pool["kind"] for pool in plan["device"]["pools"]] == device
    assert [pool["kind"] for pool in plan["host"]["pools"]] == host
    assert sum(pool["allocated_bytes"] for pool in plan["device"]["pools"]) <= 40 * GIB * 1.01
    assert plan["device"]["kv_pool_bytes"] <= 40 * GIB
    pools = plan["host"]["pools"]
    assert plan["host"]["bytes_per_rank"] == sum(pool["bytes_per_rank"] for pool in pools)
    assert plan["host"]["bytes_total"] == 4 * plan["host"]["bytes_per_rank"]
    # Twice as many of everything on the host.
    for pool in pools:
        kind = "kv" if pool["kind"] == "indexer" else pool["kind"]
        assert pool["tokens"] == pytest.approx(2 * slots(plan)[kind], abs=64)


def test_states_are_taken_before_the_tokens() -> None:
    plan = planned(request(QWEN3_NEXT, hicache={"enabled": False}))
    explained = "\n".join(plan["explanation"])
    # 0.9 / 1.9 of 40 GiB, in states of 77,266,944 / 4 bytes and one for padding.
    assert slots(plan)["mamba"] == int(40 * GIB * 0.9 / 1.9 // (77_266_944 // 4)) - 1
    assert "states leave" in explained and "state pool" in explained


def test_flags_of_the_pools_are_planned() -> None:
    states = request(QWEN3_NEXT, server={"extra_arguments": {"max-mamba-cache-size": 100}})
    assert slots(planned(states))["mamba"] == 100
    halves = planned(request(GPT_OSS, server={"extra_arguments": {"swa-full-tokens-ratio": 0.5}}))
    found = slots(halves)
    assert found["swa"] == found["kv"] // 2


def test_the_window_pool_that_hicache_switches_off() -> None:
    step = {**GPT_OSS, "architectures": ["Step3p5ForCausalLM"]}
    assert slots(planned(request(step, hicache={"enabled": False}))).keys() == {"kv", "swa"}
    plan = planned(request(step))
    assert slots(plan).keys() == {"kv"}
    assert any("all layers keep every token" in line for line in plan["explanation"])


@pytest.mark.parametrize(
    ("config", "changes", "code", "named"),
    [
        (GPT_OSS, {"sglang_version": "0.5.12"}, "hicache_unsupported", "0.5.13"),
        (GPT_OSS, {"sglang_version": "0.5.7"}, "architecture_unplanned", "GptOssForCausalLM"),
        (QWEN3_NEXT, {"sglang_version": "0.5.9"}, "hicache_unsupported", "0.5.10"),
        (GLM_5, {"sglang_version": "0.5.7"}, "architecture_too_new", "GlmMoeDsaForCausalLM"),
        (MINIMAX_M3, {}, "hicache_unsupported", "values"),
        (GLM_5, {"server": {"kv_cache_dtype": "fp8_e5m2"}}, "kv_cache_dtype_unplanned", "fp8_e5m2"),
        (GLM_5, {"server": {"extra_arguments": {"enable-hisparse": True}}}, "extra_argument_unplanned", "hisparse"),
        (QWEN3_NEXT, {"observed": {"kv_pool_bytes": GIB // 100}}, "state_pool_empty", "state"),
    ],
)
def test_what_is_not_planned_is_refused_by_name(
    config: dict[str, Any], changes: dict[str, Any], code: str, named: str
) -> None:
    refusal = refusal_of(request(config, **changes))
    assert refusal.code == code
    assert named in refusal.message


def test_the_type_that_sparse_latent_attention_takes_by_itself_needs_the_card() -> None:
    arguments = request(GLM_5)
    for gpu in arguments["topology"]["gpus"]:
        gpu["compute_capability"] = None
    assert refusal_of(arguments).code == "kv_cache_dtype_ambiguous"
    for gpu in arguments["topology"]["gpus"]:
        gpu["compute_capability"] = "10.0"
    blackwell = planned(arguments)
    assert [pool["bytes_per_slot"] for pool in blackwell["device"]["pools"]] == [576 * 78, 132 * 78]


def test_pages_of_sparse_latent_attention() -> None:
    plan = planned(request(GLM_5, server={"page_size": 1}))
    assert plan["device"]["page_size"] == 64
    assert any("pages of 64 tokens" in line for line in plan["explanation"])


def test_fp8_rows_take_more_than_the_older_releases_budget_for() -> None:
    arguments = request(GLM_5, sglang_version="0.5.16", server={"kv_cache_dtype": "fp8_e4m3"})
    plan = planned(arguments)
    # 576 + 132 bytes are budgeted, 656 + 132 are allocated.
    assert plan["device"]["kv_pool_bytes"] / (40 * GIB) == pytest.approx(788 / 708, rel=1e-3)
    assert any("take more than planned" in line for line in plan["explanation"])


def test_a_cpu_needs_the_number_of_states() -> None:
    unbuffered = {"mamba-radix-cache-strategy": "no_buffer", "disable-overlap-schedule": True}
    server: dict[str, Any] = {
        "device": "cpu",
        "max_total_tokens": 4096,
        "mem_fraction_static": None,
        "extra_arguments": unbuffered,
    }
    hicache = {"io_backend": "direct", "mem_layout": "page_first_direct"}
    arguments = request(QWEN3_NEXT, server=server, hicache=hicache, observed={"kv_pool_bytes": None})
    assert refusal_of(arguments).code == "state_slots_missing"
    arguments["server"]["extra_arguments"] = {**unbuffered, "max-mamba-cache-size": 8}
    assert slots(planned(arguments)) == {"kv": 4096, "mamba": 8}


def test_a_size_is_divided_and_the_largest_fits() -> None:
    plan = planned(request(GPT_OSS, hicache={"ratio": None, "size_gb": 60}))
    assert plan["host"]["bytes_per_rank"] == pytest.approx(60 * 10**9, rel=1e-3)
    largest = plan["host"]["largest_size_gb"]
    host = {"memory_available_bytes": plan["host"]["available_bytes"]}
    again = planned(request(GPT_OSS, hicache={"ratio": None, "size_gb": largest}, topology={"host": host}))
    assert again["host"]["left_bytes"] >= again["host"]["reserve_bytes"]
