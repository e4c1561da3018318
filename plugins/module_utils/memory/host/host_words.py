# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arithmetic of the host pools, a line for each number."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import MAMBA
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_plan import HostPlan, asked_for
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb


def rank_words(ranks: Sequence[int]) -> str:
    """C(rank 3), C(ranks 0 to 3) or C(ranks 0, 2, 5)."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"ranks {ordered[0]} to {ordered[-1]}"
    return f"ranks {', '.join(str(rank) for rank in ordered)}"


def explain_host(device: DevicePlan, host: HostPlan) -> list[str]:
    """What the pools come to, what they need, and what bounds them."""
    if not host.pools or host.guard is None:
        return ["HiCache is off"]
    lines = [*_pool_lines(device, host), *_pinned_lines(host), _total_line(host), _required_line(host)]
    lines.append(_guard_line(host))
    lines += [_node_line(host, number) for number in range(len(host.nodes)) if host.nodes[number].ranks]
    lines += [
        f"{limit.allowing} {format_gb(limit.bytes_per_rank)} a rank: {limit.explanation}" for limit in host.limits
    ]
    return lines


def _pool_lines(device: DevicePlan, host: HostPlan) -> list[str]:
    first, *others = host.pools
    lines = [
        f"host tokens a rank = {asked_for(host)} of {format_count(device.max_total_num_tokens)} device tokens, "
        f"in pages of {device.page_size} = {format_count(first.tokens)}",
    ]
    # Where only other pools hold the tokens, the first one counts them.
    if first.bytes_per_token:
        lines.append(
            f"host bytes a rank = {format_count(first.tokens)} x {first.bytes_per_token:,} = "
            f"{format_gb(first.bytes_per_rank)}"
        )
    names = {MAMBA: "states"} if first.bytes_per_token else {pool.kind: "rows" for pool in others}
    lines += [
        f"host {pool.kind} pool = {format_count(pool.tokens)} {names.get(pool.kind, 'tokens')} x "
        f"{pool.bytes_per_token:,} = {format_gb(pool.bytes_per_rank)}"
        for pool in others
    ]
    if others:
        lines.append(f"host bytes a rank in {len(host.pools)} pools = {format_gb(host.bytes_per_rank)}")
    if len(host.groups) > 1:
        lines += [
            f"host bytes of {rank_words(group.ranks)} = {format_gb(group.bytes_per_rank)} each" for group in host.groups
        ]
    return lines


def _pinned_lines(host: HostPlan) -> list[str]:
    largest = host.largest_group
    if largest is None or largest.pinned_per_rank == largest.bytes_per_rank:
        return []
    why = "each allocation of pinned memory takes the next power of two"
    if host.room.allocation.hugepage_size is not None:
        why = f"each allocation takes whole huge pages of {host.room.allocation.hugepage_size}"
    return [f"pinned for them = {format_gb(largest.pinned_per_rank)} a rank, as {why}"]


def _total_line(host: HostPlan) -> str:
    counts = {copies for group in host.copies for copies in group}
    total = f"host bytes in all = {format_gb(host.bytes_total)}"
    if len(host.groups) == 1:
        total = (
            f"host bytes in all = {host.ranks} ranks x {format_gb(host.bytes_per_rank)} = {format_gb(host.bytes_total)}"
        )
    if len(host.groups) > 1 or len(counts) > 1:
        return f"{total}; {format_gb(host.unique_bytes)} of them unique"
    copies = host.copies[0][0]
    return (
        f"{total}; {copies} of them hold{'s' if copies == 1 else ''} a cache of {'its' if copies == 1 else 'their'} "
        f"own = {format_gb(host.unique_bytes)} unique"
    )


def _required_line(host: HostPlan) -> str:
    of_device = ""
    if host.held_by_device_bytes:
        of_device = f" + {format_gb(host.held_by_device_bytes)} of the CPU's own KV cache and weights"
    pools = format_gb(host.drawn_bytes)
    if host.room.allocation.hugepage_size is not None:
        pools = f"{format_gb(0)} of pools, which lie in reserved huge pages"
    return (
        f"must be available = {pools}{of_device} + {format_gb(host.reserve_bytes)} reserve = "
        f"{format_gb(host.required_available_bytes)}"
    )


def _guard_line(host: HostPlan) -> str:
    guard = host.guard
    if guard is None:
        return ""
    asks = format_gb(guard.required_bytes)
    plain = len(host.groups) == 1 and len(host.pools) == 1 and host.drawn_bytes == host.bytes_total
    if guard.variant == "D" and host.sizing.fraction is not None:
        return f"guard D books all ranks against one snapshot = {asks}"
    if guard.variant == "A":
        if plain:
            return f"guard A asks for one rank + 10 GiB = {asks}"
        return f"guard A asks for each pool by itself + 10 GiB = {asks} in the best order of arrival"
    if plain:
        return (
            f"guard {guard.variant} asks, of the last rank to arrive, for (2 x {host.ranks} - 1) x "
            f"{format_gb(host.bytes_per_rank)} + 10 GiB = {asks}"
        )
    return (
        f"guard {guard.variant} asks for {host.ranks} x each pool beside what lies there already + 10 GiB = {asks} in "
        f"the worst order of arrival, {format_gb(guard.best_order_bytes)} in the best"
    )


def _node_line(host: HostPlan, number: int) -> str:
    share = host.nodes[number]
    words = f"NUMA node {share.node}: {rank_words(share.ranks)} pin{'s' if len(share.ranks) == 1 else ''} "
    words += format_gb(share.pinned_bytes)
    if host.room.allocation.hugepage_size is not None:
        if share.huge_free_bytes is None:
            return f"{words} of huge pages"
        return f"{words} of {format_gb(share.huge_free_bytes)} in free huge pages"
    if share.available_bytes is None:
        return words
    return f"{words} of {format_gb(share.available_bytes)} available"
