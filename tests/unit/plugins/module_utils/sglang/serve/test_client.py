# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP client against sockets that do whatever the script of a test says."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Call, Client
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.client import (
    LARGEST_ANSWER_BYTES,
    Target,
    check_headers,
    make_client,
    parse_url,
    tls_context,
)

# (connection, set when the test is over)
Script = Callable[[socket.socket, threading.Event], None]
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def listening(script: Script, context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A port, and what was said to it."""
    heard: list[bytes] = []
    over = threading.Event()

    def serve(server: socket.socket) -> None:
        while not over.is_set():
            try:
                connection, _address = server.accept()
            except OSError:
                return
            threading.Thread(target=converse, args=(connection,), daemon=True).start()

    def converse(connection: socket.socket) -> None:
        try:
            with connection if context is None else context.wrap_socket(connection, server_side=True) as one:
                heard.append(one.recv(65536))
                script(one, over)
        except OSError:
            pass  # the client hung up, as it should

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], heard
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def client(port: int, tls: ssl.SSLContext | None = None, seconds: float = 30.0, host: str = "127.0.0.1") -> Client:
    scheme = "http" if tls is None else "https"
    target = Target(scheme, host, port, "/base", {"Authorization": "Bearer k"}, tls, ("sentinel",))
    return make_client(target, seconds, 60.0)


def says(data: bytes) -> Script:
    return lambda connection, over: connection.sendall(data)


def says_nothing(connection: socket.socket, over: threading.Event) -> None:
    over.wait()


def drips(head: bytes, drop: bytes) -> Script:
    """A byte now and then, each of which starts the timeout of a socket anew."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.wait(0.02):
            connection.sendall(drop)

    return script


def asked(script: Script, seconds: float = 30.0) -> Answer:
    with listening(script) as (port, _heard):
        return client(port, seconds=seconds).get("/x")


def test_request_and_answer() -> None:
    with listening(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as (port, heard):
        answer = client(port).send(Call("POST", "/generate", {"a": 1}))
    assert (answer.status, answer.body, answer.late) == (200, "{}", False)
    assert heard[0].startswith(b"POST /base/generate HTTP/1.1\r\n")
    assert b"Authorization: Bearer k\r\n" in heard[0]


@pytest.mark.parametrize(
    "script",
    [
        drips(b"", b"H"),
        drips(b"HTTP/1.1 200 OK\r\nX-", b"y"),
        drips(b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        drips(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        says_nothing,
    ],
    ids=["status", "header", "body", "continue", "chunks", "nothing"],
)
def test_slow_answers_end_in_time(script: Script) -> None:
    answer = asked(script, seconds=0.3)
    assert answer.late and answer.status == 0 and answer.body == "no whole answer within 0.3 s"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no answer (RemoteDisconnected"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no answer (BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "ends before its end"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no answer ("),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n", "no answer (HTTPException"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", "no answer (LineTooLong"),
        (b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe{", None),
    ],
)
def test_answers_that_are_none(data: bytes, words: str | None) -> None:
    answer = asked(says(data))
    if words is None:
        assert answer.status == 200 and answer.data() is None
    else:
        assert answer.status == 0 and words in answer.body and not answer.late


def test_large_answers_are_not_kept() -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _unused in range(4 * LARGEST_ANSWER_BYTES >> 20):
            connection.sendall(b"x" * (1 << 20))

    answer = asked(script)
    assert (answer.status, answer.body) == (0, "an answer of more than 8 MiB")


def test_redirect_is_not_followed_with_the_key() -> None:
    with listening(says(EMPTY)) as (other, heard):
        to = f"HTTP/1.1 307 T\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\n\r\n".encode()
        assert asked(says(to)).status == 307
        assert heard == []


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    answer = client(port).get("/health")
    assert answer.status == 0 and "ConnectionRefusedError" in answer.body and not answer.late


def test_nothing_is_sent_when_the_time_is_up() -> None:
    with listening(says(b"")) as (port, heard):
        answer = make_client(Target("http", "127.0.0.1", port, ""), 10.0, 0.0).get("/x")
    assert answer.late and answer.words() == "there was no time left" and heard == []


def test_several_at_once_in_order_and_no_more_after_a_bad_one() -> None:
    met = threading.Barrier(3, timeout=30)

    def script(connection: socket.socket, over: threading.Event) -> None:
        # None of them is answered before all three are there.
        met.wait()
        connection.sendall(EMPTY)

    with listening(script) as (port, heard):
        answers = client(port).send_all([Call("GET", f"/{number}") for number in range(3)], 3, lambda answer: False)
        assert [one is not None and one.status for one in answers] == [200] * 3
        assert len(heard) == 3
    with listening(says(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")) as (port, heard):
        answers = client(port).send_all([Call("GET", "/")] * 5, 1, lambda answer: answer.status != 200)
        assert [one is not None for one in answers] == [True, False, False, False, False]
        assert len(heard) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def test_tls_is_verified_unless_told_otherwise(certificate: tuple[Path, Path]) -> None:
    ca_path = str(certificate[0])
    with listening(says(EMPTY), server_context(certificate)) as (port, heard):
        unknown = client(port, tls_context(True, None, None, None), host="localhost").get("/")
        assert unknown.status == 0 and "SSLCertVerificationError" in unknown.body
        wrong = client(port, tls_context(True, ca_path, None, None)).get("/")
        assert wrong.status == 0 and "SSLCertVerificationError" in wrong.body
        # The key has gone to nobody yet.
        assert heard == []
        assert client(port, tls_context(True, ca_path, None, None), host="localhost").get("/").status == 200
        assert client(port, tls_context(False, None, None, None)).get("/").status == 200


def test_client_certificate_is_shown(certificate: tuple[Path, Path]) -> None:
    cert, key = map(str, certificate)
    context = server_context(certificate)
    context.load_verify_locations(cert)
    context.verify_mode = ssl.CERT_REQUIRED
    with listening(says(EMPTY), context) as (port, _heard):
        assert client(port, tls_context(True, cert, cert, key), host="localhost").get("/").status == 200
        assert client(port, tls_context(True, cert, None, None), host="localhost").get("/").status == 0


def test_shake_of_hands_that_never_ends() -> None:
    with listening(says_nothing) as (port, _heard):
        assert client(port, tls_context(False, None, None, None), seconds=0.3).get("/").late


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:30000",
        "ftp://h:1",
        "http://",
        "http://h:99999",
        "http://h:x",
        "http://[::1",
        "http://h:1/a b",
        "http://h\r\nX: y:1",
        "http://h:0",
        "unix:/run/x",
    ],
)
def test_malformed_urls(url: str) -> None:
    with pytest.raises(Refusal, match="Expected http://HOST:PORT"):
        parse_url(url)


@pytest.mark.parametrize(
    "url", ["http://u:sentinel@h:1", "http://h:1/?key=sentinel", "http://sentinel@h", "http://h#sentinel"]
)
def test_secrets_in_urls_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_url(url)
    assert "sentinel" not in str(refused.value) + str(refused.value.as_dict())


@pytest.mark.parametrize("value", ["sentinel\n", " sentinel", "sent\rinel", "sentinél", ""])
def test_headers_that_http_cannot_carry(value: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_headers({"Authorization": value})
    assert "sentin" not in str(refused.value) and "header Authorization" in str(refused.value)


def test_certificates_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("nothing")
    for path in (tmp_path / "absent.pem", tmp_path / "text.pem"):
        with pytest.raises(Refusal, match="cannot be read"):
            tls_context(True, str(path), None, None)
