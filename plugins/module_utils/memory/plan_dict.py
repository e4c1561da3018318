# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan in its documented, JSON-safe form."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import StagePools
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePool
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import Plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.unit_limits import MEMLOCK
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.ports import ports_as_dict


def plan_as_dict(result: Plan) -> dict[str, Any]:
    """The documented form of a plan (RETURN of memory_plan)."""
    device, host, last = result.device, result.host, result.last_start
    raised = None
    if device.raised is not None:
        raised = {**asdict(device.raised), "largest_ratio": result.raised_largest_ratio}
    guard = None
    if host.guard is not None:
        guard = {
            "variant": host.guard.variant,
            "verdict": host.guard.verdict(host.room.guard_bytes),
            "required_bytes": host.guard.required_bytes,
            "best_order_bytes": host.guard.best_order_bytes,
            "worst_order_bytes": host.guard.worst_order_bytes,
            "available_bytes": host.room.guard_bytes,
        }
    return {
        "sglang_version": str(result.version.version),
        "model": {"name": result.model_name, "family": result.family},
        "machine": _machine_as_dict(result.machine),
        "device": {
            "device": device.device,
            "weights_bytes": device.weights_bytes,
            "draft_weights_bytes": device.draft_bytes,
            "reserved_bytes": device.reserved_bytes,
            "available_before_load_bytes": device.available_before_load_bytes,
            "pools": _device_pools(device.pools),
            "budget_bytes": device.budget_bytes,
            "kv_pool_bytes": device.kv_pool_bytes,
            "bytes_per_token": device.bytes_per_token,
            "page_size": device.page_size,
            "max_total_num_tokens": device.max_total_num_tokens,
            "token_groups": device.division.layout.attention_data_parallel_size,
            "total_num_tokens": device.total_num_tokens,
            "stages": [_stage_as_dict(stage) for stage in device.stages],
            "mem_fraction_static": device.mem_fraction_static,
            "mem_fraction_source": device.fraction_source,
            "reserve": None if device.reserve is None else asdict(device.reserve),
            "attention": None if device.attention is None else asdict(device.attention),
            "headroom_bytes": device.headroom_bytes,
            "raise": raised,
        },
        "host": {
            "enabled": bool(host.pools),
            "sizing": host.sizing.mode,
            "ratio": host.effective_ratio,
            "size_gb": host.sizing.size_gb,
            "host_memory_fraction": host.sizing.fraction,
            "pools": [
                {
                    "kind": pool.kind,
                    "tokens": pool.tokens,
                    "bytes_per_token": pool.bytes_per_token,
                    "bytes_per_rank": pool.bytes_per_rank,
                    "pinned_bytes": pool.pinned_bytes,
                }
                for pool in host.pools
            ],
            "stages": [
                {
                    "ranks": list(group.ranks),
                    "bytes_per_rank": group.bytes_per_rank,
                    "pinned_bytes_per_rank": group.pinned_per_rank,
                }
                for group in host.groups
            ],
            "tokens": host.tokens,
            "ranks": host.ranks,
            "bytes_per_rank": host.bytes_per_rank,
            "bytes_total": host.bytes_total,
            "pinned_bytes_total": host.pinned_bytes_total,
            "unique_bytes": host.unique_bytes,
            "duplication_factor": round(host.duplication_factor, 3),
            "remedies": [
                {
                    "code": remedy.code,
                    "message": remedy.message,
                    "unique_bytes_then": remedy.unique_bytes_then,
                    "factor_then": remedy.factor_then,
                    "flags": dict(remedy.flags),
                    "options": dict(remedy.options),
                }
                for remedy in result.remedies
            ],
            "numa": [
                {
                    "node": share.node,
                    "ranks": list(share.ranks),
                    "pinned_bytes": share.pinned_bytes,
                    "available_bytes": share.available_bytes,
                    "left_bytes": share.left_bytes,
                    "hugepages_free_bytes": share.huge_free_bytes,
                }
                for share in host.nodes
            ],
            "numa_binding": host.numa_binding,
            "reserve_bytes": host.reserve_bytes,
            "held_by_device_bytes": host.held_by_device_bytes,
            "required_available_bytes": host.required_available_bytes,
            "available_bytes": host.available_bytes,
            "guard": guard,
            "left_bytes": host.left_bytes,
            "limits": [
                {"name": limit.name, "bytes_per_rank": limit.bytes_per_rank, "explanation": limit.explanation}
                for limit in host.limits
            ],
            "largest_ratio": host.largest_ratio,
            "largest_size_gb": host.largest_size_gb,
            "largest_host_memory_fraction": host.largest_fraction,
            "hugepage_size": host.room.allocation.hugepage_size if host.pools else None,
            "meter": host.meter,
            "io_backend": host.io_backend,
            "mem_layout": host.mem_layout,
            "write_policy": host.write_policy,
        },
        "placement": [{"rank": seat.rank, "gpu": seat.gpu, "numa_node": seat.numa_node} for seat in result.seats],
        "timing": {
            "load_seconds": round(result.timing.load_seconds, 1),
            "pin_seconds": result.timing.pin_seconds,
            "rest_seconds": round(result.timing.rest_seconds, 1),
            "start_seconds": result.timing.start_seconds,
            "pin_bytes_per_second": result.timing.pin_bytes_per_second,
            "source": result.timing.source,
        },
        "unit": {
            "timeout_start_seconds": result.limits.timeout_start_seconds,
            "timeout_stop_seconds": result.limits.timeout_stop_seconds,
            "limit_memlock": MEMLOCK,
            "limit_memlock_bytes": result.limits.memlock_bytes,
            "ports": ports_as_dict(result.ports, fixed=True),
            "ports_one_of": ports_as_dict(result.ports, fixed=False),
            "success_exit_status": list(result.version.clean_stop_exit_statuses),
            "environment": dict(result.environment),
        },
        "arguments": dict(result.arguments),
        "settings": dict(result.settings),
        "last_start": None if last is None else last.as_dict(),
        "accuracy": [] if last is None else [deviation.as_dict() for deviation in last.deviations],
        "warnings": [problem.as_dict() for problem in result.warnings],
        "assumptions": list(result.assumptions),
        "explanation": list(result.explanation),
    }


def _device_pools(pools: tuple[DevicePool, ...]) -> list[dict[str, Any]]:
    return [
        {
            "kind": pool.kind,
            "slots": pool.slots,
            "bytes_per_slot": pool.bytes_per_slot,
            "allocated_bytes": pool.allocated_bytes,
        }
        for pool in pools
    ]


def _stage_as_dict(stage: StagePools) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "first_layer": stage.layers.start,
        "last_layer": stage.layers.stop - 1,
        "weights_bytes": stage.weights_bytes,
        "pools": _device_pools(stage.pools),
    }


def _machine_as_dict(machine: MachineFacts) -> dict[str, Any]:
    boards: dict[tuple[str | None, int | None], int] = {}
    for gpu in machine.gpus:
        board = (gpu.name, gpu.memory_total_bytes)
        boards[board] = boards.get(board, 0) + 1
    return {
        "gpus": [
            {"name": name, "memory_total_bytes": size_bytes, "count": count}
            for (name, size_bytes), count in boards.items()
        ],
        "numa_nodes": [node.id for node in machine.nodes],
        "numa_memory_bytes": [node.memory_total_bytes for node in machine.nodes],
        "memory_total_bytes": machine.memory_total_bytes,
        "memory_available_bytes": machine.memory_available_bytes,
    }
