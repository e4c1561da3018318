# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small model with compressed attention, and requests for it."""

from __future__ import annotations

from typing import Any

# Two layers with a window only, four of ratio 4, three of ratio 128, and one that drafts.
SMALL_V4: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "num_hidden_layers": 9,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "hidden_size": 4096,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "index_head_dim": 128,
    "sliding_window": 128,
    "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4, 0],
}


def request_for(attention: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Two ranks with 8 GiB of an observed budget each; C(more) is laid over server and hicache."""
    return {
        "sglang_version": more.pop("release", "0.5.23"),
        "model": {
            "name": "small",
            "architecture": "DeepseekV4ForCausalLM",
            "dtype": "bfloat16",
            "attention": attention,
        },
        "topology": {
            "gpus": [
                {"index": gpu, "numa_node": 0, "memory_total_bytes": 80 << 30, "compute_capability": "9.0"}
                for gpu in range(2)
            ],
            "numa_nodes": [{"id": 0}],
            "host": {"memory_available_bytes": 500 * 10**9},
        },
        "server": {"tensor_parallel_size": 2, "mem_fraction_static": 0.9, **more.pop("server", {})},
        "hicache": more.pop("hicache", {"enabled": False}),
        "observed": {"kv_pool_bytes": 8 << 30, "mem_fraction_static": 0.9},
        **more,
    }
