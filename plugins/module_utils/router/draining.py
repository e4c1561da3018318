# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waits until a server has no request left. Asks through the client alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import ServingFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Client
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.traffic import Traffic, read_traffic

LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class Drained:
    """C(last) None: the server does not tell, or, where it does not answer, has nothing that could be lost."""

    answers: bool
    last: Traffic | None
    most_requests: int
    waited_seconds: float

    @property
    def drained(self) -> bool | None:
        if not self.answers:
            return True
        return None if self.last is None else self.last.requests == 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "drained": self.drained,
            "answers": self.answers,
            "running": None if self.last is None else self.last.running,
            "waiting": None if self.last is None else self.last.waiting,
            "most_requests": self.most_requests,
            "waited_seconds": round(self.waited_seconds, 2),
            "source": None if self.last is None else self.last.source,
        }


def drain(client: Client, facts: ServingFacts, seconds: float, quiet_seconds: float) -> Drained:
    """Until it is without requests for C(quiet_seconds) on end, or C(seconds) have passed."""
    began = client.clock()
    quiet_since: float | None = None
    most = 0
    while True:
        traffic = read_traffic(client, facts)
        now = client.clock()
        if traffic is None:
            # 0: nobody listens there, or nobody answers.
            answers = client.get("/v1/models").status != 0
            return Drained(answers, None, most, now - began)
        most = max(most, traffic.requests)
        if traffic.requests:
            quiet_since = None
        elif quiet_since is None:
            quiet_since = now
        calm = quiet_since is not None and now - quiet_since >= quiet_seconds
        if calm or now - began >= seconds:
            return Drained(True, traffic, most, now - began)
        client.sleep(LOOK_SECONDS)
