# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One process of a scripted server, playing its steps."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.lines import prefix, write, write_line
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.memory import bus_error, eat, fill, knots, region
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.noise import NOISE_TITLE, make_noise
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.processes import ProcessTable, fork
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import HostPool, Scenario, Step, pool_from
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.start import (
    MAIN,
    fill_in,
    interruptions,
    pool_line,
    shown_rank,
)

READ_CHUNK_BYTES = 1 << 20


@dataclass
class Player:
    """C(who) is a rank's name or main; C(pause) sleeps as this process does; C(own) plays what only it can."""

    scenario: Scenario
    who: str
    table: ProcessTable
    pause: Callable[[float | None], None]
    own: Mapping[str, Callable[[Any], None]] = field(default_factory=dict)

    @property
    def rank(self) -> str | None:
        return None if self.who == MAIN else shown_rank(self.scenario, self.who)

    def play(self, steps: list[Step] | tuple[Step, ...]) -> None:
        for step in steps:
            ((name, value),) = step.items()
            if name in self.own:
                self.own[name](value)
            else:
                getattr(self, f"_{name}")(value)

    def _filled(self, text: Any) -> str:
        index = self.scenario.ranks.index(self.who) if self.who in self.scenario.ranks else 0
        values = {
            "rank": self.who,
            "index": index,
            "pid": os.getpid(),
            "main_pid": self.table.get(0),
            "port": self.scenario.port,
            "release": self.scenario.release,
        }
        return fill_in(str(text), values)

    # What is said

    def _say(self, text: Any) -> None:
        write_line(prefix(self.rank) + self._filled(text))

    def _raw(self, text: Any) -> None:
        write_line(self._filled(text))

    def _bytes(self, text: Any) -> None:
        write(bytes.fromhex(str(text)))

    def _noise(self, entry: Mapping[str, Any]) -> None:
        fork(partial(make_noise, entry), NOISE_TITLE)

    # Time

    def _sleep(self, seconds: Any) -> None:
        self.pause(float(seconds))

    def _stagger(self, rank: str) -> None:
        delay = float(self.scenario.rank_changes.get(rank, {}).get("delay_seconds", 0.0))
        self.pause(delay + self.scenario.stagger_seconds * self.scenario.ranks.index(rank))

    def _spin(self, seconds: Any) -> None:
        began = time.monotonic()
        while seconds is None or time.monotonic() - began < float(seconds):
            sum(range(10_000))

    def _hang(self, _value: Any) -> None:
        while True:
            self.pause(None)

    # Bytes

    def _read(self, size: Any) -> None:
        left = int(size)
        with Path("/dev/zero").open("rb", buffering=0) as zeros:
            while left > 0:
                left -= len(zeros.read(min(READ_CHUNK_BYTES, left)))

    def _allocate(self, given: Mapping[str, Any]) -> None:
        self._hold(pool_from(given, self.scenario.release), [])

    def _hold(self, pool: HostPool, stops: Sequence[tuple[float, Callable[[], None]]]) -> None:
        curve = knots(pool.bytes, pool.gb_per_second, pool.speeds, pool.pauses)
        fill(region(pool.memory, pool.bytes), curve, stops)

    def _pools(self, rank: str) -> None:
        pools = self.scenario.pools_of(rank)
        total = sum(pool.bytes for pool in pools)
        before = 0
        waiting = interruptions(self.scenario, rank)
        for pool in pools:
            self._say(pool_line(self.scenario, pool))
            here = [one for one in waiting if before <= one[0] * total <= before + pool.bytes]
            waiting = [one for one in waiting if one not in here]
            stops = [((share * total - before) / pool.bytes, partial(self.play, steps)) for share, steps in here]
            self._hold(pool, stops)
            before += pool.bytes

    def _eat(self, given: Mapping[str, Any]) -> None:
        adjustment = given.get("oom_score_adj")
        eat(
            str(given.get("memory", "private")),
            float(given.get("gb_per_second", 1.0)),
            None if adjustment is None else int(adjustment),
        )

    # Ends

    def _crash(self, text: Any) -> None:
        if self.who == MAIN:
            write_line(self._filled(text))
        else:
            self._say(f"Scheduler hit an exception: {text}")
            os.kill(self.table.get(0), signal.SIGQUIT)
        os._exit(1)

    def _exit(self, code: Any) -> None:
        os._exit(int(code))

    def _signal(self, name: Any) -> None:
        number = signal.Signals[str(name)]
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        self.pause(None)

    def _bus_error(self, _value: Any) -> None:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        bus_error()

    def _kill(self, given: Mapping[str, Any]) -> None:
        who = str(given["rank"])
        number = 0 if who == MAIN else self.scenario.ranks.index(who) + 1
        os.kill(self.table.get(number), signal.Signals[str(given.get("signal", "SIGKILL"))])

    def _ignore(self, names: Any) -> None:
        for name in names:
            signal.signal(signal.Signals[str(name)], signal.SIG_IGN)

    def _listen(self, address: Any) -> None:
        host, _colon, port = str(address).rpartition(":")
        self.bound = socket.create_server((host, int(port)))
