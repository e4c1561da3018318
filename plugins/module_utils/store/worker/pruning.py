# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes revisions that nobody uses, after a second look, and partial downloads that nobody goes on with."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import PARTIAL, TRASH, Place
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.usage import Candidate, Decision, Use, decide
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import locked, sync_folder
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import (
    current_of,
    models,
    revisions,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.using import Finds

_DAY_SECONDS = 86400.0


@dataclass(frozen=True)
class Leftover:
    """A partial download. C(busy): a worker is at it."""

    path: str
    size_bytes: int
    age_days: float
    busy: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "size_bytes": self.size_bytes,
            "age_days": round(self.age_days, 2),
            "busy": self.busy,
        }


def candidates(root: Path) -> list[Candidate]:
    found = []
    for name in models(root):
        place = Place(str(root), name)
        current = current_of(place)
        sizes = {one.revision: _sizes(one.folder) for one in revisions(place)}
        for one in revisions(place):
            others = {inode for revision, inodes in sizes.items() if revision != one.revision for inode in inodes}
            own = sum(size for inode, size in sizes[one.revision].items() if inode not in others)
            found.append(
                Candidate(name, one.revision, own, one.published_at, one.revision == current, one.manifest is not None)
            )
    return found


def links(root: Path) -> dict[str, str]:
    found = {name: current_of(Place(str(root), name)) for name in models(root)}
    return {name: revision for name, revision in found.items() if revision is not None}


def leftovers(root: Path) -> list[Leftover]:
    found = []
    for name in models(root):
        folder = root / name / PARTIAL
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            times = [_mtime(Path(parent) / file) for parent, _folders, files in os.walk(path) for file in files]
            newest = max(times, default=_mtime(path))
            busy = False
            if (path / "lock").exists():
                with locked(path / "lock") as free:
                    busy = not free
            age = max(0.0, time.time() - newest) / _DAY_SECONDS
            found.append(Leftover(str(path), sum(_sizes(path).values()), age, busy))
    return found


def prune(
    root: Path, keep: int, only: Sequence[str], partial_days: float | None, look: Callable[[], Finds], dry: bool
) -> dict[str, Any]:
    """What is or would be removed, and why the rest stays."""
    finds = look()
    decisions = decide(candidates(root), finds.uses, finds.blind, keep, only, links(root))
    old = [
        one
        for one in leftovers(root)
        if partial_days is not None
        and not one.busy
        and one.age_days >= partial_days
        and (not only or Path(one.path).parent.parent.name in only)
    ]
    if not dry and root.is_dir():
        with locked(root / ".prune.lock") as alone:
            if not alone:
                raise Refusal(
                    "store_prune_busy",
                    f"Another run is removing revisions of {root}.",
                    "Run it again when that has ended.",
                )
            _finish_earlier(root)
            decisions = [_remove(root, decision, look) for decision in decisions]
            for leftover in old:
                with locked(Path(leftover.path) / "lock") as free:
                    if free:
                        shutil.rmtree(leftover.path, ignore_errors=True)
    removed = [decision for decision in decisions if decision.remove]
    return {
        "changed": bool(removed or old),
        "removed": [decision.as_dict() for decision in removed],
        "kept": [decision.as_dict() for decision in decisions if not decision.remove],
        "removed_partial": [one.as_dict() for one in old],
        "freed_bytes": sum(one.size_bytes for one in removed) + sum(one.size_bytes for one in old),
        "not_looked_at": finds.blind,
    }


def _remove(root: Path, decision: Decision, look: Callable[[], Finds]) -> Decision:
    """Moves it aside first, so that nothing can begin to use it, and looks once more before it is gone for good."""
    if not decision.remove:
        return decision
    place = Place(str(root), decision.name)
    trash = place.folder / TRASH
    trash.mkdir(exist_ok=True, mode=0o700)
    aside, folder = trash / decision.revision, place.revision(decision.revision)
    folder.rename(aside)
    sync_folder(place.folder)
    again = look()
    moved, here = f"{decision.name}/{TRASH}/{decision.revision}", f"{decision.name}/{decision.revision}"
    # Who has it open or mapped is found by inode at its new place.
    uses = [Use(use.who, here) if use.path.startswith(moved) else use for use in again.uses]
    current = current_of(place) == decision.revision
    found = [Candidate(decision.name, decision.revision, decision.size_bytes, 0.0, current)]
    verdict = decide(found, uses, again.blind, 0, (), links(root))[0]
    if verdict.remove:
        shutil.rmtree(aside)
    else:
        aside.rename(folder)
        sync_folder(place.folder)
    with contextlib.suppress(OSError):
        trash.rmdir()
    return verdict


def _finish_earlier(root: Path) -> None:
    """What a run that was killed had moved aside goes back, and is judged anew the next time."""
    for name in models(root):
        trash = root / name / TRASH
        for path in sorted(trash.iterdir()) if trash.is_dir() else []:
            target = root / name / path.name
            if path.is_dir() and not target.exists():
                path.rename(target)
        with contextlib.suppress(OSError):
            trash.rmdir()


def _sizes(folder: Path) -> dict[tuple[int, int], int]:
    """Bytes on the disk by inode."""
    found = {}
    for parent, _folders, files in os.walk(folder):
        for name in files:
            try:
                status = (Path(parent) / name).lstat()
            except OSError:
                continue
            found[(status.st_dev, status.st_ino)] = status.st_blocks * 512
    return found


def _mtime(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
