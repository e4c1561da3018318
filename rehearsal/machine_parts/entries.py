# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a tree is made of: every part yields pairs of a path below the tree and what lies there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True)
class Link:
    """A symbolic link, by the path below the tree that it shall lead to."""

    target: str


@dataclass(frozen=True)
class Folder:
    """A folder that is there even where nothing lies in it."""


# A text is written with a closing newline, bytes as they are.
Entry = Union[str, bytes, Link, Folder]
Entries = Iterator[tuple[str, Entry]]
Profile = dict[str, Any]


class ProfileError(Exception):
    """The profile cannot be built; the message names the place."""
