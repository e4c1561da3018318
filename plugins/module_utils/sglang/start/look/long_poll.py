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
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import readiness_of
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

# What follows news closely comes in the same look. A verdict waits for the rest of a traceback at most. Stages change
# at nearly the same time for all ranks. The server may be ready any moment once it warms up, which only the next look
# would see if this one had just ended.
DECISIVE_LINGER_SECONDS = 0.3
STAGE_LINGER_SECONDS = 1.5
ENDING_LINGER_SECONDS = 5.0
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
        return gone or due or begun or self.found.manager_spoke or self.awaits_start

    @property
    def awaits_start(self) -> bool:
        """Whether what runs now is the server before the one that was asked for; nothing is followed yet."""
        return self._position.start is None and self.seen.status.awaits_start

    def measure(self) -> None:
        self.read_at, self.uptime = self._node.wall(), self._node.uptime()
        self.pids = read_pids(self._node, self.seen)
        self.all_pids.update(self.pids)
        if self.seen.main_pid:
            self.all_pids.add(self.seen.main_pid)
        self.ranks = [] if self.awaits_start else self._reader.read(self.pids)
        self._samples.add(self.read_at, self.ranks)

    def probe(self, at_the_end: bool) -> None:
        """Asks the server, unless its log has told; while one waits only where that generates nothing."""
        url = self.request.ready_url
        readiness = readiness_of(self.request.version)
        now = self._node.clock()
        told = self.serves or self.found.ready
        if not url or told or self.awaits_start or not (at_the_end or not readiness.generates):
            return
        if self._probed_at is not None and now - self._probed_at < PROBE_SECONDS:
            return
        self._probed_at = now
        self.serves = read_serves(self._node, url, readiness, may_generate=not self.found.readable)[0]

    def _state_of_unit(self) -> tuple[Any, ...]:
        status = self.seen.status
        return (
            status.active_state,
            status.sub_state,
            status.invocation_id,
            status.main_pid,
            status.n_restarts,
        )

    def _set_of_ranks(self) -> frozenset[tuple[int, bool]]:
        return frozenset((one.pid, one.alive) for one in self.ranks)

    def _lost(self, living: frozenset[int]) -> bool:
        return any(not one.alive and one.pid in living for one in self.ranks)

    def _watch_log(self, until: float) -> None:
        """Reads until then, or until something came that should be looked into at once."""
        found, noted = self.found, self._news_of_logs
        while self._node.clock() < until and not (found.stopped or found.manager_spoke):
            remaining = until - self._node.clock()
            if self.log is None:
                self._node.sleep(remaining)
            else:
                self.log.read(remaining)
            if self._news_of_logs != noted:
                return

    @property
    def _news_of_logs(self) -> tuple[bool, bool, bool]:
        """(of a stage, of the last one, of a verdict)."""
        return self.found.news, self.found.ending, self.found.decisive or self.kernel.noted

    def wait(self) -> bool:
        """Until there is news or the time is over; whether an end was seen, so that the log has to be read to its end.

        The first measurement is there on return in any case. News that a verdict hangs on end the wait at once, those
        of a stage later.
        """
        deadline = self._node.clock() + self.request.wait_seconds
        living = frozenset(one.pid for one in self.request.known if one.alive)
        unit = self._state_of_unit()
        ranks: frozenset[tuple[int, bool]] | None = None
        since: dict[float, float] = {}
        while True:
            self.measure()
            if ranks is not None and self._hinted():
                self._ask()
            if self._lost(living) or (has_ended(self.seen.status) and not self.awaits_start):
                return True
            living |= {one.pid for one in self.ranks if one.alive}
            now = self._node.clock()
            of_stage, ending, decisive = self._news_of_logs
            ranks = self._set_of_ranks() if ranks is None else ranks
            news = {
                DECISIVE_LINGER_SECONDS: decisive or self._state_of_unit() != unit,
                ENDING_LINGER_SECONDS: ending,
                STAGE_LINGER_SECONDS: of_stage or self._set_of_ranks() != ranks,
            }
            since.update({linger: now for linger, came in news.items() if came and linger not in since})
            # The first that came of them, not the soonest: what the last stage has to wait for, no other cuts short.
            leave_at = next((min(deadline, since[one] + one) for one in news if one in since), deadline)
            if now < leave_at and self.request.wait_seconds:
                self.probe(at_the_end=False)
            if now >= leave_at or self.found.stopped or self.serves:
                return self.request.wait_seconds == 0
            self._watch_log(min(leave_at, now + SAMPLE_SECONDS))

    def samples(self) -> list[dict[str, Any]]:
        return self._samples.as_list()
