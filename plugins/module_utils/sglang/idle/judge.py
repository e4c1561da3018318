# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is still held, by whom, and whether the next start can go on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import GpuMemory, Look, Process
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import Bounds, Needs

PROCESS, GPU, HOST, NODE, HUGE_PAGES = "process", "gpu", "host_memory", "numa_node", "huge_pages"


@dataclass(frozen=True)
class Hold:
    """One reason not to start yet.

    C(bytes) is what is held, or missing of the host's memory. C(bearable): the server may start all the same. C(pid) is
    None for memory that no process is named for.
    """

    kind: str
    bytes: int | None
    bearable: bool = False
    pid: int | None = None
    name: str | None = None
    user: str | None = None
    unit: str | None = None
    container: str | None = None
    state: str | None = None
    belongs: str | None = None
    gpu: int | None = None
    numa_node: int | None = None
    required_bytes: int | None = None
    available_bytes: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def hold_from_dict(data: Mapping[str, Any]) -> Hold:
    """The inverse of C(Hold.as_dict)."""
    fields: dict[str, Any] = {name: data.get(name) for name in Hold.__dataclass_fields__}
    return Hold(**{**fields, "bearable": bool(data.get("bearable"))})


def holds_of(look: Look, needs: Needs) -> tuple[Hold, ...]:
    """Empty on a node that is idle for this instance. What other instances hold counts only where it is missing."""
    own = [process for process in look.processes if process.belongs is not None]
    found = [_of_process(PROCESS, process, process.held_bytes) for process in own]
    for gpu in look.gpus or ():
        found.extend(_on_gpu(gpu, needs, {process.pid for process in own}))
    found.extend(_of_memory(look, needs))
    return tuple(found)


def _of_process(kind: str, process: Process, size: int | None, gpu: int | None = None) -> Hold:
    return Hold(
        kind=kind,
        bytes=size,
        pid=process.pid,
        name=process.name,
        user=process.user,
        unit=process.unit,
        container=process.container,
        state=process.state,
        belongs=process.belongs,
        gpu=gpu,
    )


def gpu_is_idle(gpu: GpuMemory, needs: Needs) -> bool:
    """A GPU that tells nothing is not waited for."""
    if gpu.memory_used_bytes is None or gpu.memory_used_bytes <= needs.gpu_idle_bytes:
        return True
    return (
        needs.gpu_free_bytes is not None
        and gpu.memory_free_bytes is not None
        and gpu.memory_free_bytes >= needs.gpu_free_bytes
    )


def _on_gpu(gpu: GpuMemory, needs: Needs, own: set[int]) -> Iterator[Hold]:
    """The instance's own processes always count, others only where the GPU has too little left."""
    idle = gpu_is_idle(gpu, needs)
    for user in sorted(gpu.users, key=lambda one: -(one.memory_used_bytes or 0)):
        if not idle or user.process.pid in own:
            yield _of_process(GPU, user.process, user.memory_used_bytes, gpu.index)
    if idle:
        return
    unnamed = gpu.unnamed_bytes
    if not gpu.users or (unnamed is not None and unnamed > needs.gpu_idle_bytes):
        yield Hold(GPU, gpu.memory_used_bytes if unnamed is None else unnamed, gpu=gpu.index)


def _missing(kind: str, needed: Bounds, available: int | None, node: int | None = None) -> Iterator[Hold]:
    if available is not None and available < needed.required_bytes:
        yield Hold(
            kind,
            needed.required_bytes - available,
            bearable=available >= needed.least_bytes,
            numa_node=node,
            required_bytes=needed.required_bytes,
            available_bytes=available,
        )


def _of_memory(look: Look, needs: Needs) -> Iterator[Hold]:
    if needs.host is not None:
        yield from _missing(HOST, needs.host, look.host.available_bytes)
    nodes = {node.node: node for node in look.nodes}
    for number, needed in needs.nodes:
        yield from _missing(NODE, needed, nodes[number].available_bytes if number in nodes else None, number)
    for where, size in needs.hugepages:
        pages = look.host.hugepages if where is None else nodes[where].hugepages if where in nodes else ()
        free = next((one.free_bytes for one in pages if one.size_bytes == needs.hugepage_bytes), None)
        yield from _missing(HUGE_PAGES, Bounds(size, size), free, where)


def missing_host_bytes(holds: tuple[Hold, ...]) -> int:
    """The host memory that has yet to come back: of the whole host, or of the nodes where those lack more."""
    host = sum(hold.bytes or 0 for hold in holds if hold.kind in (HOST, HUGE_PAGES))
    nodes = sum(hold.bytes or 0 for hold in holds if hold.kind == NODE)
    return max(host, nodes)


def held_host_bytes(holds: tuple[Hold, ...]) -> int:
    """What is missing, or what the old processes still hold where that is more."""
    return max(missing_host_bytes(holds), sum(hold.bytes or 0 for hold in holds if hold.kind == PROCESS))


def held_gpu_bytes(holds: tuple[Hold, ...]) -> int:
    return sum(hold.bytes or 0 for hold in holds if hold.kind == GPU)
