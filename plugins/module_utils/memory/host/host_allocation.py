# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the host pools of a rank come to lie: ordinary memory, or huge pages that were reserved for them.

Source: SGLang, mem_cache/storage/mmap/mmap_allocator.py C(alloc_mmap).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import HUGEPAGE_SIZES
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    HUGEPAGE_VARIABLE,
    HUGEPAGES_BEGIN,
    PARALLEL_BEGINS,
    PARALLEL_VARIABLE,
    host_memory_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


@dataclass(frozen=True)
class Allocation:
    """C(hugepage_bytes) is the size of the huge pages that pools lie in, None in ordinary memory."""

    meter: str
    hugepage_size: str | None = None
    powers_of_two: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def hugepage_bytes(self) -> int | None:
        return None if self.hugepage_size is None else HUGEPAGE_SIZES[self.hugepage_size]

    def pinned(self, wanted_bytes: int, allocations: int) -> int:
        """What so many allocations of together C(wanted_bytes) pin, at most."""
        if wanted_bytes <= 0:
            return 0
        if self.powers_of_two:
            return 1 << (wanted_bytes - 1).bit_length()
        page = self.hugepage_bytes
        if page is None:
            return wanted_bytes
        # Each allocation begins a page of its own.
        return (-(-wanted_bytes // page) + allocations - 1) * page

    def drawn(self, pinned_bytes: int) -> int:
        """What the available memory falls by: pages that were reserved are not in it."""
        return 0 if self.hugepage_size is not None else pinned_bytes


def resolve_allocation(facts: VersionFacts, hicache: HiCacheRequest) -> Allocation:
    """How the release will allocate what is asked for, or Refusal."""
    rules = host_memory_facts(facts.version)
    size, threads = hicache.hugepage_size, hicache.parallel_alloc_threads
    if size is not None and size not in HUGEPAGE_SIZES:
        raise Refusal(
            "hugepage_size_unknown",
            f"hicache.hugepage_size is '{size}'.",
            f"Expected one of {', '.join(HUGEPAGE_SIZES)}, or null for ordinary memory.",
            {"hugepage_size": size},
        )
    if size is not None and not rules.hugepages:
        raise Refusal(
            "hugepages_unsupported",
            f"hicache.hugepage_size is {size}, and SGLang {facts.version} takes no host pool from huge pages.",
            f"Leave it out, or take SGLang {HUGEPAGES_BEGIN} or later.",
            {"sglang_version": str(facts.version)},
        )
    if threads is not None and threads < 1:
        raise Refusal(
            "value_not_positive",
            f"hicache.parallel_alloc_threads is {threads}.",
            "Expected a number of threads above 0, or null.",
            {"option": "hicache.parallel_alloc_threads", "value": threads},
        )
    if threads is not None and not rules.parallel_allocation:
        raise Refusal(
            "parallel_alloc_unsupported",
            f"hicache.parallel_alloc_threads is {threads}, and SGLang {facts.version} populates a host pool with one "
            "thread.",
            f"Leave it out, or take SGLang {PARALLEL_BEGINS} or later.",
            {"sglang_version": str(facts.version)},
        )
    if threads is not None and size is not None:
        raise Refusal(
            "parallel_alloc_unused",
            "hicache.parallel_alloc_threads and hicache.hugepage_size are both given, and SGLang populates pools in "
            "huge pages with one thread.",
            "Keep one of the two.",
        )
    if size is not None:
        return Allocation("hugetlb", size, environment={HUGEPAGE_VARIABLE: size})
    if threads is not None:
        return Allocation("anon", environment={PARALLEL_VARIABLE: str(threads)})
    return Allocation(facts.meter, powers_of_two=rules.rounds_to_powers_of_two)
