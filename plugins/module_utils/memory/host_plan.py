# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host part of one plan: what the pools of all ranks come to on this machine, with its arithmetic told in words.

The terms and the rules behind them are in host.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cell_size import MAMBA
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import (
    BY_FRACTION,
    BY_SIZE,
    DISABLED,
    GuardNeed,
    Limit,
    NodeShare,
    Pool,
    Sizing,
    auto_ratio,
    guard_need,
    limits,
    shares,
    usable_host_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host_pools import (
    check_host_pools,
    copies_of,
    host_pools,
    largest_ratio_of,
    largest_size_of,
    mirrored_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts


@dataclass(frozen=True)
class HostPlan:
    """Host pools of all ranks and what they ask of the machine; see host.py for each term."""

    sizing: Sizing
    effective_ratio: float | None
    pools: tuple[Pool, ...]
    ranks: int
    copies: tuple[int, ...]  # for each pool, the ranks with one of their own
    nodes: tuple[NodeShare, ...]
    numa_binding: str
    reserve_bytes: int
    held_by_device_bytes: int
    available_bytes: int | None
    guard: GuardNeed | None
    limits: tuple[Limit, ...]
    largest_ratio: float | None
    largest_size_gb: int | None
    meter: str
    io_backend: str | None
    mem_layout: str | None
    write_policy: str | None

    @property
    def tokens(self) -> int:
        return self.pools[0].tokens if self.pools else 0

    @property
    def bytes_per_rank(self) -> int:
        return sum(pool.bytes_per_rank for pool in self.pools)

    @property
    def bytes_total(self) -> int:
        return self.ranks * self.bytes_per_rank

    @property
    def unique_bytes(self) -> int:
        return sum(pool.bytes_per_rank * copies for pool, copies in zip(self.pools, self.copies))

    @property
    def duplication_factor(self) -> float:
        return self.bytes_total / self.unique_bytes if self.unique_bytes else 1.0

    @property
    def required_available_bytes(self) -> int:
        """What has to be available before the start, so that every pool fits and the reserve stays."""
        return self.bytes_total + self.held_by_device_bytes + self.reserve_bytes

    @property
    def left_bytes(self) -> int | None:
        if self.available_bytes is None:
            return None
        return self.available_bytes - self.held_by_device_bytes - self.bytes_total


def plan_host(
    request: PlanRequest,
    facts: VersionFacts,
    sizing: Sizing,
    transfer: tuple[str | None, str | None],
    device: DevicePlan,
    placed: tuple[Seat, ...],
    numa_binding: str,
    assumptions: list[str],
) -> HostPlan:
    ranks = request.server.ranks
    own = request.observed.own_pinned_bytes or 0
    # On a CPU the "device" pool and the weights are host memory as well.
    held = 0
    if device.device == "cpu":
        held = ranks * device.kv_pool_bytes + (request.model.weights_bytes or 0)
    usable = usable_host_bytes(request.machine, own, held)
    pools: tuple[Pool, ...] = ()
    ratio = sizing.ratio
    if sizing.mode == BY_FRACTION:
        ratio = facts.default_ratio
        if usable is not None:
            ratio = auto_ratio(facts, mirrored_bytes(device.pools), ranks, usable, sizing.fraction or 1.0)
    if sizing.mode != DISABLED:
        effective = Sizing(sizing.mode, ratio=ratio, size_gb=sizing.size_gb, fraction=sizing.fraction)
        check_host_pools(facts, device.division.attention)
        pools = host_pools(facts, device.pools, device.page_size, effective)
    bytes_per_rank = sum(pool.bytes_per_rank for pool in pools)
    reserve = request.host_reserve_bytes
    nodes = shares(request.machine, placed, bytes_per_rank, reserve, own, assumptions)
    bounds = limits(facts, ranks, usable, reserve, nodes, sizing, numa_binding) if pools else ()
    tightest = bounds[0].bytes_per_rank if bounds else None
    geometry = (facts, device.pools, device.page_size)
    return HostPlan(
        sizing=sizing,
        effective_ratio=ratio if sizing.mode != BY_SIZE else None,
        pools=pools,
        ranks=ranks,
        copies=tuple(
            copies_of(device.division.attention, pool.kind, request.server.tensor_parallel_size) for pool in pools
        ),
        nodes=nodes,
        numa_binding=numa_binding,
        reserve_bytes=reserve,
        held_by_device_bytes=held,
        available_bytes=None if usable is None else usable + held,
        guard=guard_need(facts, ranks, bytes_per_rank, sizing) if pools else None,
        limits=bounds,
        largest_ratio=None if tightest is None else largest_ratio_of(*geometry, tightest),
        largest_size_gb=None if tightest is None else largest_size_of(*geometry, tightest),
        meter=facts.meter,
        io_backend=transfer[0],
        mem_layout=transfer[1],
        write_policy=(request.hicache.write_policy or facts.default_write_policy) if pools else None,
    )


def asked_for(host: HostPlan) -> str:
    """How the pools were asked for, as a sentence names it."""
    if host.sizing.mode == BY_SIZE:
        return f"HiCache size {host.sizing.size_gb} GB a rank"
    if host.sizing.mode == BY_FRACTION:
        return f"HiCache with host memory fraction {host.sizing.fraction} (ratio {host.effective_ratio:.3f})"
    return f"HiCache ratio {host.sizing.ratio}"


def _pool_lines(device: DevicePlan, host: HostPlan) -> list[str]:
    first, *others = host.pools
    lines = [
        f"host tokens a rank = {asked_for(host)} of {format_count(device.max_total_num_tokens)} device tokens, "
        f"in pages of {device.page_size} = {format_count(first.tokens)}",
        f"host bytes a rank = {format_count(first.tokens)} x {first.bytes_per_token:,} = "
        f"{format_gb(first.bytes_per_rank)}",
    ]
    lines += [
        f"host {pool.kind} pool = {format_count(pool.tokens)} {'states' if pool.kind == MAMBA else 'tokens'} x "
        f"{pool.bytes_per_token:,} = {format_gb(pool.bytes_per_rank)}"
        for pool in others
    ]
    if others:
        lines.append(f"host bytes a rank in {len(host.pools)} pools = {format_gb(host.bytes_per_rank)}")
    return lines


def _total_line(host: HostPlan) -> str:
    total = (
        f"host bytes in all = {host.ranks} ranks x {format_gb(host.bytes_per_rank)} = {format_gb(host.bytes_total)}; "
    )
    if len(set(host.copies)) > 1:
        return f"{total}{format_gb(host.unique_bytes)} of them unique"
    copies = host.copies[0]
    return (
        f"{total}{copies} of them hold{'s' if copies == 1 else ''} a cache of {'its' if copies == 1 else 'their'} own "
        f"= {format_gb(host.unique_bytes)} unique"
    )


def explain_host(device: DevicePlan, host: HostPlan) -> list[str]:
    """The arithmetic of the host pools, a line for each number."""
    if not host.pools or host.guard is None:
        return ["HiCache is off"]
    of_device = ""
    if host.held_by_device_bytes:
        of_device = f" + {format_gb(host.held_by_device_bytes)} of the CPU's own KV cache and weights"
    lines = [*_pool_lines(device, host), _total_line(host)]
    lines.append(
        f"must be available = {format_gb(host.bytes_total)}{of_device} + {format_gb(host.reserve_bytes)} reserve = "
        f"{format_gb(host.required_available_bytes)}"
    )
    guard = host.guard
    if guard.variant == "A":
        lines.append(f"guard A asks for one rank + 10 GiB = {format_gb(guard.required_bytes)}")
    elif guard.best_order_bytes == guard.worst_order_bytes:
        lines.append(f"guard {guard.variant} books all ranks against one snapshot = {format_gb(guard.required_bytes)}")
    else:
        lines.append(
            f"guard {guard.variant} asks, of the last rank to arrive, for (2 x {host.ranks} - 1) x "
            f"{format_gb(host.bytes_per_rank)} + 10 GiB = {format_gb(guard.required_bytes)}"
        )
    lines += [
        f"a rank may pin {format_gb(limit.bytes_per_rank)} by the {limit.name}: {limit.explanation}"
        for limit in host.limits
    ]
    return lines
