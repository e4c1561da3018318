# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waits on the node for what a stage or a verdict hangs on.

Cheap files of /proc and of the control group are read twice a second. The log is followed by one child for the whole
wait. systemd is asked again only when one of these hints at a change, and every few seconds to be sure.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.readiness_versions import readiness_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import Collector
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.kernel_log import KernelLog
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.log_source import (
    Log,
    find_log_file,
    open_log,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.position import Position
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.probe import read_serves
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.ranks import RankReader
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.samples import SAMPLE_SECONDS, Samples
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.subject import (
    Seen,
    read_pids,
    read_subject,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.unit import has_ended

# Ranks go through their stages at nearly the same time; what follows a line closely comes in the same look.
LINGER_SECONDS = 0.3
# How often a server is asked that can say without generating that it is ready.
PROBE_SECONDS = 2.0


class LongPoll:
    """One look while it lasts: what was seen last, and what has come of the logs so far."""

    def __init__(self, node: Node, request: Request, seen: Seen, position: Position) -> None:
        self._node = node
        self.request = request
        self._position = position
        self._reader = RankReader(node, request.known)
        self._samples = Samples(request.meter)
        self._asked_at = node.clock()
        self._probed_at: float | None = None
        self._changed = False
        self.seen = seen
        self.found = Collector(request.version, request.last_lines)
        self.kernel = KernelLog()
        self.log: Log | None = None
        self.log_type = request.log_type or "journal"
        self.log_path = request.log_path
        self.serves: bool | None = None
        self.read_at = node.wall()
        self.uptime = node.uptime()
        self.pids: list[int] = []
        self.ranks: list[RankReading] = []
        # Every process that was seen: the kernel may speak of one that is gone.
        self.all_pids: set[int] = {one.pid for one in request.known}
        self._open_log()

    def _log_place(self) -> tuple[str, str | None]:
        """Type and path as asked for; else the file that the server itself has for its log, or the journal."""
        if self.request.log_type:
            return self.request.log_type, self.request.log_path
        main = [self.seen.status.main_pid] if self.seen.status.main_pid else []
        found = find_log_file(self._node, [*main, *(one.pid for one in self.request.known if one.alive)])
        path = self._position.path or found
        return ("file", path) if path else ("journal", None)

    @property
    def reads_log(self) -> bool:
        return self.request.last_lines > 0

    def _open_log(self) -> None:
        if self.log is None and self.reads_log:
            self.log_type, self.log_path = self._log_place()
            self.log = open_log(
                self._node,
                self.found,
                self.kernel,
                self.log_type,
                self.log_path,
                self.request.subject.unit,
                self.seen,
                self._position,
            )

    def _ask(self) -> None:
        self.seen = read_subject(self._node, self.request.subject)
        self._asked_at = self._node.clock()
        self.found.manager_spoke = False
        self._open_log()

    def _hinted(self) -> bool:
        """Whether anything cheap says that the unit is no longer as systemd last described it."""
        main = self.seen.main_pid
        gone = main is not None and not self._node.path(f"proc/{main}").exists()
        due = self._node.clock() - self._asked_at >= self.request.subject.again_seconds
        begun = main is None and bool(self.pids)
        return gone or due or begun or self.found.manager_spoke

    def measure(self) -> None:
        self.read_at, self.uptime = self._node.wall(), self._node.uptime()
        self.pids = read_pids(self._node, self.seen)
        self.all_pids.update(self.pids)
        if self.seen.main_pid:
            self.all_pids.add(self.seen.main_pid)
        self.ranks = self._reader.read(self.pids)
        self._samples.add(self.read_at, self.ranks)

    def probe(self, at_the_end: bool) -> None:
        """Asks the server; while one waits only where that generates nothing."""
        url = self.request.ready_url
        readiness = readiness_of(self.request.version)
        now = self._node.clock()
        if not url or self.serves or not (at_the_end or not readiness.generates):
            return
        if self._probed_at is not None and now - self._probed_at < PROBE_SECONDS:
            return
        self._probed_at = now
        self.serves = read_serves(self._node, url, readiness, may_generate=not self.found.readable)[0]

    def _shape(self) -> tuple[Any, ...]:
        """What counts as news apart from the log."""
        status = self.seen.status
        return (
            status.active_state,
            status.sub_state,
            status.invocation_id,
            status.main_pid,
            status.n_restarts,
            frozenset((one.pid, one.alive) for one in self.ranks),
        )

    def _lost(self, living: frozenset[int]) -> bool:
        return any(not one.alive and one.pid in living for one in self.ranks)

    def _watch_log(self, until: float) -> None:
        """Reads until then, or until something came that should be looked into at once."""
        found, noted = self.found, self.found.news or self.kernel.noted
        while self._node.clock() < until and not (found.stopped or found.manager_spoke):
            remaining = until - self._node.clock()
            if self.log is None:
                self._node.sleep(remaining)
            else:
                self.log.read(remaining)
            if (found.news or self.kernel.noted) and not noted:
                return

    def wait(self) -> bool:
        """Until there is news or the time is over; whether an end was seen, so that the log has to be read to its end.

        The first measurement is there on return in any case.
        """
        deadline = self._node.clock() + self.request.wait_seconds
        living = frozenset(one.pid for one in self.request.known if one.alive)
        first: tuple[Any, ...] | None = None
        leave_at = deadline
        while True:
            self.measure()
            if first is not None and self._hinted():
                self._ask()
            shape = self._shape()
            if self._lost(living) or has_ended(self.seen.status):
                return True
            living |= {one.pid for one in self.ranks if one.alive}
            now = self._node.clock()
            news = self.found.news or self.kernel.noted or (first is not None and shape != first)
            if news and leave_at == deadline:
                leave_at = min(deadline, now + LINGER_SECONDS)
            first = first or shape
            if now < leave_at and self.request.wait_seconds:
                self.probe(at_the_end=False)
            if now >= leave_at or self.found.stopped or self.serves:
                return self.request.wait_seconds == 0
            self._watch_log(min(leave_at, now + SAMPLE_SECONDS))

    def samples(self) -> list[dict[str, Any]]:
        return self._samples.as_list()
