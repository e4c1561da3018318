# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines about the host tier of the cache, as rows of the grammar. Pools are told in GB (1e9), budgets in GiB.

Almost every line about a pool comes before its memory is allocated, the two kinds of DeepSeek-V4 after. Several pools a
rank are usual; those of a draft may follow the line that ends the tier. Nothing marks the end before 0.5.11, and to
0.5.12 only where several kinds of pools work together.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import (
    INTEGER,
    NUMBER,
    SIGNED,
    SIZE,
    TOKENS,
    Row,
    row,
)

TREE_CACHE = "tree_cache"
POOL_STACK = "pool_stack"
_POOL = "mem_cache/memory_pool_host.py"
_BASE = "mem_cache/pool_host/base.py"
_ASSEMBLER = "mem_cache/hybrid_cache/hybrid_pool_assembler.py"
_MMAP = "mem_cache/storage/mmap/mmap_allocator.py"
_REGISTRY = "mem_cache/registry.py"
_TREE = r"Tree cache initialized: (?:(?=.{0,400}? impl=(?P<tree>\w{1,80}))|).{0,400}?\b"
_CGROUP = rf"(?:(?P<cgroup_gib>-?\d{{1,7}}\.\d)|{SIGNED})"


def _pool(
    words: str, label: str | None, since: str | None = None, until: str | None = None, source: str = _POOL
) -> Row:
    return row("stage_begin", words, "host_pool", label, GB, since, until, source=source)


def _end(words: str, label: str, since: str, until: str | None, source: str) -> Row:
    return row("stage_end", words, "host_pool", label, GB, since, until, after_allocating=True, source=source)


def _otherwise(words: str, since: str) -> Row:
    return row("progress", words, "host_pool", "as_shared_memory", GB, since, source=_MMAP)


HOST_ROWS: tuple[Row, ...] = (
    _pool(rf"Allocating {SIZE} GB host memory for hierarchical KV cache\.", "kv", until="0.5.17", source=_BASE),
    # The label is kv, full, swa, draft or draft_swa; of the draft's layers some lie in the pool of the target.
    _pool(
        rf"Allocating (?P<label>[\w -]{{1,60}}?) hierarchical KV host pool: {TOKENS} tokens, {SIZE} GB host memory",
        None,
        "0.5.17",
        source=_BASE,
    ),
    _pool(
        rf"Allocating {SIZE} GB host memory for hierarchical Mamba cache \(layout=",
        "mamba",
        "0.5.10",
        "0.5.23",
        "mem_cache/pool_host/mamba.py",
    ),
    _pool(
        rf"Allocating {SIZE} GB host memory for hierarchical Mamba cache \((?P<slots_count>{INTEGER}) state slots, ",
        "mamba",
        "0.5.23",
        source="mem_cache/pool_host/mamba.py",
    ),
    _pool(rf"Allocating {SIZE} GB host memory for NSA indexer \(", "indexer", "0.5.11", "0.5.13"),
    _pool(
        rf"Allocating {SIZE} GB host memory for DSA indexer \(",
        "indexer",
        "0.5.13",
        source="mem_cache/pool_host/dsa.py",
    ),
    _pool(
        rf"Allocating {SIZE} GB host memory for MiniMax sparse index-K \(",
        "indexer",
        "0.5.15",
        source="mem_cache/pool_host/mha.py",
    ),
    _pool(
        rf"Allocating {SIZE} GB host memory for MiniMax NVFP4 index cache \(",
        "indexer",
        "0.5.23",
        source="mem_cache/pool_host/minimax_m3_nvfp4.py",
    ),
    row(
        "stage_begin",
        rf"Allocating {SIZE} GB host memory for V4 paged pool '(?P<pool>[^']{{1,80}})'",
        "host_pool",
        "v4_paged",
        GB,
        "0.5.12",
        after_allocating=True,
        source=_POOL,
    ),
    row(
        "stage_begin",
        rf"Allocating {SIZE} GB host memory for V4 state pool '(?P<pool>[^']{{1,80}})'",
        "host_pool",
        "v4_state",
        GB,
        "0.5.12",
        after_allocating=True,
        source=_POOL,
    ),
    # This rank keeps no bytes: one of the ranks of a latent cache holds them for all.
    row(
        "progress",
        rf"MLATokenToKVPoolHost dummy mode: allocator-only, size={TOKENS} tokens, saving (?P<saved_gb>{NUMBER}) GB",
        "host_pool",
        "none_of_its_own",
        GB,
        "0.5.20",
        source="mem_cache/pool_host/mla.py",
    ),
    # What was asked for cannot be had: huge pages, or memory of its own that several threads fill. The pool becomes
    # plain shared memory.
    _otherwise(r"Hugepage mmap requested but libc\.so\.6 could not be loaded", "0.5.13"),
    _otherwise(r"Hugepage mmap via libc failed \(", "0.5.13"),
    _otherwise(r"Hugepages are not supported with SHM allocator\.", "0.5.17"),
    _otherwise(r"Parallel private host allocation failed \(", "0.5.23"),
    # A limit that is none is a number too large for what it says.
    row(
        "progress",
        rf"HiCache memory headroom: host (?P<host_gib>{SIGNED}) GiB, cgroup {_CGROUP} GiB",
        "host_pool",
        "headroom",
        since="0.5.21",
        source="mem_cache/host_memory.py",
    ),
    row(
        "progress",
        rf"HiCache auto-sizing: ratio (?P<requested_ratio>{NUMBER}) -> (?P<ratio>{NUMBER}); "
        rf"(?P<budget_gib>{SIGNED}) GiB host memory per rank "
        rf"\(fraction (?P<host_memory_fraction>{NUMBER}), (?P<ranks_count>{INTEGER}) ranks on this host\), "
        rf"host pools (?P<pools_gib>{NUMBER}) GiB",
        "host_pool",
        "auto_size",
        since="0.5.21",
        source="mem_cache/hicache_auto_size.py",
    ),
    _end(r"Attached hybrid pool stack to UnifiedRadixCache: pools=", POOL_STACK, "0.5.11", None, _ASSEMBLER),
    _end(r"Attached hybrid NSA pool stack to HiRadixCache: pools=", POOL_STACK, "0.5.11", "0.5.13", _ASSEMBLER),
    _end(r"Attached hybrid Mamba pool stack to HiMambaRadixCache: pools=", POOL_STACK, "0.5.11", "0.5.18", _ASSEMBLER),
    _end(r"Attached hybrid DSA pool stack to HiRadixCache: pools=", POOL_STACK, "0.5.13", "0.5.21", _ASSEMBLER),
    _end(
        r"Attached hybrid MiniMax sparse pool stack to HiRadixCache: pools=", POOL_STACK, "0.5.15", "0.5.21", _ASSEMBLER
    ),
    _end(rf"{_TREE}hierarchical=True\b", TREE_CACHE, "0.5.13", "0.5.18", _REGISTRY),
    _end(rf"{_TREE}hicache_attached=True\b", TREE_CACHE, "0.5.18", None, _REGISTRY),
)
