# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of one start. Pure.

Three clocks never mix: C(at), C(now) and all that is reckoned from them is the waiter's monotonic clock; C(timestamp),
C(began), C(ended) and C(read_at) are UNIX seconds of the node; a I(steady) time is a moment of the node, told on the
waiter's clock, so that a clock of the node that jumps changes no rate (C(clock.py)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    CgroupReading,
    HostReading,
    LogHealth,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus


@dataclass(frozen=True)
class Pool:
    """One host pool that a rank announced.

    C(after): its line came after it had been allocated. C(announced_at), C(filled_at): steady.
    """

    label: str
    bytes: int
    tokens: int | None = None
    after: bool = False
    announced_at: float | None = None
    filled_at: float | None = None


@dataclass(frozen=True)
class RankState:
    """One rank.

    C(counter): where its pinned bytes show, None while it is the meter that was expected. C(baselines): what lay there
    by each counter before pinning began, C(level_bytes) what lay there when the last stage before pinning changed, and
    C(history) what the counter showed: (steady time, bytes). C(inferred): the bytes alone say that it pins.
    C(keeps_none): it said that it keeps no pool of its own.
    C(memory): what its lines said was free of its GPU, by the end of what.
    """

    rank: str
    pid: int | None = None
    alive: bool = True
    exit_code: int | None = None
    state: str | None = None
    start_ticks: int | None = None
    stage: str = "boot"
    stage_ended: bool = False
    first: RankReading | None = None
    earlier: RankReading | None = None
    last: RankReading | None = None
    counter: str | None = None
    baselines: tuple[tuple[str, int], ...] = ()
    level_bytes: int | None = None
    history: tuple[tuple[float, int], ...] = ()
    inferred: bool = False
    keeps_none: bool = False
    pinned_bytes: int | None = None
    pools: tuple[Pool, ...] = ()
    pools_ended_at: float | None = None
    memory: tuple[tuple[str, int], ...] = ()

    @property
    def announced_bytes(self) -> int:
        """The sum of the pools that it said it would allocate, or had allocated."""
        return sum(pool.bytes for pool in self.pools)


@dataclass(frozen=True)
class Span:
    """One visit of a rank, or of the server (C(rank) None), to a stage.

    C(by): I(log), or I(meter) where only the bytes tell. C(jumped): the clock of the node jumped meanwhile;
    C(clock): how often it had jumped when the visit began.
    """

    stage: str
    rank: str | None
    began: float | None
    ended: float | None = None
    bytes: int | None = None
    by: str = "log"
    jumped: bool = False
    clock: int = 0


@dataclass(frozen=True)
class StartupState:
    """Everything that is known of a start. C(verdict): ready, failed, stalled or None; C(reason) says by what rule.

    C(awaits_start): systemd has yet to make the start; C(invocation_before) is the one that it takes the place of.
    C(earlier): troubles of the start before, which systemd had replaced by itself before the first look.
    C(forgiven): so many of the troubles came before the server said that it is ready.
    C(ready_at) is the time of the server's own line, or of the look that found it serving. C(samples): (steady time,
    bytes) of all ranks together; C(wide_history): the same of a meter that knows no ranks, see C(meter.py).
    C(dying_since): when it was first seen to fail; C(dying_heard_at): when a line was last read since then.
    """

    expected: Expectation
    began_at: float
    now: float
    unit: UnitStatus | None = None
    invocation_id: str | None = None
    awaits_start: bool = False
    invocation_before: str | None = None
    n_restarts: int | None = None
    ranks: tuple[RankState, ...] = ()
    spans: tuple[Span, ...] = ()
    troubles: tuple[LogEvent, ...] = ()
    earlier: tuple[LogEvent, ...] = ()
    forgiven: int = 0
    stage: str = "boot"
    max_total_num_tokens: int | None = None
    available_at_end_bytes: int | None = None
    mem_fraction_static: float | None = None
    host_tokens: int | None = None
    host_available_bytes: int | None = None
    host: HostReading = HostReading()
    cgroup: CgroupReading = CgroupReading()
    first_oom_kills: int | None = None
    read_at: float | None = None
    clock_offset: float | None = None
    clock_gap: float | None = None
    clock_doubted: bool = False
    clock_jumps: int = 0
    jumped_now: bool = False
    wide_source: str | None = None
    wide_history: tuple[tuple[float, int], ...] = ()
    wide_level: int | None = None
    wide_baseline: int | None = None
    samples: tuple[tuple[float, int], ...] = ()
    all_there_since: float | None = None
    marks: tuple[tuple[str, float], ...] = ()
    last_progress_at: float = 0.0
    last_busy_at: float = 0.0
    cpu_known: bool = False
    log: LogHealth = LogHealth()
    log_lost: int = 0
    log_gap: bool = False
    log_unreadable: bool = False
    boot_id: str | None = None
    rebooted: bool = False
    replaced: tuple[str, ...] = ()
    probe_refused: bool = False
    probe_doubted: bool = False
    dying_since: float | None = None
    dying_heard_at: float | None = None
    ready_at: float | None = None
    ready_said: bool = False
    tail: tuple[str, ...] = ()
    verdict: str | None = None
    reason: str | None = None

    @property
    def elapsed_seconds(self) -> float:
        return max(0.0, self.now - self.began_at)

    def rank(self, label: str) -> RankState | None:
        return next((one for one in self.ranks if one.rank == label), None)


def initial(expected: Expectation, at: float, invocation_id: str | None = None) -> StartupState:
    """Nothing seen yet; C(invocation_id) None means the first one that is seen."""
    return StartupState(
        expected=expected, began_at=at, now=at, invocation_id=invocation_id, last_progress_at=at, last_busy_at=at
    )


def natural_order(label: str) -> tuple[tuple[str, int], ...]:
    """C(DP0 TP10) after C(DP0 TP9)."""
    parts = []
    for part in label.split():
        letters = part.rstrip("0123456789")
        parts.append((letters, int(part[len(letters) :] or 0)))
    return tuple(parts)


def with_rank(state: StartupState, rank: RankState) -> StartupState:
    others = [one for one in state.ranks if one.rank != rank.rank]
    return replace(state, ranks=tuple(sorted([*others, rank], key=lambda one: natural_order(one.rank))))


def dead_ranks(state: StartupState) -> tuple[RankState, ...]:
    return tuple(rank for rank in state.ranks if not rank.alive)


def log_is_trusted(state: StartupState) -> bool:
    """Whether silence of the log would mean that nothing was said."""
    return not (state.log_unreadable or state.log_gap or state.log_lost)


def steady_time(state: StartupState, timestamp: float | None) -> float | None:
    """A time of the node on the waiter's clock; None where that is not known: of a time around a jump of its clock."""
    if timestamp is None or state.clock_offset is None or state.jumped_now:
        return None
    return timestamp + state.clock_offset
