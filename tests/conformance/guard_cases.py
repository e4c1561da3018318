# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which starts SGLang's own check of host memory is asked about: ranks, pools, sizing, control groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

KV, STATES = "kv", "states"
RATIO = 2.0  # of the explicit cases: one slot more than twice the device's
GB = 10**9


@dataclass(frozen=True)
class PoolCase:
    """One device pool; its host pool is twice as large and one slot larger."""

    slots: int
    bytes_per_slot: int
    kind: str = KV

    @property
    def requested_bytes(self) -> int:
        return (int(self.slots * RATIO) + 1) * self.bytes_per_slot


@dataclass(frozen=True)
class ControlGroup:
    """Limits that the ranks live under, and what lies there before the first pool."""

    version: int = 2
    max_bytes: int | None = None
    high_bytes: int | None = None
    current_bytes: int = 0
    page_cache_bytes: int = 0

    @property
    def headroom_bytes(self) -> int | None:
        """What the group still gives, its page cache counted as free (the kernel can drop it)."""
        limits = [limit for limit in (self.max_bytes, self.high_bytes) if limit is not None]
        used = max(0, self.current_bytes - self.page_cache_bytes)
        return max(0, min(limits) - used) if limits else None


@dataclass(frozen=True)
class GuardCase:
    """C(fraction) is that of auto-sizing, None for an explicit ratio."""

    ranks: tuple[tuple[PoolCase, ...], ...]
    available_bytes: int = 0
    fraction: float | None = None
    group: ControlGroup | None = None

    def asked(self) -> dict[str, Any]:
        """The case as a record keeps it."""
        return {
            "ranks": [[[pool.kind, pool.slots, pool.bytes_per_slot] for pool in pools] for pools in self.ranks],
            "available_bytes": self.available_bytes,
            **({"fraction": self.fraction} if self.fraction is not None else {}),
            **({"group": vars(self.group)} if self.group is not None else {}),
        }


def case_of(row: dict[str, Any]) -> GuardCase:
    """The case behind one row of a record."""
    group = row.get("group")
    return GuardCase(
        tuple(tuple(PoolCase(slots, size, kind) for kind, slots, size in pools) for pools in row["ranks"]),
        row["available_bytes"],
        row.get("fraction"),
        None if group is None else ControlGroup(**group),
    )


def interleavings(steps: Sequence[int]) -> Iterator[str]:
    """Every order in which ranks that have so many steps each can take them, as a word of rank numbers."""

    def extend(left: list[int], word: str) -> Iterator[str]:
        if not any(left):
            yield word
        for rank, count in enumerate(left):
            if count:
                left[rank] -= 1
                yield from extend(left, f"{word}{rank}")
                left[rank] += 1

    yield from extend(list(steps), "")


def _same(ranks: int, *pools: PoolCase) -> tuple[tuple[PoolCase, ...], ...]:
    return (pools,) * ranks


LARGE = PoolCase(1_000, 5 * 10**6)
SMALL = PoolCase(700, 3 * 10**6)
STATE = PoolCase(90_000, 48, STATES)

# Where every order is played, so that the steps stay few: two a pool.
SHAPES: tuple[tuple[tuple[PoolCase, ...], ...], ...] = (
    _same(1, LARGE),
    _same(1, LARGE, SMALL),
    _same(2, LARGE),
    _same(3, LARGE),
    _same(2, LARGE, SMALL),
    _same(2, SMALL, LARGE),
    # Pipeline stages hold pools of their own.
    ((LARGE,), (SMALL,)),
    ((LARGE, SMALL), (LARGE,)),
    ((SMALL,), (LARGE,), (SMALL,)),
)
WITH_STATES: tuple[tuple[tuple[PoolCase, ...], ...], ...] = (_same(1, STATE), _same(2, STATE))
FRACTIONS = (0.8, 0.5)
# So few and large slots that one more, which rounding adds, is more than the slack of auto-sizing.
COARSE = PoolCase(10, 5 * 10**8)
AUTO_SHAPES = (
    _same(2, LARGE),
    _same(2, LARGE, SMALL),
    ((LARGE, SMALL), (LARGE,)),
    ((SMALL,), (LARGE,), (SMALL,)),
    _same(1, COARSE),
    _same(2, COARSE),
    ((COARSE,), (SMALL,)),
)
# What the machine has for auto-sizing: nothing beside the reserve, little, and plenty.
AUTO_AVAILABLE = (10 * (1 << 30), 11 * GB, 12 * GB, 20 * GB, 40 * GB)


def groups_around(available_bytes: int) -> tuple[ControlGroup, ...]:
    """Control groups that leave less, and as much, as the machine has."""
    return (
        ControlGroup(max_bytes=available_bytes - 1),
        ControlGroup(high_bytes=available_bytes - 1),
        ControlGroup(max_bytes=available_bytes + 5 * GB, high_bytes=available_bytes, current_bytes=0),
        ControlGroup(max_bytes=available_bytes + 7 * GB, current_bytes=8 * GB, page_cache_bytes=1 * GB),
        ControlGroup(max_bytes=available_bytes + 7 * GB, current_bytes=9 * GB, page_cache_bytes=1 * GB),
        ControlGroup(version=1, max_bytes=available_bytes - 1),
        ControlGroup(version=1, max_bytes=available_bytes + 2 * GB, current_bytes=3 * GB, page_cache_bytes=1 * GB),
    )


def at(case: GuardCase, edges: Sequence[int]) -> Iterator[GuardCase]:
    """The case at each edge and a byte to each side of it."""
    for available in sorted({edge + step for edge in edges for step in (-1, 0, 1)}):
        yield replace(case, available_bytes=available)
