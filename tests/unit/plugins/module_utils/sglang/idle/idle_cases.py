# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import (
    BY_UNIT,
    GpuMemory,
    GpuUser,
    HostMemory,
    Look,
    NodeMemory,
    Process,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus, parse_show

GB = 10**9
STOPPED = parse_show("Id=sglang-main.service\nLoadState=loaded\nActiveState=inactive\nSubState=dead\n", "sglang-main")
STOPPING = parse_show(
    "Id=sglang-main.service\nLoadState=loaded\nActiveState=deactivating\nSubState=stop-sigterm\nMainPID=100\n", "x"
)
RUNNING = parse_show(
    "Id=sglang-main.service\nLoadState=loaded\nActiveState=active\nSubState=running\nMainPID=100\n", "x"
)
RESTARTING = parse_show(
    "Id=sglang-main.service\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n", "x"
)
RANK = Process(
    201, "sglang::scheduler_TP0", "sglang", "sglang-main.service", state="S", shmem_bytes=GB, belongs=BY_UNIT
)
STRANGER = Process(4711, "python3 -m vllm", "bob", None, "0123456789ab", state="S")


def gpu(index: int = 0, used: int = 0, *users: tuple[Process, int | None], total: int = 100 * GB) -> GpuMemory:
    return GpuMemory(
        index,
        f"GPU-{index}",
        "board",
        memory_total_bytes=total,
        memory_used_bytes=used,
        memory_free_bytes=total - used,
        users=tuple(GpuUser(process, size) for process, size in users),
    )


def look(
    available: int | None = 100 * GB,
    processes: Sequence[Process] = (),
    gpus: Sequence[GpuMemory] | None = (),
    nodes: Sequence[NodeMemory] = (),
) -> Look:
    return Look(
        tuple(processes), None if gpus is None else tuple(gpus), HostMemory(available_bytes=available), tuple(nodes)
    )


def plan(**host: Any) -> dict[str, Any]:
    """Two ranks with pools of 20 GB each on GPUs 0 and 1, bound to a node each."""
    return {
        "sglang_version": "0.5.23",
        "device": {
            "device": "cuda",
            "available_before_load_bytes": 95 * GB,
            "max_total_num_tokens": 1000,
            "bytes_per_token": GB // 200,
            "page_size": 1,
        },
        "host": {
            "sizing": "ratio",
            "ratio": 4.0,
            "largest_ratio": 6.0,
            "ranks": 2,
            "bytes_per_rank": 20 * GB,
            "pinned_bytes_total": 40 * GB,
            "required_available_bytes": 50 * GB,
            "available_bytes": 100 * GB,
            "reserve_bytes": 10 * GB,
            "held_by_device_bytes": 0,
            "guard": {"required_bytes": 48 * GB, "best_order_bytes": 45 * GB, "worst_order_bytes": 50 * GB},
            "numa_binding": "strict",
            "numa": [
                {"node": 0, "ranks": [0], "pinned_bytes": 20 * GB, "available_bytes": 50 * GB},
                {"node": 1, "ranks": [1], "pinned_bytes": 20 * GB, "available_bytes": 50 * GB},
            ],
            "hugepage_size": None,
            **host,
        },
        "placement": [{"rank": 0, "gpu": 1, "numa_node": 0}, {"rank": 1, "gpu": 0, "numa_node": 1}],
        "unit": {"timeout_stop_seconds": 400},
    }


def unit_dict(unit: UnitStatus) -> dict[str, Any]:
    return unit.as_dict()
