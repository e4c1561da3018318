# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a user can read a folder, judged by mode bits and ownership; pure, on stat values the caller has read."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    groups: frozenset[int]


@dataclass(frozen=True)
class Entry:
    """One path with the part of its stat that decides access."""

    path: str
    mode: int
    uid: int
    gid: int


def permits(user: User, entry: Entry, read: bool, enter: bool) -> bool:
    """The kernel's rule: exactly one of owner, group and others applies. ACLs are not seen by it."""
    if user.uid == 0:
        return True
    if user.uid == entry.uid:
        shift = 6
    elif entry.gid in user.groups:
        shift = 3
    else:
        shift = 0
    bits = entry.mode >> shift
    return (not read or bool(bits & 4)) and (not enter or bool(bits & 1))


def unreadable(user: User, parents: Iterable[Entry], folder: Entry, files: Iterable[Entry]) -> list[str]:
    """Paths that keep the user out: parents that it cannot enter, the folder, files that it cannot read."""
    found = [entry.path for entry in parents if not permits(user, entry, read=False, enter=True)]
    if not permits(user, folder, read=True, enter=True):
        found.append(folder.path)
    for entry in files:
        is_folder = stat.S_ISDIR(entry.mode)
        if not permits(user, entry, read=True, enter=is_folder):
            found.append(entry.path)
    return found
