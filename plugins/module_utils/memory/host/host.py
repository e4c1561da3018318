# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host side of a plan: how HiCache pools are sized, and the largest that fit. Bounds are in host_room.py.

Source: SGLang, mem_cache/memory_pool_host.py (to 0.5.18), mem_cache/pool_host/base.py and
mem_cache/hicache_auto_size.py (0.5.23).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

BY_RATIO, BY_SIZE, BY_FRACTION, DISABLED = "ratio", "size", "fraction", "disabled"

# Auto-sizing keeps this share of its budget for page rounding and staging (hicache_auto_size.py).
AUTO_SIZE_SLACK = 0.05

RATIO_STEP = 100  # largest ratios are given in hundredths


@dataclass(frozen=True)
class Sizing:
    """How the host pool is sized: by a ratio, by whole GB a rank, or by a share of the free host memory.

    C(size_bytes) is one pool's part of a size that several pools share.
    """

    mode: str
    ratio: float | None = None
    size_gb: int | None = None
    fraction: float | None = None
    size_bytes: float | None = None


@dataclass(frozen=True)
class Pool:
    """One host pool of one rank; C(pinned_bytes) is more than its bytes where the allocator rounds up.

    C(spare_bytes) are allocated beyond its tokens: neither the server's check nor its log counts them.
    """

    kind: str
    tokens: int
    bytes_per_token: int
    pinned_bytes: int
    spare_bytes: int = 0

    @property
    def bytes_per_rank(self) -> int:
        return self.tokens * self.bytes_per_token


@dataclass(frozen=True)
class Limit:
    """One reason why a rank cannot pin more than C(bytes_per_rank); C(holds) says whether the plan stays within it."""

    name: str
    bytes_per_rank: int
    explanation: str
    holds: bool = True

    @property
    def allowing(self) -> str:
        """C(the host allows), C(NUMA node 0 allows), C(the huge pages of NUMA node 0 allow)."""
        article = "" if self.name.startswith("NUMA") else "the "
        return f"{article}{self.name} {'allow' if self.name.startswith('huge pages') else 'allows'}"


def pool_tokens(facts: VersionFacts, device_tokens: int, page_size: int, per_token: int, sizing: Sizing) -> int:
    """Tokens of a rank's host pool, rounded to pages as the release does."""
    if sizing.size_bytes is not None:
        wanted = int(sizing.size_bytes // per_token)
    elif sizing.size_gb is not None and sizing.size_gb > 0:
        wanted = int(sizing.size_gb * 1e9 // per_token)
    else:
        wanted = int(device_tokens * (sizing.ratio or 0.0))
    pages = wanted // page_size
    if facts.padding_page:
        pages += 1
    return pages * page_size


def auto_ratio(facts: VersionFacts, device_pool_bytes: int, ranks: int, available_bytes: int, fraction: float) -> float:
    """The ratio that auto-sizing (from 0.5.21) arrives at on a machine with so much available memory."""
    budget = int((available_bytes - facts.guard_reserve_bytes) // ranks * fraction)
    return min(facts.default_ratio, budget * (1 - AUTO_SIZE_SLACK) / device_pool_bytes)


def largest_fitting(upper: int, fits: Callable[[int], bool]) -> int:
    """The largest whole number from 1 to C(upper) that fits, 0 if none does; C(fits) is monotone."""
    low, high = 0, max(0, upper)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def largest_near(guess: int, fits: Callable[[int], bool]) -> int:
    """The largest whole number above 0 that fits, 0 if none does, found from a guess outwards; C(fits) is monotone."""
    step, guess = 1, max(1, guess)
    if fits(guess):
        low = guess
        while fits(low + step):
            low, step = low + step, 2 * step
        return low + largest_fitting(step - 1, lambda more: fits(low + more))
    high = guess
    while high - step > 0 and not fits(high - step):
        high, step = high - step, 2 * step
    low = max(0, high - step)
    return low + largest_fitting(high - 1 - low, lambda more: fits(low + more))
