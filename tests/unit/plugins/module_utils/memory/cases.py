# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The founding case and small machines, as the arguments that memory_plan takes; used by several tests."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request

GIB = 1 << 30
MIB = 1 << 20

KIMI: dict[str, Any] = {
    "name": "Kimi-K2.5",
    "architecture": "KimiK25ForConditionalGeneration",
    "dtype": "bfloat16",
    "attention": {
        "family": "mla",
        "num_layers": 61,
        "num_attention_heads": 64,
        "num_kv_heads": 64,
        "head_dim": 192,
        "v_head_dim": 128,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    },
    "weights": {"total_bytes": 547 * 10**9},
}
TINY: dict[str, Any] = {
    "path": "/srv/models/rehearsal-llama",
    "architecture": "LlamaForCausalLM",
    "dtype": "bfloat16",
    "attention": {
        "family": "gqa",
        "num_layers": 4,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 128,
        "v_head_dim": 128,
    },
    "weights": {"total_bytes": 15 * 10**6},
}


def founding(**changes: Any) -> dict[str, Any]:
    """Kimi-K2.5 on 8 x RTX PRO 6000 with SGLang 0.5.9; C(changes) replace keys, nested ones by mappings."""
    arguments: dict[str, Any] = {
        "sglang_version": "0.5.9",
        "model": KIMI,
        "topology": {
            "gpus": [
                {"index": i, "numa_node": i // 4, "memory_total_bytes": 97887 * MIB, "compute_capability": "12.0"}
                for i in range(8)
            ],
            "numa_nodes": [{"id": 0}, {"id": 1}],
            "host": {"memory_available_bytes": 396 * 10**9},
        },
        "server": {"tensor_parallel_size": 8, "mem_fraction_static": 0.88},
        "hicache": {"ratio": 4.0},
        "observed": {
            "kv_pool_bytes": 11_192_713_344,
            "mem_fraction_static": 0.88,
            "available_before_load_bytes": int(95.6 * GIB),
            "idle_bytes_per_gpu": 7 * 10**9,
        },
    }
    return changed(arguments, changes)


def rehearsal(**changes: Any) -> dict[str, Any]:
    """The tiny model on two CPU ranks with SGLang 0.5.23."""
    arguments: dict[str, Any] = {
        "sglang_version": "0.5.23",
        "model": TINY,
        "topology": {"gpus": [], "numa_nodes": [{"id": 0}], "host": {"memory_available_bytes": 30 * 10**9}},
        "server": {"device": "cpu", "tensor_parallel_size": 2, "max_total_tokens": 65536},
        "hicache": {"ratio": 4.0, "io_backend": "direct", "mem_layout": "layer_first"},
    }
    return changed(arguments, changes)


def changed(arguments: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(arguments)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = {**result[key], **value}
        else:
            result[key] = value
    return result


def planned(arguments: dict[str, Any]) -> dict[str, Any]:
    return plan_as_dict(plan(plan_request(arguments)))
