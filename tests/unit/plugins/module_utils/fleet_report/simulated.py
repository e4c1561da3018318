# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets that a report is made of: plans by the real planner, starts as a seed draws them around those plans."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.facts import fleet_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import KIMI, planned
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    FAILED,
    GUARD,
    RUNNING,
    events,
    raw_events,
)

NOW = 1_796_076_000.0
INVOCATION = "5f1c0a6a4d9e4a6f8f0d3e1b2c7a9d10"
QWEN: dict[str, Any] = {
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


@dataclass(frozen=True)
class Kind:
    prefix: str
    board: str
    memory_gb: int
    model: str
    ranks: int


KINDS = (
    Kind("h200", "NVIDIA H200", 2048, "Qwen3-32B", 8),
    Kind("pro", "rtx-pro-6000-server", 1024, "Kimi-K2.5", 8),
    Kind("h100", "H100-80GB-SXM", 1024, "Qwen3-32B", 4),
)
_MODELS = {"Qwen3-32B": QWEN, "Kimi-K2.5": KIMI}
# State of a row -> share of a hundred nodes; the rest serve.
SHARES = {"failed": 2, "unreachable": 1, "degraded": 1, "unproven": 1, "starting": 1, "empty": 1}
PROBLEM = {
    "code": "gpu_lost",
    "severity": "error",
    "message": "GPU 5 (0000:c6:00.0) has fallen off the bus.",
    "remedy": "Drain the host and reboot it; if the GPU is lost again, have it replaced.",
}
WARNING = {
    "code": "reboot_required",
    "severity": "warning",
    "message": "Kernel 6.17.0-20-generic runs and 6.17.0-22-generic boots next.",
    "remedy": "Drain the host and reboot it.",
}


@cache
def topology_of(kind: Kind) -> dict[str, Any]:
    return machine_on_paper({"board": kind.board, "count": 8, "numa_nodes": 2, "memory_gb": kind.memory_gb})


@cache
def plan_of(kind: Kind) -> dict[str, Any]:
    return planned(
        {
            "sglang_version": "0.5.23",
            "model": _MODELS[kind.model],
            "topology": topology_of(kind),
            "server": {"tensor_parallel_size": kind.ranks, "mem_fraction_static": 0.85},
            "hicache": {"auto": True},
        }
    )


def answer(kind: Kind, state: str, draw: random.Random, name: str = "node") -> dict[str, Any]:
    """What node_report_info would return of a node in this state."""
    plan = plan_of(kind)
    paper = topology_of(kind)
    gpus = [
        {**gpu, "uuid": f"GPU-{draw.getrandbits(32):08x}-2399-57db-8e33-{draw.getrandbits(48):012x}"}
        for gpu in paper["gpus"]
    ]
    taken = plan["device"]["weights_bytes"] + plan["device"]["kv_pool_bytes"]
    for place, gpu in enumerate(gpus):
        used = taken + draw.randrange(1, 4) * 10**9 if place < kind.ranks and state != "empty" else 0
        gpu["memory_used_bytes"] = used
    topology = {
        "gpus": gpus,
        "numa_nodes": [
            {**node, "memory_available_bytes": kind.memory_gb * 10**9 // 4 - draw.randrange(10**9)}
            for node in paper["numa_nodes"]
        ],
        "host": {
            "memory_available_bytes": kind.memory_gb * 10**9 // 2,
            "cpu_model": "AMD EPYC 9575F 64-Core Processor",
            "product": "Model 8125",
        },
        "driver": {"version": "580.95.05", "cuda_version": "13.0", "source": "nvml"},
        "problems": [PROBLEM] if state == "degraded" else [],
    }
    stack: dict[str, Any] = {
        "os": {"id": "ubuntu", "version_id": "24.04"},
        "running_kernel": "6.17.0-20-generic",
        "next_boot": {"kernel": draw.choice(["6.17.0-20-generic"] * 9 + ["6.17.0-22-generic"])},
        "driver": {"releases": {"loaded": "580.95.05", "user_space": "580.95.05"}},
        "reboot": {"required": False},
        "problems": [],
    }
    if stack["next_boot"]["kernel"] != stack["running_kernel"]:
        stack["problems"].append(WARNING)
    instances = [] if state == "empty" else [instance(kind, state, draw)]
    facts = {"taken_at": NOW + draw.randrange(90), "hostname": name, "topology": topology, "stack": stack}
    return {"changed": False, "schema": 1, **facts, "instances": instances}


def instance(kind: Kind, state: str, draw: random.Random) -> dict[str, Any]:
    plan, serves = plan_of(kind), state in ("serves", "degraded")
    begins = [line for rank in range(2) for line in (f"TP{rank}] Load weight begin. avail mem=138.30 GB",)]
    said, unit = events(begins, NOW - 30), RUNNING
    if state == "unproven":
        said += events(["] The server is fired up and ready to roll!"], NOW - 2)
    if state == "failed":
        said, unit = said + raw_events([GUARD], NOW - 2), FAILED
    pinned = plan["host"]["stages"][0]["pinned_bytes_per_rank"] + 2048 * draw.randrange(9)
    ranks = [
        {"rank": f"TP{rank}", "pid": 200 + rank, "alive": True, "start_ticks": 1, "state": "S"}
        | {"shmem_bytes": pinned, "pinned_bytes": pinned, "resident_bytes": pinned}
        for rank in range(kind.ranks if state not in ("failed", "starting") else 0)
    ]
    look = {
        "unit": {**unit.as_dict(), "started_at": NOW - 40, "generation": "efe4c3a65eda8cda"},
        "events": [] if serves else [event.as_dict() for event in said],
        "earlier": [],
        "cursor": None,
        "lines": 0 if serves else len(said),
        "more": False,
        "read_at": NOW,
        "monotonic": 5000.0,
        "ranks": ranks,
        "pinned_bytes": pinned * len(ranks) or None,
        "meter": "shmem",
        "serves": None,
        "tail": [] if serves else [GUARD] if state == "failed" else ["Load weight begin."],
    }
    return {
        "instance": "main",
        "unit": unit.name,
        "sglang_version": draw.choice(["0.5.23"] * 19 + ["0.5.22"]),
        "settings": {"served-model-name": kind.model, "tp-size": str(kind.ranks), "port": "30000"},
        "look": look,
        "ledger": ledger(kind, plan, pinned * kind.ranks, draw) if state != "starting" else {},
        "ledger_in_force": serves,
        "problems": [],
    }


def ledger(kind: Kind, plan: dict[str, Any], pinned: int, draw: random.Random) -> dict[str, Any]:
    timing = plan["timing"]
    load = round(timing["load_seconds"] * draw.uniform(0.8, 1.2), 1)
    pin = round(timing["pin_seconds"] * draw.uniform(0.8, 1.3), 1)
    at = NOW - 3600
    stages = []
    seconds_of = {"boot": 9.0, "load": load, "device_pool": 1.5, "capture": 20.0, "host_pool": pin, "warm_up": 8.5}
    sizes = {"load": 65 * 10**9, "host_pool": pinned}
    for stage, seconds in seconds_of.items():
        stages.append({"stage": stage, "seconds": seconds, "bytes": sizes.get(stage), "started_at": at})
        at += seconds
    whole = round(at - (NOW - 3600), 1)
    tokens = plan["device"]["max_total_num_tokens"] - draw.randrange(500)
    return {
        "schema": 2,
        "instance": "main",
        "sglang_version": "0.5.23",
        "generation": "efe4c3a65eda8cda",
        "invocation_id": INVOCATION,
        "main_pid": 100,
        "plan": plan,
        "startup": {
            "stages": stages,
            "invocation_id": INVOCATION,
            "max_total_num_tokens": tokens,
            "host_tokens": plan["host"]["tokens"],
            "pinned_bytes": pinned,
            "figures": {
                "pinned_bytes": pinned,
                "pin_seconds": pin,
                "load_seconds": load,
                "start_seconds": whole,
                "resolution_bytes": 10737418,
            },
            "problems": [],
        },
        "failed": {},
        "proof": {
            "checks": [
                {"name": "health", "ok": True, "found": 200, "expected": 200},
                {"name": "served_model_name", "ok": True, "found": kind.model, "expected": kind.model},
                {"name": "max_total_num_tokens", "ok": True, "found": tokens, "expected": tokens},
            ],
            "server": {"served_model_name": kind.model},
            "problems": [],
        },
    }


def hosts(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Variables of hosts after the play, every state among them where there are a hundred."""
    draw = random.Random(seed)
    states = [state for state, share in SHARES.items() for _unused in range(share)]
    found: list[dict[str, Any]] = []
    for number in range(count):
        kind = KINDS[draw.choices(range(len(KINDS)), (6, 3, 1))[0]]
        state = states[number % 100] if number % 100 < len(states) else "serves"
        name = f"{kind.prefix}-{number + 1:04}"
        said: dict[str, Any] = {"unreachable": True, "msg": f"Failed to connect to the host via ssh: {name}: timed out"}
        if state != "unreachable":
            said = answer(kind, state, draw, name)
        found.append({"inventory_hostname": name, "ansible_host": f"10.20.{number // 250}.{number % 250 + 1}"})
        found[-1]["report_answer"] = said
    draw.shuffle(found)
    return found


def simulated(count: int, seed: int = 1) -> dict[str, Any]:
    return fleet_facts(hosts(count, seed))
