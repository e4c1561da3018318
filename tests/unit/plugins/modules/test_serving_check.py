# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module against a server on a real socket; what can be wrong with a server is tested without one."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve import burn_in, capacity
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import REDACTED, Answer
from ansible_collections.gpufleet.sglang.plugins.modules import serving_check
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer

EXPECTED = {"max_total_num_tokens": 4096, "host_tokens": 16_385}
SENTINEL = "sk-sentinel-5f2c9a71"
# (method, path, body, key) -> Answer; a late one is never given
Asked = Callable[[str, str, Any, "str | None"], Answer]


@contextmanager
def listening(ask: Asked) -> Iterator[str]:
    lock = threading.Lock()
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            key = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
            with lock:
                answer = ask(self.command, self.path, json.loads(body) if body else None, key)
            if answer.late:
                over.wait()
                return
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
            over.set()
            http.shutdown()
            thread.join()


def printed(capsys: pytest.CaptureFixture[str], **arguments: Any) -> str:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        serving_check.main()
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out + err


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(printed(capsys, **arguments))
    return result


def test_whole_check(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer().ask) as url:
        result = run(capsys, url=url + "/", served_model_name="rehearsal-llama", expected=EXPECTED)
    assert not result.get("failed"), result
    assert result["changed"] is False
    assert all(check["ok"] for check in result["checks"])
    assert [check["name"] for check in result["checks"]][-1] == "canary_same_text"
    hit = result["canary"]["hit"]
    # A prompt that begins alike by chance may leave its first token on the device.
    assert hit["cached_tokens"] == 511 and hit["host"] >= 500
    assert result["metrics"]["sglang:hicache_host_total_tokens"] == [16_385.0]
    assert result["burn_in"]["answered"] == 8 and result["canaries"] == [result["canary"]]
    assert result["server"]["data_parallel_ranks"] == 1


def test_key_is_sent_and_not_returned(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer(api_key="sk-test-key").ask) as url:
        result = run(capsys, url=url, api_key="sk-test-key", expected=EXPECTED, canary=False)
        refused = run(capsys, url=url, expected=EXPECTED, canary=False)
    assert not result.get("failed"), result
    assert "sk-test-key" not in json.dumps(result)
    assert refused["failed"] and "The API key was not accepted" in refused["msg"]


def test_key_is_read_from_a_file_of_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "api_key"
    path.write_text(f"{SENTINEL}\n", encoding="utf-8")
    server = FakeServer(api_key=SENTINEL)
    with listening(server.ask) as url:
        arguments = {"url": url, "api_key_file": str(path), "expected": {**EXPECTED, "asks_for_key": True}}
        out = printed(capsys, **arguments, canary=False)
    result = json.loads(out)
    assert not result.get("failed"), result["msg"]
    assert next(check for check in result["checks"] if check["name"] == "asks_for_key")["ok"] is True
    assert SENTINEL not in out


def test_server_that_answers_without_its_key_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "api_key"
    path.write_text(SENTINEL, encoding="utf-8")
    server = FakeServer()
    with listening(server.ask) as url:
        arguments = {"url": url, "api_key_file": str(path), "expected": {**EXPECTED, "asks_for_key": True}}
        result = run(capsys, **arguments, canary=False)
    assert result["failed"]
    assert result["failure"]["code"] == "key_not_asked_for"
    assert [check["name"] for check in result["checks"]] == ["health", "asks_for_key"]


def test_key_that_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, api_key_file=str(tmp_path / "none"))
    assert result["failure"]["code"] == "key_unreadable"
    assert str(tmp_path / "none") in result["msg"]


