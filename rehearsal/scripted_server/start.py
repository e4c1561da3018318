# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a start by release: for the main process and for each rank, with the scenario's faults among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.lines import form
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.memory import GB
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import (
    MAIN_POINTS,
    RANK_POINTS,
    Fault,
    HostPool,
    Scenario,
    Step,
)

MAIN = "main"


def shown_rank(scenario: Scenario, rank: str) -> str | None:
    """A server of one rank prints no rank part."""
    return None if len(scenario.ranks) == 1 and rank == "TP0" else rank


def values_of(scenario: Scenario) -> dict[str, Any]:
    """What the forms of C(lines) are filled with, apart from what belongs to one process or pool."""
    gib = scenario.memory_gib
    after_load = gib["before_load"] - gib["weights"]
    after_pool = after_load - gib["pool"]
    captured = gib["capture"] if scenario.device == "cuda" else 0.0
    return {
        **gib,
        "model": scenario.model["name"],
        "type": scenario.model["type"],
        "context": scenario.model["context_tokens"],
        "host": scenario.host,
        "port": scenario.port,
        "fraction": scenario.mem_fraction_static,
        "ranks": len(scenario.ranks),
        "hicache": bool(scenario.host_pools),
        "tokens": scenario.capacity_tokens,
        "after_load": after_load,
        "after_pool": after_pool,
        "after_capture": after_pool - captured,
        "at_end": after_pool - captured,
        "half": gib["pool"] / 2,
        "available": "available_gpu_mem" if scenario.device == "cuda" else "available_cpu_mem",
    }


def _say(scenario: Scenario, name: str, **values: Any) -> list[Step]:
    text = form(name, scenario.release, **{**values_of(scenario), **values})
    return [] if text is None else [{"say": text}]


def settings_line(scenario: Scenario) -> list[Step]:
    """The arguments as the release prints them: a dataclass' words to 0.5.18, a mapping since."""
    if not scenario.arguments:
        return _say(scenario, "settings")
    if scenario.version >= (0, 5, 19):
        return [{"say": f"server_args={dict(scenario.arguments)}"}]
    words = ", ".join(f"{name}={value!r}" for name, value in scenario.arguments.items())
    return [{"say": f"server_args=ServerArgs({words})"}]


def pool_line(scenario: Scenario, pool: HostPool) -> str:
    """What announces a host pool; it is said before the memory is allocated."""
    name = f"pool_{pool.label}" if pool.label in ("mamba", "indexer") else "pool_kv"
    return (
        form(name, scenario.release, gb=pool.bytes / GB, label=pool.label, pool_tokens=pool.tokens)
        or f"Allocating {pool.label}"
    )


def rank_steps(scenario: Scenario, rank: str) -> list[tuple[str, list[Step]]]:
    """(point, steps) of one rank, in the order of managers/scheduler.py: graphs come before the host pools."""
    seconds = scenario.seconds
    captures = scenario.device == "cuda" and seconds["capture"] > 0
    pools = scenario.pools_of(rank)
    load: list[Step] = [{"read": scenario.reads_bytes}] if scenario.reads_bytes else []
    shards = form("shards", scenario.release) if rank == scenario.ranks[0] else None
    attached = (_say(scenario, "attached") if pools else []) + _say(scenario, "tree_cache")
    return [
        (
            "distributed",
            [
                {"stagger": rank},
                *_say(scenario, "distributed_begin"),
                *_say(scenario, "distributed_end", elapsed=0.05),
                *_say(scenario, "baseline"),
            ],
        ),
        (
            "load",
            [
                *_say(scenario, "load_begin"),
                *load,
                {"sleep": seconds["load"]},
                *([{"bytes": shards.encode().hex()}] if shards else []),
                *_say(scenario, "load_end", elapsed=seconds["load"]),
            ],
        ),
        ("device_pool", [{"sleep": seconds["device_pool"]}, *_say(scenario, "kv"), *_say(scenario, "pool_end")]),
        (
            "capture",
            [
                *_say(scenario, "capture_begin"),
                {"sleep": seconds["capture"]},
                *_say(scenario, "capture_end", elapsed=seconds["capture"]),
            ]
            if captures
            else [],
        ),
        ("capacity", _say(scenario, "capacity") if rank == scenario.ranks[0] else []),
        ("host_pool", [{"pools": rank}, {"sleep": seconds["register"]}] if pools else []),
        ("attached", attached),
        ("done", [{"report": True}]),
    ]


def main_steps(scenario: Scenario) -> list[tuple[str, list[Step]]]:
    """(point, steps) of the main process."""
    seconds = scenario.seconds
    return [
        (
            "boot",
            [{"http": "boot"}, *settings_line(scenario), {"sleep": seconds["boot"]}, *_say(scenario, "template")],
        ),
        ("ranks", [{"await_ranks": True}, *_say(scenario, "timings", elapsed=seconds["load"])]),
        (
            "listen",
            [
                *_say(scenario, "started", pid="{pid}"),
                *_say(scenario, "waiting"),
                *_say(scenario, "complete"),
                {"http": "listen"},
                *_say(scenario, "running"),
            ],
        ),
        ("warm_up", [{"sleep": seconds["warm_up"]}]),
        ("ready", [{"ready_for_requests": True}, *_say(scenario, "ready")]),
        ("serve", [{"serve": True}]),
    ]


def _concerns(fault: Fault, who: str) -> bool:
    if fault.rank is None:
        return fault.point in (MAIN_POINTS if who == MAIN else RANK_POINTS)
    return fault.rank in ((MAIN,) if who == MAIN else (who, "all"))


def steps_of(scenario: Scenario, who: str) -> list[Step]:
    """Everything that a process plays, in order."""
    if who in scenario.steps:
        return list(scenario.steps[who])
    found: list[Step] = []
    for point, steps in main_steps(scenario) if who == MAIN else rank_steps(scenario, who):
        faults = [fault for fault in scenario.faults if fault.point == point and _concerns(fault, who)]
        found += [step for fault in faults if fault.where == "before" for step in fault.steps]
        found += steps
        found += [step for fault in faults if fault.where == "after" for step in fault.steps]
    return found


def interruptions(scenario: Scenario, rank: str) -> list[tuple[float, tuple[Step, ...]]]:
    """(share of all bytes of the rank, steps) of the faults within its host pools."""
    return sorted(
        ((fault.share, fault.steps) for fault in scenario.faults if fault.where == "within" and _concerns(fault, rank)),
        key=lambda one: one[0],
    )


def fill_in(text: str, values: Mapping[str, Any]) -> str:
    """Only the names that are known: lines of SGLang hold braces of their own."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text
