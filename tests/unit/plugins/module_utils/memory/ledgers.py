# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts that never were: what a machine with known memory would measure of a plan, as a ledger has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import LOG_STEP_BYTES
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import GIB, founding

CARD = 97887 << 20
RANK_PIDS = range(4000, 4008)
# Private memory of each rank, beside its pool.
RANK_ANON_BYTES = 10**8


@dataclass(frozen=True)
class Truth:
    """Of each GPU: free before the weights, their size, what graphs take, and what serving takes beside all that."""

    before: int = int(95.6 * GIB)
    weights: int = int(73.7 * GIB)
    graphs: int = int(2.4 * GIB)
    load: int = int(1.5 * GIB)
    noise: int = 0


def printed(size: int) -> int:
    """As a log line has it."""
    return round(round(size / GIB, 2) * GIB)


def started(plan: dict[str, Any], truth: Truth) -> dict[str, Any]:
    """The ledger of a start of the plan, as it comes back from the node."""
    device = plan["device"]
    fraction = device["mem_fraction_static"]
    budget = int(truth.before - truth.weights - truth.before * (1 - fraction))
    tokens = budget // device["bytes_per_token"] // device["page_size"] * device["page_size"]
    pool = tokens * device["bytes_per_token"]
    end = truth.before - truth.weights - pool - truth.graphs + truth.noise
    pinned = _pinned(plan, tokens)
    ledger = {
        "schema": 2,
        "sglang_version": plan["sglang_version"],
        "main_pid": 3999,
        "invocation_id": "e49e",
        "generation": "g1",
        "plan": plan,
        "startup": {
            "max_total_num_tokens": tokens,
            "pinned_bytes": pinned,
            "ranks": [{"pid": pid} for pid in RANK_PIDS],
            "figures": {
                "mem_fraction_static": fraction,
                "available_before_load_bytes": printed(truth.before),
                "available_after_load_bytes": printed(truth.before - truth.weights),
                "available_at_end_bytes": printed(end),
                "resolution_bytes": LOG_STEP_BYTES,
                "pinned_bytes": pinned,
                "pin_seconds": 80.0,
                "pin_bytes_per_second": round(pinned / 80.0, 1),
                "load_seconds": 412.0,
                "rest_seconds": 95.0,
                "start_seconds": 587.0,
            },
        },
    }
    read: dict[str, Any] = json.loads(json.dumps(ledger))
    return read


def _pinned(plan: dict[str, Any], tokens: int) -> int:
    """What the ranks pin when the device holds other tokens than planned: pools by ratio follow it."""
    ratio, device = plan["host"]["ratio"], plan["device"]
    if ratio is None or tokens == device["max_total_num_tokens"]:
        return int(plan["host"]["bytes_total"])
    page = device["page_size"]
    return int((int(tokens * ratio) // page + 1) * page * device["bytes_per_token"] * len(RANK_PIDS))


def on_host(
    arguments: dict[str, Any], available: int, ledger: dict[str, Any] | None = None, nodes: int = 0
) -> dict[str, Any]:
    """On a host of so much available memory, of which the start of C(ledger) holds its pools and private memory."""
    own = 0
    if ledger is not None:
        own = ledger["startup"]["figures"]["pinned_bytes"] + len(RANK_PIDS) * RANK_ANON_BYTES
    topology = {**arguments["topology"], "host": {"memory_available_bytes": available - own}}
    if nodes:
        topology["numa_nodes"] = [
            {"id": node, "memory_available_bytes": (available - own) // nodes} for node in range(nodes)
        ]
    return {**arguments, "topology": topology, "observed": {**arguments["observed"], "own_pinned_bytes": own or None}}


def serving(ledger: dict[str, Any], truth: Truth) -> list[dict[str, Any]]:
    """The GPUs while that start serves, as gpu_topology_info returns them."""
    free = ledger["startup"]["figures"]["available_at_end_bytes"] - truth.load + truth.noise
    return [
        {
            "index": index,
            "numa_node": index // 4,
            "memory_total_bytes": CARD,
            "memory_free_bytes": max(0, free),
            "compute_capability": "12.0",
            "processes": [{"pid": pid, "name": f"sglang::scheduler_TP{index}"}],
        }
        for index, pid in enumerate(RANK_PIDS)
    ]


def asked(ledger: dict[str, Any] | None = None, truth: Truth | None = None, **changes: Any) -> dict[str, Any]:
    """The founding machine without anything given by hand; C(truth): it serves now, on GPUs of that memory."""
    arguments = founding(
        observed=dict.fromkeys(founding()["observed"]),
        topology={"host": {"memory_available_bytes": 10**12}},
        model={"architecture": "DeepseekV3ForCausalLM", "name": "model", **changes.pop("model", {})},
        **changes,
    )
    if ledger is not None:
        arguments["ledger"] = {**ledger, "in_force": truth is not None}
    if ledger is not None and truth is not None:
        arguments["topology"] = {**arguments["topology"], "gpus": serving(ledger, truth)}
    return arguments
