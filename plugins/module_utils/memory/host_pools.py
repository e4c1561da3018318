# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host pools of one rank by kind: what a ratio, a size or a share of memory comes to in each.

A ratio is taken of every pool by itself. A size is that of each pool up to 0.5.16; from 0.5.17 on the KV, window and
state pools share it in proportion to their bytes on the device, while index keys lie beside it: they have the slots of
the KV pool, whatever its size was.

Source: SGLang, mem_cache/hiradix_cache.py (to 0.5.10), hybrid_cache/hybrid_pool_assembler.py (C(_split_hicache_size),
C(build_hybrid_mamba_stack), C(build_hybrid_swa_stack), C(build_minimax_sparse_hicache_stack)), pool_host/mamba.py,
pool_host/dsa.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cell_size import DRAFT, INDEXER, KV, MAMBA, SWA
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_pools import DevicePool
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import (
    BY_RATIO,
    BY_SIZE,
    RATIO_STEP,
    Pool,
    Sizing,
    largest_fitting,
    pool_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import (
    FAMILY_DSA,
    FAMILY_SPARSE,
    Attention,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.pool_versions import INDEX_JOINED, pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts

# The pools between which a size is divided.
_SHARING = (KV, SWA, MAMBA)


def check_host_pools(facts: VersionFacts, attention: Attention) -> None:
    """Refuse HiCache where a release has no host pool for what the device keeps."""
    pools = pool_facts(str(facts.version))
    missing = None
    if attention.window is not None and not pools.host_windows:
        missing = "window layers begins with 0.5.13"
    elif attention.state is not None and not pools.host_states:
        missing = "states begins with 0.5.10"
    elif attention.family == FAMILY_DSA and pools.host_index is None:
        missing = "index keys begins with 0.5.9"
    elif attention.family == FAMILY_SPARSE and attention.index is not None and attention.index.value_layers:
        raise Refusal(
            "hicache_unsupported",
            "SGLang keeps no host pool for index layers with values (sparse_disable_index_value).",
            "Set hicache.enabled to false.",
        )
    if missing is not None:
        raise Refusal(
            "hicache_unsupported",
            f"SGLang {facts.version} has no HiCache for this model: its host pool for {missing}.",
            "Set hicache.enabled to false, or take a newer release.",
            {"sglang_version": str(facts.version)},
        )


def host_pools(facts: VersionFacts, device: Sequence[DevicePool], page_size: int, sizing: Sizing) -> tuple[Pool, ...]:
    """Slots and bytes a slot of every host pool of one rank; C(device) are its pools on the device."""
    rules = pool_facts(str(facts.version))
    joined = rules.host_index == INDEX_JOINED
    index = next((pool for pool in device if pool.kind == INDEXER), None)
    built: list[Pool] = []
    sharing = sum(pool.allocated_bytes for pool in device if pool.kind in _SHARING)
    for pool in device:
        size = pool.bytes_per_slot
        if pool.kind == KV and index is not None and joined:
            size += index.bytes_per_slot
        if pool.kind == INDEXER:
            if not joined:
                built.append(Pool(INDEXER, built[0].tokens, size))
            continue
        if pool.kind == DRAFT:
            # A sidecar with the slots of the KV pool, a page more as long as it was sized by a ratio of its own.
            built.append(Pool(DRAFT, built[0].tokens, size))
            continue
        own = sizing
        if sizing.mode == BY_SIZE and rules.splits_size and len([p for p in device if p.kind in _SHARING]) > 1:
            own = replace(sizing, size_gb=None, size_bytes=(sizing.size_gb or 0) * pool.allocated_bytes / sharing * GB)
        # States are single: a slot more, not a page.
        page = 1 if pool.kind == MAMBA else page_size
        built.append(Pool(pool.kind, max(0, pool_tokens(facts, pool.slots, page, size, own)), size))
    return tuple(built)


def host_bytes(pools: Sequence[Pool]) -> int:
    return sum(pool.bytes_per_rank for pool in pools)


def mirrored_bytes(device: Sequence[DevicePool]) -> int:
    """Device bytes whose host pools grow with the ratio (hicache_auto_size.py C(_estimate_hicache_bytes))."""
    return sum(pool.allocated_bytes for pool in device)


def _allowed(facts: VersionFacts, device: Sequence[DevicePool], built: Sequence[Pool]) -> bool:
    """To 0.5.14 every host pool has to be larger than its device pool."""
    slots = {pool.kind: pool.slots for pool in device}
    least = 0 if not facts.smaller_than_device_is_fatal else None
    return all(pool.tokens > (slots.get(pool.kind, 0) if least is None else least) for pool in built)


def largest_ratio_of(
    facts: VersionFacts, device: Sequence[DevicePool], page_size: int, bytes_per_rank: int
) -> float | None:
    """The largest ratio, in hundredths, whose pools stay within C(bytes_per_rank); None if none is possible."""

    def built(hundredths: int) -> tuple[Pool, ...]:
        return host_pools(facts, device, page_size, Sizing(BY_RATIO, ratio=hundredths / RATIO_STEP))

    used = sum(pool.used_bytes for pool in device)
    if used < 1:
        return None
    # A page or a slot more in each pool, for the releases that round down.
    reach = max(0, bytes_per_rank) + sum(pool.bytes_per_slot * max(page_size, pool.padding) for pool in device)
    found = largest_fitting(
        reach * RATIO_STEP // used + 1, lambda hundredths: host_bytes(built(hundredths)) <= bytes_per_rank
    )
    return found / RATIO_STEP if found and _allowed(facts, device, built(found)) else None


def largest_size_of(
    facts: VersionFacts, device: Sequence[DevicePool], page_size: int, bytes_per_rank: int
) -> int | None:
    """The largest whole C(--hicache-size) whose pools stay within C(bytes_per_rank)."""

    def built(size_gb: int) -> tuple[Pool, ...]:
        return host_pools(facts, device, page_size, Sizing(BY_SIZE, size_gb=size_gb))

    found = largest_fitting(max(0, bytes_per_rank) // GB + 1, lambda size: host_bytes(built(size)) <= bytes_per_rank)
    return found if found and _allowed(facts, device, built(found)) else None


def copies_of(attention: Attention, kind: str, ranks: int) -> int:
    """How many ranks hold a pool of their own; the others hold a copy of one of them.

    Latent rows and index keys are alike on every rank; with fewer KV heads than ranks each head lives on several;
    states are divided by heads of their own.
    """
    if kind in (INDEXER, DRAFT) and (kind == INDEXER or attention.latent):
        return 1
    if kind == MAMBA:
        return ranks
    if kind == SWA and attention.window is not None:
        return min(ranks, attention.window.num_kv_heads)
    return 1 if attention.latent else min(ranks, attention.num_kv_heads)
