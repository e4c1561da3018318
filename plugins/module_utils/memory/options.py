# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specification of memory_plan; described in plugins/modules/memory_plan.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import DEFAULT_CHANGE_THRESHOLD
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    DEFAULT_HOST_RESERVE_BYTES,
    DEFAULT_MARGIN_BYTES,
)

SERVER_OPTIONS: dict[str, Any] = {
    "device": {"type": "str", "default": "cuda", "choices": ["cuda", "cpu"]},
    "tensor_parallel_size": {"type": "int", "default": 1},
    "pipeline_parallel_size": {"type": "int", "default": 1},
    "attention_data_parallel_size": {"type": "int", "default": 1},
    "expert_parallel_size": {"type": "int", "default": 1},
    "page_size": {"type": "int"},
    "kv_cache_dtype": {"type": "str", "default": "auto"},
    "dtype": {"type": "str", "default": "auto"},
    "max_total_tokens": {"type": "int"},
    "mem_fraction_static": {"type": "float"},
    "mem_fraction_auto": {"type": "bool", "default": False},
    "leave_bytes": {"type": "int"},
    "target_tokens": {"type": "int"},
    "max_running_requests": {"type": "int"},
    "chunked_prefill_size": {"type": "int"},
    "context_length": {"type": "int"},
    "attention_backend": {"type": "str"},
    "gpus": {"type": "list", "elements": "int", "default": []},
    "numa_nodes": {"type": "list", "elements": "int", "default": []},
    "host": {"type": "str"},
    "port": {"type": "int"},
    "served_model_name": {"type": "str"},
    "model_path": {"type": "path"},
    "enable_metrics": {"type": "bool", "default": True},
    "extra_arguments": {"type": "dict", "default": {}},
    "environment": {"type": "dict", "default": {}},
}
HICACHE_OPTIONS: dict[str, Any] = {
    "enabled": {"type": "bool", "default": True},
    "ratio": {"type": "float"},
    "size_gb": {"type": "int"},
    "host_memory_fraction": {"type": "float"},
    "auto": {"type": "bool", "default": False},
    "leave_bytes": {"type": "int"},
    "target_tokens": {"type": "int"},
    "io_backend": {"type": "str"},
    "mem_layout": {"type": "str"},
    "write_policy": {"type": "str"},
    "hugepage_size": {"type": "str", "choices": ["2MB", "1GB"]},
    "parallel_alloc_threads": {"type": "int"},
}
SPECULATIVE_OPTIONS: dict[str, Any] = {
    "algorithm": {"type": "str", "required": True},
    "model": {"type": "dict"},
    "model_path": {"type": "path"},
    "num_steps": {"type": "int"},
    "eagle_topk": {"type": "int"},
    "num_draft_tokens": {"type": "int"},
}
OBSERVED_OPTIONS: dict[str, Any] = {
    "kv_pool_bytes": {"type": "int"},
    "mem_fraction_static": {"type": "float"},
    "available_before_load_bytes": {"type": "int"},
    "available_after_load_bytes": {"type": "int"},
    "idle_bytes_per_gpu": {"type": "int"},
    "own_pinned_bytes": {"type": "int"},
    "pin_bytes_per_second": {"type": "float"},
    "load_seconds": {"type": "float"},
    "rest_seconds": {"type": "float"},
    "assumptions": {"type": "list", "elements": "str"},
}
ARGUMENT_SPEC: dict[str, Any] = {
    "sglang_version": {"type": "str", "required": True},
    "model": {"type": "dict", "required": True},
    "topology": {"type": "dict", "required": True},
    "server": {"type": "dict", "options": SERVER_OPTIONS, "default": {}},
    "hicache": {"type": "dict", "options": HICACHE_OPTIONS, "default": {}},
    "speculative": {"type": "dict", "options": SPECULATIVE_OPTIONS},
    "observed": {"type": "dict", "options": OBSERVED_OPTIONS, "default": {}},
    "ledger": {"type": "dict", "default": {}},
    "change_threshold": {"type": "float", "default": DEFAULT_CHANGE_THRESHOLD},
    "margin_bytes": {"type": "int", "default": DEFAULT_MARGIN_BYTES},
    "host_reserve_bytes": {"type": "int", "default": DEFAULT_HOST_RESERVE_BYTES},
    "allow_oversubscription": {"type": "bool", "default": False},
}
