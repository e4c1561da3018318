# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded starts as requests to the planner, and what came of them beside what was logged.

A release that is older than the first one that is planned, or not told, is planned by the rules of the release named
here: the arithmetic of plain heads and latent caches did not change before 0.5.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.conformance.pool_records import Start

CONFIGS = Path(__file__).resolve().parent / "configs"
GIB = 1 << 30
# The first release of each kind whose rules a row is planned by, where it does not tell its own.
BY_KIND = {"plain": "0.4.7", "states": "0.5.23", "windows": "0.5.13", "index": "0.5.13"}
# Enough of it that no host bounds a recorded pool.
HOST_BYTES = 4000 * 10**9


@dataclass(frozen=True)
class Asked:
    """What a row says of its server beside model and ranks. C(cap) is --max-total-tokens."""

    release: str | None = None
    attention_data_parallel: int = 1
    expert_parallel: int = 1
    page_size: int | None = None
    cap: int | None = None
    running_requests: int | None = None
    speculative: dict[str, Any] | None = None
    draft: Start | None = None
    flags: dict[str, Any] = field(default_factory=dict)
    state_slots: int | None = None


def config_of(start: Start) -> dict[str, Any]:
    config = yaml.safe_load((CONFIGS / f"{start.model}.yml").read_text(encoding="utf-8"))["config"]
    nested = config.get("text_config")
    (nested if isinstance(nested, dict) else config).update(start.changed)
    return dict(config)


def model_of(start: Start) -> dict[str, Any]:
    config = config_of(start)
    text = config.get("text_config") or config
    return {
        "name": start.model,
        "architecture": config["architectures"][0],
        "dtype": "bfloat16",
        "attention": attention_from_config(config).as_dict(),
        "structure": {"num_nextn_layers": text.get("num_nextn_predict_layers") or text.get("mtp_num_hidden_layers")},
    }


def release_of(start: Start, asked: Asked) -> str:
    if asked.release is not None:
        return asked.release
    attention = model_of(start)["attention"]
    kind = "states" if attention["state"] else "windows" if attention["window"] else "plain"
    return BY_KIND["index" if attention["index"] else kind]


def request_of(
    start: Start,
    asked: Asked,
    observed: dict[str, Any],
    fraction: float | None = None,
    hicache: dict[str, Any] | None = None,
    weights_bytes: int | None = None,
    card_bytes: int = 141 * GIB,
) -> dict[str, Any]:
    model, flags = model_of(start), dict(asked.flags)
    # Where a row is planned by its tokens, no card bounds them; others tell more than they say of their card.
    card = max([card_bytes, *(int(observed[key]) for key in observed if key.endswith("_bytes"))])
    if weights_bytes is not None:
        model["weights"] = {"total_bytes": weights_bytes}
    if asked.state_slots is not None:
        flags["max-mamba-cache-size"] = asked.state_slots
    if start.state_dtype is not None:
        flags["mamba-ssm-dtype"] = start.state_dtype
    speculative = dict(asked.speculative) if asked.speculative else None
    if speculative is not None and asked.draft is not None:
        speculative["model"] = model_of(asked.draft)
        speculative["model_path"] = f"/srv/models/{asked.draft.model}-draft"
    return {
        "sglang_version": release_of(start, asked),
        "model": model,
        "topology": {
            "gpus": [
                {"index": index, "numa_node": 0, "memory_total_bytes": card, "compute_capability": "9.0"}
                for index in range(start.ranks)
            ],
            "numa_nodes": [{"id": 0}],
            "host": {"memory_available_bytes": HOST_BYTES},
        },
        "server": {
            "tensor_parallel_size": start.ranks,
            "attention_data_parallel_size": asked.attention_data_parallel,
            "expert_parallel_size": asked.expert_parallel,
            "kv_cache_dtype": start.dtype,
            "page_size": asked.page_size or 1,
            "max_total_tokens": asked.cap,
            "max_running_requests": asked.running_requests,
            "mem_fraction_static": fraction,
            "extra_arguments": flags,
        },
        "hicache": hicache or {"enabled": False},
        "speculative": speculative,
        "observed": observed,
    }


def planned(arguments: dict[str, Any]) -> dict[str, Any] | Refusal:
    try:
        return plan_as_dict(plan(plan_request(arguments)))
    except Refusal as refusal:
        return refusal


def slots_of(found: dict[str, Any], kind: str) -> int:
    return int(next((pool["slots"] for pool in found["device"]["pools"] if pool["kind"] == kind), 0))


def allocated_of(found: dict[str, Any], *kinds: str) -> int:
    return sum(int(pool["allocated_bytes"]) for pool in found["device"]["pools"] if pool["kind"] in kinds)
