# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The main process: it starts the ranks, waits for them as the release does, serves, and ends as SGLang ends."""

from __future__ import annotations

import os
import select
import signal
import time
from functools import partial
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.answers import Answers
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.lines import form, prefix, write_line
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.listener import listen
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.noise import NOISE_TITLE, make_noise
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.player import Player
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.processes import ProcessTable, fork, rank_title
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import Scenario
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.start import MAIN, shown_rank, steps_of

SIGNALS = {signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD}
# entrypoints/engine.py, _wait_for_scheduler_ready: how often all ranks are looked after while one is waited for.
LOOK_SECONDS = 5.0
# managers/tokenizer_manager.py: "Sleeping 5 seconds before crash diagnostics".
DIAGNOSTICS_SECONDS = 5.0
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    '  File "<frozen runpy>", line 88, in _run_code\n'
    '  File "site-packages/sglang/launch_server.py", line 84, in <module>\n'
    "    run_server(server_args)\n"
    '  File "site-packages/sglang/srt/entrypoints/engine.py", line 2029, in _wait_for_scheduler_ready\n'
)


class Server:
    """What a main process knows: the pipes of its ranks, who died with what code, and whether it serves."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.table = ProcessTable(len(scenario.ranks) + 1)
        self.pipes: list[int] = []
        self.exit_codes: dict[int, int] = {}
        self.serving = False
        self.ending = False
        self.answers = Answers(scenario, lambda: not self.exit_codes, time.sleep)
        own: dict[str, Any] = {
            "await_ranks": self._await_ranks,
            "ready_for_requests": self._ready_for_requests,
            "serve": self._serve,
            "http": self._open_http,
        }
        self.player = Player(scenario, MAIN, self.table, self.pause, own)

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.table.put(0, os.getpid())
        for entry in self.scenario.noise:
            fork(partial(make_noise, entry), NOISE_TITLE)
        fork(_idle, "sglang::detokenizer")
        # A process that reads its steps from the scenario alone starts no ranks but those that it names.
        steps = steps_of(self.scenario, MAIN)
        boot = next((index for index, step in enumerate(steps) if "await_ranks" in step), None)
        if boot is None:
            self._start_ranks([rank for rank in self.scenario.ranks if rank in self.scenario.steps])
            self.player.play(steps)
        else:
            self.player.play(steps[:boot])
            self._start_ranks(list(self.scenario.ranks))
            self.player.play(steps[boot:])

    # Ranks

    def _start_ranks(self, ranks: list[str]) -> None:
        for rank in ranks:
            reader, writer = os.pipe()
            title = rank_title(shown_rank(self.scenario, rank))
            pid = fork(partial(self._be, rank, writer), title)
            os.close(writer)
            self.pipes.append(reader)
            self.table.put(self.scenario.ranks.index(rank) + 1, pid)

    def _be(self, rank: str, writer: int) -> None:
        """The life of a rank."""

        def report(_value: Any) -> None:
            os.write(writer, b"ready")
            _idle()

        Player(self.scenario, rank, self.table, _sleep, {"report": report}).play(steps_of(self.scenario, rank))

    def _await_ranks(self, _value: Any) -> None:
        old = self.scenario.version < (0, 5, 10)
        looked = time.monotonic()
        for index, reader in enumerate(self.pipes):
            while True:
                readable = select.select([reader], [], [], 0.05)[0]
                self._handle_pending()
                if readable:
                    if os.read(reader, 16):
                        break
                    self._dead_while_booting(index)
                elif not old and time.monotonic() - looked >= LOOK_SECONDS:
                    looked = time.monotonic()
                    for number in sorted(self.exit_codes):
                        self._dead_while_booting(number)

    def _dead_while_booting(self, index: int) -> None:
        if not self.scenario.rank_watch:
            self.pause(None)
        deadline = time.monotonic() + 2.0
        while index not in self.exit_codes and time.monotonic() < deadline:
            self.pause(0.01)
        values = {"index": index, "code": self.exit_codes.get(index)}
        for name in ("dead_rank", "dead_rank_code"):
            text = form(name, self.scenario.release, **values)
            if text is not None:
                write_line(prefix(None) + text)
        write_line(TRACEBACK + (form("dead_rank_error", self.scenario.release, **values) or ""))
        os._exit(1)

    # Requests

    def _open_http(self, point: Any) -> None:
        if self.scenario.http["listen"] != point:
            return
        try:
            self.http = listen(self.answers, self.scenario.host, self.scenario.port)
        except OSError as error:
            write_line(
                f"{prefix(None)}ERROR:    [Errno {error.errno}] error while attempting to bind on address "
                f"('{self.scenario.host}', {self.scenario.port}): address already in use"
            )
            os._exit(1)

    def _ready_for_requests(self, _value: Any) -> None:
        self.answers.ready = True
        self.serving = True

    def _serve(self, _value: Any) -> None:
        while True:
            self.pause(None)

    # Signals

    def pause(self, seconds: float | None) -> None:
        """Sleeps, for ever without a number, and minds signals and dead children meanwhile."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = 3600.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return
            found = signal.sigtimedwait(SIGNALS, left)
            if found is not None:
                self._handle(found.si_signo)

    def _handle_pending(self) -> None:
        while (found := signal.sigtimedwait(SIGNALS, 0)) is not None:
            self._handle(found.si_signo)

    def _handle(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGQUIT:
            self._end_by_sigquit()
        elif number == signal.SIGTERM:
            self._end_by_sigterm()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for index in range(len(self.scenario.ranks)):
                if self.table.get(index + 1) == pid:
                    self.exit_codes[index] = os.waitstatus_to_exitcode(status)
                    if self.serving and self.scenario.rank_watch and not self.ending:
                        self._dead_while_serving(index, pid)

    def _dead_while_serving(self, index: int, pid: int) -> None:
        """utils/watchdog.py; nothing watches the ranks before 0.5.10."""
        text = form("crashed_rank", self.scenario.release, index=index, dead_pid=pid, code=self.exit_codes[index])
        if text is not None:
            write_line(prefix(None) + text)
            self._end_by_sigquit()

    def _end_by_sigquit(self) -> None:
        name = "sigquit_serving" if self.serving else "sigquit"
        write_line(prefix(None) + str(form(name, self.scenario.release)))
        if self.serving:
            self.ending = True
            write_line(prefix(None) + "Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
            self.pause(DIAGNOSTICS_SECONDS)
        self._kill_ranks()
        os.kill(os.getpid(), signal.SIGKILL)

    def _end_by_sigterm(self) -> None:
        if not self.serving:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            os.kill(os.getpid(), signal.SIGTERM)
        self.ending = True
        self.answers.stopping = True
        write_line(prefix(None) + str(form("sigterm", self.scenario.release)))
        self.pause(self.scenario.stop_seconds)
        # However long they take, as the real one does; what hangs is for the unit's time to stop.
        while self.answers.running:
            self.pause(0.05)
        write_line(prefix(None) + str(form("drained", self.scenario.release)))
        self._kill_ranks()
        if self.scenario.version < (0, 5, 19):
            # managers/tokenizer_manager.py: kill_process_tree includes the process itself.
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)

    def _kill_ranks(self) -> None:
        for number in range(1, len(self.scenario.ranks) + 1):
            if self.table.get(number) and number - 1 not in self.exit_codes:
                os.kill(self.table.get(number), signal.SIGKILL)


def _sleep(seconds: float | None) -> None:
    if seconds is None:
        _idle()
    elif seconds > 0:
        time.sleep(seconds)


def _idle() -> None:
    while True:
        signal.pause()
