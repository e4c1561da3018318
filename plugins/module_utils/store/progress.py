# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a worker is, and the line that says so. Pure: states come in as a worker writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_rate, format_seconds

LISTING = "listing"
CHECKING = "checking"
FETCHING = "fetching"
PUBLISHING = "publishing"
PHASES = {
    LISTING: "asking the source for its files",
    CHECKING: "reading",
    FETCHING: "fetching",
    PUBLISHING: "publishing",
}
DONE, FAILED, STOPPED = "done", "failed", "stopped"
# The speed is that of the last quarter of a minute: files end, mirrors slow down.
WINDOW_SECONDS = 15.0


@dataclass(frozen=True)
class Look:
    """A worker's state at one moment, in the numbers that a line is made of."""

    phase: str = LISTING
    total_bytes: int = 0
    done_bytes: int = 0
    fetched_bytes: int = 0
    hashed_bytes: int = 0
    hash_total_bytes: int = 0
    files: int = 0
    files_done: int = 0
    retries: int = 0
    trouble: str | None = None
    end: str | None = None


def look_of(state: Mapping[str, Any]) -> Look:
    """Out of the state that a worker wrote; what another release wrote and this one does not know is left out."""
    return Look(**{name: state[name] for name in Look.__dataclass_fields__ if state.get(name) is not None})


@dataclass(frozen=True)
class Meter:
    """What a controller has seen of one worker: C(samples) of (monotonic seconds, bytes) of the phase at hand."""

    began_at: float
    look: Look = Look()
    samples: tuple[tuple[float, int], ...] = ()

    @property
    def rate_bytes_per_second(self) -> float | None:
        if len(self.samples) < 2:
            return None
        (first_at, first), (last_at, last) = self.samples[0], self.samples[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at and last >= first else None

    @property
    def eta_seconds(self) -> float | None:
        rate = self.rate_bytes_per_second
        done, total = moved_bytes(self.look)
        return (total - done) / rate if rate and total > done else None


def advance(meter: Meter, look: Look, now: float) -> Meter:
    """The meter after another look. A phase of its own has a speed of its own."""
    samples = meter.samples if look.phase == meter.look.phase else ()
    # Reading a partial file again and fetching are different speeds as well.
    done = moved_bytes(look)[0]
    if samples and done < samples[-1][1]:
        samples = ()
    kept = tuple(sample for sample in samples if now - sample[0] <= WINDOW_SECONDS)
    return replace(meter, look=look, samples=(*kept, (now, done)))


def moved_bytes(look: Look) -> tuple[int, int]:
    """(done, total) of what the phase moves."""
    if look.phase == CHECKING:
        return look.hashed_bytes, look.hash_total_bytes
    return look.done_bytes, look.total_bytes


def live_line(meter: Meter) -> str:
    """C(fetching 21.43 of 65.54 GB 1.20 GB/s ETA 37 s, 12 of 29 files)."""
    look = meter.look
    words = PHASES.get(look.phase, look.phase)
    done, total = moved_bytes(look)
    if look.phase not in (FETCHING, CHECKING) or not total:
        return words
    words += f" {_gb(done, total)} of {_gb(total, total)} GB"
    rate, eta = meter.rate_bytes_per_second, meter.eta_seconds
    if rate is not None:
        words += f" {format_rate(rate)}"
    if eta is not None:
        words += f" ETA {_seconds(eta)}"
    if look.files and look.phase == FETCHING:
        words += f", {look.files_done} of {look.files} files"
    if look.retries:
        words += f", {look.retries} {'retry' if look.retries == 1 else 'retries'}"
        if look.trouble and rate == 0:
            words += f" ({look.trouble})"
    return words


def closing_line(result: Mapping[str, Any], seconds: float) -> str:
    """What became of it, for who has watched."""
    fetched, reused, path = result["fetched_bytes"], result["reused_bytes"], result["path"]
    parts = [f"{fetched / GB:.2f} GB fetched" if fetched else "nothing to fetch"]
    if reused:
        parts.append(f"{reused / GB:.2f} GB were there")
    if result["repaired"]:
        count = len(result["repaired"])
        parts.append(f"{count} damaged {'file' if count == 1 else 'files'} replaced")
    return f"{path}: {', '.join(parts)}, after {_seconds(seconds)}"


def _gb(value: int, total: int) -> str:
    return f"{value / GB:,.2f}" if total >= GB // 10 else f"{value / GB:,.4f}"


def _seconds(value: float) -> str:
    return format_seconds(round(value)).replace(".0 s", " s")
