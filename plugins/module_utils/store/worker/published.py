# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Revisions of a model that are in the store: read, checked, repaired in place, linked."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import Place, is_revision_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    OWN_NAMES,
    RECORD_NAME,
    Manifest,
    manifest_from_text,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.verifying import (
    CONTENT,
    GOOD,
    SUSPECT,
    UNREADABLE,
    FileStatus,
    Finding,
    quick_findings,
    record_as_text,
    record_from_text,
    strangers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import (
    files_below,
    point_link,
    read_text,
    sha256_of,
    status_of,
    sync_folder,
    write_whole,
)


@dataclass(frozen=True)
class Published:
    """A revision in the store; C(manifest) is None where it is damaged or was put there by somebody else."""

    revision: str
    folder: Path
    manifest: Manifest | None
    published_at: float


@dataclass(frozen=True)
class Rights:
    """Whose the files of a revision are, and who may read them. Nobody but root may write."""

    uid: int
    gid: int
    file_mode: int

    @property
    def folder_mode(self) -> int:
        """Who may read a file may enter the folder."""
        return self.file_mode | 0o200 | ((self.file_mode & 0o444) >> 2)


def revisions(place: Place) -> list[Published]:
    """Every revision of a model, by name."""
    found = []
    for folder in _folders(place.folder):
        if is_revision_name(folder.name):
            with contextlib.suppress(OSError):
                at = (folder / MANIFEST_NAME if (folder / MANIFEST_NAME).exists() else folder).lstat().st_mtime
                found.append(Published(folder.name, folder, manifest_of(folder), at))
    return found


def models(root: Path) -> list[str]:
    return [folder.name for folder in _folders(root) if is_revision_name(folder.name)]


def manifest_of(folder: Path) -> Manifest | None:
    text = read_text(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
    if text is None:
        return None
    try:
        return manifest_from_text(text, str(folder / MANIFEST_NAME))
    except Refusal:
        return None


def current_of(place: Place) -> str | None:
    """Name of the revision that the link leads to."""
    try:
        target = str(place.current.readlink())
    except OSError:
        return None
    return Path(target).name if is_revision_name(Path(target).name) else None


def activate(place: Place, revision: str) -> bool:
    """Whether the link had to be set."""
    try:
        if str(place.current.readlink()) == revision:
            return False
    except FileNotFoundError:
        pass
    except OSError:
        raise Refusal(
            "store_current_taken",
            f"{place.current} is no link.",
            "Move it away: the store sets a link of that name to the revision in use.",
            {"path": str(place.current)},
        ) from None
    point_link(place.current, revision)
    return True


def quick_check(found: Published, manifest: Manifest) -> tuple[Finding, ...]:
    """Every file by size and time, in milliseconds for any model."""
    record = record_from_text(read_text(found.folder / RECORD_NAME, MAX_MANIFEST_BYTES) or "", manifest.content_sha256)
    statuses = {file.path: status_of(found.folder / file.path) for file in manifest.files}
    return quick_findings(manifest, record, statuses)


def read_check(
    found: Published,
    manifest: Manifest,
    findings: Iterable[Finding],
    full: bool,
    tell: Callable[[int], None],
    stop: Callable[[], bool],
) -> tuple[Finding, ...]:
    """Reads what only reading tells of, or everything if C(full)."""
    sums = {file.path: file.sha256 for file in manifest.files}
    told = []
    for finding in findings:
        state = finding.state
        if state == SUSPECT or (full and state == GOOD):
            path = finding.path
            try:
                same = sha256_of(found.folder / path, tell, stop) == sums[path]
                state = GOOD if same else CONTENT
            except InterruptedError:
                raise
            except OSError:
                state = UNREADABLE
        told.append(Finding(finding.path, state, finding.size_bytes))
    return tuple(told)


def write_record(folder: Path, manifest: Manifest, good: Iterable[str]) -> None:
    """What was read whole, as it lies there now."""
    record: dict[str, FileStatus] = {}
    for path in good:
        status = status_of(folder / path)
        if status is not None:
            record[path] = status
    write_whole(folder / RECORD_NAME, record_as_text(manifest.content_sha256, record, time.time()))


def strange_files(found: Published, manifest: Manifest) -> tuple[str, ...]:
    return strangers(manifest, (path for path in files_below(found.folder) if Path(path).name not in OWN_NAMES))


def set_rights(folder: Path, rights: Rights) -> list[str]:
    """Makes everything below the service's to read and root's to write; the paths that had to be changed."""
    changed = []
    for parent, _folders_in, names in os.walk(folder):
        entries = [(Path(parent), rights.folder_mode), *((Path(parent) / name, rights.file_mode) for name in names)]
        for path, mode in entries:
            status = path.lstat()
            if (status.st_uid, status.st_gid) != (rights.uid, rights.gid):
                os.chown(path, rights.uid, rights.gid, follow_symlinks=False)
                changed.append(str(path))
            if not path.is_symlink() and status.st_mode & 0o7777 != mode:
                path.chmod(mode)
                changed.append(str(path))
    return list(dict.fromkeys(changed))


def publish(staging: Path, place: Place, revision: str, manifest: Manifest, rights: Rights) -> Path:
    """Makes a whole revision appear at once. The staging folder lies on the same file system, beside it."""
    write_whole(staging / MANIFEST_NAME, manifest.as_text())
    set_rights(staging, rights)
    write_record(staging, manifest, (file.path for file in manifest.files))
    set_rights(staging, rights)
    for parent, _names, _files in os.walk(staging, topdown=False):
        sync_folder(Path(parent))
    target = place.revision(revision)
    staging.rename(target)
    sync_folder(place.folder)
    return target


def _folders(folder: Path) -> Iterator[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    for path in found:
        if path.is_dir() and not path.is_symlink():
            yield path
