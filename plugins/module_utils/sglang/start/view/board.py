# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many nodes that start at the same time, in one line. Pure; plugin_utils/startup_board.py keeps what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_rate, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import STAGES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import WORDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    pinned_bytes,
    planned_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.progress import (
    eta_seconds,
    rate_bytes_per_second,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState

# Up to so many nodes have a line each; more share one line.
MOST_LINES = 4
MOST_NAMES = 3
# Ends come first, then what is nearest to its end.
_ENDS = ("ready", "failed", "stalled", "lost")


@dataclass(frozen=True)
class Entry:
    """What one watch says of its node. C(pid) is the process that watches, C(began_at) and C(at) monotonic seconds.

    C(end): ready, failed, stalled, or lost for a node that was given up; None while it goes on.
    C(away): the node cannot be reached at present.
    """

    host: str
    instance: str
    pid: int
    began_at: float
    at: float
    stage: str = "boot"
    end: str | None = None
    pinned_bytes: int | None = None
    planned_bytes: int | None = None
    rate_bytes_per_second: float | None = None
    eta_seconds: float | None = None
    away: bool = False

    @property
    def share(self) -> float | None:
        """How much of the memory is pinned, while it is being pinned."""
        if self.stage != "host_pool" or self.pinned_bytes is None or not self.planned_bytes:
            return None
        return min(1.0, self.pinned_bytes / self.planned_bytes)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def entry_from_dict(data: Mapping[str, Any]) -> Entry:
    """Raises TypeError where it is none: a file of another version, or half a file."""
    return Entry(**data)


def entry_of(
    state: StartupState, host: str, instance: str, pid: int, *, away: bool = False, lost: bool = False
) -> Entry:
    return Entry(
        host=host,
        instance=instance,
        pid=pid,
        began_at=state.began_at,
        at=state.now,
        stage=state.stage,
        end="lost" if lost else state.verdict,
        pinned_bytes=pinned_bytes(state),
        planned_bytes=planned_bytes(state),
        rate_bytes_per_second=rate_bytes_per_second(state),
        eta_seconds=eta_seconds(state),
        away=away,
    )


def going_on(entries: Iterable[Entry]) -> list[Entry]:
    return [one for one in entries if one.end is None]


def name_of(entry: Entry, entries: Iterable[Entry]) -> str:
    """The host, and the instance where they differ."""
    return entry.host if len({one.instance for one in entries}) < 2 else f"{entry.host} {entry.instance}"


def summary_line(entries: Sequence[Entry]) -> str:
    """C(50 nodes: 3 ready, 12 pinning 21.43 of 35.82 GB 2.90 GB/s ETA 8 s, 35 loading weights; slowest ...)."""
    parts = [_named(end, entries, [one for one in entries if one.end == end]) for end in _ENDS]
    present = [one for one in going_on(entries) if not one.away]
    parts += [_in_stage(stage, [one for one in present if one.stage == stage]) for stage in reversed(STAGES)]
    parts.append(_named("out of reach", entries, [one for one in going_on(entries) if one.away]))
    line = f"{len(entries)} nodes: {', '.join(part for part in parts if part)}"
    left = going_on(entries)
    if len({(one.stage, one.share) for one in left}) > 1:
        slowest = min(left, key=_advance)
        line += f"; slowest {name_of(slowest, entries)} {_words(slowest)}"
    return line


def _named(word: str, entries: Sequence[Entry], found: Sequence[Entry]) -> str:
    """Who waits for fifty nodes wants to know which of them to look at."""
    if not found:
        return ""
    names = ", ".join(name_of(one, entries) for one in found) if word != "ready" and len(found) <= MOST_NAMES else ""
    return f"{len(found)} {word}" + (f" ({names})" if names else "")


def _in_stage(stage: str, entries: Sequence[Entry]) -> str:
    if not entries:
        return ""
    words = f"{len(entries)} {WORDS[stage]}"
    sized = [one for one in entries if one.share is not None]
    if not sized:
        return words
    pinned, planned = sum(one.pinned_bytes or 0 for one in sized), sum(one.planned_bytes or 0 for one in sized)
    words += f" {pinned / GB:.2f} of {planned / GB:.2f} GB"
    rate = sum(one.rate_bytes_per_second or 0.0 for one in sized)
    times = [one.eta_seconds for one in sized if one.eta_seconds is not None]
    if rate:
        words += f" {format_rate(rate)}"
    if times:
        # All of them are done when the last is.
        words += f" ETA {format_seconds(round(max(times))).replace('.0 s', ' s')}"
    return words


def _advance(entry: Entry) -> tuple[int, float, str]:
    return STAGES.index(entry.stage), entry.share or 0.0, entry.host


def _words(entry: Entry) -> str:
    share = entry.share
    return WORDS[entry.stage] if share is None else f"{WORDS[entry.stage]} {100 * share:.0f} %"
