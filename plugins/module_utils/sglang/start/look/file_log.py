# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a log file by inode and offset, through rotation by renaming and by copying and truncating.

A file that is appended to holds earlier starts as well. Lines count from the first one on whose own time is not before
the start; the whole file counts if it was made by the start. A line without a time belongs to the one before it. SGLang
prints whole seconds, so what it says in the very second of its start does not count; it takes longer to import torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from stat import S_ISREG

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import (
    LONGEST_MESSAGE,
    Collector,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.line_times import (
    Decode,
    parse_stamp,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.parts import Parts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.position import (
    FilePosition,
    Position,
)

CHUNK_BYTES = 1 << 18
CHECK_BYTES = 64
# Of a file that is new to us so much is searched for the beginning of this start.
FIRST_BYTES = 64 << 20
PAUSE_SECONDS = 0.2
MOST_SECONDS = 5.0
# systemd opens the file of a service a moment before or after it notes the time of the start.
BIRTH_SECONDS = 0.5


@dataclass(frozen=True)
class _File:
    path: str
    inode: int
    size: int


def _missing(path: str) -> Problem:
    return Problem(
        "log_file_missing",
        "warning",
        f"There is no log file {path} that can be read.",
        "Name the file that the server writes to; without it only bytes and readiness can be watched.",
    )


class FileLog:
    """C(started_at): when this start began, None where that is not known; then only new lines count."""

    def __init__(
        self,
        node: Node,
        found: Collector,
        path: str,
        position: FilePosition | None,
        started_at: float | None,
        decode: Decode,
    ) -> None:
        self._node = node
        self._found = found
        self._path = path
        self._started_at = started_at
        self._decode = decode
        self._parts = Parts()
        self.position = position

    def _file(self, path: str) -> _File | None:
        try:
            status = self._node.path(path).stat()
        except OSError:
            return None
        # Whoever opens a pipe waits for its writer, and a device has no end.
        return _File(path, status.st_ino, status.st_size) if S_ISREG(status.st_mode) else None

    def _bytes(self, path: str, offset: int, size: int) -> bytes:
        try:
            with self._node.path(path).open("rb") as file:
                file.seek(offset)
                return file.read(size)
        except OSError:
            return b""

    def _check(self, path: str, offset: int) -> str:
        start = max(0, offset - CHECK_BYTES)
        return hashlib.sha256(self._bytes(path, start, offset - start)).hexdigest()[:16] if offset else ""

    def _continues(self, file: _File, position: FilePosition) -> bool:
        """Whether the file still holds what was read of it."""
        return file.size >= position.offset and self._check(file.path, position.offset) == position.check

    def _rotated(self, position: FilePosition) -> _File | None:
        """What the file is called after rotation, or the copy that was made of it."""
        folder, _slash, name = self._path.rpartition("/")
        candidates = [
            self._file(f"{folder}/{other}")
            for other in self._node.names(folder)
            if other.startswith(name) and other != name
        ]
        there = [one for one in candidates if one is not None and self._continues(one, position)]
        return next((one for one in there if one.inode == position.inode), there[0] if there else None)

    def _first(self, file: _File) -> FilePosition:
        if self._started_at is None:
            return FilePosition(file.inode, file.size, self._check(file.path, file.size), mine=True)
        code, output, _errors = self._node.run(["stat", "--format=%w", "--", str(self._node.path(file.path))])
        born = parse_stamp(output) if code == 0 else None
        if born is not None and born >= self._started_at - BIRTH_SECONDS:
            return FilePosition(file.inode, 0, mine=True)
        offset = max(0, file.size - FIRST_BYTES)
        return FilePosition(file.inode, offset, self._check(file.path, offset), skipping=offset > 0)

    def _pump(self) -> bool:
        """Reads on; whether there was anything."""
        file = self._file(self._path)
        if self.position is None:
            if file is None:
                self._found.unreadable(_missing(self._path))
                return False
            self.position = self._first(file)
        position = self.position
        if file is None or position.inode != file.inode or not self._continues(file, position):
            old = self._rotated(position)
            if old is not None and self._read(old, position):
                return True
            if file is None or (old is not None and not file.size):
                # Who writes may not have been told of the rotation and still write to the old file.
                return False
            self._found.gap = self._found.gap or old is None
            # Whatever stands in a new file was written after what was read.
            position = FilePosition(file.inode, 0, mine=position.mine)
        return self._read(file, position)

    def _read(self, file: _File, position: FilePosition) -> bool:
        data = self._bytes(file.path, position.offset, min(CHUNK_BYTES, file.size - position.offset))
        end = data.rfind(b"\n") + 1
        if position.skipping:
            # In a line whose beginning was read, or whose beginning is of no interest.
            skip = data.find(b"\n") + 1 or len(data)
            self._move(file, replace(position, offset=position.offset + skip, skipping=not end))
            return bool(data)
        if not end and len(data) >= CHUNK_BYTES:
            self._take(data[:LONGEST_MESSAGE], position)
            self._move(file, replace(self.position or position, offset=position.offset + len(data), skipping=True))
            return True
        self.position = replace(position, inode=file.inode)
        taken = 0
        for line in _lines(data[:end]):
            if self._found.stopped:
                break
            self._take(line.rstrip(b"\n"), self.position)
            taken += len(line)
        self._move(file, replace(self.position, offset=position.offset + taken))
        return taken > 0

    def _move(self, file: _File, position: FilePosition) -> None:
        self.position = replace(position, inode=file.inode, check=self._check(file.path, position.offset))

    def _take(self, data: bytes, position: FilePosition) -> None:
        line = self._decode(data)
        if not position.mine:
            started = self._started_at
            if started is None or line.at is None or line.at < started:
                self.position = position
                return
        self.position = replace(position, mine=True)
        text = self._parts.join(line.stream, line.text, line.goes_on)
        if text is not None:
            self._found.take(text, line.at, None)

    def read(self, seconds: float) -> None:
        """What comes within so many seconds; returns as soon as something came."""
        deadline = self._node.clock() + seconds
        while not self._pump() and not self._found.stopped and self._node.clock() < deadline:
            self._node.sleep(min(PAUSE_SECONDS, max(0.0, deadline - self._node.clock())))

    def reached(self, before: Position) -> Position:
        return replace(before, file=self.position)

    def finish(self, surely: bool) -> bool:
        """Reads to the end. Returns whether there is more to be read. (A file is always read to its end.)"""
        deadline = self._node.clock() + (2 * MOST_SECONDS if surely else MOST_SECONDS)
        while not self._found.stopped and self._node.clock() < deadline:
            if not self._pump():
                for message in self._parts.rest():
                    self._found.take(message, None, None)
                return False
        return True


def _lines(data: bytes) -> Iterator[bytes]:
    """Split at newlines only, each line with its own: a progress bar's carriage returns stay inside."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1
        yield data[start:end]
        start = end
