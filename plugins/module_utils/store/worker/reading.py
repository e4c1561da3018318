# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bytes of a source from an offset on: over HTTP, or out of a folder. What goes wrong is told as a Trouble."""

from __future__ import annotations

import http.client
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.hub import plain_etag, refusal_words
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.retry import Trouble, stalled_words
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import CHUNK_BYTES

# A peer that serves as many as it may says so with this header, and means: wait in line.
BUSY_HEADER = "X-Gpufleet-Busy"
AGENT = "gpufleet.sglang model_snapshot"
_FATAL = {
    400: "the request is not understood (400)",
    401: "it wants a token (401)",
    403: "it refuses this token, or any (403)",
    404: "it has no such file (404)",
    410: "it has no such file any more (410)",
}
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)\Z")


class Broken(Exception):
    """An attempt that ended before the file did."""

    def __init__(self, trouble: Trouble, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(trouble.words)
        self.trouble = trouble
        self.headers = headers or {}


@dataclass(frozen=True)
class Stream:
    """C(offset): where it begins. C(total_bytes), C(validator): of the whole file, where they are known."""

    read: Callable[[], bytes]
    close: Callable[[], None]
    offset: int
    total_bytes: int | None
    validator: str | None


@dataclass(frozen=True)
class Web:
    """How servers are asked. C(token) goes to the hosts of the source alone, never to where they redirect to."""

    stall_seconds: float
    token: str | None = None
    proxies: Mapping[str, str] | None = None
    ca_file: str | None = None

    def request(self, url: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Any:
        """The open answer, whose body has not been read. Raises Broken."""
        asked = urllib.request.Request(
            url, headers={"User-Agent": AGENT, "Accept-Encoding": "identity", **(headers or {})}, method=method
        )
        if self.token is not None:
            # urllib hands ordinary headers on to wherever it is redirected, and these not.
            asked.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            return self.opener(url).open(asked, timeout=self.stall_seconds)
        except urllib.error.HTTPError as error:
            with error:
                raise Broken(_trouble_of_status(error), dict(error.headers.items())) from None
        except (OSError, http.client.HTTPException) as error:
            raise Broken(self.trouble_of(error, 0, None)) from None

    def text(self, url: str, limit_bytes: int) -> tuple[str, Mapping[str, str]]:
        """A whole small answer with its headers."""
        with self.request(url) as answer:
            try:
                content = answer.read(limit_bytes + 1)
            except (OSError, http.client.HTTPException) as error:
                raise Broken(self.trouble_of(error, 0, None)) from None
            if len(content) > limit_bytes:
                raise Broken(Trouble(f"it answered with more than {limit_bytes:,} bytes", fatal=True))
            return content.decode("utf-8", "replace"), dict(answer.headers.items())

    def head(self, url: str) -> Mapping[str, str]:
        """What is said of a file. The headers of the first answer count: where it redirects to says less."""
        return _head_chain(self, url)

    def stream(self, url: str, offset: int, validator: str | None) -> Stream:
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        if offset and validator:
            headers["If-Range"] = f'"{validator}"'
        answer = self.request(url, headers)
        begins, total = _place_in_file(answer)
        found = plain_etag(answer.headers.get("ETag"))
        strong = found if not (answer.headers.get("ETag") or "").startswith("W/") else None
        if begins not in (0, offset):
            answer.close()
            raise Broken(Trouble(f"it sent bytes from {begins:,} on when asked for those from {offset:,} on"))

        position = begins

        def read() -> bytes:
            nonlocal position
            try:
                piece: bytes = answer.read1(CHUNK_BYTES)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise Broken(self.trouble_of(error, position, total)) from None
            position += len(piece)
            return piece

        return Stream(read, answer.close, begins, total, strong)

    def trouble_of(self, error: BaseException, offset: int, total: int | None) -> Trouble:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, socket.timeout):
            return Trouble(stalled_words(self.stall_seconds, offset, total))
        if isinstance(reason, ssl.SSLCertVerificationError):
            return Trouble(f"its certificate cannot be trusted ({reason.verify_message})", fatal=True)
        words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return Trouble(f"the connection broke ({words})")

    def opener(self, url: str, *more: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
        """A proxy is asked where the task's environment says so, no_proxy included."""
        proxies = dict(self.proxies or {})
        if goes_directly(urlsplit(url).hostname or "", proxies.pop("no", "")):
            proxies = {}
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler(proxies), *more]
        # Also behind an address of http there may be a redirect to one of https.
        handlers.append(urllib.request.HTTPSHandler(context=_trust(self.ca_file)))
        return urllib.request.build_opener(*handlers)


@lru_cache(maxsize=4)
def _trust(ca_file: str | None) -> ssl.SSLContext:
    """Reading the system's certificates takes longer than asking for a small file."""
    return ssl.create_default_context(cafile=ca_file)


def goes_directly(host: str, no_proxy: str) -> bool:
    """Whether no_proxy names the host or a domain that it is in, as curl and urllib read it."""
    names = [name.strip().lstrip(".").lower() for name in no_proxy.split(",") if name.strip()]
    return "*" in names or any(host.lower() == name or host.lower().endswith(f".{name}") for name in names)


def folder_stream(path: Path, offset: int) -> Stream:
    """A file of a folder; one that is read from a mount that hangs is not seen to stall."""
    try:
        file = path.open("rb", buffering=0)
        status = os.fstat(file.fileno())
        file.seek(offset)
    except FileNotFoundError:
        raise Broken(Trouble("it has no such file", fatal=True)) from None
    except OSError as error:
        raise Broken(Trouble(f"it cannot be read ({error.strerror or error})")) from None

    def read() -> bytes:
        try:
            return file.read(CHUNK_BYTES)
        except OSError as error:
            raise Broken(Trouble(f"it cannot be read ({error.strerror or error})")) from None

    return Stream(read, file.close, offset, status.st_size, str(status.st_mtime_ns))


class _FirstAnswer(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same host (a renamed repository), as the hub's own client does, and no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).hostname != urlsplit(req.full_url).hostname:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _head_chain(web: Web, url: str) -> Mapping[str, str]:
    asked = urllib.request.Request(url, headers={"User-Agent": AGENT, "Accept-Encoding": "identity"}, method="HEAD")
    if web.token is not None:
        asked.add_unredirected_header("Authorization", f"Bearer {web.token}")
    try:
        with web.opener(url, _FirstAnswer()).open(asked, timeout=web.stall_seconds) as answer:
            return dict(answer.headers.items())
    except urllib.error.HTTPError as error:
        with error:
            headers = dict(error.headers.items())
            if error.code in (301, 302, 303, 307, 308):
                # The size of the redirect's own text is not that of the file.
                headers.pop("Content-Length", None)
                return headers
            raise Broken(_trouble_of_status(error), headers) from None
    except (OSError, http.client.HTTPException) as error:
        raise Broken(web.trouble_of(error, 0, None)) from None


def _place_in_file(answer: Any) -> tuple[int, int | None]:
    """(first byte, size of the whole file) of an answer."""
    length = answer.headers.get("Content-Length", "")
    if answer.status == 206:
        match = _RANGE.match(answer.headers.get("Content-Range", ""))
        if match is None:
            answer.close()
            raise Broken(Trouble("it answered with a part and did not say which"))
        return int(match.group(1)), None if match.group(3) == "*" else int(match.group(3))
    return 0, int(length) if length.isdigit() else None


def _trouble_of_status(error: urllib.error.HTTPError) -> Trouble:
    told = refusal_words(dict(error.headers.items()))
    after = _retry_after(error.headers.get("Retry-After"))
    if error.code in _FATAL:
        return Trouble(told or _FATAL[error.code], fatal=True)
    if error.headers.get(BUSY_HEADER):
        return Trouble("it serves as many as it may", retry_after_seconds=after or 1.0, busy=True)
    return Trouble(told or f"it answered with status {error.code}", retry_after_seconds=after)


def _retry_after(value: str | None) -> float | None:
    """Seconds, or a date (RFC 9110, 10.2.3); a date is taken as a minute, since clocks differ."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return 60.0
