# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be done about ranks that pin the same cache several times, with what it would come to.

Every figure is at the bytes a rank that the plan has: what changes is how many of them are a cache of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_plan import HostPlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_pools import copies_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.sharing_versions import (
    DP_BY_SIZE,
    sharing_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# Below, the copies are those of a small pool beside large ones.
WORTH_FACTOR = 1.05
STORAGE = "storage"


@dataclass(frozen=True)
class Remedy:
    """C(flags) are the server's, C(options) those of memory_plan that set them; empty where it plans no such thing."""

    code: str
    message: str
    unique_bytes_then: int
    factor_then: float
    flags: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)


def remedies(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> tuple[Remedy, ...]:
    """What the release has against duplication, most unique bytes first; nothing where there is none."""
    if not host.groups or host.duplication_factor < WORTH_FACTOR:
        return ()
    found = [
        remedy
        for remedy in (
            _attention_groups(facts, device, host),
            _pipeline(facts, device, host),
            _context_parallel(facts, device, host),
            _storage(facts, device, host),
        )
        if remedy is not None
    ]
    return tuple(sorted(found, key=lambda remedy: -remedy.unique_bytes_then))


def _factor(host: HostPlan, unique_bytes: int) -> float:
    return round(host.bytes_total / unique_bytes, 3) if unique_bytes else 1.0


def _attention_groups(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> Remedy | None:
    layout, attention = device.division.layout, device.division.attention
    ranks, now = layout.tensor_parallel_size, layout.attention_data_parallel_size

    def unique_with(groups: int) -> int:
        return sum(
            pool.bytes_per_rank * copies_of(attention, pool.kind, ranks, groups)
            for group in host.groups
            for pool in group.pools
        )

    # The fewest groups that give most.
    groups = max((size for size in range(now, ranks + 1) if ranks % size == 0), key=unique_with)
    best = unique_with(groups)
    if best <= host.unique_bytes:
        return None
    flags: dict[str, Any] = {"enable-dp-attention": True, "dp-size": groups}
    if sharing_facts(facts.version).dp_attention == DP_BY_SIZE:
        flags = {"attn-dp-size": groups}
    return Remedy(
        "attention_data_parallel",
        f"Attention data parallelism of {groups}: {groups} groups of ranks keep the caches of requests of their own, "
        f"{format_count(groups * host.tokens)} host tokens instead of {format_count(now * host.tokens)} at the same "
        f"bytes a rank, {format_gb(best)} of them unique instead of {format_gb(host.unique_bytes)}. A request finds "
        "what its own group keeps; attention weights are whole in each group, which takes tokens off the device.",
        best,
        _factor(host, best),
        flags,
        {"server.attention_data_parallel_size": groups},
    )


def _pipeline(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> Remedy | None:
    layout, attention = device.division.layout, device.division.attention
    if layout.attention_data_parallel_size > 1 or not pool_facts(str(facts.version)).pipeline_synced:
        return None
    # HiCache over stages was not read there (compressed_host.py).
    if attention.compressed is not None:
        return None
    tensor = layout.tensor_parallel_size
    # Latent rows are whole on every rank; heads are no longer held twice once there are as many as ranks.
    wanted = tensor // 2 if attention.latent else attention.num_kv_heads
    if wanted < 1 or tensor % wanted or wanted == tensor:
        return None
    stages = layout.pipeline_parallel_size * tensor // wanted
    if stages > attention.num_layers:
        return None
    unique = sum(
        pool.bytes_per_rank * copies_of(attention, pool.kind, wanted) * len(group.ranks) // wanted
        for group in host.groups
        for pool in group.pools
    )
    more = tensor // wanted
    return Remedy(
        "pipeline_parallel",
        f"{stages} pipeline stages of {wanted} rank{'s' if wanted > 1 else ''} each: a rank holds 1/{more} of the "
        f"layers, so the same bytes hold about {more} times the tokens, {format_gb(unique)} of them unique instead of "
        f"{format_gb(host.unique_bytes)}. Requests pass the stages one after the other.",
        unique,
        _factor(host, unique),
        {"tp-size": wanted, "pp-size": stages},
        {"server.tensor_parallel_size": wanted, "server.pipeline_parallel_size": stages},
    )


def _context_parallel(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> Remedy | None:
    layout, attention = device.division.layout, device.division.attention
    ranks = layout.attention_ranks
    if not attention.latent or ranks < 2 or not sharing_facts(facts.version).dcp_with_hicache:
        return None
    if device.division.speculation is not None or attention.state is not None:
        return None
    return Remedy(
        "decode_context_parallel",
        f"Decode context parallelism of {ranks}: the ranks of a group keep one token in {ranks} each, so all "
        f"{format_gb(host.bytes_total)} are unique. It sends queries and results between the ranks at every step, and "
        "this collection does not plan it.",
        host.bytes_total,
        1.0,
        {"dcp-size": ranks},
    )


def _storage(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> Remedy | None:
    sharing = sharing_facts(facts.version)
    if not sharing.storage_backends or not (sharing.storage_once and device.division.attention.latent):
        return None
    return Remedy(
        STORAGE,
        f"A storage tier ({', '.join(sharing.storage_backends)}): of latent rows, rank 0 alone writes, so it keeps "
        f"each page once where the host keeps it {host.duplication_factor:.3g} times. The host tier stays as it is and "
        "can be smaller; this collection does not plan the storage.",
        host.unique_bytes,
        round(host.duplication_factor, 3),
        {"hicache-storage-backend": sharing.storage_backends[0]},
    )


def explain_remedies(host: HostPlan, found: tuple[Remedy, ...]) -> list[str]:
    """A line for each, short; the whole sentence is in the plan's host.remedies."""
    return [
        f"the same cache lies {host.duplication_factor:.3g} times in host memory; with {_flag_words(remedy)} "
        f"{format_gb(remedy.unique_bytes_then)} would be unique"
        + (", and storage keeps each page once" if remedy.code == STORAGE else "")
        for remedy in found
    ]


def _flag_words(remedy: Remedy) -> str:
    return " ".join(f"--{name}" if value is True else f"--{name} {value}" for name, value in remedy.flags.items())
