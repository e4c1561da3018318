# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One file, from whatever has been fetched of it to its last byte, checked and synced."""

from __future__ import annotations

import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.hub import git_blob_hash
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import PART_SUFFIX
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import ListedFile, ManifestFile
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.retry import (
    History,
    Limits,
    Trouble,
    after,
    fault_words,
    pause_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import (
    CHUNK_BYTES,
    boot_id,
    forget,
    read_text,
    status_of,
    sync_folder,
    write_whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.reading import Broken, Stream

# What is synced at once: as much as a loss of power can cost of one file.
SYNC_BYTES = 64 << 20
MAX_NOTE_BYTES = 1 << 16


class Stopped(Exception):
    """The worker was asked to end."""


@dataclass
class Counts:
    """What the threads of a worker have done so far. C(done): how much of each file lies there, by its path."""

    fetched_bytes: int = 0
    hashed_bytes: int = 0
    open_files: int = 0
    retries: int = 0
    trouble: str | None = None
    done: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **amounts: int) -> None:
        with self.lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)

    def holds(self, path: str, size_bytes: int) -> None:
        with self.lock:
            self.done[path] = size_bytes

    def tell(self, trouble: str) -> None:
        with self.lock:
            self.trouble = trouble
            self.retries += 1


@dataclass
class Throttle:
    """So many bytes a second for all threads together; None is no limit."""

    bytes_per_second: float | None
    clock: Callable[[], float] = time.monotonic
    _free_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pause_for(self, size_bytes: int) -> float:
        """How long who has moved so many bytes is to wait."""
        if self.bytes_per_second is None:
            return 0.0
        with self._lock:
            now = self.clock()
            self._free_at = max(self._free_at, now) + size_bytes / self.bytes_per_second
            return self._free_at - now


@dataclass(frozen=True)
class Means:
    """What a file is fetched with. C(open_at) takes location, file, offset and validator."""

    open_at: Callable[[int, ListedFile, int, str | None], Stream]
    source: Source
    limits: Limits
    counts: Counts
    throttle: Throttle
    stop: threading.Event
    sync_bytes: int = SYNC_BYTES
    first_place: int = 0


@dataclass(frozen=True)
class Spot:
    """Where a file is put together, and the note of what is known of it."""

    target: Path
    note: Path

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + PART_SUFFIX)


@dataclass
class _Sums:
    """Both digests of the first C(size_bytes) bytes of a file."""

    file: ListedFile
    size_bytes: int = 0
    sha256: Any = field(default_factory=hashlib.sha256)
    git: Any = None

    def __post_init__(self) -> None:
        if self.file.sha256 is None and self.file.git_sha1 is not None and self.file.size_bytes is not None:
            self.git = git_blob_hash(self.file.size_bytes)

    def add(self, piece: bytes) -> None:
        self.sha256.update(piece)
        if self.git is not None:
            self.git.update(piece)
        self.size_bytes += len(piece)

    @property
    def is_expected(self) -> bool:
        if self.file.sha256 is not None:
            return bool(self.sha256.hexdigest() == self.file.sha256)
        return self.git is None or self.git.hexdigest() == self.file.git_sha1


@dataclass
class _Transfer:
    """Where a file is, from one attempt to the next: its digests so far, and what the attempt at hand has brought."""

    sums: _Sums
    brought_bytes: int = 0


def staged(file: ListedFile, spot: Spot) -> ManifestFile | None:
    """The file where an earlier run has fetched it whole, by its note."""
    note, status = _read_note(spot.note), status_of(spot.target)
    if status is None or note.get("mtime_ns") != status.mtime_ns or note.get("size_bytes") != status.size_bytes:
        return None
    sha256 = note.get("sha256")
    if not isinstance(sha256, str) or file.sha256 not in (None, sha256):
        return None
    if file.sha256 is None and note.get("listed") != _listed(file):
        return None
    return ManifestFile(file.path, status.size_bytes, sha256)


def resumable_bytes(file: ListedFile, spot: Spot) -> int:
    """How much of it can be gone on from: all that was written, and after a reboot what had been synced."""
    status = status_of(spot.part)
    note = _read_note(spot.note)
    if status is None or note.get("listed") != _listed(file):
        return 0
    sure = status.size_bytes if note.get("boot_id") == boot_id() else min(status.size_bytes, _whole(note, "synced"))
    return 0 if file.size_bytes is not None and sure > file.size_bytes else sure


def fetch(file: ListedFile, spot: Spot, means: Means) -> ManifestFile:
    """Raises Refusal where it cannot be had, Stopped, and OSError where the disk fails."""
    spot.target.parent.mkdir(parents=True, exist_ok=True)
    spot.note.parent.mkdir(parents=True, exist_ok=True)
    places = [means.source.shown(number) for number in range(len(means.source.locations))]
    history = History(place=means.first_place % len(places))
    transfer = _Transfer(_Sums(file))
    means.counts.add(open_files=1)
    try:
        while True:
            transfer.brought_bytes = 0
            try:
                _attempt(file, spot, means, history.place, transfer)
                return _finish(file, spot, transfer.sums)
            except Broken as broken:
                trouble = broken.trouble
            told = f"{file.path} from {places[history.place]}: {trouble.words}"
            history, again = after(history, trouble, transfer.brought_bytes, len(places), means.limits)
            if not again:
                raise Refusal(
                    "store_source_corrupt" if history.corrupt else "store_fetch_failed",
                    fault_words(file.path, history, places, file.sha256),
                    "Have the source repaired or give another one; what was fetched is kept, and the next run goes on.",
                    {"path": file.path, "attempts": history.total, "places": places, "expected_sha256": file.sha256},
                )
            if not trouble.busy:
                means.counts.tell(told)
            if means.stop.wait(pause_seconds(history, trouble, means.limits, random.random())):
                raise Stopped
    finally:
        means.counts.add(open_files=-1)


