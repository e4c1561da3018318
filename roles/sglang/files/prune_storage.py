# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps a folder of KV cache pages below a cap, and its file system above a floor: the oldest pages go first.

For releases of SGLang that have no cap of their own, and for what no server counts any more: pages of another model or
of another number of ranks, and halves that were being written when a server died. A page that is gone is computed anew.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PAGE, HALF = ".bin", ".tmp"
# A half that is so old is being written by nobody.
HALF_SECONDS = 3600
# Removed down to this share of the cap, so that not every look has to.
SHARE = 0.9
# As systemd reads it in a line of the journal (sd-daemon(3)).
NOTICE = "<5>"


class Page(NamedTuple):
    """Oldest first. C(held_bytes) are those of the file system, C(size_bytes) those that a cap counts."""

    written: float
    name: str
    size_bytes: int
    held_bytes: int


def look(folder: str, now: float) -> tuple[list[Page], list[str]]:
    """(pages, halves that nobody writes any more)"""
    pages: list[Page] = []
    halves: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith((PAGE, HALF)):
                continue
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if entry.name.endswith(PAGE):
                pages.append(Page(state.st_mtime, entry.name, state.st_size, state.st_blocks * 512))
            elif now - state.st_mtime > HALF_SECONDS:
                halves.append(entry.name)
    return sorted(pages), halves


def too_many(pages: Sequence[Page], max_bytes: int, min_free_bytes: int, free_bytes: int) -> list[Page]:
    """The pages that have to go."""
    total = sum(page.size_bytes for page in pages)
    most = int(max_bytes * SHARE) if total > max_bytes else max_bytes
    gone: list[Page] = []
    for page in pages:
        if total <= most and free_bytes >= min_free_bytes:
            break
        gone.append(page)
        total -= page.size_bytes
        free_bytes += page.held_bytes
    return gone


def remove(folder: str, names: Sequence[str]) -> int:
    removed = 0
    for name in names:
        try:
            Path(folder, name).unlink()
            removed += 1
        except FileNotFoundError:
            continue
    return removed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--max-bytes", type=int, required=True)
    parser.add_argument("--min-free-bytes", type=int, default=0)
    asked = parser.parse_args(arguments)
    pages, halves = look(asked.folder, time.time())
    state = os.statvfs(asked.folder)
    free_bytes = state.f_bavail * state.f_frsize
    gone = too_many(pages, asked.max_bytes, asked.min_free_bytes, free_bytes)
    removed = remove(asked.folder, [page.name for page in gone])
    removed_halves = remove(asked.folder, halves)
    if removed or removed_halves:
        held = sum(page.size_bytes for page in pages)
        print(
            f"{NOTICE}removed {removed} of {len(pages)} pages ({sum(page.size_bytes for page in gone)} of {held} B) "
            f"and {removed_halves} unfinished files from {asked.folder}: cap {asked.max_bytes} bytes, floor "
            f"{asked.min_free_bytes} bytes free, and {free_bytes} bytes were."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
