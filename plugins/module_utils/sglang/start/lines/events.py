# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one line of a server that starts can mean: the event, and the stages of a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The order in which both 0.5.9 and 0.5.23 really go through them: graphs are captured before the host pool is pinned
# (managers/scheduler.py: init_model_worker, then the tree cache).
STAGES = ("boot", "load", "device_pool", "capture", "host_pool", "warm_up", "ready")


@dataclass(frozen=True)
class LogEvent:
    """One line that means something.

    C(kind): settings, stage_begin, stage_end, progress, capacity, ready, failure, exception or consequence.
    C(label) refines it: name of a pool, of a captured graph, or the code of a failure. Of progress it says of what:
    gate_closed, gate_open (boot); shards, prefetch, overlapped (load); split, or the pool that is there (device_pool);
    batches, num_tokens (capture); compiling, compiled (of no stage); headroom, auto_size, none_of_its_own,
    as_shared_memory (host_pool); application, listening, worker_node, warm_up_request (warm_up).
    A bar has done_count and total_count among its values.
    C(values) holds further numbers, bytes under names ending in _bytes; C(available_bytes) is free memory of a GPU.
    C(after_allocating): the memory that the line tells of was already there when it was printed.
    C(timestamp) (UNIX seconds, from the journal) and C(pid) are not of the line; the reader of the journal adds them.
    """

    kind: str
    text: str
    stage: str | None = None
    rank: str | None = None
    bytes: int | None = None
    tokens: int | None = None
    label: str | None = None
    seconds: float | None = None
    values: tuple[tuple[str, Any], ...] = ()
    timestamp: float | None = None
    pid: int | None = None
    after_allocating: bool = False

    def value(self, name: str) -> Any:
        return dict(self.values).get(name)

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "stage": self.stage,
            "rank": self.rank,
            "label": self.label,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "values": dict(self.values),
            "text": self.text,
            "timestamp": self.timestamp,
            "pid": self.pid,
            "after_allocating": self.after_allocating,
        }


def event_from_dict(data: Mapping[str, Any]) -> LogEvent:
    """The inverse of C(LogEvent.as_dict), for events that came over the wire."""
    values = data.get("values") or {}
    return LogEvent(
        kind=str(data["kind"]),
        text=str(data.get("text") or ""),
        stage=data.get("stage"),
        rank=data.get("rank"),
        bytes=data.get("bytes"),
        tokens=data.get("tokens"),
        label=data.get("label"),
        seconds=data.get("seconds"),
        values=tuple(sorted(values.items())),
        timestamp=data.get("timestamp"),
        pid=data.get("pid"),
        after_allocating=bool(data.get("after_allocating")),
    )


def is_rank_scoped(event: LogEvent) -> bool:
    """Whether a scheduler says it; such a line without a rank part is of a server that has only one rank.

    A bar is drawn by the first rank for all of them, and does not say by which.
    """
    said = event.kind in ("stage_begin", "stage_end", "progress") and event.stage != "warm_up"
    return said and event.value("total_count") is None
