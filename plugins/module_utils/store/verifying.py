# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the files of a revision are what its manifest says. Pure, on what a caller has read of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import Manifest

GOOD = "good"
MISSING = "missing"
SIZE = "size"
# Its size is right, and its time is not the one at which its content was read: only reading it tells.
SUSPECT = "suspect"
CONTENT = "content"
UNREADABLE = "unreadable"
STATES = (GOOD, MISSING, SIZE, SUSPECT, CONTENT, UNREADABLE)


@dataclass(frozen=True)
class FileStatus:
    """A file as stat(2) tells of it."""

    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Finding:
    path: str
    state: str
    size_bytes: int


def quick_findings(
    manifest: Manifest, record: Mapping[str, FileStatus], found: Mapping[str, FileStatus | None]
) -> tuple[Finding, ...]:
    """Every file of the manifest by its size and time alone; None for one that is not there."""
    findings = []
    for file in manifest.files:
        status, recorded = found.get(file.path), record.get(file.path)
        if status is None:
            state = MISSING
        elif status.size_bytes != file.size_bytes:
            state = SIZE
        else:
            state = GOOD if recorded == status else SUSPECT
        findings.append(Finding(file.path, state, file.size_bytes))
    return tuple(findings)


def strangers(manifest: Manifest, found: Iterable[str]) -> tuple[str, ...]:
    """Files that lie in the folder and not in the manifest; SGLang may load them."""
    known = {file.path for file in manifest.files}
    return tuple(sorted(path for path in found if path not in known))


def record_as_text(content_sha256: str, record: Mapping[str, FileStatus], verified_at: float) -> str:
    data = {
        "schema": 1,
        "content_sha256": content_sha256,
        "verified_at": round(verified_at, 3),
        "files": {path: [status.size_bytes, status.mtime_ns] for path, status in sorted(record.items())},
    }
    return json.dumps(data, indent=1) + "\n"


def record_from_text(text: str, content_sha256: str) -> dict[str, FileStatus]:
    """Empty for a record that is of another manifest or was never finished: then only reading tells."""
    try:
        data: Any = json.loads(text)
        if data["content_sha256"] != content_sha256:
            return {}
        return {str(path): FileStatus(int(size), int(mtime)) for path, (size, mtime) in data["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def changes(before: Manifest | None, after: Manifest) -> dict[str, list[str]]:
    """Paths that C(after) adds, replaces and drops."""
    old = {} if before is None else {file.path: file.sha256 for file in before.files}
    new = {file.path: file.sha256 for file in after.files}
    return {
        "added": sorted(set(new) - set(old)),
        "replaced": sorted(path for path in set(new) & set(old) if new[path] != old[path]),
        "removed": sorted(set(old) - set(new)),
    }
