# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run would do, found out without writing anything: for check mode, and for a diff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job, Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import ListedFile, Manifest
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.space import check_space
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.verifying import GOOD, SUSPECT
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import disk_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.finding import (
    find,
    find_by_listing,
    refuse_missing,
    refuse_other_content,
    stated_content,
    web_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.obtaining import (
    Staging,
    lacking,
    shared_files,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import (
    Published,
    current_of,
    manifest_of,
    quick_check,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.resolving import Resolved, resolve, settled
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.task import damaged


def foresee(job: Job, secrets: Secrets) -> dict[str, Any]:
    """Raises the same refusals as the run would before it writes."""
    job = replace(job, source=settled(job.source))
    found = find(job)
    if found is None:
        if job.source is None:
            refuse_missing(job)
        resolved = resolve(job.source, job.revision, web_of(job, secrets), job.include, job.exclude, job.limits)
        found = find_by_listing(job, resolved.files, resolved.fingerprint)
        if found is None:
            return _new(job, resolved)
    return _there(job, found)


def in_force(job: Job) -> Manifest | None:
    """What the link leads to at present."""
    current = current_of(job.place)
    return None if current is None else manifest_of(job.place.revision(current))


def diff_of(before: Manifest | None, after: Sequence[ListedFile]) -> dict[str, str]:
    """One line a file, so that what is added, replaced and dropped shows."""
    old = [] if before is None else sorted(before.files, key=lambda file: file.path)
    lines = [f"{file.path} {file.size_bytes} {file.sha256[:16]}" for file in old]
    new = [
        f"{file.path} {'?' if file.size_bytes is None else file.size_bytes} {file.sha256[:16] if file.sha256 else '?'}"
        for file in sorted(after, key=lambda file: file.path)
    ]
    return {"before": "\n".join([*lines, ""]) if lines else "", "after": "\n".join([*new, ""])}


def _new(job: Job, resolved: Resolved) -> dict[str, Any]:
    files = resolved.files
    shared = shared_files(job, files)
    need = lacking(files, Staging(job.place.partial(job.key)), shared)
    check_space(job.name, need, disk_of(job.place.folder), job.reserve_bytes)
    stated = stated_content(files)
    folder = job.asked_folder or (None if stated is None else stated[:16])
    return {
        "changed": True,
        "path": None if folder is None else str(job.place.revision(folder)),
        "current_path": str(job.place.current),
        "revision": folder,
        "content_sha256": stated,
        "size_bytes": need.total_bytes,
        "files": len(files),
        "would_fetch_bytes": need.missing_bytes,
        "would_read_bytes": 0,
        "reused_bytes": need.there_bytes + need.shared_bytes,
        "repaired": [],
        "problems": [problem.as_dict() for problem in resolved.problems],
        "diff": diff_of(in_force(job), files),
    }


def _there(job: Job, found: Published) -> dict[str, Any]:
    manifest = found.manifest
    if manifest is None:
        raise damaged(found, [])
    refuse_other_content(job, manifest)
    findings = quick_check(found, manifest)
    bad = [finding for finding in findings if finding.state not in (GOOD, SUSPECT)]
    if bad and job.source is None:
        raise damaged(found, bad)
    suspect = [finding for finding in findings if finding.state == SUSPECT]
    to_link = job.activate and current_of(job.place) != found.revision
    listed = [ListedFile(file.path, file.size_bytes, file.sha256) for file in manifest.files]
    result = {
        "changed": bool(bad or to_link),
        "path": str(found.folder),
        "current_path": str(job.place.current),
        "revision": found.revision,
        "content_sha256": manifest.content_sha256,
        "size_bytes": manifest.size_bytes,
        "files": len(manifest.files),
        "would_fetch_bytes": sum(finding.size_bytes for finding in bad),
        "would_read_bytes": sum(finding.size_bytes for finding in suspect),
        "reused_bytes": manifest.size_bytes - sum(finding.size_bytes for finding in bad),
        "repaired": [finding.path for finding in bad],
        "problems": [],
    }
    if to_link:
        result["diff"] = diff_of(in_force(job), listed)
    return result
