# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Callable

from ansible_collections.gpufleet.sglang.plugins.module_utils.router.draining import drain
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import serving_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Call, Client

FACTS = serving_facts(parse_version("0.5.23"))


class Server:
    """C(running): how many requests it computes at a time of the clock."""

    def __init__(self, running: Callable[[float], int | None], paths: tuple[str, ...] = ("/v1/loads",)) -> None:
        self.at = 0.0
        self.running = running
        self.paths = paths

    def client(self) -> Client:
        return Client(self.send, lambda _calls, _most, _stop: [], lambda: self.at, self.sleep, 1000.0)

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def send(self, call: Call) -> Answer:
        count = self.running(self.at)
        if count is None:
            return Answer(0, "no answer (ConnectionRefusedError)")
        if call.path == "/v1/models":
            return Answer(200, "{}")
        if call.path not in self.paths:
            return Answer(404, "{}")
        if call.path == "/metrics":
            return Answer(200, f"sglang:num_running_reqs {count}.0\nsglang:num_queue_reqs 0.0\n")
        return Answer(200, json.dumps({"loads": [{"num_running_reqs": count, "num_waiting_reqs": 0}]}))


def test_it_waits_until_the_last_request_is_done_and_a_moment_longer() -> None:
    server = Server(lambda at: 3 if at < 4.0 else 0)
    found = drain(server.client(), FACTS, 60.0, 1.0)
    assert (found.drained, found.most_requests, found.last and found.last.source) == (True, 3, "/v1/loads")
    assert 5.0 <= found.waited_seconds < 6.0


def test_a_request_that_comes_late_begins_the_moment_anew() -> None:
    server = Server(lambda at: 1 if 0.4 < at < 2.0 else 0)
    assert drain(server.client(), FACTS, 60.0, 1.0).waited_seconds >= 3.0


def test_at_the_deadline_it_says_how_many_are_left() -> None:
    found = drain(Server(lambda _at: 2).client(), FACTS, 5.0, 1.0)
    assert found.as_dict() == {
        "drained": False,
        "answers": True,
        "running": 2,
        "waiting": 0,
        "most_requests": 2,
        "waited_seconds": 5.0,
        "source": "/v1/loads",
    }


def test_gauges_do_where_the_schedulers_cannot_be_asked() -> None:
    found = drain(Server(lambda _at: 0, ("/metrics",)).client(), FACTS, 5.0, 1.0)
    assert (found.drained, found.last and found.last.source) == (True, "/metrics")


def test_who_does_not_tell_is_not_called_drained() -> None:
    found = drain(Server(lambda _at: 0, ()).client(), FACTS, 5.0, 1.0)
    assert (found.drained, found.answers, found.waited_seconds) == (None, True, 0.0)


def test_who_does_not_answer_has_nothing_to_finish() -> None:
    found = drain(Server(lambda _at: None).client(), FACTS, 5.0, 1.0)
    assert (found.drained, found.answers) == (True, False)


def test_in_check_mode_one_look_is_all() -> None:
    server = Server(lambda _at: 2)
    assert drain(server.client(), FACTS, 0.0, 1.0).drained is False
    assert server.at == 0.0
