# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builders of what a watcher sees, so that a test states only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus

VERSION = "0.5.23"
MIB = 1 << 20
POOL = 409_600_256
HALF = POOL // 2
INVOCATION = "5f1c0a6a4d9e4a6f8f0d3e1b2c7a9d10"

RUNNING = UnitStatus(
    name="sglang-main.service",
    load_state="loaded",
    active_state="active",
    sub_state="running",
    result="success",
    invocation_id=INVOCATION,
    main_pid=100,
    n_restarts=0,
    exec_main_code=None,
    exec_main_status=None,
    exec_main_start_monotonic=1_000_000,
    active_enter_monotonic=1_100_000,
    inactive_enter_monotonic=None,
    control_group="/system.slice/sglang-main.service",
    need_daemon_reload=False,
)
FAILED = replace(
    RUNNING,
    active_state="failed",
    sub_state="failed",
    result="exit-code",
    main_pid=None,
    exec_main_code="exited",
    exec_main_status=1,
)
KILLED = replace(FAILED, result="signal", exec_main_code="killed", exec_main_status=9)

# Both ranks of a real start (SGLang 0.5.23, tp 2), shortened.
BOOT = ("TP0] Init parallel begin.", "TP1] Init parallel begin.")
LOAD = (
    "TP1] Load weight begin. avail mem=18.30 GB",
    "TP1] Load weight end. elapsed=0.05 s, type=LlamaForCausalLM, avail mem=18.30 GB, mem usage=0.50 GB.",
    "TP0] Load weight begin. avail mem=18.29 GB",
    "TP0] Load weight end. elapsed=0.02 s, type=LlamaForCausalLM, avail mem=18.29 GB, mem usage=0.50 GB.",
)
POOLS = tuple(
    line
    for rank in ("TP1", "TP0")
    for line in (
        f"{rank}] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 0.05 GB, V size: 0.05 GB",
        f"{rank}] Memory pool end. avail mem=18.06 GB",
    )
)
CAPACITY = ("TP0] max_total_num_tokens=400000, chunked_prefill_size=4096, max_prefill_tokens=16384",)
PIN = tuple(
    f"{rank}] Allocating kv hierarchical KV host pool: 1600001 tokens, 0.41 GB host memory." for rank in ("TP1", "TP0")
)
PINNED = tuple(
    f"{rank}] Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False hybrid_ssm=False "
    "hicache_attached=True"
    for rank in ("TP1", "TP0")
)
WARM_UP = ("] INFO:     Started server process [11280]",)
READY = ("] The server is fired up and ready to roll!",)
UNTIL_PINNING = (*BOOT, *LOAD, *POOLS, *CAPACITY)
GUARD = (
    "ValueError: Not enough host memory available. Requesting 8.00 GB but only have 1.50 GB free. Please reduce the "
    "size of the hierarchical cache."
)
# 8192 tokens of 2048 bytes on the device of each of two ranks, and 8 GB on the host.
PLAN: dict[str, Any] = {
    "sglang_version": "0.5.23",
    "device": {"max_total_num_tokens": 8192, "bytes_per_token": 2048, "page_size": 1},
    "host": {
        "ranks": 2,
        "ratio": 476.84,
        "bytes_per_rank": 8_000_000_000,
        "sizing": "ratio",
        "guard": {"variant": "D"},
        "largest_ratio": 90.0,
    },
    "arguments": {"port": 30000},
}


def events(
    lines: Iterable[str], timestamp: float = 0.0, version: str = VERSION, pid: int | None = None
) -> list[LogEvent]:
    """Lines given from the rank part on; a line that means nothing is left out."""
    found = []
    for line in lines:
        opening = "[2026-11-29 14:20:12" + ("" if line.startswith("]") else " ")
        event = parse_line(opening + line, version)
        if event is not None:
            found.append(replace(event, timestamp=timestamp, pid=pid))
    return found


def raw_events(lines: Iterable[str], timestamp: float = 0.0, pid: int | None = None) -> list[LogEvent]:
    """Lines as they are, without SGLang's prefix."""
    found = (parse_line(line, VERSION) for line in lines)
    return [replace(event, timestamp=timestamp, pid=pid) for event in found if event is not None]


def reading(rank: str, shmem: int, **others: Any) -> RankReading:
    pid = 200 + int(rank[-1])
    fields = {"alive": True, "start_ticks": 1, "state": "S", "shmem_bytes": shmem, "resident_bytes": shmem, **others}
    return RankReading(rank, pid, **fields)


def dead(rank: str, exit_code: int | None = None) -> RankReading:
    return RankReading(rank, 200 + int(rank[-1]), False, 1, exit_code=exit_code)


def both(first: int, second: int) -> tuple[RankReading, RankReading]:
    return reading("TP0", first), reading("TP1", second)


def seen(at: float, said: Iterable[str] = (), timestamp: float | None = None, **others: Any) -> Observation:
    found = others.pop("events", None) or events(said, at if timestamp is None else timestamp)
    others.setdefault("unit", RUNNING)
    others.setdefault("lines", len(found))
    return Observation(at=at, events=tuple(found), **others)


def start(**others: Any) -> StartupState:
    fields: dict[str, Any] = {
        "ranks": 2,
        "bytes_by_stage": (POOL,),
        "timeout_seconds": 600.0,
        "stall_seconds": 30.0,
        **others,
    }
    return initial(Expectation(**fields), 0.0)


def after(state: StartupState, *looks: Observation) -> StartupState:
    for look in looks:
        state = advance(state, look)
    return state


def pinning(at: float = 3.0) -> StartupState:
    """Two ranks that have just said that they allocate."""
    return after(
        start(),
        seen(1.0, BOOT, started_at=0.5, ranks=both(MIB, MIB)),
        seen(2.0, (*LOAD, *POOLS, *CAPACITY), ranks=both(MIB, MIB)),
        seen(at, PIN, ranks=both(MIB, MIB)),
    )


def died(*lines: str, unit: Any = KILLED, state: StartupState | None = None, **others: Any) -> StartupState:
    found = raw_events(lines, 10.0)
    return after(state or pinning(), seen(10.0, events=found, unit=unit, **others), seen(12.0, unit=unit))
