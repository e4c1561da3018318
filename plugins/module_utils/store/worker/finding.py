# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looks whether the store has what is asked for, by revision, by content, or by the list of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job, Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import (
    ListedFile,
    Manifest,
    ManifestFile,
    content_sha256,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import (
    Published,
    manifest_of,
    revisions,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.reading import Web


def find(job: Job) -> Published | None:
    """By revision or content, without asking anybody."""
    if job.asked_folder is not None:
        folder = job.place.revision(job.asked_folder)
        if not folder.is_dir():
            return None
        return Published(job.asked_folder, folder, manifest_of(folder), 0.0)
    if job.content_sha256 is None:
        return None
    return next(
        (one for one in revisions(job.place) if one.manifest and one.manifest.content_sha256 == job.content_sha256),
        None,
    )


def find_by_listing(job: Job, files: Sequence[ListedFile], fingerprint: str) -> Published | None:
    """By what the source lists. Raises Refusal where that is already known not to be what was asked for."""
    stated = stated_content(files)
    if stated is not None and job.content_sha256 not in (None, stated):
        _refuse_source(job, stated)
    if job.revision is not None:
        return None
    for one in revisions(job.place):
        if one.manifest is None:
            continue
        if stated is not None and one.manifest.content_sha256 == stated:
            return one
        if one.manifest.origin.get("fingerprint") == fingerprint:
            return one
    return None


def stated_content(files: Sequence[ListedFile]) -> str | None:
    """The digest of the content, where the source states the SHA-256 and the size of every file."""
    known = [
        ManifestFile(file.path, file.size_bytes, file.sha256)
        for file in files
        if file.size_bytes is not None and file.sha256 is not None
    ]
    return content_sha256(known) if len(known) == len(files) else None


def refuse_other_content(job: Job, manifest: Manifest) -> None:
    """What is in the store, or has just been fetched, against what was asked for."""
    if job.content_sha256 in (None, manifest.content_sha256):
        return
    raise Refusal(
        "store_revision_differs",
        f"Revision {job.folder_of(manifest)} of {job.name} has the content {manifest.content_sha256}, expected "
        f"{job.content_sha256}.",
        "Give the other content another revision; revisions never change.",
        {"content_sha256": manifest.content_sha256, "expected_sha256": job.content_sha256},
    )


def refuse_missing(job: Job) -> NoReturn:
    there = [one.revision for one in revisions(job.place)]
    wanted = job.asked_folder or job.content_sha256 or "any revision"
    raise Refusal(
        "store_model_missing",
        f"{job.place.folder} has no {wanted}; it has {', '.join(there) if there else 'no revision at all'}.",
        "Give a source to fetch it from (folder, mirrors or repository), or one of those revisions.",
        {"revisions": there},
    )


def web_of(job: Job, secrets: Secrets) -> Web:
    return Web(job.stall_seconds, secrets.token, secrets.proxies, job.ca_file)


def _refuse_source(job: Job, stated: str) -> NoReturn:
    where = job.source.shown() if job.source is not None else ""
    raise Refusal(
        "store_source_differs",
        f"{where} has the content {stated}, expected {job.content_sha256}.",
        "Check which of the two is meant. Nothing was fetched.",
        {"content_sha256": stated, "expected_sha256": job.content_sha256},
    )
