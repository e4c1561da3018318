# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.answers import NEVER, Answers
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import scenario_from


def answers(
    sleep: Callable[[float], None] = lambda _seconds: None,
    alive: bool = True,
    release: str = "0.5.23",
    **http: Any,
) -> Answers:
    given = {"release": release, "capacity_tokens": 64, "host_pools": [{"bytes": 4096, "tokens": 257}], "http": http}
    found = Answers(scenario_from(given), lambda: alive, sleep)
    found.ready = True
    return found


def generate(server: Answers, prompt: list[int]) -> dict[str, Any]:
    body = {"input_ids": prompt, "sampling_params": {"max_new_tokens": 2}}
    answer = server.answer("POST", "/generate", body, None)
    assert answer.status == 200
    found: dict[str, Any] = json.loads(answer.body)
    return found


def source(server: Answers, prompt: list[int]) -> tuple[int, int]:
    details = generate(server, prompt)["meta_info"]["cached_tokens_details"]
    return details["device"], details["host"]


def test_a_prompt_comes_from_nowhere_then_the_device_then_the_host() -> None:
    server = answers()
    canary = list(range(32))
    assert source(server, canary) == (0, 0)
    assert source(server, canary) == (31, 0)
    for first in (1000, 2000):
        source(server, list(range(first, first + 60)))
    assert source(server, canary) == (0, 31)


def test_the_text_is_the_same_unless_the_host_spoils_it() -> None:
    texts = {}
    for spoils in (False, True):
        server = answers(spoils_host=spoils)
        canary = list(range(32))
        cold = generate(server, canary)["text"]
        for first in (1000, 2000):
            generate(server, list(range(first, first + 60)))
        texts[spoils] = generate(server, canary)["text"] == cold
    assert texts == {False: True, True: False}


def test_a_server_without_a_host_tier_forgets() -> None:
    server = answers(stores_on_host=False)
    canary = list(range(32))
    source(server, canary)
    for first in (1000, 2000):
        source(server, list(range(first, first + 60)))
    assert source(server, canary) == (0, 0)


def test_health_takes_the_second_of_its_poll() -> None:
    slept: list[float] = []
    assert answers(slept.append).answer("GET", "/health", None, None).status == 200
    assert slept == [1.0]


def test_health_says_503_until_ready() -> None:
    server = answers()
    server.ready = False
    assert server.answer("GET", "/health", None, None).status == 503
    assert server.answer("GET", "/v1/models", None, None).status == 200


def test_before_0_5_0_the_plain_health_endpoint_says_nothing_of_readiness() -> None:
    server = answers(release="0.4.7")
    server.ready = False
    assert server.answer("GET", "/health", None, None).status == 200
    assert server.answer("GET", "/health_generate", None, None).status == 503


@pytest.mark.parametrize(("kind", "status"), [("never", 503), ("stale", 200), ("early", 200)])
def test_health_that_is_wrong(kind: str, status: int) -> None:
    server = answers(alive=False, health=kind)
    assert server.answer("GET", "/health", None, None).status == status
    assert server.answer("POST", "/generate", {"input_ids": [1]}, None) == NEVER


def test_a_server_that_hangs_or_fails_after_some_requests() -> None:
    for server, expected in ((answers(hang_after_requests=2), 0), (answers(fail_after_requests=2), 500)):
        statuses = [server.answer("POST", "/generate", {"input_ids": [1, 2]}, None).status for _unused in range(3)]
        assert statuses == [200, 200, expected]


def test_gauges_tell_the_capacities_and_can_lie() -> None:
    text = answers().answer("GET", "/metrics", None, None).body
    assert 'sglang:max_total_num_tokens{model_name="scripted-model",tp_rank="0"} 64.0' in text
    assert 'sglang:hicache_host_total_tokens{model_name="scripted-model",tp_rank="0"} 257.0' in text
    wrong = answers(device_tokens=32, host_tokens=0).answer("GET", "/metrics", None, None).body
    assert 'tp_rank="0"} 32.0' in wrong
    assert "hicache_host_total_tokens" not in wrong
    assert "hicache_host_total" not in answers(release="0.5.9").answer("GET", "/metrics", None, None).body


def test_a_key_is_wanted_but_for_health_and_metrics() -> None:
    server = answers(api_key="secret")
    assert server.answer("GET", "/v1/models", None, None).status == 401
    assert server.answer("GET", "/v1/models", None, "secret").status == 200
    assert server.answer("GET", "/metrics", None, None).status == 200


def test_accept_length_by_where_the_prompt_came_from() -> None:
    server = answers(accept_length={"cold": 3.0, "warm": 2.5, "hit": 1.5})
    canary = list(range(32))
    lengths = [generate(server, canary)["meta_info"]["spec_accept_length"] for _unused in range(2)]
    for first in (1000, 2000):
        generate(server, list(range(first, first + 60)))
    lengths.append(generate(server, canary)["meta_info"]["spec_accept_length"])
    assert lengths == [3.0, 2.5, 1.5]
