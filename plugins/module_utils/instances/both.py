# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two generations of an instance would take of one node at the same time, by their plans. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_gib

_NOT_BY_ITSELF = (
    "This role does not switch between two servers by itself: give the second an entry of sglang_instances with a port "
    "of its own, move the clients, and name the first in sglang_instances_absent; or set sglang_update_strategy to "
    "restart."
)
_RESTART = "Set sglang_update_strategy to restart, or make the pools of both smaller."


def both_generations(
    plan: Mapping[str, Any], running: Mapping[str, Any], topology: Mapping[str, Any], held_bytes: int | None
) -> str:
    """Why a second generation is not started beside the first, in sentences with the bytes of both.

    C(running) is the plan of the one that serves, empty where none does; C(held_bytes) is what its ranks hold of the
    host, None where it is not known. GPU memory is that of weights and pools alone, so that it is the least.
    """
    if not running:
        return f"sglang_update_strategy is blue_green, and no server runs to stand beside. {_NOT_BY_ITSELF}"
    held = int(running["host"]["bytes_total"] or 0) if held_bytes is None else held_bytes
    host_needed = held + int(plan["host"]["bytes_total"] or 0) + int(plan["host"]["reserve_bytes"] or 0)
    available = (topology.get("host") or {}).get("memory_available_bytes")
    host_there = None if available is None else int(available) + held
    said, unread, fits = [], [], True
    if host_there is None:
        unread.append("the node's memory")
    else:
        fits = host_needed <= host_there
        said.append(f"{format_gb(host_needed)} of {format_gb(host_there)} host memory")
    shared = _shared_gpus(plan, running)
    totals = _totals(shared, topology)
    if totals:
        needed = _device_bytes(plan) + _device_bytes(running)
        fits = fits and needed <= min(totals)
        said.append(f"at least {format_gib(needed)} of {format_gib(min(totals))} on each GPU that they share")
    if len(totals) < len(shared):
        unread.append("the memory of GPUs that they share")
    both = " and ".join(said) or "memory of both"
    if not fits:
        return f"sglang_update_strategy is blue_green, and both generations would need {both}. {_RESTART}"
    if unread:
        return (
            f"sglang_update_strategy is blue_green: both generations would take {both}, and {' and '.join(unread)} "
            f"could not be read, so that nobody can tell whether they fit. {_NOT_BY_ITSELF}"
        )
    return f"sglang_update_strategy is blue_green: both generations would take {both}, which fits. {_NOT_BY_ITSELF}"


def _device_bytes(plan: Mapping[str, Any]) -> int:
    """Of one GPU."""
    device = plan["device"]
    pools = sum(int(pool["allocated_bytes"] or 0) for pool in device["pools"])
    return int(device["weights_bytes"] or 0) + int(device["draft_weights_bytes"] or 0) + pools


def _shared_gpus(plan: Mapping[str, Any], running: Mapping[str, Any]) -> set[int]:
    """GPUs that both sit on."""
    mine, others = ({seat["gpu"] for seat in one["placement"]} - {None} for one in (plan, running))
    return mine & others


def _totals(shared: set[int], topology: Mapping[str, Any]) -> list[int]:
    """Memory of each of them that is known."""
    gpus = [gpu for gpu in topology.get("gpus") or [] if gpu.get("index") in shared]
    return [int(gpu["memory_total_bytes"]) for gpu in gpus if gpu.get("memory_total_bytes")]
