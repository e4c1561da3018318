# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a server by HTTP, with real ones that answer, and with ports that speak nothing of the kind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.probe import http_status


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.path.rpartition("=")[2].strip("/")))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture(scope="module", name="url")
def fixture_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("status", [200, 302, 401, 503])
def test_status_of_an_answer(url: str, status: int) -> None:
    assert http_status(f"{url}/{status}") == status
    assert http_status(f"{url}/any?status={status}") == status


def test_a_proxy_of_the_environment_is_passed_by(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert http_status(f"{url}/200") == 200


def test_no_answer_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        def hang_up() -> None:
            silent.accept()[0].close()

        closing = threading.Thread(target=hang_up)
        closing.start()
        assert http_status(f"http://127.0.0.1:{port}/ready") is None
        closing.join()
    assert http_status(f"http://127.0.0.1:{port}/ready") is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/ready", "http://[::1/ready", "http:///ready"])
def test_no_address_is_none(url: str) -> None:
    assert http_status(url) is None


def test_other_protocol_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet() -> None:
            connection = other.accept()[0]
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            connection.recv(4096)
            connection.close()

        speaking = threading.Thread(target=greet)
        speaking.start()
        port = other.getsockname()[1]
        assert http_status(f"http://127.0.0.1:{port}/ready") is None
        speaking.join()
