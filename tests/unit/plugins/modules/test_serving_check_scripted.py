# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module against the scripted server of the rehearsal: what looks ready and is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve import burn_in
from ansible_collections.gpufleet.sglang.plugins.modules import serving_check
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.answers import Answers
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.listener import listen
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import scenario_from

POOL = {"label": "kv", "bytes": 4096, "tokens": 16_385}
EXPECTED = {"max_total_num_tokens": 4096, "host_tokens": 16_385}


@contextmanager
def serving(release: str = "0.5.23", alive: bool = True, **http: Any) -> Iterator[str]:
    given = {"release": release, "capacity_tokens": 4096, "host_pools": [POOL], "http": http}
    answers = Answers(scenario_from(given), lambda: alive, lambda _seconds: None)
    answers.ready = True
    server = listen(answers, "127.0.0.1", 0, poll_seconds=0.01)
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        # Its thread would go round and round over a socket that is closed.
        server.shutdown()
        server.server_close()


def check(capsys: pytest.CaptureFixture[str], url: str, **arguments: Any) -> dict[str, Any]:
    given = {"url": url, "expected": EXPECTED, "request_timeout_seconds": 60, **arguments}
    with patch_module_args(given), pytest.raises(SystemExit):
        serving_check.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return result


@pytest.fixture(name="impatient")
def fixture_impatient(monkeypatch: pytest.MonkeyPatch) -> int:
    """For what hangs for ever: an answer on a busy machine takes less than this. Returns the time for a request."""
    monkeypatch.setattr(burn_in, "HANG_FLOOR_SECONDS", 3.0)
    monkeypatch.setitem(serving_check.RANGES, "request_timeout_seconds", (0, 60))
    return 4


@pytest.mark.parametrize(
    ("release", "proof"),
    [
        ("0.4.7", "eviction"),
        ("0.5.5", "eviction"),
        ("0.5.9", "cached_tokens_details"),
        ("0.5.23", "cached_tokens_details"),
    ],
)
def test_server_that_serves(release: str, proof: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(release, tells_source=proof == "cached_tokens_details") as url:
        result = check(capsys, url, sglang_version=release)
    assert not result.get("failed"), result
    assert result["canary"]["hit"]["proof"] == proof
    assert result["problems"] == []


@pytest.mark.parametrize(
    ("http", "code"),
    [
        # Health answers at once and nothing else does, as before 0.5.0 or behind a proxy.
        ({"health": "early", "hang_after_requests": 0}, "generation_hangs"),
        # Health still says 200 when nothing is generated any more.
        ({"health": "stale", "hang_after_requests": 6}, "burn_in_hang"),
        ({"health": "stale", "fail_after_requests": 6}, "burn_in_failed"),
        # The burn-in passes, and the first long prompts do not.
        ({"health": "stale", "hang_after_requests": 14}, "canary_hang"),
        ({"health": "stale", "fail_after_requests": 14}, "canary_failed"),
        ({"health": "never"}, "health_not_reached"),
        ({"generates": False}, "generation_failed"),
        ({"chat": False}, "chat_failed"),
        ({"api_key": "k"}, "key_rejected"),
        ({"device_tokens": 4095}, "device_capacity_below_plan"),
        ({"host_tokens": 8193}, "host_tier_differs"),
        ({"stores_on_host": False}, "canary_not_restored"),
        ({"remembers_everything": True}, "canary_stays"),
        ({"spoils_host": True}, "canary_text_differs"),
        ({"accept_length": {"cold": 3.1, "warm": 3.1, "hit": 1.3}}, "draft_collapsed"),
    ],
)
def test_what_looks_ready_and_is_not(
    http: dict[str, Any], code: str, impatient: int, capsys: pytest.CaptureFixture[str]
) -> None:
    patience = {"request_timeout_seconds": impatient} if "hang_after_requests" in http else {}
    with serving(**http) as url:
        result = check(capsys, url, timeout_seconds=1 if code == "health_not_reached" else 60, **patience)
    assert result["failed"] and result["failure"]["code"] == code, result["msg"]
    assert result["failure"]["remedy"].endswith(".")


def test_dead_rank_behind_healthy_answers(impatient: int, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(alive=False, health="stale") as url:
        assert check(capsys, url, request_timeout_seconds=impatient)["failure"]["code"] == "generation_hangs"


def test_server_of_another_release(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("0.5.22") as url:
        result = check(capsys, url, sglang_version="0.5.23")
    assert result["failure"]["code"] == "release_differs"
