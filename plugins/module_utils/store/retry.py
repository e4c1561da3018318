# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a file whose transfer broke, and whose fault that was. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_seconds

# An attempt that brought so much has made progress; attempts are counted between two of them.
PROGRESS_BYTES = 1 << 20
LONGEST_PAUSE_SECONDS = 60.0
# As long as a server may ask for with Retry-After.
LONGEST_ASKED_SECONDS = 300.0


@dataclass(frozen=True)
class Limits:
    """C(attempts) in a row that bring nothing; C(corrupt) times that a whole file may come wrong from one place."""

    attempts: int = 6
    corrupt: int = 3
    pause_seconds: float = 1.0


@dataclass(frozen=True)
class Trouble:
    """Why one attempt ended. C(fatal): the next would end so as well. C(got_sha256): of a file that came wrong."""

    words: str
    fatal: bool = False
    retry_after_seconds: float | None = None
    got_sha256: str | None = None
    # Waiting in line at a peer that is busy with others is no failure.
    busy: bool = False


@dataclass(frozen=True)
class History:
    """The attempts at one file. C(place) is the number of the source's location that is asked next."""

    place: int = 0
    fruitless: int = 0
    total: int = 0
    corrupt: tuple[tuple[int, str], ...] = ()
    closed: frozenset[int] = frozenset()
    last: str = ""


def after(history: History, trouble: Trouble, brought_bytes: int, places: int, limits: Limits) -> tuple[History, bool]:
    """(what is known now, whether there is another attempt). Another location is asked after each that failed."""
    closed = set(history.closed)
    corrupt = history.corrupt
    if trouble.got_sha256 is not None:
        corrupt = (*corrupt, (history.place, trouble.got_sha256))
        if sum(place == history.place for place, _sum in corrupt) >= limits.corrupt:
            closed.add(history.place)
    if trouble.fatal:
        closed.add(history.place)
    if trouble.busy:
        fruitless = history.fruitless
    elif trouble.got_sha256 is None and brought_bytes >= PROGRESS_BYTES:
        fruitless = 0
    else:
        fruitless = history.fruitless + (trouble.got_sha256 is None)
    order = [(history.place + step) % places for step in range(1, places + 1)]
    left = [place for place in order if place not in closed]
    known = replace(
        history,
        fruitless=fruitless,
        total=history.total + 1,
        corrupt=corrupt,
        closed=frozenset(closed),
        last=trouble.words,
        place=left[0] if left else history.place,
    )
    # Each location has its own attempts.
    return known, bool(left) and fruitless < limits.attempts * max(1, len(left))


def pause_seconds(history: History, trouble: Trouble, limits: Limits, share: float) -> float:
    """How long to wait: twice as long each time, and not all files at once; C(share) is drawn from 0 to 1."""
    if trouble.retry_after_seconds is not None:
        return min(trouble.retry_after_seconds, LONGEST_ASKED_SECONDS) + share
    longest = min(limits.pause_seconds * 2 ** min(max(0, history.fruitless - 1), 10), LONGEST_PAUSE_SECONDS)
    return longest * (0.5 + share / 2)


def fault_words(path: str, history: History, places: Sequence[str], expected_sha256: str | None) -> str:
    """One sentence: why the file was given up, and who is to be asked about it."""
    wrong = Counter(history.corrupt)
    if not history.corrupt:
        tries = "attempt" if history.total == 1 else "attempts"
        return f"{path} was given up after {history.total} {tries}; the last one ended with: {history.last}."
    by_place = {place: [got for where, got in history.corrupt if where == place] for place, _got in wrong}
    parts = []
    for place, sums in sorted(by_place.items()):
        times = "once" if len(sums) == 1 else f"{len(sums)} times"
        if len(set(sums)) == 1 and len(sums) > 1:
            why = f"always with the same wrong bytes ({sums[0][:12]}...), so its copy is damaged"
        elif len(sums) > 1:
            why = "with other bytes each time, so the way from it or a cache on it alters them"
        else:
            why = f"with {sums[0][:12]}..."
        parts.append(f"{places[place]} sent it {times} {why}")
    expected = f" The manifest has {expected_sha256[:12]}...." if expected_sha256 else ""
    return f"{path} came with another content than it should have: {'; '.join(parts)}.{expected}"


def stalled_words(seconds: float, offset: int, total: int | None) -> str:
    of_all = f" of {format_gb(total)}" if total is not None else ""
    return f"no byte came for {format_seconds(seconds)} at {format_gb(offset)}{of_all}"
