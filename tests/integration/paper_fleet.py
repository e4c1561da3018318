# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An inventory of many machines on paper, of a few kinds, some of which cannot be had."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

QWEN3_32B: dict[str, Any] = {
    "name": "Qwen3-32B",
    "architecture": "Qwen3ForCausalLM",
    "dtype": "bfloat16",
    "hidden_size": 5120,
    "vocab_size": 151936,
    "attention": {
        "num_layers": 64,
        "num_attention_heads": 64,
        "num_kv_heads": 8,
        "head_dim": 128,
        "v_head_dim": 128,
    },
    "weights": {"total_bytes": 65524246528},
}
SHARED: dict[str, Any] = {
    "sglang_version": "0.5.23",
    "sglang_paper_model": QWEN3_32B,
    "sglang_mem_fraction_static": 0.85,
}


@dataclass(frozen=True)
class Kind:
    """C(code) is that of the refusal that its nodes get, None where they can be had."""

    prefix: str
    share: int  # of a hundred nodes
    variables: dict[str, Any]
    code: str | None = None


def machine(board: str, count: int, memory_gb: int) -> dict[str, Any]:
    return {"board": board, "count": count, "numa_nodes": 2, "memory_gb": memory_gb}


KINDS = (
    Kind("h200", 50, {"sglang_paper_machine": machine("NVIDIA H200", 8, 2048), "sglang_tensor_parallel_size": 8}),
    Kind(
        "pro", 30, {"sglang_paper_machine": machine("rtx-pro-6000-server", 8, 1024), "sglang_tensor_parallel_size": 4}
    ),
    Kind("h100", 14, {"sglang_paper_machine": machine("H100-80GB-SXM", 8, 2048), "sglang_tensor_parallel_size": 2}),
    Kind(
        "small",
        4,
        {
            "sglang_paper_machine": machine("NVIDIA H200", 8, 256),
            "sglang_tensor_parallel_size": 8,
            "sglang_hicache_ratio": 8,
        },
        "guard_refuses",
    ),
    Kind("odd", 2, {"sglang_paper_machine": machine("NVIDIA H300", 8, 2048)}, "board_unknown"),
)


def write_inventory(path: Path, nodes: int) -> dict[str, list[str]]:
    """The inventory, and the names of its hosts by prefix."""
    names: dict[str, list[str]] = {}
    hosts: dict[str, Any] = {}
    for kind in KINDS:
        names[kind.prefix] = [f"{kind.prefix}-{number:04}" for number in range(1, nodes * kind.share // 100 + 1)]
        hosts.update(dict.fromkeys(names[kind.prefix], {"sglang_hicache_ratio": 1.1, **kind.variables}))
    path.write_text(yaml.safe_dump({"sglang_paper": {"hosts": hosts, "vars": SHARED}, "sglang": {}}), encoding="utf-8")
    return names
