# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module against a server on a real socket; what can be wrong with a server is tested without one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import serving_check
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer

EXPECTED = {"max_total_num_tokens": 4096, "host_tokens": 16_385}


@contextmanager
def listening(server: FakeServer) -> Iterator[str]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            key = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
            with lock:
                answer = server.ask(self.command, self.path, json.loads(body) if body else None, key)
            data = answer.body.encode()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}"
        finally:
            http.shutdown()
            thread.join()


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        serving_check.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_whole_check(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer()) as url:
        result = run(capsys, url=url + "/", served_model_name="rehearsal-llama", expected=EXPECTED)
    assert not result.get("failed"), result
    assert result["changed"] is False
    assert all(check["ok"] for check in result["checks"])
    assert [check["name"] for check in result["checks"]][-1] == "canary_same_text"
    hit = result["canary"]["hit"]
    # A prompt that begins alike by chance may leave its first token on the device.
    assert hit["cached_tokens"] == 511 and hit["host"] >= 500
    assert result["metrics"]["sglang:hicache_host_total_tokens"] == [16_385.0]


def test_key_is_sent_and_not_returned(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer(api_key="sk-test-key")) as url:
        result = run(capsys, url=url, api_key="sk-test-key", expected=EXPECTED, canary=False)
        refused = run(capsys, url=url, expected=EXPECTED, canary=False)
    assert not result.get("failed"), result
    assert "sk-test-key" not in json.dumps(result["checks"])
    assert refused["failed"] and "The API key was not accepted" in refused["msg"]


def test_failure_is_one_clear_message(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer(host_tokens=8193)) as url:
        result = run(capsys, url=url, served_model_name="rehearsal-llama", expected=EXPECTED)
    assert result["failed"]
    assert result["msg"] == (
        f"host_tokens of {url}: found 8193, expected 16385. The host tier holds 8,193 tokens a rank where 16,385 were "
        "planned: the server runs with another ratio or size than the plan."
    )
    assert result["failure"]["code"] == "host_tokens"
    assert result["failure"]["evidence"] == {"found": 8193, "expected": 16_385}
    assert [check["name"] for check in result["checks"] if check["ok"] is False] == ["host_tokens"]


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer()) as url:
        pass
    result = run(capsys, url=url, timeout_seconds=1)
    assert result["failed"]
    assert "did not become healthy within 1.0 s; /health last gave no answer" in result["msg"]


def test_error_with_a_status_is_told_in_the_server_s_words(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer(generates=False)) as url:
        result = run(capsys, url=url)
    assert "500: scheduler is gone" in result["msg"]


def test_check_mode_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    server = FakeServer()
    with listening(server) as url:
        result = run(capsys, url=url, expected=EXPECTED, _ansible_check_mode=True)
    assert server.asked == []
    assert result["would_check"][:2] == ["health", "served_model_name"]
    assert result["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "127.0.0.1:30000"}, "Expected http://HOST:PORT."),
        ({"canary_prompt_tokens": 63}, "canary_prompt_tokens is 63. Expected 64 or more."),
        ({"churn_max_requests": 0}, "churn_max_requests is 0. Expected 1 or more."),
        ({"timeout_seconds": 0}, "timeout_seconds is 0. Expected 1 or more."),
        ({"sglang_version": "newest"}, "not a version number"),
        ({"expected": {"tokens": 1}}, "Unsupported parameters"),
    ],
)
def test_wrong_values_are_refused(arguments: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, **arguments)
    assert result["failed"] and words in result["msg"]
