# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bounded part of a log: its beginning, which says what was started, and its end, which says how it went. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import Record

# Of the lines that fit, so many parts are of the beginning.
_HEAD = 4
# A longer line is cut: what a server prints of its arguments fits.
LONGEST_LINE = 8000


@dataclass(frozen=True)
class Line:
    text: str

    @property
    def size_bytes(self) -> int:
        return len(self.text.encode("utf-8", "replace")) + 1


class Slice:
    """Takes lines in order and keeps no more than so many of them, and so many bytes."""

    def __init__(self, most_lines: int, most_bytes: int) -> None:
        self._most_head = (max(1, most_lines // _HEAD), max(1, most_bytes // _HEAD))
        self._most_tail = (max(1, most_lines - self._most_head[0]), max(1, most_bytes - self._most_head[1]))
        self._head: list[Line] = []
        self._head_bytes = 0
        self._tail: deque[Line] = deque()
        self._tail_bytes = 0
        self._beginning = True
        self.left_out_lines = 0
        self.left_out_bytes = 0
        self.shortened_lines = 0

    def take(self, text: str) -> None:
        if len(text) > LONGEST_LINE:
            over = len(text) - LONGEST_LINE
            text = f"{text[:LONGEST_LINE]} [{over:,} characters left out]"
            self.shortened_lines += 1
        line = Line(text)
        lines, size = self._most_head
        if self._beginning and len(self._head) < lines and self._head_bytes + line.size_bytes <= size:
            self._head.append(line)
            self._head_bytes += line.size_bytes
            return
        self._beginning = False
        self._tail.append(line)
        self._tail_bytes += line.size_bytes
        lines, size = self._most_tail
        # The last line stays, however long.
        while len(self._tail) > 1 and (len(self._tail) > lines or self._tail_bytes > size):
            gone = self._tail.popleft()
            self._tail_bytes -= gone.size_bytes
            self.left_out_lines += 1
            self.left_out_bytes += gone.size_bytes

    def lines(self) -> list[str]:
        cut = []
        if self.left_out_lines:
            cut = [f"[{self.left_out_lines:,} lines of {self.left_out_bytes:,} bytes left out here]"]
        return [*(line.text for line in self._head), *cut, *(line.text for line in self._tail)]

    def as_dict(self, complete: bool) -> dict[str, Any]:
        """C(complete): whether the log was read to its end."""
        return {
            "lines": self.lines(),
            "left_out_lines": self.left_out_lines,
            "left_out_bytes": self.left_out_bytes,
            "shortened_lines": self.shortened_lines,
            "complete": complete,
        }


def line_of(record: Record) -> str:
    """As journalctl --output=short-iso-precise has it, in UTC, without the name of the host."""
    when = "unknown time"
    if record.timestamp is not None:
        when = datetime.fromtimestamp(record.timestamp, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    who = "systemd" if record.of_manager else record.transport or "log"
    return f"{when} {who}[{record.pid if record.pid is not None else '-'}]: {record.message}"