def test_failure_is_one_clear_message(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer(host_tokens=8193).ask) as url:
        result = run(capsys, url=url, served_model_name="rehearsal-llama", expected=EXPECTED)
    assert result["failed"]
    said = (
        "The host tier holds 8,193 tokens a rank where 16,385 were planned: the server runs with another ratio or size "
        "than the plan."
    )
    assert result["msg"].startswith(f"host_tokens of {url}: found 8193, expected 16385. {said} Compare hicache_ratio")
    assert result["failure"] == {
        "code": "host_tier_differs",
        "message": said,
        "rank": None,
        "evidence": {"check": "host_tokens", "found": 8193, "expected": 16_385},
        "remedy": (
            "Compare hicache_ratio and hicache_size in the server_args line of the log with the plan, and restart it."
        ),
        "computed": {"found_tokens": [8193], "planned_tokens": 16_385},
    }
    assert [check["name"] for check in result["checks"] if check["ok"] is False] == ["host_tokens"]


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer().ask) as url:
        pass
    result = run(capsys, url=url, timeout_seconds=1)
    assert result["failed"]
    assert "did not become healthy within 1.0 s; /health_generate last gave no answer" in result["msg"]


def test_error_with_a_status_is_told_in_the_server_s_words(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer(generates=False).ask) as url:
        result = run(capsys, url=url)
    assert "500: scheduler is gone" in result["msg"]


@pytest.mark.parametrize("after", [2, 4])
def test_server_that_stops_answering_with_others_under_way(
    after: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(burn_in, "HANG_FLOOR_SECONDS", 0.5)
    monkeypatch.setattr(burn_in, "HANG_FACTOR", 1.0)
    server = FakeServer(hangs_after=1 + after)
    with listening(server.ask) as url:
        result = run(capsys, url=url, burn_in_requests=9, burn_in_concurrency=4)
    assert result["failure"]["code"] == "burn_in_hang"
    assert result["failure"]["computed"]["answered"] == after
    # Those that were under way, and none after them.
    assert server.generated == 1 + (6 if after < 6 else 9)


def test_proxy_that_answers_everything_with_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(lambda method, path, body, key: Answer(200, "<html>Welcome to nginx!</html>")) as url:
        result = run(capsys, url=url)
    assert result["failure"]["code"] == "not_an_api_server"
    assert "Welcome to nginx!" in result["msg"]


def test_process_that_was_started_is_the_one_that_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(FakeServer().ask) as url:
        mine = run(capsys, url=url, main_pid=os.getpid(), canary=False)
        server = FakeServer()
        others = run(capsys, url=url, main_pid=2**22, canary=False)
    assert [check["name"] for check in mine["checks"] if "listener" in check["name"]] == [
        "listener",
        "listener_at_the_end",
    ]
    assert not mine.get("failed")
    assert others["failure"]["code"] == "listener_is_another"
    assert others["failure"]["computed"]["pid"] == os.getpid() and server.generated == 0


def echoing(server: FakeServer, key: str) -> Asked:
    """A server that repeats what it was sent, header and all, wherever something is shown."""
    said = f"you sent Authorization: Bearer {key}"

    def ask(method: str, path: str, body: Any, given: str | None) -> Answer:
        assert given == key
        answer = server.ask(method, path, body, given)
        if answer.late:
            return answer
        if answer.status != 200:
            return Answer(answer.status, json.dumps({"error": {"message": f"{'x' * 280} {said}"}}))
        if path == "/v1/models" and server.model == "another":
            return Answer(200, json.dumps({"data": [{"id": said}, {"id": "y" * 290 + key}]}))
        return answer

    return ask


HIDDEN_INFO = {"version": SENTINEL, "model_path": f"/srv/{SENTINEL}", "served_model_name": "x" * 295 + SENTINEL}


@pytest.mark.parametrize(
    "server",
    [
        {},
        {"ready_after": 10_000},
        {"model": "another"},
        {"hidden_paths": ("/v1/models",)},
        {"generates": False},
        {"hangs_after": 0},
        {"hangs_after": 3},
        {"chat": False},
        {"device_tokens": 4095},
        {"host_tokens": 8193},
        {"host_tokens": 0},
        {"metrics": False},
        {"health_after_requests": 500},
        {"stores_on_host": False},
        {"remembers_everything": True},
        {"spoils_host": True},
        {"others": 50},
        {"tells_source": False},
        {"info": HIDDEN_INFO},
        {"info": {**HIDDEN_INFO, "disable_radix_cache": True}},
        {"changes": {"text": SENTINEL, "meta_info": {"finish_reason": {"type": SENTINEL}}}},
        {"accept": {"cold": 3.0, "warm": 3.0, "hit": 1.0}},
    ],
)
def test_no_secret_is_shown_whatever_goes_wrong(
    server: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(burn_in, "HANG_FLOOR_SECONDS", 0.5)
    monkeypatch.setattr(capacity, "METRICS_PATIENCE_SECONDS", 0.1)
    # Shorter than anybody may ask for, so that a hang is found at once.
    monkeypatch.setitem(serving_check.RANGES, "request_timeout_seconds", (0, 60))
    with listening(echoing(FakeServer(**server), SENTINEL)) as url:
        shown = printed(
            capsys,
            url=url,
            api_key=SENTINEL,
            headers={"X-Proxy-Token": SENTINEL[::-1]},
            served_model_name="rehearsal-llama",
            expected={**EXPECTED, "model_path": "/srv/llama"},
            sglang_version="0.5.23",
            request_timeout_seconds=1,
            timeout_seconds=2 if "ready_after" in server else 60,
        )
    # Not as it is, not the other way round, and no half of it.
    for secret in (SENTINEL, SENTINEL[::-1], SENTINEL[:12]):
        assert secret not in shown


def test_redaction_is_the_module_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(echoing(FakeServer(model="another"), SENTINEL)) as url:
        result = run(capsys, url=url, api_key=SENTINEL, served_model_name="rehearsal-llama")
    assert result["failure"]["code"] == "model_not_served"
    assert REDACTED in result["msg"] and "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" not in result["msg"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"api_key": f"{SENTINEL}\n"},
        {"api_key": f"{SENTINEL}é"},
        {"headers": {"X-Key": f"{SENTINEL}\r\nX: y"}},
        {"url": f"http://user:{SENTINEL}@127.0.0.1:1"},
        {"url": f"http://127.0.0.1:1/?key={SENTINEL}"},
    ],
)
def test_refusals_repeat_no_secret(arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, **arguments)
    assert result["failed"]
    # What the task was given is Ansible's to show or hide; a URL is no place for a secret, and the message says so.
    result.pop("invocation", None)
    assert SENTINEL not in json.dumps(result, ensure_ascii=False)


