# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a server makes of the HiCache settings that it is given: the values in force, or its refusal.

The whole of it, storage included, though plans refuse storage: what a server does cannot depend on what is planned.
Which backend decodes instead of fa3 under the kernel copies of 0.5.5 to 0.5.13 is said by
memory/fraction/attention_backend.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.hicache_versions import (
    ANY_TO_DIRECT,
    CUDA_TO_DIRECT,
    FA3_DECODE,
    KERNEL_TO_DIRECT,
    PAIR,
    STORAGE,
    UNIFIED,
    HiCacheFacts,
    hicache_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

CACHE, BUFFER_ONLY = "cache", "buffer_only"


@dataclass(frozen=True)
class HiCacheFlags:
    """HiCache's flags as they are given; None where one is left out."""

    io_backend: str | None = None
    mem_layout: str | None = None
    ratio: float | None = None
    size_gb: int | None = None
    host_memory_fraction: float | None = None
    write_policy: str | None = None
    storage_backend: str | None = None
    host_memory_mode: str = CACHE


@dataclass(frozen=True)
class Beside:
    """What else the server runs with, as far as HiCache looks at it."""

    decode_attention_backend: str | None = None  # asked for by its own flag
    latent: bool = False  # the model has latent attention (MLA, DSA)
    speculative_algorithm: str | None = None
    decode_context_parallel_size: int = 1
    disable_radix_cache: bool = False
    lmcache: bool = False
    unified_memory: bool = False


@dataclass(frozen=True)
class HiCacheInForce:
    """What the server runs with once it has resolved its arguments."""

    io_backend: str | None
    mem_layout: str | None
    ratio: float
    size_gb: int
    host_memory_fraction: float | None
    write_policy: str


def hicache_in_force(facts: VersionFacts, flags: HiCacheFlags, beside: Beside) -> HiCacheInForce:
    """The values in force of a server with HiCache, or Refusal with the server's reason."""
    rules = hicache_facts(facts.version)
    found = _defaults(facts, rules, flags)
    _refuse_companions(rules, beside)
    found = _host_memory_mode(rules, flags, found)
    for rule in rules.rules:
        found = _APPLIED[rule](found, rules, flags, beside)
    _refuse_context_parallel(rules, flags, beside)
    return found


def _refused(reason: str, remedy: str) -> Refusal:
    return Refusal("hicache_refused_by_server", reason, remedy)


def _defaults(facts: VersionFacts, rules: HiCacheFacts, flags: HiCacheFlags) -> HiCacheInForce:
    fraction = flags.host_memory_fraction
    if fraction is not None and not 0 < fraction <= 1:
        raise _refused(
            f"SGLang refuses --hicache-host-memory-fraction {fraction:g}.", "Give a number above 0 and not above 1."
        )
    size_gb = flags.size_gb or 0
    # A ratio or a size that is given switches automatic sizing off.
    sized = flags.ratio is not None or size_gb > 0
    default_ratio = rules.buffer_ratio if flags.host_memory_mode == BUFFER_ONLY else facts.default_ratio
    return HiCacheInForce(
        io_backend=flags.io_backend or facts.default_io_backend,
        mem_layout=flags.mem_layout or facts.default_mem_layout,
        ratio=default_ratio if flags.ratio is None else flags.ratio,
        size_gb=size_gb,
        host_memory_fraction=None if sized else fraction or facts.default_host_memory_fraction,
        write_policy=flags.write_policy or facts.default_write_policy,
    )


def _refuse_companions(rules: HiCacheFacts, beside: Beside) -> None:
    if beside.disable_radix_cache:
        raise _refused(
            "SGLang refuses HiCache together with --disable-radix-cache: the host tier is a part of the radix cache.",
            "Drop one of the two.",
        )
    if beside.lmcache and rules.refuses_lmcache:
        raise _refused("SGLang refuses HiCache together with --enable-lmcache.", "Drop one of the two.")
    if beside.unified_memory and rules.refuses_unified_memory:
        raise _refused("SGLang refuses HiCache together with --enable-unified-memory.", "Drop one of the two.")
    if beside.unified_memory and (beside.speculative_algorithm or "").upper() in ("EAGLE", "EAGLE3"):
        raise _refused(
            "SGLang refuses HiCache with --enable-unified-memory and a draft of EAGLE's kind.", "Drop one of the three."
        )


def _host_memory_mode(rules: HiCacheFacts, flags: HiCacheFlags, found: HiCacheInForce) -> HiCacheInForce:
    if flags.host_memory_mode != BUFFER_ONLY:
        return found
    if flags.storage_backend is None:
        raise _refused(
            "SGLang refuses --hicache-host-memory-mode buffer_only without a storage backend.",
            "Give a storage backend, or leave the mode at cache.",
        )
    if found.write_policy != "write_back":
        return found
    if not rules.buffer_rewrites_write_back:
        raise _refused(
            "SGLang refuses --hicache-host-memory-mode buffer_only with write_back.", "Set write_through instead."
        )
    return replace(found, write_policy="write_through")


def _refuse_context_parallel(rules: HiCacheFacts, flags: HiCacheFlags, beside: Beside) -> None:
    drafts = rules.context_parallel_drafts
    if beside.decode_context_parallel_size <= 1 or drafts is None:
        return
    if flags.storage_backend is not None and (not rules.context_parallel_stores or flags.host_memory_mode != CACHE):
        raise _refused(
            "SGLang refuses HiCache's storage with --dcp-size above 1, of this release or in this host memory mode.",
            "Set dcp-size to 1, or do without storage.",
        )
    if beside.speculative_algorithm is not None and beside.speculative_algorithm.upper() not in drafts:
        only = f" other than {' and '.join(drafts)}" if drafts else ""
        raise _refused(
            f"SGLang refuses HiCache with --dcp-size above 1 and speculative decoding{only}.", "Drop one of the three."
        )
    if beside.lmcache:
        raise _refused("SGLang refuses --enable-lmcache with --dcp-size above 1.", "Drop one of the two.")
    if not beside.latent:
        raise _refused(
            "SGLang refuses HiCache with --dcp-size above 1 for models without latent attention (MLA).",
            "Set dcp-size to 1, or do without HiCache.",
        )


def _any_to_direct(found: HiCacheInForce, *_others: object) -> HiCacheInForce:
    return replace(found, io_backend="direct") if found.mem_layout == "page_first_direct" else found


def _cuda_to_direct(found: HiCacheInForce, *_others: object) -> HiCacheInForce:
    return found if found.io_backend == "kernel_ascend" else _any_to_direct(found)


def _kernel_to_direct(found: HiCacheInForce, *_others: object) -> HiCacheInForce:
    return _any_to_direct(found) if found.io_backend == "kernel" else found


def _pair(found: HiCacheInForce, *_others: object) -> HiCacheInForce:
    found = _kernel_to_direct(found)
    if (found.io_backend, found.mem_layout) == ("direct", "page_first"):
        return replace(found, mem_layout="page_first_direct")
    return found


def _storage(found: HiCacheInForce, rules: HiCacheFacts, flags: HiCacheFlags, beside: Beside) -> HiCacheInForce:
    if flags.storage_backend not in rules.paged_storage or found.mem_layout != "layer_first":
        return found
    if flags.storage_backend == "mooncake" and beside.decode_context_parallel_size > 1:
        return found
    layout = {"direct": "page_first_direct", "kernel": "page_first"}.get(str(found.io_backend), "layer_first")
    return replace(found, mem_layout=layout)


def _fa3_decode(found: HiCacheInForce, _rules: HiCacheFacts, _flags: HiCacheFlags, beside: Beside) -> HiCacheInForce:
    if found.io_backend == "kernel" and beside.decode_attention_backend == "fa3":
        return replace(found, io_backend="direct")
    return found


def _unified(found: HiCacheInForce, _rules: HiCacheFacts, _flags: HiCacheFlags, beside: Beside) -> HiCacheInForce:
    if not beside.unified_memory or found.mem_layout != "page_first_direct":
        return found
    return replace(found, mem_layout="page_first", io_backend="kernel")


_APPLIED: dict[str, Callable[[HiCacheInForce, HiCacheFacts, HiCacheFlags, Beside], HiCacheInForce]] = {
    ANY_TO_DIRECT: _any_to_direct,
    CUDA_TO_DIRECT: _cuda_to_direct,
    KERNEL_TO_DIRECT: _kernel_to_direct,
    PAIR: _pair,
    STORAGE: _storage,
    FA3_DECODE: _fa3_decode,
    UNIFIED: _unified,
}
