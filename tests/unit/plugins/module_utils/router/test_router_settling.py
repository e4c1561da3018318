# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Against a router in memory that does what it is asked a little later, as the real one does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import Member
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.settling import apply, await_members
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Call, Client

ONE, TWO = "http://10.0.0.1:30000", "http://10.0.0.2:30000"


@dataclass
class Router:
    """C(after): seconds until it has done what it accepted; None for never. C(down): until when it does not answer."""

    workers: dict[str, bool] = field(default_factory=dict)
    after: float | None = 1.0
    down: float = 0.0
    at: float = 0.0
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    pending: list[tuple[float, str, bool]] = field(default_factory=list)

    def client(self, seconds: float = 10.0) -> Client:
        return Client(self.send, lambda _calls, _most, _stop: [], lambda: self.at, self.sleep, seconds)

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def send(self, call: Call) -> Answer:
        if self.at < self.down:
            return Answer(0, "no answer (ConnectionRefusedError)")
        for due, url, there in [one for one in self.pending if one[0] <= self.at]:
            self.pending.remove((due, url, there))
            if there:
                self.workers[url] = True
            else:
                self.workers.pop(url, None)
        if call.method != "GET":
            self.asked.append((call.method, call.path, call.body))
            url = str((call.body or {}).get("url") or call.path.removeprefix("/workers/id-of-"))
            if self.after is not None:
                self.pending.append((self.at + self.after, url, call.method == "POST"))
            return Answer(202, '{"status": "accepted"}')
        rows = [
            {"id": f"id-of-{url}", "url": url, "is_healthy": healthy, "load": 0}
            for url, healthy in self.workers.items()
        ]
        return Answer(200, json.dumps({"workers": rows}))


def test_a_worker_is_let_go_and_it_is_waited_until_it_is_gone() -> None:
    router = Router({ONE: True, TWO: True})
    members = (Member(ONE, held_by="gpufleet"), Member(TWO))
    gone = apply(router.client(), members, frozenset(), None)
    assert gone == {ONE}
    assert [one.url for one in await_members(router.client(), gone, frozenset())] == [TWO]
    assert router.at >= 1.0


def test_a_worker_comes_back_with_its_key_and_kind() -> None:
    router = Router()
    members = (Member(ONE, "prefill", 8998), Member(TWO))
    assert apply(router.client(), members, frozenset({ONE}), "worker-key") == frozenset()
    body = {"url": ONE, "worker_type": "prefill", "bootstrap_port": 8998, "api_key": "worker-key"}
    assert router.asked == [("POST", "/workers", body)]
    assert [one.url for one in await_members(router.client(), frozenset(), frozenset({ONE}))] == [ONE]


def test_who_is_not_awaited_is_not_asked_for() -> None:
    """It may be down, and would be taken as soon as it answers, proven or not."""
    router = Router()
    apply(router.client(), (Member(ONE),), frozenset(), None)
    assert router.asked == []


def test_others_that_come_and_go_are_nobodys_business() -> None:
    router = Router({ONE: True, "http://10.0.0.7:1": True})
    assert len(await_members(router.client(), frozenset({TWO}), frozenset({ONE}))) == 2


@pytest.mark.parametrize(
    ("workers", "gone", "healthy", "code", "said"),
    [
        ({ONE: True}, {ONE}, set(), "worker_not_removed", f"The router still has {ONE}; expected it gone."),
        ({}, set(), {ONE}, "worker_not_in_service", f"{ONE} (not registered)"),
        ({ONE: False}, set(), {ONE}, "worker_not_in_service", f"{ONE} (unhealthy)"),
    ],
)
def test_a_router_that_does_not_do_it_is_told_at_the_deadline(
    workers: dict[str, bool], gone: set[str], healthy: set[str], code: str, said: str
) -> None:
    router = Router(workers, after=None)
    with pytest.raises(Refusal) as refused:
        await_members(router.client(), frozenset(gone), frozenset(healthy))
    assert refused.value.code == code
    assert said in str(refused.value)
    assert router.at == pytest.approx(10.0, abs=0.5)


def test_a_router_that_restarts_meanwhile_is_waited_for() -> None:
    router = Router({ONE: True}, down=5.0)
    assert await_members(router.client(), frozenset(), frozenset({ONE}))
    assert router.at >= 5.0


def test_a_router_that_never_answers_is_told_as_that() -> None:
    with pytest.raises(Refusal) as refused:
        await_members(Router(down=99.0).client(), frozenset(), frozenset({ONE}))
    assert refused.value.code == "router_silent"
