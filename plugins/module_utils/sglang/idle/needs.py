# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to be free before a start, from the plan of that start. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, HUGEPAGE_SIZES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.unpinning import (
    UNPIN_BYTES_PER_SECOND,
    UNPIN_MARGIN_FACTOR,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import STRICT

# Below this a GPU counts as idle: what a driver keeps, a display and monitoring take.
GPU_IDLE_BYTES = 1 * GIB
# What is expected of a node that gives nothing back: a process that ends, and the look at it.
MARGIN_SECONDS = 60.0
# What an old server may hold where neither a plan nor its processes say it.
UNKNOWN_HELD_BYTES = 512 * GIB


@dataclass(frozen=True)
class Bounds:
    """C(required_bytes) is what the plan counts on. With C(least_bytes) the server may still start: less than the
    plan's reserve stays, or the check of the server passes in some orders of its ranks only."""

    required_bytes: int
    least_bytes: int


@dataclass(frozen=True)
class Needs:
    """C(host) is None where nothing is asked of the host's memory; C(nodes) are those that ranks are bound to strictly.

    C(hugepages) is in reserved huge pages of C(hugepage_bytes), by NUMA node, or under None for the whole host.
    C(gpu_free_bytes) is what the plan counts on for each GPU.
    """

    host: Bounds | None = None
    nodes: tuple[tuple[int, Bounds], ...] = ()
    hugepage_bytes: int | None = None
    hugepages: tuple[tuple[int | None, int], ...] = ()
    gpu_free_bytes: int | None = None
    gpu_idle_bytes: int = GPU_IDLE_BYTES

    def as_dict(self) -> dict[str, Any]:
        """What C(needs_from_dict) reads."""
        return {
            "required_available_bytes": self.host.required_bytes if self.host else None,
            "least_available_bytes": self.host.least_bytes if self.host else None,
            "numa_nodes": [
                {"node": node, "required_bytes": one.required_bytes, "least_bytes": one.least_bytes}
                for node, one in self.nodes
            ],
            "hugepage_bytes": self.hugepage_bytes,
            "hugepages": [{"node": node, "bytes": size} for node, size in self.hugepages],
            "gpu_free_bytes": self.gpu_free_bytes,
            "gpu_idle_bytes": self.gpu_idle_bytes,
        }


def needs_from_dict(data: Mapping[str, Any]) -> Needs:
    def bounds(entry: Mapping[str, Any], required: str, least: str) -> Bounds | None:
        if entry.get(required) is None:
            return None
        return Bounds(entry[required], entry[required] if entry.get(least) is None else entry[least])

    nodes = [(entry["node"], bounds(entry, "required_bytes", "least_bytes")) for entry in data.get("numa_nodes") or ()]
    idle = data.get("gpu_idle_bytes")
    return Needs(
        host=bounds(data, "required_available_bytes", "least_available_bytes"),
        nodes=tuple((node, one) for node, one in nodes if one is not None),
        hugepage_bytes=data.get("hugepage_bytes"),
        hugepages=tuple((entry.get("node"), entry["bytes"]) for entry in data.get("hugepages") or ()),
        gpu_free_bytes=data.get("gpu_free_bytes"),
        gpu_idle_bytes=GPU_IDLE_BYTES if idle is None else idle,
    )


def needs_of_plan(plan: Mapping[str, Any], gpu_idle_bytes: int = GPU_IDLE_BYTES) -> Needs:
    """What the plan of memory_plan counts on.

    A plan that was forced past what the node has (allow_oversubscription) asks for nothing that cannot come true: then
    the old server's own processes and GPUs are waited for, and the start shows what comes of it.
    """
    host: Mapping[str, Any] = plan.get("host") or {}
    device: Mapping[str, Any] = plan.get("device") or {}
    nodes, pages = _of_nodes(host)
    page = HUGEPAGE_SIZES.get(str(host.get("hugepage_size")))
    on_gpu = device.get("device") != "cpu"
    return Needs(
        host=_of_host(host),
        nodes=nodes if page is None else (),
        hugepage_bytes=page,
        hugepages=pages if page is not None else (),
        gpu_free_bytes=device.get("available_before_load_bytes") if on_gpu else None,
        gpu_idle_bytes=gpu_idle_bytes,
    )


def gpus_of_plan(plan: Mapping[str, Any]) -> list[str] | None:
    """The GPUs that the plan seats ranks on; none on a CPU, None where there is no plan."""
    seats: Sequence[Mapping[str, Any]] | None = plan.get("placement")
    if seats is None:
        return None
    return [str(gpu) for gpu in sorted({seat["gpu"] for seat in seats if seat.get("gpu") is not None})]


def _of_host(host: Mapping[str, Any]) -> Bounds | None:
    required, there = host.get("required_available_bytes"), host.get("available_bytes")
    if required is None:
        return None
    least, guard = required - (host.get("reserve_bytes") or 0), host.get("guard") or {}
    # The server's own check, which on a CPU comes after the device's pools have been taken.
    before = host.get("held_by_device_bytes") or 0
    if guard.get("required_bytes") is not None:
        required = max(required, guard["required_bytes"] + before)
        least = max(least, guard.get("best_order_bytes", guard["required_bytes"]) + before)
    required = max(required, least)
    if there is None or there >= required:
        return Bounds(required, least)
    return Bounds(there, least) if there >= least else None


def _of_nodes(
    host: Mapping[str, Any],
) -> tuple[tuple[tuple[int, Bounds], ...], tuple[tuple[int | None, int], ...]]:
    """By node in ordinary memory, and in huge pages."""
    shares: Sequence[Mapping[str, Any]] = host.get("numa") or ()
    total = host.get("pinned_bytes_total") or 0
    if host.get("numa_binding") != STRICT or not shares:
        return (), ((None, total),) if total else ()
    kept = (host.get("reserve_bytes") or 0) // len(shares)
    found: list[tuple[int, Bounds]] = []
    pages: list[tuple[int | None, int]] = []
    for share in shares:
        least, there = share.get("pinned_bytes") or 0, share.get("available_bytes")
        if least:
            pages.append((share["node"], least))
        if least and (there is None or there >= least):
            found.append((share["node"], Bounds(least + kept if there is None else min(least + kept, there), least)))
    return tuple(found), tuple(pages)


def release_seconds(held_bytes: int) -> float:
    """How long so much pinned memory may take to come back, by the rate seen in the field, with a margin."""
    return UNPIN_MARGIN_FACTOR * held_bytes / UNPIN_BYTES_PER_SECOND


def time_limit_seconds(plan: Mapping[str, Any]) -> float:
    """The longest wait for what the old server held. It is taken to have held no less than the new one will."""
    host: Mapping[str, Any] = plan.get("host") or {}
    return MARGIN_SECONDS + release_seconds(host.get("pinned_bytes_total") or UNKNOWN_HELD_BYTES)
