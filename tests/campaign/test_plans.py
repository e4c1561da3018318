# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to hold of every plan, whatever the machine, the model and the request."""

from __future__ import annotations

import random
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

GIB = 1 << 30
MACHINES = 20


def any_request(dice: random.Random) -> dict[str, Any]:
    ranks = dice.choice([1, 2, 4, 8])
    heads = ranks * dice.choice([2, 4, 8])
    nodes = dice.choice([1, 2, 4])
    attention: dict[str, Any] = {
        "num_layers": dice.randint(1, 96),
        "num_attention_heads": heads,
        "num_kv_heads": dice.choice([size for size in (1, 2, 4, 8, 16) if heads % size == 0]),
        "head_dim": dice.choice([64, 128, 256]),
    }
    if dice.random() < 0.3:
        attention.update(family="mla", kv_lora_rank=512, qk_rope_head_dim=64, v_head_dim=128)
    return {
        "sglang_version": dice.choice(["0.5.9", "0.5.23"]),
        "model": {
            "architecture": "DeepseekV3ForCausalLM" if "family" in attention else "LlamaForCausalLM",
            "dtype": "bfloat16",
            "attention": attention,
            "weights": {"total_bytes": dice.randint(10**9, ranks * 40 * GIB)},
        },
        "topology": {
            "gpus": [
                {"index": index, "numa_node": index * nodes // ranks, "memory_total_bytes": 97887 << 20}
                for index in range(ranks)
            ],
            "numa_nodes": [{"id": node} for node in range(nodes)],
            "host": {"memory_available_bytes": dice.randint(20 * 10**9, 2 * 10**12)},
        },
        "server": {
            "tensor_parallel_size": ranks,
            "mem_fraction_static": round(dice.uniform(0.7, 0.93), 3),
            "page_size": dice.choice([1, 16, 64]),
        },
        "hicache": {"ratio": round(dice.uniform(1.1, 12), 2)},
    }


def outcome(request: dict[str, Any]) -> dict[str, Any] | Refusal:
    try:
        return plan_as_dict(plan(plan_request(request)))
    except Refusal as refusal:
        return refusal


def test_a_plan_adds_up_and_what_a_refusal_names_fits(dice: random.Random) -> None:
    judged = 0
    for _machine in range(MACHINES):
        request = any_request(dice)
        result = outcome(request)
        assert repr(outcome(request)) == repr(result), "the same request gave another plan"
        if isinstance(result, Refusal):
            largest = result.evidence.get("largest_ratio")
            if largest is None:
                continue
            request["hicache"] = {"ratio": largest}
            result = outcome(request)
            if isinstance(result, Refusal):
                # Only a floor may stand below the ceiling: this release insists on more host than device tokens.
                assert result.code == "host_pool_below_device", str(result)
                continue
        judged += 1
        host, device = result["host"], result["device"]
        assert host["bytes_total"] == host["ranks"] * host["bytes_per_rank"]
        assert sum(node["pinned_bytes"] for node in host["numa"]) == host["bytes_total"]
        assert host["left_bytes"] >= host["reserve_bytes"]
        assert host["unique_bytes"] * host["duplication_factor"] == host["bytes_total"]
        assert host["tokens"] % device["page_size"] == 0
        assert device["kv_pool_bytes"] >= device["max_total_num_tokens"] * device["bytes_per_token"]
        # One percent above the largest ratio does not fit.
        request["hicache"] = {"ratio": host["largest_ratio"] * 1.01 + 0.02}
        assert isinstance(outcome(request), Refusal), host["largest_ratio"]
    assert judged, "no machine of this round was judged"