def _attempt(file: ListedFile, spot: Spot, means: Means, place: int, transfer: _Transfer) -> None:
    note, shown = _read_note(spot.note), means.source.shown(place)
    offset = resumable_bytes(file, spot)
    known = file.sha256 is not None or file.git_sha1 is not None
    same_place = note.get("place") == shown
    if not known and not same_place:
        offset = 0  # two servers need not have the same file
    with spot.part.open("ab") as part:
        if part.tell() != offset:
            part.truncate(offset)
        if transfer.sums.size_bytes != offset:
            transfer.sums = _sums_of(file, spot.part, offset, means)
        means.counts.holds(file.path, offset)
        total = file.size_bytes
        if total is None or offset < total or not known:
            validator = note.get("validator") if same_place else None
            stream = means.open_at(place, file, offset, validator if isinstance(validator, str) else None)
            try:
                _check_total(file, stream)
                total = total if total is not None else stream.total_bytes
                if stream.offset != offset:
                    part.truncate(0)
                    transfer.sums = _Sums(file)
                    means.counts.holds(file.path, 0)
                written_down(spot, file, shown, stream.validator, stream.offset)
                _copy(file, spot, part, stream, means, shown, transfer)
            finally:
                stream.close()
        part.flush()
        os.fsync(part.fileno())
        forget(part.fileno(), 0)
    _check_end(spot, transfer, total, means)


def _copy(
    file: ListedFile, spot: Spot, part: Any, stream: Stream, means: Means, place: str, transfer: _Transfer
) -> None:
    unsynced, sums = 0, transfer.sums
    try:
        while piece := stream.read():
            if file.size_bytes is not None and sums.size_bytes + len(piece) > file.size_bytes:
                raise Broken(Trouble(f"it sends more than the {file.size_bytes:,} bytes that the file has", fatal=True))
            part.write(piece)
            sums.add(piece)
            transfer.brought_bytes += len(piece)
            unsynced += len(piece)
            means.counts.add(fetched_bytes=len(piece))
            means.counts.holds(file.path, sums.size_bytes)
            if unsynced >= means.sync_bytes:
                part.flush()
                os.fdatasync(part.fileno())
                forget(part.fileno(), sums.size_bytes)
                written_down(spot, file, place, stream.validator, sums.size_bytes)
                unsynced = 0
            pause = means.throttle.pause_for(len(piece))
            if means.stop.wait(pause) if pause > 0 else means.stop.is_set():
                raise Stopped
    finally:
        part.flush()


def _check_total(file: ListedFile, stream: Stream) -> None:
    if file.size_bytes is not None and stream.total_bytes not in (None, file.size_bytes):
        raise Broken(
            Trouble(f"it has {stream.total_bytes:,} bytes of it, where {file.size_bytes:,} are listed", fatal=True)
        )


def _check_end(spot: Spot, transfer: _Transfer, wanted: int | None, means: Means) -> None:
    sums = transfer.sums
    if wanted is not None and sums.size_bytes != wanted:
        raise Broken(Trouble(f"the connection ended at {sums.size_bytes:,} of {wanted:,} bytes"))
    if not sums.is_expected:
        spot.part.unlink(missing_ok=True)
        spot.note.unlink(missing_ok=True)
        means.counts.holds(sums.file.path, 0)
        transfer.sums = _Sums(sums.file)
        raise Broken(Trouble("its bytes are not those of the manifest", got_sha256=sums.sha256.hexdigest()))


def _finish(file: ListedFile, spot: Spot, sums: _Sums) -> ManifestFile:
    found = ManifestFile(file.path, sums.size_bytes, sums.sha256.hexdigest())
    spot.part.replace(spot.target)
    sync_folder(spot.target.parent)
    keep(file, spot, found)
    return found


def keep(file: ListedFile, spot: Spot, found: ManifestFile) -> None:
    """Notes that the file is whole, so that another run need not read it again."""
    status = status_of(spot.target)
    data = {
        "listed": _listed(file),
        "sha256": found.sha256,
        "size_bytes": found.size_bytes,
        "mtime_ns": None if status is None else status.mtime_ns,
    }
    spot.note.parent.mkdir(parents=True, exist_ok=True)
    # Where a loss of power takes the note, the file is read instead.
    write_whole(spot.note, json.dumps(data), sync=False)


def _sums_of(file: ListedFile, part: Path, offset: int, means: Means) -> _Sums:
    sums = _Sums(file)
    with part.open("rb", buffering=0) as found:
        while sums.size_bytes < offset:
            piece = found.read(min(4 * CHUNK_BYTES, offset - sums.size_bytes))
            if not piece:
                break
            sums.add(piece)
            means.counts.add(hashed_bytes=len(piece))
            if means.stop.is_set():
                raise Stopped
        forget(found.fileno(), 0)
    return sums


def _listed(file: ListedFile) -> list[Any]:
    """What tells this file from another of the same path."""
    return [file.size_bytes, file.sha256 or file.git_sha1 or file.validator]


def written_down(spot: Spot, file: ListedFile, place: str, validator: str | None, synced: int) -> None:
    data = {"listed": _listed(file), "place": place, "validator": validator, "synced": synced, "boot_id": boot_id()}
    # A file that is synced once, at its end, has nothing that a note could save from a loss of power.
    write_whole(spot.note, json.dumps(data), sync=synced > 0)


def _read_note(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(read_text(path, MAX_NOTE_BYTES) or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _whole(note: dict[str, Any], name: str) -> int:
    value = note.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
