# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Against a router over real sockets. That the real one does the same: tests/integration/test_rolling_update.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.access import client_of, read_access, read_key
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.settling import workers_of
from ansible_collections.gpufleet.sglang.plugins.modules.router_members import _change

ONE, TWO = "http://10.0.0.1:30000", "http://10.0.0.2:30000"
KEY = "sentinel-b7d1"


class Router(ThreadingHTTPServer):
    daemon_threads = True
    # What a worker was asked for with, by its URL.
    workers: dict[str, dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    server: Router

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            return self.answer(401, {"error": "Unauthorized"})
        rows = [{"id": url[-7:-6], "url": url, "is_healthy": True} for url in self.server.workers]
        return self.answer(200, {"workers": rows})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.workers[body["url"]] = body
        self.answer(202, {})

    def do_DELETE(self) -> None:
        for url in [one for one in self.server.workers if one[-7:-6] == self.path.rpartition("/")[2]]:
            del self.server.workers[url]
        self.answer(202, {})


@pytest.fixture(name="router")
def _router() -> Iterator[Router]:
    router = Router(("127.0.0.1", 0), Handler)
    router.workers = {ONE: {}, TWO: {}}
    thread = threading.Thread(target=lambda: router.serve_forever(poll_interval=0.02))
    thread.start()
    yield router
    router.shutdown()
    thread.join()
    router.server_close()


def access(folder: Path, port: int, minimum: int = 1, key: str = KEY) -> str:
    (folder / "key").write_text(f"{key}\n")
    (folder / "worker_key").write_text("worker-key")
    path = folder / "access.json"
    path.write_text(
        json.dumps(
            {
                "schema": 1,
                "url": f"http://127.0.0.1:{port}",
                "members": str(folder / "members.json"),
                "minimum_in_service": minimum,
                "api_key_file": str(folder / "key"),
                "worker_api_key_file": str(folder / "worker_key"),
                "ca_path": None,
            }
        )
    )
    return str(path)


def change(path: str, state: str, *urls: str, only_look: bool = False, **values: Any) -> dict[str, Any]:
    rows = [{"url": url, "kind": "regular", "bootstrap_port": None} for url in urls]
    params = {"state": state, "workers": rows, "holder": "gpufleet", "reason": "a restart", "timeout_seconds": 0.6}
    return _change({**params, **values}, read_access(path), only_look)


def test_a_worker_leaves_and_comes_back_with_its_key(tmp_path: Path, router: Router) -> None:
    path = access(tmp_path, router.server_port)
    assert change(path, "declared", ONE, TWO)["changed"]
    left = change(path, "out", ONE)
    assert (left["changed"], left["in_service"], list(router.workers)) == (True, [TWO], [TWO])
    assert not change(path, "out", ONE)["changed"]
    back = change(path, "in", ONE)
    assert (back["changed"], back["in_service"]) == (True, [ONE, TWO])
    assert router.workers[ONE]["api_key"] == "worker-key"
    assert not change(path, "in", ONE)["changed"]


def test_what_an_inventory_does_not_name_is_removed(tmp_path: Path, router: Router) -> None:
    path = access(tmp_path, router.server_port)
    assert change(path, "declared", ONE)["in_service"] == [ONE]
    assert list(router.workers) == [ONE]
    assert not change(path, "declared", ONE)["changed"]


def test_somebody_elses_worker_is_left_to_them_and_told(tmp_path: Path, router: Router) -> None:
    path = access(tmp_path, router.server_port, minimum=0)
    change(path, "declared", ONE, TWO)
    change(path, "out", ONE, holder="operator", reason="a fan is replaced")
    found = change(path, "in", ONE)
    assert not found["changed"]
    assert [(one["url"], one["held_by"]) for one in found["held_by_others"]] == [(ONE, "operator")]
    assert list(router.workers) == [TWO]


def test_the_last_one_that_has_to_stay_is_not_let_go(tmp_path: Path, router: Router) -> None:
    path = access(tmp_path, router.server_port, minimum=2)
    change(path, "declared", ONE, TWO)
    before = (tmp_path / "members.json").read_text()
    with pytest.raises(Refusal) as refused:
        change(path, "out", ONE)
    assert refused.value.code == "too_few_in_service"
    assert (tmp_path / "members.json").read_text() == before
    assert sorted(router.workers) == [ONE, TWO]


def test_check_mode_says_what_would_be_and_changes_nothing(tmp_path: Path, router: Router) -> None:
    path = access(tmp_path, router.server_port)
    assert change(path, "declared", ONE, only_look=True)["changed"]
    assert not (tmp_path / "members.json").exists()
    change(path, "declared", ONE, TWO)
    with pytest.raises(Refusal, match="where 2 have to stay in service"):
        change(access(tmp_path, router.server_port, minimum=2), "out", ONE, only_look=True)
    path = access(tmp_path, router.server_port)
    found = change(path, "out", ONE, only_look=True)
    assert found["changed"] and '"held_by": "gpufleet"' in found["diff"]["after"]
    assert sorted(router.workers) == [ONE, TWO]


def test_members_can_be_said_before_there_is_a_router(tmp_path: Path) -> None:
    path = access(tmp_path, 9)
    assert change(path, "declared", ONE)["in_service"] is None
    with pytest.raises(Refusal) as refused:
        change(path, "out", ONE)
    assert refused.value.code == "router_silent"


def test_a_wrong_key_is_told_without_the_key(tmp_path: Path, router: Router) -> None:
    path = access(tmp_path, router.server_port, key="sentinel-wrong")
    with pytest.raises(Refusal) as refused:
        change(path, "declared", ONE)
    assert refused.value.code == "router_key_refused"
    assert "sentinel" not in str(refused.value.as_dict())


def test_what_cannot_be_read_is_told_by_its_path(tmp_path: Path, router: Router) -> None:
    for path in (str(tmp_path / "none.json"), access(tmp_path, router.server_port)):
        with pytest.raises(Refusal) as refused:
            change(path, "out", ONE)
        assert refused.value.code == "members_unreadable"
    (tmp_path / "access.json").write_text("[]")
    with pytest.raises(Refusal, match="does not say how the router is reached"):
        read_access(str(tmp_path / "access.json"))
    with pytest.raises(Refusal, match="cannot be read"):
        read_key(str(tmp_path / "nowhere"))


def test_the_router_is_asked_with_its_key(tmp_path: Path, router: Router) -> None:
    found = workers_of(client_of(read_access(access(tmp_path, router.server_port)), 5.0))
    assert [one.url for one in found] == [ONE, TWO]
