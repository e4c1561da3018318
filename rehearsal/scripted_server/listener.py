# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP server of the main process, with uvicorn's access log."""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.answers import Answers
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.lines import prefix, write_line


def _handler(answers: Answers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond(None)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(data or b"{}")
            except ValueError:
                body = {}
            self._respond(body if isinstance(body, dict) else {})

        def _respond(self, body: dict[str, Any] | None) -> None:
            key = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
            answer = answers.answer(self.command, self.path.partition("?")[0], body, key)
            if answer.status == 0:
                threading.Event().wait()
            data = answer.body.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True

        def log_request(self, code: Any = "-", size: Any = "-") -> None:
            status = HTTPStatus(int(code))
            client = f"{self.client_address[0]}:{self.client_address[1]}"
            request = f'"{self.command} {self.path} HTTP/1.1" {status.value} {status.phrase}'
            write_line(f"{prefix(None)}INFO:     {client} - {request}")

        def log_message(self, format: str, *args: Any) -> None:
            write_line(f"{prefix(None)}WARNING:  {format % args}")

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        """Without the name of the address, which the resolver of a node with no network is long in not finding."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's business."""


def listen(answers: Answers, host: str, port: int, poll_seconds: float = 5.0) -> ThreadingHTTPServer:
    """Takes connections from now on, in threads of its own. Raises OSError where the port is taken.

    C(poll_seconds): how soon its shutdown() is noticed.
    """
    server = _Server((host, port), _handler(answers))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": poll_seconds}, daemon=True).start()
    return server
