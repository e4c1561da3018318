# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mirror of models: folders over HTTP with ranges, the hub's API, an index, and faults on purpose.

  /files/<model>/<path>                       as a plain web server serves a folder; an index for a folder
  /api/models/<owner>/<model>/revision/<rev>  the hub's list of a commit (?blobs=true with sizes and sums)
  /api/models/<owner>/<model>/tree/<rev>      the same as a tree, which its own client asks for
  /<owner>/<model>/resolve/<rev>/<path>       the hub's file: small ones at once, large ones by a redirect to
  /cdn/<sha256>                               where the token has no business
  /control/faults, /control/asked             sets the faults (POST, a list) and tells what was asked for (GET)

The commit of a model is the SHA-1 over its files; any file of 1 KiB and more is a large one (LFS). The hub's side
follows what huggingface_hub 1.33.0 asks for (hf_api.py, file_download.py), and the real client works against it.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.faults import Asked, Fault, Memory, fault_from_dict

LARGE_BYTES = 1024
PIECE_BYTES = 1 << 16
_SLEEP_SECONDS = 0.05


@dataclass
class Mirror:
    """A running mirror. C(token): what the hub's side wants to see; C(index): how folders are listed."""

    root: Path
    server: ThreadingHTTPServer
    memory: Memory = field(default_factory=Memory)
    token: str | None = None
    index: str = "html"

    @property
    def url(self) -> str:
        host, port = self.server.server_address[:2]
        return f"http://{host!s}:{port}"

    def sent(self, pattern: str = "") -> int:
        """Bytes of files that were sent, of those whose path ends so."""
        with self.memory.lock:
            return sum(size for path, size in self.memory.sent_of.items() if path.endswith(pattern))


@contextmanager
def running(root: Path, address: str = "127.0.0.1", port: int = 0, token: str | None = None) -> Iterator[Mirror]:
    """A mirror of the folders below C(root), until the block ends."""
    server = _Server((address, port))
    server.mirror = mirror = Mirror(root, server, token=token)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()


@lru_cache(maxsize=4096)
def _sums(path: str, _size: int, _mtime_ns: int) -> tuple[str, str]:
    content = Path(path).read_bytes()
    return hashlib.sha256(content).hexdigest(), hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sums_of(path: Path) -> tuple[str, str]:
    """(SHA-256, git's name) of a file."""
    status = path.stat()
    return _sums(str(path), status.st_size, status.st_mtime_ns)


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def commit_of(folder: Path) -> str:
    total = hashlib.sha1()
    for name in files_of(folder):
        total.update(f"{name} {sums_of(folder / name)[1]}\n".encode())
    return total.hexdigest()


