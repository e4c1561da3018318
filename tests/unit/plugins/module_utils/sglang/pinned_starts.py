# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ranks that pin at a drawn speed, watched at drawn moments, and how far the time left that is told is from the truth.

The truth is the rest of the wait: until the slowest rank has all of its bytes. The error is told against that rest, or
against C(LEAST_REST_SECONDS) where less is left: at the very end a look is as long as the rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation, Sample
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.progress import eta_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import RUNNING

LEAST_REST_SECONDS = 3.0
# So many samples show a new speed, of which the first began under the old one.
SAMPLES_TO_SEE_A_CHANGE = 5
LATEST = 1.3
EPOCH = 1_795_000_000.0
LEVEL_BYTES = 12 << 20


@dataclass(frozen=True)
class Told:
    """One look: the share of all bytes that was there, whether a change of speed can have been seen, told and true."""

    share: float
    is_settled: bool
    eta_seconds: float | None
    rest_seconds: float

    @property
    def error(self) -> float:
        """Of the rest; infinite where nothing was told."""
        if self.eta_seconds is None:
            return float("inf")
        return abs(self.eta_seconds - self.rest_seconds) / max(self.rest_seconds, LEAST_REST_SECONDS)


@dataclass(frozen=True)
class Pinning:
    """C(speeds): bytes a second of each rank. At C(changes_at) each goes on at C(factor) of its speed."""

    size: int
    speeds: tuple[float, ...]
    changes_at: float = float("inf")
    factor: float = 1.0

    def there(self, rank: int, at: float) -> int:
        fast, slow = min(at, self.changes_at), max(0.0, at - self.changes_at)
        return min(self.size, int(self.speeds[rank] * (fast + slow * self.factor)))

    def ends_at(self, rank: int) -> float:
        fast = self.size / self.speeds[rank]
        if fast <= self.changes_at:
            return fast
        return self.changes_at + (fast - self.changes_at) / self.factor


def watched(
    truth: Pinning,
    pauses: Callable[[], float],
    sampled: float | None,
    shake: Callable[[], float] = lambda: 1.0,
    planned: bool = True,
    settling_seconds: float = 0.0,
) -> list[Told]:
    """What each look told. C(pauses): seconds to the next look; C(sampled): seconds between two samples on the node."""
    ranks = range(len(truth.speeds))
    expected = Expectation(ranks=len(ranks), bytes_by_stage=(truth.size,) if planned else (), timeout_seconds=1e6)
    state = _look(initial(expected, 0.0), truth, 0.0, (), _lines(truth))
    ends = max(truth.ends_at(rank) for rank in ranks)
    found: list[Told] = []
    before = at = 0.0
    settled_at = truth.changes_at + settling_seconds
    while at < ends:
        before, at = at, at + pauses()
        samples: list[Sample] = []
        when = before + (sampled or 0.0)
        while sampled and when < at:
            held = ((f"TP{rank}", LEVEL_BYTES + truth.there(rank, when)) for rank in ranks)
            samples.append(Sample(EPOCH + when, tuple(held)))
            when += sampled * shake()
        state = _look(state, truth, at, tuple(samples), ())
        whole = sum(truth.there(rank, at) for rank in ranks) / (truth.size * len(ranks))
        found.append(Told(whole, at >= settled_at, eta_seconds(state), max(0.0, ends - at)))
    return found


def _lines(truth: Pinning) -> tuple[LogEvent, ...]:
    return tuple(
        LogEvent("stage_begin", "", "host_pool", f"TP{rank}", bytes=truth.size, label="kv", timestamp=EPOCH)
        for rank in range(len(truth.speeds))
    )


def _look(
    state: StartupState, truth: Pinning, at: float, samples: tuple[Sample, ...], lines: tuple[LogEvent, ...]
) -> StartupState:
    ranks = tuple(
        RankReading(f"TP{rank}", 200 + rank, True, 1, shmem_bytes=LEVEL_BYTES + truth.there(rank, at), resident_bytes=1)
        for rank in range(len(truth.speeds))
    )
    return advance(
        state, Observation(at, RUNNING, events=lines, ranks=ranks, samples=samples, read_at=EPOCH + at, meter="shmem")
    )


def drawn(dice: random.Random, factor: float = 1.0, share: float = 0.5) -> list[Told]:
    """Ranks of about the same speed, or of speeds that differ, looked at more or less often.

    When the fastest has so large a C(share) of its bytes, all go on at C(factor) of their speed.
    """
    count = dice.choice([1, 2, 8])
    base = dice.uniform(0.5, 6.0) * 1e9
    spread = dice.choice([0.0, 0.02, 0.5])
    speeds = tuple(base * (1.0 + dice.uniform(0.0, spread)) for _rank in range(count))
    seconds = dice.choice([15.0, 40.0, 120.0])
    size = int(base * seconds)
    truth = Pinning(size, speeds, size / max(speeds) * share, factor) if factor != 1.0 else Pinning(size, speeds)
    every = dice.choice([1.0, 2.0, 3.0])
    sampled = dice.choice([0.5, 1.0, None])
    # Every sample that counts, and the look that brings them, may come as late as this.
    settling = SAMPLES_TO_SEE_A_CHANGE * (sampled or every) * LATEST + (every * LATEST if sampled else 0.0)
    return watched(
        truth,
        pauses=lambda: every * dice.uniform(0.7, LATEST),
        sampled=sampled,
        shake=lambda: dice.uniform(0.7, LATEST),
        planned=dice.random() < 0.7,
        settling_seconds=settling,
    )


def worst_at_constant_speed(looks: list[Told]) -> float:
    """After a fifth of the bytes."""
    return max((look.error for look in looks if look.share >= 0.2), default=0.0)


def worst_after_the_change(looks: list[Told]) -> float:
    """From the moment on at which a change can have been seen."""
    return max((look.error for look in looks if look.is_settled), default=0.0)
