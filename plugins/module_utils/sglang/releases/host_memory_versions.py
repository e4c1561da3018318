# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a release allocates its host pools and what its check looks at, as data.

A value holds from the release it stands with up to the release of the next row.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, value_at

HUGEPAGE_VARIABLE = "SGLANG_HUGEPAGE_SIZE"
PARALLEL_VARIABLE = "SGLANG_HICACHE_HOST_PARALLEL_ALLOC_THREADS"

# mem_cache/mmap_allocator.py, from 0.5.17 on mem_cache/storage/mmap/mmap_allocator.py: C(alloc_mmap) reads both.
_HUGEPAGES = (("0.4.7", False), ("0.5.13", True))
HUGEPAGES_BEGIN = _HUGEPAGES[-1][0]
_PARALLEL = (("0.4.7", False), ("0.5.23", True))
PARALLEL_BEGINS = _PARALLEL[-1][0]
# mem_cache/memory_pool_host.py: torch.empty(pin_memory=True). Torch's allocator of pinned memory
# (ATen/core/CachingHostAllocator.h) takes the next power of two for each allocation.
_ROUNDS_TO_POWERS_OF_TWO = (("0.4.7", True), ("0.5.5", False))
# mem_cache/host_memory.py C(_cgroup_memory_headroom): memory.max and memory.high, memory.limit_in_bytes of version 1.
_SEES_CONTROL_GROUPS = (("0.4.7", False), ("0.5.21", True))
# mem_cache/memory_pool_host.py, pool_host/base.py C(sync_fixed_hicache_size): a size gives every pipeline stage the
# tokens of the stage that it gives fewest.
_SYNCS_FIXED_SIZE = (("0.4.7", False), ("0.5.15", True))

# speculative/base_spec_worker.py C(_build_hicache_draft_plan).
_PACKS_DRAFTS = (("0.4.7", False), ("0.5.18", True))


@dataclass(frozen=True)
class HostMemoryFacts:
    hugepages: bool  # SGLANG_HUGEPAGE_SIZE
    parallel_allocation: bool  # SGLANG_HICACHE_HOST_PARALLEL_ALLOC_THREADS
    rounds_to_powers_of_two: bool
    sees_control_groups: bool
    syncs_fixed_size: bool
    packs_drafts: bool  # layers that predict further tokens lie in the target's host pool


def host_memory_facts(version: Version) -> HostMemoryFacts:
    return HostMemoryFacts(
        hugepages=value_at(_HUGEPAGES, version),
        parallel_allocation=value_at(_PARALLEL, version),
        rounds_to_powers_of_two=value_at(_ROUNDS_TO_POWERS_OF_TWO, version),
        sees_control_groups=value_at(_SEES_CONTROL_GROUPS, version),
        syncs_fixed_size=value_at(_SYNCS_FIXED_SIZE, version),
        packs_drafts=value_at(_PACKS_DRAFTS, version),
    )