def test_check_mode_sends_nothing_and_says_what_it_would(capsys: pytest.CaptureFixture[str]) -> None:
    server = FakeServer()
    with listening(server.ask) as url:
        result = run(capsys, url=url, expected=EXPECTED, main_pid=1, _ansible_check_mode=True)
    assert server.asked == []
    assert result["would_check"][:3] == ["health", "listener", "served_model_name"]
    assert result["would_send"] == {"requests": 2008, "tokens": 384 + 3 * 4096, "seconds": 900.0}
    assert result["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "127.0.0.1:30000"}, "Expected http://HOST:PORT."),
        ({"canary_prompt_tokens": 63}, "canary_prompt_tokens is 63. Expected 64 to 1e+06."),
        ({"churn_max_requests": 0}, "churn_max_requests is 0. Expected 1 to 1e+06."),
        ({"timeout_seconds": 0}, "timeout_seconds is 0. Expected 1 to 86400."),
        ({"timeout_seconds": "nan"}, "timeout_seconds is nan. Expected 1 to 86400."),
        ({"request_timeout_seconds": 20}, "request_timeout_seconds is 20. Expected 21 to 86400."),
        ({"burn_in_concurrency": 17}, "burn_in_concurrency is 17. Expected 1 to 16."),
        ({"draft_min_ratio": 1.5}, "draft_min_ratio is 1.5. Expected 0 to 1."),
        ({"sglang_version": "newest"}, "not a version number"),
        ({"expected": {"tokens": 1}}, "Unsupported parameters"),
        ({"url": "https://h", "ca_path": "/nowhere.pem"}, "cannot be read"),
        ({"client_key": "/nowhere.pem"}, "client_cert"),
    ],
)
def test_wrong_values_are_refused(arguments: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, **arguments)
    assert result["failed"] and words in result["msg"]


def test_refusal_has_the_shape_of_any_failure(capsys: pytest.CaptureFixture[str]) -> None:
    failure = run(capsys, burn_in_requests=-1)["failure"]
    assert set(failure) == {"code", "message", "remedy", "rank", "evidence", "computed"}
    assert failure["code"] == "out_of_range" and failure["computed"] == {"burn_in_requests": -1}
