# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan was asked for, in the parts that decide whether what its start measured holds for another plan.

The settings go into the plan, with it into the ledger, and are compared with those of the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What the process is: with another one nothing of a GPU's memory is known.
IDENTITY = "identity"
# What its weights take beside that.
LOADING = "loading"
# How it spends its memory, and what it takes while it works.
RUNNING = "running"

_LAYOUT = (
    "device",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "attention_data_parallel_size",
    "expert_parallel_size",
    "gpus",
)
# Options of the server that no memory depends on, and those whose result a start tells by itself.
_OTHER = (
    "dtype",
    "numa_nodes",
    "host",
    "port",
    "served_model_name",
    "model_path",
    "mem_fraction_static",
    "mem_fraction_auto",
    "leave_bytes",
    "target_tokens",
)


def settings_of(arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of validated arguments of memory_plan, JSON-safe. Every other option of the server counts as running."""
    model: Mapping[str, Any] = arguments["model"]
    server: Mapping[str, Any] = arguments.get("server") or {}
    hicache: Mapping[str, Any] = arguments.get("hicache") or {}
    path = model.get("path")
    name = model.get("name") or (str(path).rstrip("/").rsplit("/", 1)[-1] if path else model.get("architecture"))
    return {
        IDENTITY: {
            "sglang_version": str(arguments["sglang_version"]),
            "model": name,
            "model_manifest_sha256": model.get("manifest_sha256"),
            "boards": _boards((arguments.get("topology") or {}).get("gpus")),
            **{key: server.get(key) for key in _LAYOUT},
        },
        LOADING: {"dtype": server.get("dtype"), "speculative": _speculative(arguments.get("speculative"))},
        RUNNING: {
            **{key: value for key, value in server.items() if key not in _LAYOUT and key not in _OTHER},
            **{f"hicache.{key}": hicache.get(key) for key in ("enabled", "io_backend", "mem_layout")},
        },
    }


def _boards(gpus: Any) -> list[list[Any]]:
    boards = [
        [gpu.get("name"), gpu.get("memory_total_bytes")]
        for gpu in (gpus if isinstance(gpus, (list, tuple)) else ())
        if isinstance(gpu, Mapping)
    ]
    return sorted(boards, key=str)


def _speculative(given: Any) -> dict[str, Any] | None:
    if not isinstance(given, Mapping):
        return None
    draft = given.get("model")
    facts = draft if isinstance(draft, Mapping) else {}
    return {
        **{key: given.get(key) for key in ("algorithm", "num_steps", "eagle_topk", "num_draft_tokens")},
        "model": facts.get("name") or given.get("model_path"),
        "model_manifest_sha256": facts.get("manifest_sha256"),
    }


def differing(measured: Mapping[str, Any], asked: Mapping[str, Any], group: str) -> list[str]:
    """Names of the settings of a group that differ. An option that one side has not heard of counts when it is set.

    A ledger that is older than an option lacks it, which is the same as an option that is left empty.
    """
    one, other = measured.get(group) or {}, asked.get(group) or {}
    return sorted(name for name in {*one, *other} if _said(one.get(name)) != _said(other.get(name)))


def _said(value: Any) -> Any:
    return None if isinstance(value, (Mapping, list, tuple)) and not value else value
