# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at a node while a server starts, as C(startup_status_info) returns it. No I/O, no judgement.

Whatever could not be read is None or empty, and never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading, reading_from_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import (
    LogEvent,
    event_from_dict,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus, unit_from_dict

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """What the meter showed at one moment between two looks. C(at) in UNIX seconds of the node."""

    at: float
    rank_bytes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Activity:
    """Signs of life of all processes of the unit together. C(cpu_seconds): user and system time since they began."""

    resident_bytes: int = 0
    read_bytes: int = 0
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class NumaReading:
    """Memory of one NUMA node. C(large_free_bytes): free in blocks of 2 MiB or more, which tells of fragmentation."""

    node: int
    total_bytes: int | None = None
    free_bytes: int | None = None
    large_free_bytes: int | None = None


@dataclass(frozen=True)
class HostReading:
    """Memory of the machine. The averages are percent of the last 10 s (PSI, Documentation/accounting/psi.rst).

    C(shmem_bytes): Shmem of /proc/meminfo, which holds the pools of every server; less what the unit's control group
    holds, it is what others pin.
    """

    memory_available_bytes: int | None = None
    shmem_bytes: int | None = None
    swap_used_bytes: int | None = None
    memory_some_avg10: float | None = None
    memory_full_avg10: float | None = None
    io_full_avg10: float | None = None
    numa_nodes: tuple[NumaReading, ...] = ()


@dataclass(frozen=True)
class CgroupReading:
    """Memory of the unit's control group. C(limit_bytes): the tightest memory.max or memory.high above it."""

    current_bytes: int | None = None
    limit_bytes: int | None = None
    shmem_bytes: int | None = None
    anon_bytes: int | None = None
    oom_kills: int | None = None


@dataclass(frozen=True)
class LogHealth:
    """How far the log of the server can be trusted.

    C(suppressed): messages that were dropped by a rate limit since the last look. C(gap): lines between the last look
    and this one are no longer there (rotated, vacuumed, truncated).
    """

    source: str = "journal"
    readable: bool = True
    suppressed: int = 0
    gap: bool = False


@dataclass(frozen=True)
class Observation:
    """One look. C(at) is the watcher's monotonic clock; every other time is UNIX seconds of the node.

    C(earlier): what the start before said of its end, where systemd restarted the unit before the first look.
    An event C(port_in_use) may carry C(owner_pid), C(owner_command), C(owner_unit) of the process that holds C(port).
    C(lines): records of the log since the last look, access log left out. C(read_at): when the ranks were read, and
    C(monotonic) what CLOCK_MONOTONIC of the node showed then. C(meter): the counter that C(samples) show.
    C(boot_id): /proc/sys/kernel/random/boot_id, which tells a node that was rebooted meanwhile.
    C(serves): whether the server answered that it is ready, None if it was not asked; C(listener_in_unit): whether the
    process that listens on its port is one of the unit, None if that could not be told.
    C(more): the log goes on where this look ended, so its present end is not known yet.
    """

    at: float
    unit: UnitStatus
    events: tuple[LogEvent, ...] = ()
    earlier: tuple[LogEvent, ...] = ()
    ranks: tuple[RankReading, ...] = ()
    samples: tuple[Sample, ...] = ()
    lines: int = 0
    started_at: float | None = None
    read_at: float | None = None
    monotonic: float | None = None
    meter: str | None = None
    boot_id: str | None = None
    activity: Activity = Activity()
    host: HostReading = HostReading()
    cgroup: CgroupReading = CgroupReading()
    log: LogHealth = LogHealth()
    serves: bool | None = None
    listener_in_unit: bool | None = None
    tail: tuple[str, ...] = ()
    more: bool = False


def _known(kind: type[T], data: Any, **others: Any) -> T:
    """A dataclass of the keys that it has; further ones, of a newer module on the node, are left out."""
    given = data if isinstance(data, Mapping) else {}
    names = kind.__annotations__.keys() - others.keys()
    return kind(**{name: value for name, value in given.items() if name in names}, **others)


def observation_from_result(look: Mapping[str, Any], at: float) -> Observation:
    """C(look): what C(startup_status_info) returned."""
    host = look.get("host") or {}
    numa = tuple(_known(NumaReading, one) for one in host.get("numa_nodes") or ())
    return Observation(
        at=at,
        unit=unit_from_dict(look["unit"]),
        events=tuple(event_from_dict(one) for one in look["events"]),
        earlier=tuple(event_from_dict(one) for one in look.get("earlier") or ()),
        ranks=tuple(reading_from_dict(one) for one in look["ranks"]),
        samples=tuple(
            Sample(float(one["at"]), tuple(sorted(one["rank_bytes"].items()))) for one in look.get("samples") or ()
        ),
        lines=look["lines"],
        started_at=look["unit"].get("started_at"),
        read_at=look["read_at"],
        monotonic=look.get("monotonic"),
        meter=look.get("meter"),
        boot_id=look.get("boot_id"),
        activity=_known(Activity, look.get("activity")),
        host=_known(HostReading, host, numa_nodes=numa),
        cgroup=_known(CgroupReading, look.get("cgroup")),
        log=_known(LogHealth, look.get("log")),
        serves=look["serves"],
        listener_in_unit=look.get("listener_in_unit"),
        tail=tuple(look["tail"]),
        more=look["more"],
    )
