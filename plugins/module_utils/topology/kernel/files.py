# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading below a root which the caller gives, so that a recording of another machine is read in the same way.

What is absent, may not be read or is no file gives None or nothing, never an exception; no file is read without end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

# Far more than any file that is looked at holds.
MAX_BYTES = 1 << 20
LINE_BYTES = 256


def read_bytes(root: Path, relative: str, limit: int = MAX_BYTES) -> bytes | None:
    """The first C(limit) bytes of a file."""
    try:
        # A pipe in the file's place must not be waited for.
        handle = os.open(root / relative, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        parts = []
        while limit > 0:
            # The kernel's files come in pieces: /proc hands out a page at a time.
            part = os.read(handle, limit)
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(handle)


def read_text(root: Path, relative: str, limit: int = MAX_BYTES) -> str | None:
    content = read_bytes(root, relative, limit)
    return None if content is None else content.decode("utf-8", "replace").strip()


def read_line(root: Path, relative: str) -> str | None:
    """A name or a version, of the length that these have and without control characters; None where there is none."""
    lines = (read_text(root, relative, LINE_BYTES) or "").split("\n")
    return one_line(lines[0], LINE_BYTES) or None


def is_folder(root: Path, relative: str) -> bool:
    """Path.is_dir raises where a folder on the way may not be entered or a name is too long."""
    try:
        return stat.S_ISDIR((root / relative).stat().st_mode)
    except (OSError, ValueError):
        return False


def names_in(root: Path, relative: str) -> list[str]:
    """What a folder holds, sorted; names that are no text are left out, as nobody gave them on purpose."""
    try:
        return sorted(path.name for path in (root / relative).iterdir() if path.name.isprintable())
    except (OSError, ValueError):
        return []


def link_parts(root: Path, relative: str) -> tuple[str, ...]:
    """Where a symbolic link leads, part by part; the link's end need not exist."""
    try:
        target = (root / relative).readlink()
    except (OSError, ValueError):
        return ()
    return target.parts if str(target).isprintable() else ()


def link_name(root: Path, relative: str) -> str | None:
    """The last part of where a symbolic link leads."""
    parts = link_parts(root, relative)
    return parts[-1] if parts else None
