# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check at a fake server, on a clock that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Call, Check, Client, Proof
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.serving import Wanted, prove
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer

WANTED = Wanted("rehearsal-llama", 4096, 16_385)


class Clock:
    """Moves by sleeping, and with every request."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.slept.append(seconds)


def client_of(
    ask: Callable[[Call], Answer], clock: Clock, request_seconds: float = 120.0, timeout_seconds: float = 300.0
) -> Client:
    """Keeps the time that a request may take as the real one does: an answer that takes longer is a late one."""
    deadline = clock.at + timeout_seconds

    def send(call: Call) -> Answer:
        seconds = min(request_seconds if call.seconds is None else call.seconds, deadline - clock.at)
        if seconds <= 0:
            return Answer(0, "there was no time left", late=True)
        answer = ask(call)
        took = min(answer.seconds, seconds)
        clock.at += took
        if answer.seconds > seconds:
            return Answer(0, f"no whole answer within {seconds:.1f} s", seconds, late=True)
        return replace(answer, seconds=took)

    def send_all(calls: Sequence[Call], at_once: int, stop: Callable[[Answer], bool]) -> list[Answer | None]:
        answers: list[Answer | None] = []
        for call in calls:
            stopped = any(one is None or stop(one) for one in answers)
            answers.append(None if stopped else send(call))
        return answers

    return Client(send, send_all, clock, clock.sleep, deadline)


def proved(
    server: FakeServer,
    wanted: Wanted = WANTED,
    cost: float = 0.1,
    clock: Clock | None = None,
    listener: Callable[[], Check] | None = None,
) -> Proof:
    """C(cost): seconds that each request takes, unless the server says otherwise."""
    clock = clock or Clock()

    def ask(call: Call) -> Answer:
        answer = server.ask(call.method, call.path, call.body)
        return replace(answer, seconds=max(cost, answer.seconds))

    client = client_of(ask, clock, wanted.request_seconds, wanted.timeout_seconds)
    return prove(client, wanted, "a", listener)
