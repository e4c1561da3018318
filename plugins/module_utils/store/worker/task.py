# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker's work: a revision that is whole, and in the store."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import FULL, Job, Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import PARTIAL
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import ListedFile, Manifest, ManifestFile
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.progress import (
    CHECKING,
    FETCHING,
    LISTING,
    PUBLISHING,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.space import check_space
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.verifying import GOOD, SUSPECT, Finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.checking import check_structure
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import disk_of, locked, sync_folder
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.fetching import Counts, Stopped
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.finding import (
    find,
    find_by_listing,
    refuse_missing,
    refuse_other_content,
    web_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.obtaining import (
    Staging,
    lacking,
    obtain,
    shared_files,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import (
    Published,
    Rights,
    activate,
    publish,
    quick_check,
    read_check,
    set_rights,
    strange_files,
    write_record,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.resolving import Resolved, resolve, settled


@dataclass
class Progress:
    """What is told of a worker while it works."""

    counts: Counts = field(default_factory=Counts)
    phase: str = LISTING
    total_bytes: int = 0
    hash_total_bytes: int = 0
    files: int = 0
    files_done: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def as_dict(self) -> dict[str, Any]:
        counts = self.counts
        with counts.lock:
            return {
                "phase": self.phase,
                "total_bytes": self.total_bytes,
                "done_bytes": sum(counts.done.values()),
                "fetched_bytes": counts.fetched_bytes,
                "hashed_bytes": counts.hashed_bytes,
                "hash_total_bytes": self.hash_total_bytes,
                "files": self.files,
                "files_done": self.files_done,
                "open_files": counts.open_files,
                "retries": counts.retries,
                "trouble": counts.trouble,
            }


def run(job: Job, secrets: Secrets, progress: Progress) -> dict[str, Any]:
    """What model_snapshot returns of it. Raises Refusal, Stopped, and OSError where the disk fails."""
    job = replace(job, source=settled(job.source))
    found, resolved = find(job), None
    if found is None:
        if job.source is None:
            refuse_missing(job)
        resolved = _resolve(job, secrets)
        found = find_by_listing(job, resolved.files, resolved.fingerprint)
        if found is None:
            return _fetch_new(job, secrets, progress, resolved)
    return _make_whole(job, secrets, progress, found, () if resolved is None else resolved.problems)


def _resolve(job: Job, secrets: Secrets) -> Resolved:
    return resolve(job.source_to_ask, job.revision, web_of(job, secrets), job.include, job.exclude, job.limits)


def _fetch_new(job: Job, secrets: Secrets, progress: Progress, resolved: Resolved) -> dict[str, Any]:
    staging = Staging(job.place.partial(job.key))
    shared = shared_files(job, resolved.files)
    need = lacking(resolved.files, staging, shared)
    check_space(job.name, need, disk_of(job.place.folder), job.reserve_bytes)
    staging.make()
    with locked(staging.lock) as alone:
        if not alone:
            raise _busy(job)
        staging.drop_strangers(resolved.files)
        names = [file.path for file in resolved.files]
        files = _obtain(job, secrets, progress, resolved.files, staging, shared, names)
        check_structure(staging.files, files)
        manifest = Manifest(tuple(files), _origin(job, resolved))
        refuse_other_content(job, manifest)
        _read_back(job, progress, staging, manifest)
        progress.phase = PUBLISHING
        revision = job.folder_of(manifest)
        found = (
            find(replace(job, revision=None, content_sha256=manifest.content_sha256)) if job.revision is None else None
        )
        if found is not None:  # a source without sums had what is there already
            revision = found.revision
        else:
            publish(staging.files, job.place, revision, manifest, _rights(job))
        set_link = activate(job.place, revision) if job.activate else False
        _clear(job, staging)
    return _result(
        job,
        revision,
        manifest,
        progress,
        resolved.problems,
        changed=found is None or set_link,
        reused_bytes=need.there_bytes + need.shared_bytes,
    )


def _make_whole(
    job: Job, secrets: Secrets, progress: Progress, found: Published, problems: Sequence[Problem]
) -> dict[str, Any]:
    manifest = found.manifest
    if manifest is None:
        raise Refusal(
            "store_revision_differs",
            f"{found.folder} is there and has no usable manifest of this store.",
            "Move it away, or give the model another revision.",
            {"path": str(found.folder)},
        )
    refuse_other_content(job, manifest)
    findings, was_read = check(found, manifest, job.verify == FULL, progress)
    bad = [finding for finding in findings if finding.state != GOOD]
    if bad and job.source is None:
        raise damaged(found, bad)
    if bad:
        _repair(job, secrets, progress, found, manifest, bad)
    if bad or was_read:
        write_record(found.folder, manifest, (file.path for file in manifest.files))
    rights = set_rights(found.folder, _rights(job))
    set_link = activate(job.place, found.revision) if job.activate else False
    told = [*problems]
    strange = strange_files(found, manifest)
    if strange:
        words = f"{found.folder} holds {', '.join(strange[:5])}, which its manifest does not name."
        told.append(CODES["store_strange_files"].of("store_strange_files", words))
    return _result(
        job,
        found.revision,
        manifest,
        progress,
        told,
        changed=bool(bad or rights or set_link),
        reused_bytes=manifest.size_bytes - sum(finding.size_bytes for finding in bad),
        repaired=[finding.path for finding in bad],
    )


def check(found: Published, manifest: Manifest, full: bool, progress: Progress) -> tuple[tuple[Finding, ...], bool]:
    """(what is known of every file, whether any had to be read for it)."""
    quick = quick_check(found, manifest)
    to_read = [finding for finding in quick if finding.state == SUSPECT or (full and finding.state == GOOD)]
    if to_read:
        progress.phase = CHECKING
        progress.hash_total_bytes = sum(finding.size_bytes for finding in to_read)
    findings = read_check(
        found, manifest, quick, full, lambda size: progress.counts.add(hashed_bytes=size), progress.stop.is_set
    )
    return findings, bool(to_read)


def damaged(found: Published, bad: Sequence[Finding]) -> Refusal:
    names = ", ".join(f"{finding.path} ({finding.state})" for finding in bad[:5])
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    return Refusal(
        "store_damaged",
        f"{len(bad)} files of {found.folder} are not what its manifest says: {names}{more}.",
        "Run model_snapshot with a source: it fetches these files, and no other.",
        {
            "path": str(found.folder),
            "files": [{"path": finding.path, "state": finding.state} for finding in bad],
            "bytes": sum(finding.size_bytes for finding in bad),
        },
    )


def _repair(
    job: Job, secrets: Secrets, progress: Progress, found: Published, manifest: Manifest, bad: Sequence[Finding]
) -> None:
    """Replaces the damaged files one by one; a server that has them open keeps what it has."""
    wanted = {file.path: file for file in manifest.files}
    told = {file.path: file for file in _resolve(job, secrets).files}
    files = []
    for finding in bad:
        ours, theirs = wanted[finding.path], told.get(finding.path)
        if (
            theirs is None
            or theirs.size_bytes not in (None, ours.size_bytes)
            or theirs.sha256 not in (None, ours.sha256)
        ):
            raise Refusal(
                "store_source_differs",
                f"{finding.path} of {found.folder} is damaged, and {job.source.shown() if job.source else ''} has "
                f"{'no such file' if theirs is None else 'another file of that name'}.",
                "Give the source that the revision came from.",
                {"path": finding.path, "origin": dict(manifest.origin)},
            )
        files.append(ListedFile(ours.path, ours.size_bytes, ours.sha256, validator=theirs.validator))
    staging = Staging(job.place.partial(f"{job.key}-repair"))
    need = lacking(files, staging, {})
    check_space(f"The repair of {job.name}", need, disk_of(job.place.folder), job.reserve_bytes)
    staging.make()
    with locked(staging.lock) as alone:
        if not alone:
            raise _busy(job)
        staging.drop_strangers(files)
        whole = _obtain(job, secrets, progress, files, staging, {}, list(wanted))
        check_structure(staging.files, whole)
        set_rights(staging.files, _rights(job))
        progress.phase = PUBLISHING
        for file in whole:
            target = found.folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            (staging.files / file.path).replace(target)
            sync_folder(target.parent)
        _clear(job, staging)


def _obtain(
    job: Job,
    secrets: Secrets,
    progress: Progress,
    files: Sequence[ListedFile],
    staging: Staging,
    shared: dict[str, Path],
    names: Sequence[str],
) -> list[ManifestFile]:
    progress.phase = FETCHING
    progress.files = len(files)
    progress.total_bytes = sum(file.size_bytes or 0 for file in files)

    def tell_done(path: str, size_bytes: int) -> None:
        progress.counts.holds(path, size_bytes)
        with progress.counts.lock:
            progress.files_done += 1

    web = web_of(job, secrets)
    return obtain(job, web, files, staging, shared, progress.counts, progress.stop, tell_done, names)


def _read_back(job: Job, progress: Progress, staging: Staging, manifest: Manifest) -> None:
    """Reads from the disk what was written to it; its bytes were already checked when they came."""
    if job.verify != FULL:
        return
    progress.phase = CHECKING
    progress.hash_total_bytes = progress.counts.hashed_bytes + manifest.size_bytes
    quick = [Finding(file.path, SUSPECT, file.size_bytes) for file in manifest.files]
    found = Published("", staging.files, manifest, 0.0)
    findings = read_check(
        found, manifest, quick, True, lambda size: progress.counts.add(hashed_bytes=size), progress.stop.is_set
    )
    bad = [finding for finding in findings if finding.state != GOOD]
    for finding in bad:
        staging.drop(finding.path)
    if bad:
        raise Refusal(
            "store_disk_failed",
            f"{bad[0].path} was read back from the disk with other bytes than were written to it.",
            "Look at the kernel's log for errors of disk or memory. The file was dropped; the next run fetches it.",
            {"files": [finding.path for finding in bad]},
        )


def _clear(job: Job, staging: Staging) -> None:
    shutil.rmtree(staging.folder, ignore_errors=True)
    try:
        (job.place.folder / PARTIAL).rmdir()
    except OSError:
        pass  # something else is being fetched


def _rights(job: Job) -> Rights:
    return Rights(job.uid, job.gid, job.file_mode)


def _origin(job: Job, resolved: Resolved) -> dict[str, Any]:
    source = job.source_to_ask
    return {
        "kind": source.kind,
        "location": source.shown(),
        "revision": job.revision,
        "include": list(job.include),
        "exclude": list(job.exclude),
        "fingerprint": resolved.fingerprint,
    }


def _busy(job: Job) -> Refusal:
    return Refusal(
        "store_prune_busy",
        f"Another run has the partial download of {job.name} in its hands.",
        "Run it again when that has ended.",
    )


def _result(
    job: Job,
    revision: str,
    manifest: Manifest,
    progress: Progress,
    problems: Sequence[Problem],
    changed: bool,
    reused_bytes: int,
    repaired: Sequence[str] = (),
) -> dict[str, Any]:
    if progress.stop.is_set():
        raise Stopped
    return {
        "changed": changed,
        "path": str(job.place.revision(revision)),
        "current_path": str(job.place.current),
        "revision": revision,
        "content_sha256": manifest.content_sha256,
        "size_bytes": manifest.size_bytes,
        "files": len(manifest.files),
        "fetched_bytes": progress.counts.fetched_bytes,
        "reused_bytes": reused_bytes,
        "retries": progress.counts.retries,
        "repaired": list(repaired),
        "problems": [problem.as_dict() for problem in problems],
    }
