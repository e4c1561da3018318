# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All files of a revision, into a staging folder: those that are there, those of another revision, and the rest."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import PART_SUFFIX
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import ListedFile, ManifestFile
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import file_url
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.space import Need
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.checking import check_indexes
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import (
    clone,
    files_below,
    sha256_of,
    status_of,
    sync_folder,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.fetching import (
    Counts,
    Means,
    Spot,
    Stopped,
    Throttle,
    fetch,
    keep,
    resumable_bytes,
    staged,
    written_down,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import revisions
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.reading import Stream, Web, folder_stream

# Configurations and indexes come first, so that what is wrong with them is known before the weights are fetched.
SMALL_BYTES = 32 << 20
MAX_FAULTS = 100


@dataclass(frozen=True)
class Staging:
    """C(files) becomes the revision; C(notes) never leaves this folder."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    def spot(self, path: str) -> Spot:
        return Spot(self.files / path, self.notes / f"{path}.json")

    def make(self) -> None:
        for folder in (self.folder.parent.parent, self.folder.parent, self.folder, self.files, self.notes):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                sync_folder(folder.parent)
        # What is not checked yet is nobody's to read.
        self.folder.parent.chmod(0o700)

    def drop(self, path: str) -> None:
        spot = self.spot(path)
        for one in (spot.target, spot.part, spot.note):
            one.unlink(missing_ok=True)

    def drop_strangers(self, files: Sequence[ListedFile]) -> None:
        """What an earlier list had and this one has not."""
        known = {file.path for file in files} | {f"{file.path}{PART_SUFFIX}" for file in files}
        for path in list(files_below(self.files)):
            if path not in known:
                (self.files / path).unlink()
        for parent, _folders, _names in os.walk(self.files, topdown=False):
            with contextlib.suppress(OSError):
                if Path(parent) != self.files:
                    Path(parent).rmdir()


def shared_files(job: Job, files: Sequence[ListedFile]) -> dict[str, Path]:
    """Files that another revision of the model has, by SHA-256 and size."""
    there: dict[tuple[str, int], Path] = {}
    for revision in revisions(job.place):
        for file in revision.manifest.files if revision.manifest is not None else ():
            path = revision.folder / file.path
            status = status_of(path)
            if status is not None and status.size_bytes == file.size_bytes:
                there.setdefault((file.sha256, file.size_bytes), path)
    found = {}
    for wanted in files:
        if wanted.sha256 is not None and wanted.size_bytes is not None:
            path_of = there.get((wanted.sha256, wanted.size_bytes))
            if path_of is not None:
                found[wanted.path] = path_of
    return found


def lacking(files: Sequence[ListedFile], staging: Staging, shared: Mapping[str, Path]) -> Need:
    """What the disk has to take, and what is there."""
    there = shared_bytes = 0
    for file in files:
        spot = staging.spot(file.path)
        whole = staged(file, spot)
        if whole is not None:
            there += whole.size_bytes
        elif file.path in shared:
            shared_bytes += file.size_bytes or 0
        else:
            there += resumable_bytes(file, spot)
    return Need(sum(file.size_bytes or 0 for file in files), there, shared_bytes, len(files))


def obtain(
    job: Job,
    web: Web,
    files: Sequence[ListedFile],
    staging: Staging,
    shared: Mapping[str, Path],
    counts: Counts,
    stop: threading.Event,
    done: Callable[[str, int], None],
    names: Sequence[str],
) -> list[ManifestFile]:
    """Raises Refusal when all that can be had is there, and some file cannot. C(names): all that the revision has."""
    source = job.source_to_ask

    def open_at(place: int, file: ListedFile, offset: int, validator: str | None) -> Stream:
        if source.kind == "folder":
            return folder_stream(Path(source.locations[place]) / file.path, offset)
        return web.stream(file_url(source, place, file.path, job.revision), offset, validator)

    means = Means(
        open_at,
        source,
        job.limits,
        counts,
        Throttle(job.max_bytes_per_second),
        stop,
        first_place=job.first_location,
    )

    def one(file: ListedFile) -> ManifestFile:
        if stop.is_set():
            raise Stopped
        spot = staging.spot(file.path)
        whole = staged(file, spot) or _read_again(file, spot, counts, stop)
        if whole is None and file.path in shared:
            whole = _link(file, spot, shared[file.path], counts, stop)
        if whole is None and source.kind == "folder":
            origin = Path(source.locations[0]) / file.path
            if job.transfer == "hardlink":
                whole = _link_from_folder(job, file, spot, origin, counts, stop)
            elif job.transfer == "auto":
                _clone_from_folder(file, spot, origin, source.shown())
        if whole is None:
            whole = fetch(file, spot, means)
        done(file.path, whole.size_bytes)
        return whole

    small = [file for file in files if file.size_bytes is not None and file.size_bytes <= SMALL_BYTES]
    large = [file for file in files if file not in small]
    found = _all(one, small, job.parallel_files, stop)
    check_indexes(staging.files, [file.path for file in small], names)
    # The largest first, so that none is left alone at the end.
    large.sort(key=lambda file: -(file.size_bytes or 0))
    found += _all(one, large, job.parallel_files, stop)
    check_indexes(staging.files, [file.path for file in large], names)
    return found


def _all(
    one: Callable[[ListedFile], ManifestFile], files: Sequence[ListedFile], parallel: int, stop: threading.Event
) -> list[ManifestFile]:
    """Every file, so many at a time. One that cannot be had does not keep the others from being fetched."""
    found: list[ManifestFile] = []
    faults: list[Refusal] = []
    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        left: set[Future[ManifestFile]] = {pool.submit(one, file) for file in files}
        try:
            while left:
                ended, left = wait(left, return_when=FIRST_EXCEPTION)
                for future in ended:
                    try:
                        found.append(future.result())
                    except Refusal as fault:
                        faults.append(fault)
        except BaseException:
            # The disk, or whoever asked to stop: no file will fare better.
            stop.set()
            for future in left:
                future.cancel()
            raise
    if faults:
        faults.sort(key=lambda fault: str(fault.evidence.get("path")))
        first = faults[0]
        more = f" {len(faults) - 1} more files could not be had either." if len(faults) > 1 else ""
        evidence = {**first.evidence, "faults": [fault.as_dict() for fault in faults[:MAX_FAULTS]]}
        raise Refusal(first.code, first.message + more, first.remedy, evidence)
    return found


def _read_again(file: ListedFile, spot: Spot, counts: Counts, stop: threading.Event) -> ManifestFile | None:
    """A file that was fetched whole, and whose note a loss of power took."""
    status = status_of(spot.target)
    if status is None or file.sha256 is None or status.size_bytes != file.size_bytes:
        return None
    try:
        sha256 = sha256_of(spot.target, lambda size: counts.add(hashed_bytes=size), stop.is_set)
    except InterruptedError:
        raise Stopped from None
    if sha256 != file.sha256:
        return None
    found = ManifestFile(file.path, status.size_bytes, sha256)
    keep(file, spot, found)
    return found


def _link(file: ListedFile, spot: Spot, origin: Path, counts: Counts, stop: threading.Event) -> ManifestFile | None:
    """Another name for a file of a revision that is there, if its bytes are still right."""
    spot.target.parent.mkdir(parents=True, exist_ok=True)
    spot.target.unlink(missing_ok=True)
    try:
        os.link(origin, spot.target)
        sha256 = sha256_of(spot.target, lambda size: counts.add(hashed_bytes=size), stop.is_set)
    except InterruptedError:
        raise Stopped from None
    except OSError:
        return None  # it was removed meanwhile, or cannot be read: it is fetched
    status = status_of(spot.target)
    if status is None or sha256 != file.sha256:
        spot.target.unlink(missing_ok=True)
        return None
    found = ManifestFile(file.path, status.size_bytes, sha256)
    spot.part.unlink(missing_ok=True)
    keep(file, spot, found)
    return found


def _link_from_folder(
    job: Job, file: ListedFile, spot: Spot, origin: Path, counts: Counts, stop: threading.Event
) -> ManifestFile | None:
    """Only a file whose owner and rights are those of the store: they are shared as well."""
    try:
        real = origin.resolve(strict=True)
        status = real.stat()
    except OSError:
        return None
    if (status.st_uid, status.st_gid, status.st_mode & 0o7777) != (job.uid, job.gid, job.file_mode):
        return None
    if file.sha256 is not None:
        return _link(file, spot, real, counts, stop)
    try:
        sha256 = sha256_of(real, lambda size: counts.add(hashed_bytes=size), stop.is_set)
    except InterruptedError:
        raise Stopped from None
    known = ListedFile(file.path, status.st_size, sha256, validator=file.validator)
    linked = _link(known, spot, real, counts, stop)
    if linked is not None:
        keep(file, spot, linked)
    return linked


def _clone_from_folder(file: ListedFile, spot: Spot, origin: Path, place: str) -> None:
    """Leaves the file as if it had been fetched to its last byte; checking it is what is left to do."""
    if spot.part.exists():
        return
    spot.part.parent.mkdir(parents=True, exist_ok=True)
    spot.note.parent.mkdir(parents=True, exist_ok=True)
    try:
        cloned = clone(origin, spot.part)
    except OSError:
        cloned = False
    if cloned:
        written_down(spot, file, place, None, spot.part.stat().st_size)
    else:
        spot.part.unlink(missing_ok=True)
