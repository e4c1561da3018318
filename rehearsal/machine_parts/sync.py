# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bringing a folder to what a profile says, one entry at a time, so that it can stay mounted meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .entries import Entry, Folder, Link, ProfileError

MARKER = ".machine-tree"
# Files of a disk are all of one time: which of them is the newer one tells something (an initramfs, a configuration).
DATED = ("boot", "etc", "lib", "usr", "var")
TIME = 1764500000


def refuse_foreign_folder(dest: Path) -> None:
    if dest.is_dir() and any(dest.iterdir()) and not (dest / MARKER).is_file():
        raise ProfileError(f"{dest} was not made by machine_tree.py (it has no {MARKER}); choose another folder.")


def sync(dest: Path, entries: dict[str, Entry], kept: str) -> int:
    """Number of things that had to be changed. C(kept) is a path that others fill."""
    dest.mkdir(parents=True, exist_ok=True)
    changed = _remove_leftovers(dest, entries, kept)
    (dest / kept).parent.mkdir(parents=True, exist_ok=True)
    for relative, entry in sorted(entries.items()):
        (dest / relative).parent.mkdir(parents=True, exist_ok=True)
        changed += _sync_entry(dest, relative, entry)
    return changed


def _sync_entry(dest: Path, relative: str, entry: Entry) -> bool:
    path = dest / relative
    if isinstance(entry, Folder):
        if path.is_dir() and not path.is_symlink():
            return False
        _clear(path)
        path.mkdir(parents=True)
        return True
    if isinstance(entry, Link):
        target = os.path.relpath(entry.target, str(Path(relative).parent))
        if path.is_symlink() and str(path.readlink()) == target:
            return False
        _clear(path)
        path.symlink_to(target)
        return True
    content = entry if isinstance(entry, bytes) else f"{entry}\n".encode()
    if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
        return False
    if path.is_symlink() or path.is_dir():
        _clear(path)
    _write(path, content, TIME if relative.split("/")[0] in DATED else None)
    return True


def _write(path: Path, content: bytes, time: int | None) -> None:
    """Replace a file in one step: whoever reads meanwhile sees the old or the new one."""
    fresh = path.with_name(path.name + ".fresh")
    fresh.write_bytes(content)
    if time is not None:
        os.utime(fresh, (time, time))
    fresh.replace(path)


def _clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def _remove_leftovers(dest: Path, entries: dict[str, Entry], kept: str) -> int:
    wanted = {relative for relative, entry in entries.items() if not isinstance(entry, Folder)} | {kept}
    folders = {str(parent) for relative in {*entries, kept} for parent in Path(relative).parents}
    folders |= {relative for relative, entry in entries.items() if isinstance(entry, Folder)}
    removed = 0
    for folder, subfolders, files in os.walk(dest, topdown=True):
        for name in list(subfolders) + files:
            path = Path(folder) / name
            relative = str(path.relative_to(dest))
            if relative in wanted or (relative in folders and not path.is_symlink()):
                continue
            _clear(path)
            removed += 1
            if name in subfolders:
                subfolders.remove(name)
    return removed
