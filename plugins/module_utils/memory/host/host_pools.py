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

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    DRAFT,
    INDEXER,
    KV,
    MAMBA,
    SWA,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_host import (
    compressed_host_pools,
    keeps_compressed,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePool
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_SIZE, Pool, Sizing, pool_tokens
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import Allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import (
    FAMILY_DSA,
    FAMILY_SPARSE,
    Attention,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    INDEX_JOINED,
    pool_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# Pools that a size is divided between; the others follow the KV pool's tokens or are not built of a size at all.
_SHARING = (KV, SWA, MAMBA)
# Tensors that a pool allocates one by one: of states, a recurrent one and up to three convolutions
# (pool_host/mamba.py); of rows joined with their index keys, both.
_STATE_TENSORS, _JOINED_TENSORS = 4, 2


def check_host_pools(facts: VersionFacts, attention: Attention) -> None:
    """Refuse HiCache where a release has no host pool for what the device keeps."""
    pools = pool_facts(str(facts.version))
    missing = None
    if attention.window is not None and not pools.host_windows:
        missing = "window layers begins with 0.5.13"
    elif attention.state is not None and not pools.host_states:
        missing = "states begins with 0.5.10"
    elif (
        not attention.latent
        and attention.head_dim != attention.v_head_dim
        and pools.allocates_value_width
        and not pools.host_value_width
    ):
        missing = "values of another width than the keys begins with 0.5.14"
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


def host_pools(
    facts: VersionFacts,
    device: Sequence[DevicePool],
    page_size: int,
    sizing: Sizing,
    allocation: Allocation | None = None,
) -> tuple[Pool, ...]:
    """Every host pool of one rank, in the order in which they are built; C(device) are its pools on the device."""
    rules = pool_facts(str(facts.version))
    lies = allocation or Allocation(facts.meter)
    if keeps_compressed(device):
        return compressed_host_pools(facts, device, sizing, lies)
    joined = rules.host_index == INDEX_JOINED
    index = next((pool for pool in device if pool.kind == INDEXER), None)
    built: list[Pool] = []
    sharing = sum(pool.allocated_bytes for pool in device if pool.kind in _SHARING)

    # indexer_page_num = (size + page_size + 1) // page_size, where size is of whole pages (since 0.5.9, in
    # memory_pool_host.py, from 0.5.19 on in pool_host/dsa.py).
    spare_tokens = (page_size + 1) // page_size * page_size

    def add(kind: str, tokens: int, size: int, keys: int, tensors: int = 1) -> None:
        spare = spare_tokens * keys
        built.append(Pool(kind, tokens, size, lies.pinned(tokens * size + spare, tensors), spare))

    for pool in device:
        size = pool.bytes_per_slot
        if pool.kind == INDEXER:
            if not joined:
                add(INDEXER, built[0].tokens, size, pool.index_bytes_per_slot)
            continue
        if pool.kind == DRAFT:
            # A sidecar with the slots of the KV pool, a page more as long as it was sized by a ratio of its own.
            add(DRAFT, built[0].tokens, size, pool.index_bytes_per_slot)
            continue
        own = sizing
        if sizing.mode == BY_SIZE and rules.splits_size and len([p for p in device if p.kind in _SHARING]) > 1:
            own = replace(sizing, size_gb=None, size_bytes=(sizing.size_gb or 0) * pool.allocated_bytes / sharing * GB)
        # States are single: a slot more, not a page.
        page = 1 if pool.kind == MAMBA else page_size
        tensors, keys = _STATE_TENSORS if pool.kind == MAMBA else 1, 0
        if pool.kind == KV and index is not None and joined:
            size, tensors, keys = size + index.bytes_per_slot, _JOINED_TENSORS, index.index_bytes_per_slot
        add(pool.kind, max(0, pool_tokens(facts, pool.slots, page, size, own)), size, keys, tensors)
    return tuple(built)


def stages_of_host(
    facts: VersionFacts,
    stages: Sequence[Sequence[DevicePool]],
    page_size: int,
    sizing: Sizing,
    allocation: Allocation,
) -> tuple[tuple[Pool, ...], ...]:
    """The host pools of one rank of each pipeline stage; a size gives all stages the tokens of the poorest."""
    built = [host_pools(facts, stage, page_size, sizing, allocation) for stage in stages]
    if len(built) == 1 or sizing.mode != BY_SIZE or not host_memory_facts(facts.version).syncs_fixed_size:
        return tuple(built)
    fewest: dict[str, int] = {}
    for pools in built:
        for pool in pools:
            fewest[pool.kind] = min(pool.tokens, fewest.get(pool.kind, pool.tokens))
    return tuple(
        tuple(
            replace(
                pool,
                tokens=fewest[pool.kind],
                pinned_bytes=allocation.pinned(
                    fewest[pool.kind] * pool.bytes_per_token + pool.spare_bytes,
                    _STATE_TENSORS if pool.kind == MAMBA else 1,
                ),
            )
            for pool in pools
        )
        for pools in built
    )


def host_bytes(pools: Sequence[Pool]) -> int:
    return sum(pool.bytes_per_rank for pool in pools)


def mirrored_bytes(device: Sequence[DevicePool]) -> int:
    """Device bytes whose host pools grow with the ratio (hicache_auto_size.py C(_estimate_hicache_bytes))."""
    return sum(pool.allocated_bytes for pool in device)


def larger_than_device(facts: VersionFacts, device: Sequence[DevicePool], built: Sequence[Pool]) -> bool:
    """Whether the release takes these pools: to 0.5.14 each has to be larger than its device pool, none is empty."""
    slots = {pool.kind: pool.slots for pool in device}
    # Compressed pools are made larger by themselves in those releases.
    least = 0 if not facts.smaller_than_device_is_fatal or keeps_compressed(device) else None
    return all(pool.tokens > (slots.get(pool.kind, 0) if least is None else least) for pool in built)


def copies_of(attention: Attention, kind: str, ranks: int, groups: int = 1) -> int:
    """How many ranks of a stage hold a pool of their own; the others hold a copy of one of them.

    Latent rows and index keys are alike on every rank; with fewer KV heads than ranks each head lives on several;
    states are divided by heads of their own. C(groups) are those of attention data parallelism: each keeps the cache of
    requests of its own, and divides the heads over its own C(ranks / groups).
    """
    within = ranks // groups
    if kind in (INDEXER, DRAFT) and (kind == INDEXER or attention.latent):
        return groups
    if kind == MAMBA:
        return ranks
    if kind == SWA and attention.window is not None:
        return groups * min(within, attention.window.num_kv_heads)
    return groups * (1 if attention.latent else min(within, attention.num_kv_heads))
