# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host pools of compressed attention (DeepSeek-V4): mirrors of its paged pools and of the states beside the window.

Their sizes are counted in pages: those of the tokens, and those of the window. Source: SGLang, C(LogicalHostPool),
C(DeepSeekV4PagedHostPool) and C(DeepSeekV4StateHostPool) of mem_cache/memory_pool_host.py,
C(_deepseek_v4_num_host_pages) of hybrid_cache/hybrid_pool_assembler.py, C(_SIZEABLE_POOLS) of hicache_auto_size.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import KV, SWA, Layout
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_pools import (
    C4,
    C4_INDEXER,
    C4_INDEXER_STATE,
    C4_STATE,
    C128,
    C128_STATE,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePool
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_RATIO, Pool, Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import Allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    COMPRESSED_PAGE_SIZE,
    STATE_RINGS,
    compressed_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# Rows of one host page of each pool, and those whose pages are the window's.
_PAGE = COMPRESSED_PAGE_SIZE
_ROWS = {
    SWA: _PAGE,
    C4: _PAGE // 4,
    C4_INDEXER: _PAGE // 4,
    C128: _PAGE // 128,
    C4_STATE: STATE_RINGS[4],
    C4_INDEXER_STATE: STATE_RINGS[4],
    C128_STATE: STATE_RINGS[128],
}
_OF_WINDOW = frozenset({SWA, C4_STATE, C4_INDEXER_STATE, C128_STATE})


def keeps_compressed(device: Sequence[DevicePool]) -> bool:
    """Whether these are the pools of compressed attention."""
    return any(pool.kind in (C4, C128) for pool in device)


def check_compressed_host(facts: VersionFacts, attention: Attention, layout: Layout, sizing: Sizing) -> None:
    """Refuse what SGLang does not size, and what was not read."""
    if attention.compressed is None:
        return
    if sizing.mode != BY_RATIO:
        raise Refusal(
            "hicache_unsupported",
            f"SGLang {facts.version} sizes the host pools of this model by a ratio only, and the plan would size them "
            f"by a {'size' if sizing.size_gb else 'share of the host memory'}: the server would end with an error.",
            "Set hicache.ratio, or hicache.leave_bytes or hicache.target_tokens, which the plan turns into one.",
            {"sglang_version": str(facts.version)},
        )
    if layout.pipeline_parallel_size > 1:
        raise Refusal(
            "hicache_unsupported",
            "The host pools of this model over pipeline stages were not read.",
            "Set pipeline_parallel_size to 1, or hicache.enabled to false.",
            {"pipeline_parallel_size": layout.pipeline_parallel_size},
        )


def compressed_host_pools(
    facts: VersionFacts, device: Sequence[DevicePool], sizing: Sizing, lies: Allocation
) -> tuple[Pool, ...]:
    """The host pools of one rank; the first holds no bytes, and counts the tokens that the host can keep."""
    rules = compressed_facts(str(facts.version))
    kept = {pool.kind: pool for pool in device}

    def pages(of_device: int) -> int:
        wanted = int(of_device * (sizing.ratio or 0.0))
        return max(wanted, of_device + 1) if rules.host_larger_than_device else wanted

    rows = next(pool for pool in device if pool.kind in (C4, C128))
    of_tokens, of_window = pages(rows.slots // _ROWS[rows.kind]), pages(kept[SWA].slots // _PAGE)
    built = [Pool(KV, of_tokens * _PAGE, 0, 0)]
    for pool in device:
        if pool.kind == C128_STATE and not rules.host_request_states:
            continue
        slots = (of_window if pool.kind in _OF_WINDOW else of_tokens) * _ROWS[pool.kind]
        size = slots * pool.bytes_per_slot
        # Some layouts allocate layer by layer.
        built.append(Pool(pool.kind, slots, pool.bytes_per_slot, lies.pinned(size, pool.layers)))
    return tuple(built)
