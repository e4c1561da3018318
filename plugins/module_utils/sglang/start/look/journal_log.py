# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the journal of one start: followed by one child while one waits, and to its end when it counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import (
    KERNEL_MATCHES,
    Record,
    cursor_time,
    is_not_after,
    journalctl_command,
    parse_record,
    same_record,
    suppressed_messages,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import MOST_RECORDS, Collector
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.kernel_log import WORDS, KernelLog
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.parts import Parts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.position import Position
from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import Lines

# A reading to the end takes no longer, however much is there; the next look goes on.
MOST_SECONDS = 5.0
# journalctl may end when files are rotated under it; it is not begun again faster than this.
AGAIN_SECONDS = 1.0
# Silence for so long after a record means that the end was reached: journald wakes its readers within 250 ms.
SETTLED_SECONDS = 0.3


def _unreadable(errors: str, code: int) -> Problem:
    return Problem(
        "journal_unreadable",
        "warning",
        f"journalctl failed: {errors.strip() or code}.",
        "Run as root or as a member of systemd-journal; without it only bytes and readiness can be watched.",
    )


class JournalLog:
    """The records of one start after a cursor, and with them those of the kernel once there is a cursor.

    The first record that comes has to be that of the cursor. It is another where the cursor's was rotated away; then
    journalctl goes on from its time, and lines may be missing.
    """

    def __init__(
        self,
        node: Node,
        found: Collector,
        kernel: KernelLog,
        matches: Iterable[tuple[str, ...]],
        cursor: str | None,
        kernel_cursor: str | None,
        since: float | None = None,
        unit: str | None = None,
        invocation_id: str | None = None,
        namespace: str | None = None,
    ) -> None:
        self._node = node
        self._found = found
        self._kernel = kernel
        self._matches = tuple(matches)
        self._since = since
        self._unit = unit
        self._invocation_id = invocation_id
        self._namespace = namespace
        self._kernel_cursor = kernel_cursor
        self._expected = cursor
        self._parts = Parts()
        self._child: Lines | None = None
        self._not_before = 0.0
        self._last_line_at: float | None = None
        self.cursor = cursor
        # Without a place to begin at, the kernel's log since the boot would come.
        self.with_kernel = cursor is not None

    def _open(self, follow: bool) -> Lines:
        matches = (*self._matches, *KERNEL_MATCHES) if self.with_kernel else self._matches
        self._expected = self.cursor
        return self._node.stream(journalctl_command(matches, self.cursor, self._since, follow, self._namespace))

    def _take_lines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if self._found.stopped:
                return
            record = parse_record(line)
            if record is not None:
                self._take(record)

    def _take(self, record: Record) -> None:
        if self._expected is not None and record.cursor is not None:
            resumed = same_record(record.cursor, self._expected)
            self._expected = None
            if resumed:
                return
            self._found.gap = True
        self.cursor = record.cursor or self.cursor
        if record.transport == "kernel":
            known = self._kernel_cursor is not None and record.cursor is not None
            if not (known and is_not_after(record.cursor or "", self._kernel_cursor or "")):
                self._kernel.take(record.message, record.timestamp)
            return
        if record.transport == "driver":
            self._take_suppressed(record)
            return
        message = self._parts.join(f"{record.stream or record.pid}", record.message, record.broken)
        if message is not None:
            self._found.take(message, record.timestamp, record.pid, record.of_manager)

    def _take_suppressed(self, record: Record) -> None:
        count = suppressed_messages(record, self._unit) if self._unit else None
        # A record about an earlier start of the unit is let through by its name alone.
        if count is not None and record.object_invocation_id in (None, self._invocation_id):
            self._found.suppressed += count

    def read(self, seconds: float) -> None:
        """What comes within so many seconds; returns as soon as something came."""
        now = self._node.clock()
        if self._child is None and now < self._not_before:
            self._node.sleep(min(seconds, self._not_before - now))
            return
        if self._child is None:
            self._child = self._open(follow=True)
        lines = self._child.read(seconds)
        if lines:
            self._last_line_at = self._node.clock()
            self._take_lines(lines)
        if self._child.ended:
            self._child.close()
            self._child = None
            self._last_line_at = None
            self._not_before = self._node.clock() + AGAIN_SECONDS

    def reached(self, before: Position) -> Position:
        return replace(before, journal=self.cursor)

    def finish(self, surely: bool) -> bool:
        """Reads to the end where the child has not evidently reached it, or where that must be sure.

        Returns whether there is more to be read.
        """
        quiet_since = self._last_line_at
        settled = quiet_since is not None and self._node.clock() - quiet_since >= SETTLED_SECONDS
        if self._child is not None:
            self._child.close()
            self._child = None
        if self._found.stopped:
            return True
        complete = True if settled and not surely else self._to_end()
        for message in self._parts.rest():
            self._found.take(message, None, None)
        return not complete

    def take_unattributed(self, since: float | None) -> None:
        """What a process said first of all and died of, before journald knew its invocation (journald-context.c).

        journald looks that up when it reads the first line; of a unit that has failed by then only the name is left.
        """
        if since is None or self._unit is None or self._found.stopped:
            return
        matches = ((f"_SYSTEMD_UNIT={self._unit}", "_TRANSPORT=stdout"),)
        child = self._node.stream(journalctl_command(matches, None, since, False, self._namespace))
        deadline = self._node.clock() + MOST_SECONDS
        while not child.ended and not self._found.stopped and self._node.clock() < deadline:
            for line in child.read(deadline - self._node.clock()):
                record = None if b'"_SYSTEMD_INVOCATION_ID"' in line else parse_record(line)
                if record is not None:
                    self._found.take(record.message, record.timestamp, record.pid, False)
        child.close()

    def _to_end(self) -> bool:
        before = self.cursor
        code, errors, complete, came = self._read_all(self._open(follow=False))
        if code != 0 and not came and before is not None:
            # A cursor that journalctl cannot use; its time is in it.
            since = cursor_time(before)
            if since is not None:
                self._found.gap = True
                self.cursor, self._since = None, since + 1e-6
                code, errors, complete, came = self._read_all(self._open(follow=False))
                self.cursor = self.cursor or before
        if code != 0 and not came:
            self._found.unreadable(_unreadable(errors, code))
        return complete

    def _read_all(self, child: Lines) -> tuple[int, str, bool, bool]:
        """(return code, stderr, whether its end was reached, whether anything came)."""
        deadline = self._node.clock() + MOST_SECONDS
        came = False
        while not child.ended and not self._found.stopped and self._node.clock() < deadline:
            lines = child.read(deadline - self._node.clock())
            came = came or bool(lines)
            self._take_lines(lines)
        complete = child.ended and not self._found.stopped
        code, errors = child.close()
        return code, errors, complete, came


def read_kernel(node: Node, kernel: KernelLog, cursor: str | None, since: float | None) -> str | None:
    """The kernel's log alone, where no journal of the start carries it; the new cursor.

    Where it cannot be read, as in a container, there is nothing to say about that.
    """
    if cursor is None and since is None:
        return None
    child = node.stream(journalctl_command(KERNEL_MATCHES, cursor, since))
    deadline = node.clock() + MOST_SECONDS
    count = 0
    words = [word.encode() for word in WORDS]
    last: bytes | None = None
    while not child.ended and count < MOST_RECORDS and node.clock() < deadline:
        for line in child.read(deadline - node.clock()):
            count += 1
            last = line
            if any(word in line for word in words):
                record = parse_record(line)
                if record is not None and not (cursor and record.cursor and same_record(record.cursor, cursor)):
                    kernel.take(record.message, record.timestamp)
    child.close()
    record = parse_record(last) if last is not None else None
    return record.cursor if record is not None and record.cursor else cursor
