# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one look takes out of a log, whatever the log is: bounded, and without secrets."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import (
    is_access_log,
    last_state,
    without_secrets,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import plain_lines
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent

# A server that has run for days has written an access log; one look never reads more than this.
MOST_RECORDS = 20000
MOST_EVENTS = 2000
LONGEST_LINE = 2000
# Of a message that was written in parts, and of one that is parsed.
LONGEST_MESSAGE = 1 << 18

# What a stage or a verdict hangs on. Anything else can wait for the end of the look.
STAGE_NEWS = frozenset(("stage_begin", "stage_end"))
DECISIVE_NEWS = frozenset(("ready", "failure", "exception", "consequence"))


class Collector:
    """Takes messages in order. C(stopped): no more are taken in this look, the next one goes on.

    C(suppressed) and C(gap): see C(LogHealth). C(news): something came that a stage hangs on,
    C(ending): the last stage, C(decisive): a verdict.
    """

    def __init__(self, version: str, last_lines: int) -> None:
        self._version = version
        self._last_lines = last_lines
        self._tail: deque[str] = deque(maxlen=max(0, last_lines))
        self.events: list[LogEvent] = []
        self.records = 0
        self.lines = 0
        self.suppressed = 0
        self.gap = False
        self.readable = True
        self.news = False
        self.ending = False
        self.decisive = False
        self.ready = False
        self.manager_spoke = False
        self.problems: list[Problem] = []

    @property
    def stopped(self) -> bool:
        """A line that says that the server is ready ends the start; what it serves afterwards is of no interest."""
        return self.ready or self.records >= MOST_RECORDS or len(self.events) >= MOST_EVENTS

    @property
    def tail(self) -> list[str]:
        shown = [
            without_secrets(line)[:LONGEST_LINE]
            for message in self._tail
            for line in (message.splitlines() or [""])
            if "server_args=" not in line
        ]
        return shown[-self._last_lines :] if self._last_lines else []

    def take(self, message: str, timestamp: float | None, pid: int | None, of_manager: bool = False) -> None:
        self.records += 1
        self.manager_spoke = self.manager_spoke or of_manager
        if is_access_log(message):
            return
        message = plain_lines(last_state(message))
        self.lines += 1
        self._tail.append(message)
        # Not at the top: a server that pins says nothing for minutes, and the grammar is half of what a look imports.
        from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line

        event = parse_line(message[:LONGEST_MESSAGE], self._version)
        if event is not None:
            self.add(replace(event, timestamp=timestamp, pid=pid))

    def add(self, event: LogEvent) -> None:
        self.events.append(replace(event, text=without_secrets(plain_lines(event.text))[:LONGEST_LINE]))
        self.decisive = self.decisive or event.kind in DECISIVE_NEWS
        self.news = self.news or self.decisive or event.kind in STAGE_NEWS
        self.ending = self.ending or (event.kind in STAGE_NEWS and event.stage == "warm_up")
        self.ready = self.ready or event.kind == "ready"

    def unreadable(self, problem: Problem) -> None:
        self.readable = False
        if problem not in self.problems:
            self.problems.append(problem)
