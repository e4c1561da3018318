# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How each release rewrites HiCache's settings before it starts, as data.

Read in server_args.py (_handle_hicache and what it calls) to 0.5.18, in arg_groups/hicache_hook.py from 0.5.19 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, value_at

# The rules, named for what they look at.
ANY_TO_DIRECT = "page_first_direct makes every io backend direct"
CUDA_TO_DIRECT = "page_first_direct makes every io backend but kernel_ascend direct"
KERNEL_TO_DIRECT = "page_first_direct makes kernel direct"
PAIR = "kernel with page_first_direct becomes direct, page_first with direct becomes page_first_direct"
STORAGE = "a storage backend that cannot keep layer_first gets a page layout"
FA3_DECODE = "fa3 that is asked for by --decode-attention-backend makes kernel direct"
UNIFIED = "unified memory gets page_first with kernel"

_RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.7", ()),
    ("0.5.3", (STORAGE, ANY_TO_DIRECT)),
    ("0.5.5", (STORAGE, ANY_TO_DIRECT, FA3_DECODE)),
    ("0.5.7", (STORAGE, CUDA_TO_DIRECT, FA3_DECODE)),
    ("0.5.8", (KERNEL_TO_DIRECT, FA3_DECODE, STORAGE)),
    ("0.5.10", (PAIR, STORAGE, FA3_DECODE, PAIR)),
    ("0.5.14", (PAIR, STORAGE)),
    ("0.5.23", (PAIR, STORAGE, UNIFIED)),
)
_PAGED_STORAGE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.7", ("mooncake",)),
    ("0.5.20", ("mooncake", "npu_memcache")),
)
# The ratio when none is given and host memory only stages what goes to storage.
_BUFFER_RATIO: tuple[tuple[str, float], ...] = (("0.4.7", 2.0), ("0.5.19", 1.2))
# kv_cache_hook.py _handle_cache_compatibility and the like: what a server refuses beside HiCache, by flag; before the
# release given it starts and one of the two silently loses.
_LMCACHE_REFUSED = (("0.4.7", False), ("0.5.21", True))
# handle_unified_memory_pool: no host pools at first; later only drafts of EAGLE's kind are refused beside them.
_UNIFIED_REFUSED = (("0.4.7", True), ("0.5.21", False))
# _resolve_hicache_dcp_compatibility: the drafts that --dcp-size takes with HiCache, None where nobody looks, and
# whether a storage backend goes with the two.
_CONTEXT_PARALLEL_DRAFTS: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("0.4.7", None),
    ("0.5.17", ()),
    ("0.5.18", ("DSPARK",)),
)
_CONTEXT_PARALLEL_STORES = (("0.4.7", False), ("0.5.23", True))
# arg_groups/hicache_hook.py: from 0.5.22 on buffer_only turns write_back into write_through, before it refused it.
_BUFFER_REWRITES_WRITE_BACK = (("0.4.7", False), ("0.5.22", True))
# mem_cache/memory_pool_host.py, mem_cache/pool_host/: (io backend, layout) that the copies of NVIDIA cards know.
# page_head is of plain heads alone. Any other pair is kept by the server and fails at the first copy.
COPIES = frozenset(
    {
        ("kernel", "layer_first"),
        ("kernel", "page_first"),
        ("kernel", "page_head"),
        ("direct", "layer_first"),
        ("direct", "page_first_direct"),
    }
)
LAYOUTS_OF_HEADS = frozenset({"page_head"})


# The layouts that a host pool of states takes (mem_cache/memory_pool_host.py, later pool_host/mamba.py: MambaPoolHost),
# and one of keys and values of different widths (pool_host/mha.py: AsymmetricMHATokenToKVPoolHost); None for all.
_STATE_LAYOUTS: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("0.4.7", None),
    ("0.5.14", ("page_first_direct",)),
    ("0.5.16", ("page_first", "page_first_direct")),
)
_UNEQUAL_LAYOUTS: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("0.4.7", None),
    ("0.5.14", ("page_first", "page_first_direct")),
)

# managers/scheduler.py tp_cache_group: all ranks before, those of one attention group from there on.
_SYNCS_ATTENTION_GROUPS = (("0.4.7", False), ("0.4.8", True))


@dataclass(frozen=True)
class HiCacheFacts:
    rules: tuple[str, ...]
    paged_storage: tuple[str, ...]
    buffer_ratio: float
    refuses_lmcache: bool
    refuses_unified_memory: bool
    context_parallel_drafts: tuple[str, ...] | None
    context_parallel_stores: bool
    buffer_rewrites_write_back: bool
    syncs_attention_groups: bool
    layouts_of_states: tuple[str, ...] | None
    layouts_of_unequal_widths: tuple[str, ...] | None


def hicache_facts(version: Version) -> HiCacheFacts:
    return HiCacheFacts(
        rules=value_at(_RULES, version),
        paged_storage=value_at(_PAGED_STORAGE, version),
        buffer_ratio=value_at(_BUFFER_RATIO, version),
        refuses_lmcache=value_at(_LMCACHE_REFUSED, version),
        refuses_unified_memory=value_at(_UNIFIED_REFUSED, version),
        context_parallel_drafts=value_at(_CONTEXT_PARALLEL_DRAFTS, version),
        context_parallel_stores=value_at(_CONTEXT_PARALLEL_STORES, version),
        buffer_rewrites_write_back=value_at(_BUFFER_REWRITES_WRITE_BACK, version),
        syncs_attention_groups=value_at(_SYNCS_ATTENTION_GROUPS, version),
        layouts_of_states=value_at(_STATE_LAYOUTS, version),
        layouts_of_unequal_widths=value_at(_UNEQUAL_LAYOUTS, version),
    )