def _entry(folder: Path, name: str) -> dict[str, object]:
    """A file of a tree (hf_api.py, RepoFile)."""
    size = (folder / name).stat().st_size
    sha256, git = sums_of(folder / name)
    entry: dict[str, object] = {"type": "file", "oid": git, "size": size, "path": name}
    if size >= LARGE_BYTES:
        entry["lfs"] = {"oid": sha256, "size": size, "pointerSize": 134}
    return entry


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    mirror: Mirror

    def __init__(self, address: tuple[str, int]) -> None:
        self.closing = threading.Event()
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Readers that go away are what half of the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is printed."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = json.loads(self.rfile.read(length) or b"[]")
        memory = self.server.mirror.memory
        if self.path == "/control/faults":
            with memory.lock:
                memory.faults[:] = [fault_from_dict(entry) for entry in body]
            self._text(200, "{}", "application/json")
        elif self.path == "/control/forget":
            memory.forget()
            self._text(200, "{}", "application/json")
        else:
            self._text(404, "", "text/plain")

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        mirror = self.server.mirror
        if path == "/control/asked":
            with mirror.memory.lock:
                told = {"asked": [one.as_dict() for one in mirror.memory.asked], "most": mirror.memory.most_sending}
            self._text(200, json.dumps(told), "application/json")
            return
        fault = mirror.memory.fault_of(self.command, path)
        if fault.status is not None:
            self._note(path, fault.status, 0, 0)
            headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            self._text(fault.status, "told to", "text/plain", headers)
            return
        words = [word for word in path.split("/") if word]
        if words[:1] == ["files"]:
            self._folder(mirror.root.joinpath(*words[1:]), path, fault)
        elif words[:2] == ["api", "models"] and ("revision" in words or "tree" in words):
            self._listing(words, "blobs" in parse_qs(parts.query))
        elif "resolve" in words:
            self._resolve(words, path, fault)
        elif words[:1] == ["cdn"] and len(words) == 2:
            self._cdn(words[1], path, fault)
        else:
            self._note(path, 404, 0, 0)
            self._text(404, "no such place", "text/plain")

    def _folder(self, target: Path, path: str, fault: Fault) -> None:
        if target.is_file():
            status = target.stat()
            self._file(target, path, fault, {"ETag": fault.etag or f'"{status.st_mtime_ns:x}-{status.st_size:x}"'})
        elif target.is_dir() and path.endswith("/"):
            self._index(target)
        else:
            self._note(path, 404, 0, 0)
            self._text(404, "no such file", "text/plain")

    def _index(self, folder: Path) -> None:
        entries = sorted(folder.iterdir())
        if self.server.mirror.index == "json":
            told = [
                {"name": one.name, "type": "directory" if one.is_dir() else "file", "mtime": str(one.stat().st_mtime)}
                | ({} if one.is_dir() else {"size": one.stat().st_size})
                for one in entries
            ]
            self._text(200, json.dumps(told), "application/json")
            return
        links = "".join(
            f'<a href="{quote(one.name)}{"/" if one.is_dir() else ""}">{escape(one.name)}</a>\n' for one in entries
        )
        self._text(200, f'<html><body><a href="../">../</a><a href="?C=M">M</a>\n{links}</body></html>', "text/html")

    def _listing(self, words: list[str], blobs: bool) -> None:
        at = words.index("tree" if "tree" in words else "revision")
        folder = self.server.mirror.root / words[at - 1]
        if not self._may_ask():
            return
        if not folder.is_dir():
            self._text(404, "{}", "application/json", {"X-Error-Code": "RepoNotFound"})
            return
        commit = commit_of(folder)
        if words[at + 1 : at + 2] not in (["main"], [commit]):
            self._text(404, "{}", "application/json", {"X-Error-Code": "RevisionNotFound"})
            return
        if words[at] == "tree":
            self._text(200, json.dumps([_entry(folder, name) for name in files_of(folder)]), "application/json")
            return
        siblings = [self._sibling(folder, name, blobs) for name in files_of(folder)]
        told = {"_id": "0", "id": "/".join(words[2:at]), "sha": commit, "private": False, "siblings": siblings}
        self._text(200, json.dumps(told), "application/json")

    def _sibling(self, folder: Path, name: str, blobs: bool) -> dict[str, object]:
        sibling: dict[str, object] = {"rfilename": name}
        if blobs:
            size = (folder / name).stat().st_size
            sha256, git = sums_of(folder / name)
            sibling.update(size=size, blobId=git)
            if size >= LARGE_BYTES:
                sibling["lfs"] = {"sha256": sha256, "size": size, "pointerSize": 134}
        return sibling

    def _resolve(self, words: list[str], path: str, fault: Fault) -> None:
        at = words.index("resolve")
        folder = self.server.mirror.root / words[at - 1]
        target = folder.joinpath(*words[at + 2 :])
        if not self._may_ask():
            return
        if not target.is_file():
            self._note(path, 404, 0, 0)
            self._text(404, "", "text/plain", {"X-Error-Code": "EntryNotFound"})
            return
        sha256, git = sums_of(target)
        commit = {"X-Repo-Commit": commit_of(folder)}
        size = target.stat().st_size
        if size < LARGE_BYTES:
            self._file(target, path, fault, {**commit, "ETag": fault.etag or f'"{git}"'})
            return
        linked = {"X-Linked-Etag": fault.etag or f'"{sha256}"', "X-Linked-Size": str(size)}
        # An absolute address, as the hub's own storage has; the token is not to follow there.
        self._text(302, "", "text/plain", {**commit, **linked, "Location": f"{self.server.mirror.url}/cdn/{sha256}"})

    def _cdn(self, sha256: str, path: str, fault: Fault) -> None:
        for folder in self.server.mirror.root.iterdir():
            for name in files_of(folder) if folder.is_dir() else []:
                if sums_of(folder / name)[0] == sha256:
                    whole = self.server.mirror.memory.fault_of(self.command, f"{path}/{name}")
                    merged = whole if whole != Fault() else fault
                    # The real client takes an answer of the same host for the hub's own.
                    size = (folder / name).stat().st_size
                    hub = {"X-Repo-Commit": commit_of(folder), "X-Linked-Size": str(size)}
                    self._file(folder / name, f"{path}/{name}", merged, {**hub, "ETag": merged.etag or f'"{sha256}"'})
                    return
        self._text(404, "", "text/plain")

    def _may_ask(self) -> bool:
        token = self.server.mirror.token
        if token is None or self.headers.get("Authorization") == f"Bearer {token}":
            return True
        self._text(401, "", "text/plain", {"X-Error-Code": "GatedRepo"})
        return False

    def _file(self, target: Path, path: str, fault: Fault, headers: dict[str, str]) -> None:
        size = target.stat().st_size if fault.truncate is None else fault.truncate
        asked = self.headers.get("Range", "")
        guard = self.headers.get("If-Range")
        ranged = asked.startswith("bytes=") and not fault.no_range and guard in (None, headers.get("ETag"))
        first, last = 0, size - 1
        if ranged:
            begin, _dash, end = asked[6:].partition("-")
            first, last = int(begin), min(int(end), size - 1) if end else size - 1
            if first >= size:
                self._note(path, 416, first, 0)
                self._text(416, "", "text/plain", {"Content-Range": f"bytes */{size}"})
                return
            headers = {**headers, "Content-Range": f"bytes {first}-{last}/{size}"}
        self.send_response(206 if ranged else 200)
        for name, value in {**headers, "Accept-Ranges": "bytes", "Content-Length": str(last - first + 1)}.items():
            self.send_header(name, value)
        self.end_headers()
        sent = 0
        try:
            if self.command == "GET":
                for count in self._body(target, path, fault, first, last):
                    sent += count
        finally:
            self._note(path, 206 if ranged else 200, first, sent)

    def _body(self, target: Path, path: str, fault: Fault, first: int, last: int) -> Iterator[int]:
        """Sends the bytes from first to last, as far as the fault lets it, and yields how many went each time."""
        memory = self.server.mirror.memory
        memory.busy(1)
        try:
            with target.open("rb") as file:
                file.seek(first)
                place, sent = first, 0
                while place <= last:
                    if fault.stall_after is not None and sent >= fault.stall_after:
                        self.server.closing.wait(60)
                        return
                    if fault.cut_after is not None and sent >= fault.cut_after:
                        self.close_connection = True
                        self.connection.shutdown(socket.SHUT_RDWR)
                        return
                    speed = memory.bytes_per_second or fault.bytes_per_second
                    piece = bytearray(file.read(min(self._most(fault, sent, speed), last - place + 1)))
                    if not piece:
                        return
                    if fault.corrupt_at is not None and place <= fault.corrupt_at < place + len(piece):
                        by = fault.corrupt_by or 1 + int.from_bytes(os.urandom(1), "big") % 255
                        piece[fault.corrupt_at - place] = (piece[fault.corrupt_at - place] + by) % 256
                    self.wfile.write(piece)
                    place += len(piece)
                    sent += len(piece)
                    memory.count(path, len(piece))
                    yield len(piece)
                    if speed is not None:
                        time.sleep(len(piece) / speed)
        finally:
            memory.busy(-1)

    def _most(self, fault: Fault, sent: int, speed: int | None) -> int:
        limits = [PIECE_BYTES]
        if speed is not None:
            limits.append(max(1, int(speed * _SLEEP_SECONDS)))
        limits += [limit - sent for limit in (fault.cut_after, fault.stall_after) if limit is not None]
        return max(1, min(limits))

    def _text(self, status: int, text: str, kind: str, headers: dict[str, str] | None = None) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _note(self, path: str, status: int, first: int, sent: int) -> None:
        authorized = "Authorization" in self.headers
        client = str(self.client_address[0])
        self.server.mirror.memory.note(Asked(self.command, path, status, first, sent, client, authorized))
