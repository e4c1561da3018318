# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading below a root which the caller gives, so that a recording of another machine is read in the same way.

A file that is absent or may not be read gives None or nothing, never an exception.
"""

from __future__ import annotations

from pathlib import Path


def read_text(root: Path, relative: str) -> str | None:
    try:
        return (root / relative).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def names_in(root: Path, relative: str) -> list[str]:
    try:
        return sorted(path.name for path in (root / relative).iterdir())
    except OSError:
        return []


def link_name(root: Path, relative: str) -> str | None:
    """The last part of where a symbolic link leads; the link's end need not exist."""
    try:
        return (root / relative).readlink().name
    except OSError:
        return None
