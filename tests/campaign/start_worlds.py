# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drawn starts with their truth: what every rank does when, what the log says of it, and what a look would see.

The truth lives on the node's steady clock, from 0 when the unit is started. A look translates it into what a node
would show: wall clock with its jumps, lines that get lost, counters of the release, CPU time, the port.
"""

from __future__ import annotations

import bisect
import random
from dataclasses import dataclass, field, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    Activity,
    CgroupReading,
    HostReading,
    LogHealth,
    Observation,
    Sample,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import KILLED, MIB, RUNNING

EPOCH = 1_795_000_000.0
HOST_BYTES = 4_000_000_000_000


@dataclass(frozen=True)
class Growth:
    """Bytes over time as corners of a line: (seconds, bytes)."""

    corners: tuple[tuple[float, float], ...]

    def at(self, when: float) -> int:
        times = [corner[0] for corner in self.corners]
        place = bisect.bisect_right(times, when)
        if place == 0:
            return int(self.corners[0][1])
        if place == len(times):
            return int(self.corners[-1][1])
        (left_at, left), (right_at, right) = self.corners[place - 1], self.corners[place]
        return int(left + (right - left) * (when - left_at) / (right_at - left_at))


@dataclass(frozen=True)
class RankTruth:
    """C(left_at): when it is done with its pools. C(level): what lies in its counter before."""

    label: str
    pid: int
    pools: tuple[int, ...]
    began_at: float
    filled_at: float
    left_at: float
    growth: Growth
    level: int


@dataclass
class World:
    """One start.

    C(fault): what happens at C(fault_at), None for a start that gets ready. C(stranger): another server holds the port.
    C(stamped_late): how long the journal takes to stamp a line.
    """

    dice: random.Random
    meter: str
    ranks: list[RankTruth]
    lines: list[LogEvent]
    ready_at: float
    fault: str | None
    fault_at: float
    jump_at: float
    jump_seconds: float
    shows_monotonic: bool
    shows_cpu: bool
    shows_samples: bool
    shows_listener: bool
    stranger: bool
    loss: str | None
    stamped_late: float = 0.0
    told: int = 0
    looked_at: float = 0.0
    heard: list[LogEvent] = field(default_factory=list)

    def wall(self, at: float) -> float:
        return EPOCH + at + (self.jump_seconds if at >= self.jump_at else 0.0)

    def stands_at(self, at: float) -> float:
        """How far the start has come: it stays where it was once it hangs or is dead."""
        return min(at, self.fault_at) if self.fault else at

    def raw(self, rank: RankTruth, at: float) -> int:
        return rank.level + rank.growth.at(self.stands_at(at))

    def pinned(self, at: float) -> int:
        return sum(rank.growth.at(self.stands_at(at)) for rank in self.ranks)

    @property
    def planned(self) -> int:
        return sum(sum(rank.pools) for rank in self.ranks)

    def is_up(self, at: float) -> bool:
        return self.ready_at <= at and (self.fault is None or self.ready_at <= self.fault_at)

    def look(self, at: float, probed: bool) -> Observation:
        """What is seen at C(at); the answer reaches the waiter a little later."""
        since, self.looked_at = self.looked_at, at
        fault = self.fault if at >= self.fault_at else None
        dead = fault in ("unit_died", "restarted")
        present = [] if dead else [self._reading(rank, at, fault) for rank in self.ranks if at >= 5.0]
        events, suppressed, gap = self._events(at)
        cpu = 0.3 * min(at, self.fault_at if self.fault == "hang_quiet" else at) if self.shows_cpu else None
        pinned = self.pinned(at)
        listens = self.is_up(at) and not dead
        return Observation(
            at=1000.0 + at + self.dice.uniform(0.0, 0.3),
            unit=self._unit(fault),
            events=tuple(events),
            ranks=tuple(present),
            samples=self._samples(since, at) if self.shows_samples and not dead else (),
            lines=len(events),
            started_at=EPOCH,
            read_at=self.wall(at),
            monotonic=50_000.0 + at if self.shows_monotonic else None,
            meter=self.meter,
            activity=Activity(
                resident_bytes=pinned + int(min(self.stands_at(at), 5.0) * 100 * MIB),
                read_bytes=int(self.stands_at(min(at, self.ready_at)) * 20 * MIB),
                cpu_seconds=cpu,
            ),
            host=HostReading(memory_available_bytes=HOST_BYTES - pinned),
            cgroup=CgroupReading(
                current_bytes=pinned + 500 * MIB,
                shmem_bytes=pinned + 5 * MIB if self.meter == "shmem" else 5 * MIB,
                anon_bytes=500 * MIB + (pinned if self.meter == "anon" else 0),
                oom_kills=1 if fault == "oom" else 0,
            ),
            log=LogHealth("journal", self.loss != "unreadable", suppressed, gap),
            serves=(listens or self.stranger) if probed else None,
            listener_in_unit=listens and not self.stranger if probed and self.shows_listener else None,
        )

    def _unit(self, fault: str | None) -> UnitStatus:
        if fault == "unit_died":
            return KILLED
        if fault == "restarted":
            return replace(RUNNING, invocation_id="0" * 31 + "1", n_restarts=1, main_pid=900)
        return RUNNING

    def _reading(self, rank: RankTruth, at: float, fault: str | None) -> RankReading:
        gone = fault in ("rank_killed", "oom") and rank is self.ranks[0]
        if gone:
            return RankReading(rank.label, rank.pid, False, 7, exit_code=-9 if self.dice.random() < 0.5 else None)
        raw = self.raw(rank, at)
        return RankReading(
            rank=rank.label,
            pid=rank.pid,
            alive=True,
            start_ticks=7,
            state="S",
            shmem_bytes=raw if self.meter == "shmem" else 3 * MIB,
            anon_bytes=raw if self.meter == "anon" else 900 * MIB,
            hugetlb_bytes=raw if self.meter == "hugetlb" else 0,
            resident_bytes=raw,
        )

    def _samples(self, since: float, at: float) -> tuple[Sample, ...]:
        if self.meter == "available":
            return ()
        times = [since + number for number in range(1, int(at - since))]
        return tuple(
            Sample(self.wall(when), tuple((rank.label, self.raw(rank, when)) for rank in self.ranks)) for when in times
        )

    def _events(self, at: float) -> tuple[list[LogEvent], int, bool]:
        """Lines since the last look, stamped by the node's wall clock; some are lost, some of that is told."""
        events: list[LogEvent] = []
        suppressed = 0
        gap = False
        late = self.stamped_late
        while self.told < len(self.lines) and (self.lines[self.told].timestamp or 0.0) + late <= self.stands_at(at):
            event = self.lines[self.told]
            self.told += 1
            if self.loss in ("unreadable", "silent"):
                continue
            if self.loss in ("suppressed", "gap") and self.dice.random() < 0.4:
                suppressed += self.loss == "suppressed"
                gap = gap or self.loss == "gap"
                continue
            events.append(replace(event, timestamp=self.wall((event.timestamp or 0.0) + late)))
        self.heard += events
        return events, suppressed, gap
