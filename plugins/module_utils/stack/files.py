# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a machine's files below a root, as that machine would see them.

Links are followed inside the root, so an absolute link of a recorded machine never leads into this one. What is absent
gives None or nothing; what may not be read does too, and is remembered, so that "unknown" can be told from "none".
Nothing is believed about sizes: each read has a limit, and only regular files are read, as a pipe would never end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.roots import is_this_machine

TEXT_LIMIT = 256 * KIB
# Names and versions.
LINE_LIMIT = 256
# The kernel's own limit for links in one path.
_LINKS_LIMIT = 40
_NAMES_LIMIT = 65536
_CHUNK = MIB


class Tree:
    """A root and what could not be read below it; paths are relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live = is_this_machine(root)
        self.denied: set[str] = set()

    def resolved(self, relative: str) -> str | None:
        """The path without links, still relative to the root; it need not exist. None for links in circles."""
        left = [part for part in reversed(relative.split("/")) if part not in ("", ".")]
        done: list[str] = []
        links = 0
        while left:
            part = left.pop()
            if part == "..":
                done = done[:-1]
                continue
            try:
                target = str((self.root / "/".join([*done, part])).readlink())
            except (OSError, ValueError):
                done.append(part)
                continue
            links += 1
            if links > _LINKS_LIMIT:
                return None
            done = [] if target.startswith("/") else done
            left.extend(piece for piece in reversed(target.split("/")) if piece not in ("", "."))
        return "/".join(done) if all(part.isprintable() for part in done) else None

    def path(self, relative: str) -> Path | None:
        if self.live:
            return self.root / relative
        inside = self.resolved(relative)
        return None if inside is None else self.root / inside

    def data(self, relative: str, limit: int) -> bytes | None:
        """The file's first C(limit) bytes."""
        file = self.open(relative)
        if file is None:
            return None
        try:
            return self._read(file, limit)
        except OSError as error:
            self._note(relative, error)
            return None
        finally:
            os.close(file)

    def open(self, relative: str) -> int | None:
        """A descriptor of a regular file, for who reads parts of it."""
        path = self.path(relative)
        if path is None:
            return None
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            self._note(relative, error)
            return None
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
        return None

    def text(self, relative: str, limit: int = TEXT_LIMIT) -> str | None:
        data = self.data(relative, limit)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def line(self, relative: str, limit: int = LINE_LIMIT) -> str | None:
        """A file that holds one value: its first line without control characters; None for an empty one as well."""
        lines = (self.text(relative, limit) or "").split("\n")
        return one_line(lines[0], limit) or None

    def names(self, relative: str) -> list[str]:
        """What a folder holds, sorted; names that are no text are left out, as nobody gave them on purpose."""
        path = self.path(relative)
        try:
            found = sorted(entry.name for entry in path.iterdir() if entry.name.isprintable()) if path else []
        except (OSError, ValueError) as error:
            self._note(relative, error)
            return []
        return found[:_NAMES_LIMIT]

    def link(self, relative: str) -> str | None:
        """Where a symbolic link leads, as it is written."""
        parent, _slash, name = relative.rpartition("/")
        folder = self.path(parent)
        try:
            return None if folder is None else str((folder / name).readlink())
        except (OSError, ValueError):
            return None

    def status(self, relative: str) -> os.stat_result | None:
        path = self.path(relative)
        try:
            return None if path is None else path.stat()
        except (OSError, ValueError) as error:
            self._note(relative, error)
            return None

    def is_folder(self, relative: str) -> bool:
        found = self.status(relative)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def is_file(self, relative: str) -> bool:
        found = self.status(relative)
        return found is not None and stat.S_ISREG(found.st_mode)

    def _note(self, relative: str, error: Exception) -> None:
        if isinstance(error, PermissionError):
            self.denied.add(relative.strip("/"))

    @staticmethod
    def _read(file: int, limit: int) -> bytes:
        parts = []
        left = limit
        while left > 0:
            part = os.read(file, min(left, _CHUNK))
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def first_text(tree: Tree, *candidates: str) -> str | None:
    """The text of the first of these files that is there."""
    for relative in candidates:
        text = tree.text(relative)
        if text is not None:
            return text
    return None


def shown(relative: str | None) -> str | None:
    """A path below the root as the machine itself calls it."""
    return None if relative is None else "/" + relative.strip("/")


def assignments(text: str | None) -> dict[str, str]:
    """Lines of C(NAME=value), whose value may stand in a shell's quotes; comments and other lines are left out."""
    found = {}
    for line in (text or "").splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name and not name.startswith("#"):
            value = value.strip()
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            found[name.strip()] = value
    return found


def drop_ins(tree: Tree, folders: tuple[str, ...], suffix: str = ".conf") -> list[str]:
    """The files of several folders in the order of their names; of two with one name the earlier folder's counts.

    This is how systemd and modprobe read their C(*.d) folders.
    """
    chosen: dict[str, str] = {}
    for folder in reversed(folders):
        for name in tree.names(folder):
            if name.endswith(suffix):
                chosen[name] = f"{folder}/{name}"
    return [chosen[name] for name in sorted(chosen)]
