# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate at a fake server, on a clock that nobody waits for."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Answer, Proof
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.serving import Wanted, prove
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer

WANTED = Wanted("rehearsal-llama", 4096, 16_385)


class Clock:
    """Moves by sleeping, and a little with every request."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept = 0.0

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.slept += seconds


def proved(server: FakeServer, wanted: Wanted = WANTED, cost: float = 0.1) -> Proof:
    clock = Clock()

    def ask(method: str, path: str, body: Any) -> Answer:
        clock.at += cost
        return server.ask(method, path, body)

    return prove(ask, wanted, clock, clock.sleep, seed="a")
