# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines that a play shows while it waits for the starts of its nodes."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.audience import Audience
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.board import Entry, entry_of, going_on
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.cadence import (
    Shown,
    is_due,
    next_at,
    with_sign_of_life,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import (
    live_line,
    rank_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.startup_board import (
    Board,
    entries,
    is_crowded,
    join,
    open_board,
    post,
    speak,
)


@dataclass(frozen=True)
class Voice:
    """Where lines go. C(show) is for everybody, C(detail) for those who asked for more; None where nobody listens."""

    show: Callable[[str], None] | None
    detail: Callable[[str], None] | None = None


def uninterrupted(show: Callable[[str], None]) -> Callable[[str], None]:
    """Shows a line whole, before a signal that came meanwhile ends this process.

    A worker that shows something holds the lock of a queue which it shares with the main process. Ansible passes an
    interruption on to its workers, and one that ends with the lock leaves the main process waiting for it for ever. A
    worker has no thread but this one.
    """

    def whole(text: str) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            show(text)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return whole


class LiveLines:
    """What one worker shows of its node. It remembers what it has shown, and whether there is a board to write on.

    Up to four nodes have a line each. More share one line, and only their ends are told one by one; a line each is then
    a detail.
    """

    def __init__(
        self,
        voice: Voice,
        root: str,
        together: str,
        batch: Sequence[str],
        host: str,
        instance: str,
        state: StartupState,
    ) -> None:
        self._voice = voice
        self._host, self._instance = host, instance
        self._last: Shown | None = None
        self._waits: Shown | None = None
        self._board: Board | None = None
        self._found: list[Entry] = []
        try:
            self._board = open_board(root, together)
            join(self._board, batch)
        except OSError:
            self._board = None  # a full disk of the controller is no reason not to watch
        # At once, so that the others know before their first line how many they are.
        self._post(entry_of(state, host, instance, os.getpid()))

    @property
    def watched(self) -> int:
        """How many nodes are watched at this moment, this one among them."""
        return max(1, len(going_on(self._found)))

    def due_in_seconds(self, state: StartupState) -> float | None:
        """When what has been seen may be shown; None where it is shown already, or where the nodes share a line."""
        if self._waits is None or self._voice.show is None or is_crowded(self._found):
            return None
        if self._last is not None and self._last.text == self._waits.text:
            return None
        return next_at(self._last, self._waits.at, state.began_at) - self._waits.at

    def update(self, state: StartupState, now: float, out_of_reach: str | None = None) -> None:
        """Shows where the start is, if that is due. C(out_of_reach): for how long the node has been, and why."""
        self._post(entry_of(state, self._host, self._instance, os.getpid(), away=out_of_reach is not None))
        crowded = is_crowded(self._found)
        text = live_line(state) if out_of_reach is None else f"out of reach {out_of_reach}; the start goes on"
        self._waits = Shown(now, text)
        if is_due(self._last, text, now, state.began_at) and self._tell(state, text, crowded):
            self._last, self._waits = self._waits, None
        if crowded and self._board is not None and self._voice.show is not None:
            speak(self._board, now, self._voice.show)

    def end(self, state: StartupState, text: str, lost: bool = False) -> None:
        """Shows how it ended, whoever else is still waited for."""
        self._post(entry_of(state, self._host, self._instance, os.getpid(), lost=lost))
        if self._voice.show is not None:
            self._voice.show(self._with_names(text))
        if self._voice.detail is not None:
            for line in rank_lines(state):
                self._voice.detail(self._with_names(f"  {line}"))

    def _post(self, entry: Entry) -> None:
        if self._board is None:
            return
        try:
            post(self._board, entry)
            self._found = entries(self._board)
        except OSError:
            self._board = None
            self._found = []

    def _tell(self, state: StartupState, text: str, crowded: bool) -> bool:
        """Whether there was anybody to tell."""
        show = self._voice.detail if crowded else self._voice.show
        if show is None:
            return False
        show(self._with_names(with_sign_of_life(text, self._last, state.elapsed_seconds)))
        if self._voice.detail is not None and len(state.ranks) > 1:
            for line in rank_lines(state):
                self._voice.detail(self._with_names(f"  {line}"))
        return True

    def _with_names(self, text: str) -> str:
        host = max([len(self._host), *(len(one.host) for one in self._found)])
        instance = max([len(self._instance), *(len(one.instance) for one in self._found)])
        return f"{self._host:<{host}}  {self._instance:<{instance}}  {text}"


def audience_of(task: Any, cliargs: Any) -> Audience:
    """How this run was asked to print: C(cliargs) are those of the command, C(task) the one that waits."""
    callback = "oneline" if cliargs.get("one_line") else C.DEFAULT_STDOUT_CALLBACK
    return Audience(callback=callback, shows_ok=_shows_ok(callback), censored=bool(task.no_log))


def _shows_ok(callback: str) -> bool:
    """display_ok_hosts of the callback; true where it has no such setting."""
    for name in (callback, callback.rpartition(".")[2], "default"):
        try:
            return bool(C.config.get_config_value("display_ok_hosts", plugin_type="callback", plugin_name=name))
        except AnsibleError:
            continue
    return True


def write_lines_at_once() -> None:
    """Makes the main process write each line when it is shown.

    Ansible leaves that to the system, which writes in blocks where standard output is no terminal: a CI job would see
    the lines of a wait when it is over.
    """
    if multiprocessing.parent_process() is None and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
