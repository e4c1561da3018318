# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serves the published revisions of a store to other nodes, over HTTP with ranges, to so many at a time.

What is served is bound by the digest that the play hands over to the other side through Ansible's own connection, so
that nobody on the way can put other bytes in. The token keeps strangers from reading; it crosses the network in clear.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import is_revision_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import MANIFEST_NAME, safe_path
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.reading import BUSY_HEADER

JOB, STATE, TOKENS = "share.json", "share-state.json", "share-tokens"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)\Z")
_IDLE_LOOK_SECONDS = 1.0


class Share(ThreadingHTTPServer):
    """A server that knows how busy it is, and since when nobody wanted anything."""

    daemon_threads = True
    # Another start finds the port again that the last one has just left.
    allow_reuse_address = True

    def __init__(
        self, address: str, port: int, root: Path, tokens: Path, most: int, bytes_per_second: int | None
    ) -> None:
        self.root, self.tokens, self.bytes_per_second = root, tokens, bytes_per_second
        self.places = threading.BoundedSemaphore(most)
        self.used_at = time.monotonic()
        self.busy = 0
        self.lock = threading.Lock()
        super().__init__((address, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Share
    # A reader that takes nothing for so long is gone.
    timeout = 60.0

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """One line for each request would fill the journal."""

    def _answer(self, body: bool) -> None:
        if not self._is_known():
            self._refuse(401)
            return
        path = self._path()
        if path is None:
            self._refuse(404)
            return
        if not self.server.places.acquire(blocking=False):
            self._refuse(503, {"Retry-After": "1", BUSY_HEADER: "1"})
            return
        with self.server.lock:
            self.server.busy += 1
        try:
            self._send(path, body)
        except OSError:
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.busy -= 1
                self.server.used_at = time.monotonic()
            self.server.places.release()

    def _is_known(self) -> bool:
        """Each play brings a token of its own, so the file is read each time."""
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        try:
            tokens = self.server.tokens.read_text(encoding="ascii").split()
        except OSError:
            return False
        return any(hmac.compare_digest(given, f"Bearer {token}".encode()) for token in tokens)

    def _path(self) -> Path | None:
        parts = unquote(self.path.partition("?")[0]).strip("/").split("/")
        if len(parts) < 3 or not (is_revision_name(parts[0]) and is_revision_name(parts[1])):
            return None
        below = "/".join(parts[2:])
        folder = self.server.root / parts[0] / parts[1]
        # Nothing but a published revision, and nothing that a link leads out of it.
        if not (safe_path(below) or below == MANIFEST_NAME) or not (folder / MANIFEST_NAME).is_file():
            return None
        path = folder / below
        real = Path(os.path.realpath(path))
        return path if real.is_file() and Path(os.path.realpath(folder)) in real.parents else None

    def _send(self, path: Path, body: bool) -> None:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            match = _RANGE.match(self.headers.get("Range", ""))
            first = int(match.group(1)) if match else 0
            if match and first >= size:
                self._refuse(416, {"Content-Range": f"bytes */{size}"})
                return
            last = min(int(match.group(2)), size - 1) if match and match.group(2) else size - 1
            self.send_response(206 if match else 200)
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("Content-Type", "application/octet-stream")
            if match:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.end_headers()
            self.wfile.flush()
            if not body:
                return
            if self.server.bytes_per_second is None:
                self.connection.sendfile(file, first, last - first + 1) if last >= first else None
                return
            file.seek(first)
            left = last - first + 1
            while left > 0 and (piece := file.read(min(1 << 18, left))):
                self.wfile.write(piece)
                left -= len(piece)
                time.sleep(len(piece) / self.server.bytes_per_second)

    def _refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


def serve(folder: Path) -> int:
    """Until nobody has wanted anything for so long as the job says."""
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    server = Share(
        job["address"],
        job["port"],
        Path(job["root"]),
        folder / TOKENS,
        job["max_transfers"],
        job["max_bytes_per_second"],
    )
    state = {"port": server.server_address[1], "pid": os.getpid(), "run_id": job["run_id"]}
    unfinished = folder / f".{STATE}"
    unfinished.write_text(json.dumps(state), encoding="utf-8")
    unfinished.replace(folder / STATE)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    touched = folder / JOB
    while True:
        time.sleep(_IDLE_LOOK_SECONDS)
        with server.lock:
            idle = 0.0 if server.busy else time.monotonic() - server.used_at
        # A play that asked for it again touches the job, and is about to come.
        if idle > job["idle_seconds"] and time.time() - touched.stat().st_mtime > job["idle_seconds"]:
            server.shutdown()
            return 0
