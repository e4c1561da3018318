# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import Member
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.registry import (
    Worker,
    difference,
    in_service,
    may_leave,
    read_workers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer

ONE, TWO, THREE = (f"http://10.0.0.{number}:30000" for number in (1, 2, 3))
IDENTITY = "9a2ffd7e-8b8d-40f3-8252-423a59d427a6"
# As sglang-router 0.3.2 answers.
ROW = {
    "id": IDENTITY,
    "url": ONE,
    "model_id": "kimi",
    "priority": 50,
    "cost": 1.0,
    "worker_type": "regular",
    "is_healthy": True,
    "load": 2,
    "connection_mode": "HTTP",
    "metadata": {"tp_size": "8"},
    "disable_health_check": False,
}


def worker(url: str, healthy: bool = True) -> Worker:
    return Worker(f"id of {url}", url, "regular", healthy, 0, "kimi")


def test_workers_are_read_as_the_router_tells_them() -> None:
    answer = Answer(200, json.dumps({"workers": [ROW], "total": 1, "stats": {}}))
    assert read_workers(answer) == (Worker(IDENTITY, ONE, "regular", True, 2, "kimi"),)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(0, "no answer (ConnectionRefusedError)"), "router_silent"),
        (Answer(200, "<html>"), "router_silent"),
        (Answer(200, '{"workers": {}}'), "router_silent"),
        (Answer(503, ""), "router_silent"),
        (Answer(401, '{"error": "unauthorized"}'), "router_key_refused"),
    ],
)
def test_what_is_no_answer_is_told_as_such(answer: Answer, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_workers(answer)
    assert refused.value.code == code


def test_what_a_row_lacks_is_not_made_up() -> None:
    rows = [{**ROW, "is_healthy": "yes", "load": -1, "model_id": None}, {"id": "x"}, "nonsense"]
    (found,) = read_workers(Answer(200, json.dumps({"workers": rows})))
    assert (found.healthy, found.load, found.model) == (False, None, None)


def test_who_is_held_out_is_removed_and_who_is_missing_is_added() -> None:
    members = (Member(ONE), Member(TWO, held_by="gpufleet"), Member(THREE))
    differing = difference(members, [worker(ONE), worker(TWO), worker("http://10.0.0.9:1")])
    assert [one.url for one in differing.add] == [THREE]
    assert [one.url for one in differing.remove] == [TWO, "http://10.0.0.9:1"]


def test_only_who_is_wanted_registered_and_healthy_serves() -> None:
    members = (Member(ONE), Member(TWO, held_by="gpufleet"), Member(THREE))
    assert in_service(members, [worker(ONE), worker(TWO), worker(THREE, healthy=False)]) == {ONE}


def test_the_last_ones_that_are_needed_may_not_leave() -> None:
    serving = frozenset({ONE, TWO})
    assert may_leave(frozenset({ONE}), serving, 1) is None
    refusal = may_leave(frozenset({ONE}), serving, 2)
    assert refusal is not None
    assert refusal.evidence == {"in_service": 2, "in_service_after": 1, "minimum": 2, "may_leave": 0}
    assert "2 workers of this router are in service; without http://10.0.0.1:30000 there would be 1" in str(refusal)


def test_who_does_not_serve_may_leave_whatever_is_left() -> None:
    assert may_leave(frozenset({THREE}), frozenset({ONE}), 5) is None
