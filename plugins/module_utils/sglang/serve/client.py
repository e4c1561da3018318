# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP with an end: a request takes so many seconds, however slowly its answer drips, and so many bytes at most.

The timeout of a socket begins anew with every byte, and the clients at hand follow redirects, with the key in hand.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Call, Client

LARGEST_ANSWER_BYTES = 8 << 20


@dataclass(frozen=True)
class Target:
    """Where to, and as whom. What C(headers) hold is never shown."""

    scheme: str
    host: str
    port: int
    base: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = None
    hidden: tuple[str, ...] = field(default=(), repr=False)


def parse_url(url: str) -> SplitResult:
    """C(http://HOST:PORT), with a path where a proxy wants one. What else it holds may be a secret and is not said."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, whole = SplitResult("", "", "", "", ""), False
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Refusal(
            "url_malformed",
            "url holds a user, a query or a fragment.",
            "Expected http://HOST:PORT; give a key with api_key or headers, which are not shown.",
        )
    if not whole or not url.isascii() or not url.isprintable() or " " in url:
        raise Refusal("url_malformed", f"url is '{shown(url, ())}'.", "Expected http://HOST:PORT.", {"url": url[:200]})
    return parts


def read_key_file(path: str) -> str:
    """A key out of a file. Raises Refusal for one that cannot be read; what is no key check_headers refuses."""
    try:
        # Not as any text: what is no key is said to be malformed, and by its name alone.
        return Path(path).read_bytes().decode("ascii", "replace").rstrip("\r\n")
    except OSError as error:
        raise Refusal(
            "key_unreadable",
            f"The key in {path} cannot be read ({error.strerror}).",
            "Give a file that is on this host, and run the task as root; that of a unit is there while it runs.",
            {"path": path},
        ) from error


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuses what HTTP cannot carry before it gets into the message of an exception."""
    for name, value in headers.items():
        fits = value.isascii() and value.isprintable() and value == value.strip() and value != ""
        if not fits or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise Refusal(
                "header_malformed",
                f"The value for the header {shown(name, (), 60)} is empty or holds what a header cannot.",
                "Expected printable ASCII without blanks or line breaks at its ends; a key that was read from a file "
                "may end in a line break.",
            )


def tls_context(validate: bool, ca_path: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_path)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise Refusal(
            "tls_files_unreadable",
            f"The certificates or keys for TLS cannot be read ({type(error).__name__}: {error}).",
            "Give ca_path, client_cert and client_key as PEM files that exist on the node.",
        ) from error
    if not validate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def make_client(target: Target, request_seconds: float, timeout_seconds: float) -> Client:
    """C(request_seconds): what a request has that asks for no other time."""
    deadline = time.monotonic() + timeout_seconds

    def send(call: Call) -> Answer:
        seconds = min(request_seconds if call.seconds is None else call.seconds, deadline - time.monotonic())
        if seconds <= 0:
            return Answer(0, "there was no time left", late=True)
        return _exchange(target, call, seconds)

    def send_all(calls: Sequence[Call], at_once: int, stop: Callable[[Answer], bool]) -> list[Answer | None]:
        answers: list[Answer | None] = [None] * len(calls)
        stopped = threading.Event()

        def one(index: int) -> None:
            if not stopped.is_set():
                answer = send(calls[index])
                answers[index] = answer
                if stop(answer):
                    stopped.set()

        with ThreadPoolExecutor(max(1, at_once)) as pool:
            list(pool.map(one, range(len(calls))))
        return answers

    return Client(send, send_all, time.monotonic, time.sleep, deadline)


def _exchange(target: Target, call: Call, seconds: float) -> Answer:
    started = time.monotonic()
    sockets: list[socket.socket] = []
    expired = threading.Event()

    def cut() -> None:
        expired.set()
        for one in sockets:
            try:
                # That of the plain socket: the one of TLS takes its state from the thread that reads.
                socket.socket.shutdown(one, socket.SHUT_RDWR)
            except OSError:
                continue

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    status, text = 0, ""
    try:
        status, text = _request(target, call, seconds, sockets)
    except Exception as error:  # refused, reset, not HTTP, not TLS: all of them are "no answer"
        text = f"no answer ({type(error).__name__}: {error})"
    finally:
        timer.cancel()
        for one in sockets:
            one.close()
    took = time.monotonic() - started
    if expired.is_set() or (not status and took >= seconds):
        return Answer(0, f"no whole answer within {format_seconds(seconds)}", took, late=True)
    return Answer(status, text, took, hidden=target.hidden)


def _request(target: Target, call: Call, seconds: float, sockets: list[socket.socket]) -> tuple[int, str]:
    sockets.append(socket.create_connection((target.host, target.port), timeout=seconds))
    if target.tls is not None:
        wrapped = target.tls.wrap_socket(sockets[0], server_hostname=target.host, do_handshake_on_connect=False)
        # The plain socket is spent now, and the shake of hands may drip as well.
        sockets[0] = wrapped
        wrapped.do_handshake()
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.sock = sockets[0]
    headers = {"Content-Type": "application/json", "Accept": "*/*", "Connection": "close", **target.headers}
    body = None if call.body is None else json.dumps(call.body).encode()
    connection.request(call.method, target.base + call.path, body, headers)
    with connection.getresponse() as response:
        data = response.read(LARGEST_ANSWER_BYTES + 1)
        if len(data) > LARGEST_ANSWER_BYTES:
            return 0, f"an answer of more than {LARGEST_ANSWER_BYTES >> 20} MiB"
        whole = response.length in (None, 0)
    return (response.status, data.decode("utf-8", "replace")) if whole else (0, "an answer that ends before its end")
