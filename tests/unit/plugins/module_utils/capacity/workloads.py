# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A workload and models for it, as the arguments that capacity_options takes after validation."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_dict import capacity_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import capacity_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.search import capacity

MIB = 1 << 20
GIB = 1 << 30
QWEN: dict[str, Any] = {
    "name": "Qwen3-32B",
    "architecture": "Qwen3ForCausalLM",
    "dtype": "bfloat16",
    "max_position_embeddings": 40_960,
    "attention": {"num_layers": 64, "num_attention_heads": 64, "num_kv_heads": 8, "head_dim": 128},
    "weights": {"total_bytes": 65_524_246_528},
}
LLAMA: dict[str, Any] = {
    "name": "Llama-3.1-8B",
    "architecture": "LlamaForCausalLM",
    "dtype": "bfloat16",
    "attention": {"num_layers": 32, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128},
    "weights": {"total_bytes": 16_060_522_496},
}


def asked(**changes: Any) -> dict[str, Any]:
    """Sixteen requests of 32,768 tokens of Qwen3-32B; C(changes) replace keys."""
    arguments: dict[str, Any] = {
        "sglang_version": "0.5.23",
        "models": [QWEN],
        "workload": {"context_tokens": 32_768, "concurrent_requests": 16},
        "server": {},
        "hicache": {},
    }
    return {**arguments, **changes}


def box(gpus: int, memory_mib: int = 97_887, **host: Any) -> dict[str, Any]:
    """A machine of one node with so many GPUs."""
    gpu = {"memory_total_bytes": memory_mib * MIB, "compute_capability": "12.0", "numa_node": 0}
    return {
        "gpus": [{"index": index, **gpu} for index in range(gpus)],
        "numa_nodes": [{"id": 0}],
        "host": host or {"memory_available_bytes": 400 * 10**9},
    }


def weighed(arguments: dict[str, Any]) -> dict[str, Any]:
    request = capacity_request(arguments)
    return capacity_as_dict(capacity(request), request.workload)
