# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the modules of a router's host reach the router: the file that the role writes beside its configuration."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import Member, read_members
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Client
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.client import (
    Target,
    check_headers,
    make_client,
    parse_url,
    read_key_file,
    tls_context,
)

DEFAULT_PATH = "/etc/sglang-router/access.json"
REQUEST_SECONDS = 10.0


@dataclass(frozen=True)
class Access:
    """C(minimum): workers that have to stay in service. Keys are named by their files, which root alone reads."""

    url: str
    members: Path
    minimum: int
    api_key_file: str | None
    worker_api_key_file: str | None
    ca_path: str | None


def read_access(path: str) -> Access:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        return Access(
            url=data["url"],
            members=Path(data["members"]),
            minimum=int(data["minimum_in_service"]),
            api_key_file=data["api_key_file"],
            worker_api_key_file=data["worker_api_key_file"],
            ca_path=data["ca_path"],
        )
    except OSError as error:
        found = f"{path} cannot be read ({error.strerror})."
    except (ValueError, TypeError, KeyError):
        found = f"{path} does not say how the router is reached."
    raise Refusal("members_unreadable", found, CODES["members_unreadable"].remedy, {"path": path})


def members_at(path: Path) -> tuple[Member, ...] | None:
    """What the file says of who is in service; None where there is none yet. Raises Refusal for what cannot be read."""
    try:
        return read_members(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(
            "members_unreadable",
            f"{path} cannot be read ({error}).",
            CODES["members_unreadable"].remedy,
            {"path": str(path)},
        ) from error


def read_key(path: str | None) -> str | None:
    """The key in a file, None where no file is named."""
    if path is None:
        return None
    key = read_key_file(path)
    check_headers({"Authorization": key})
    return key


def client_of(access: Access, timeout_seconds: float) -> Client:
    """Raises Refusal where a key or a certificate cannot be read."""
    return client_for(access.url, read_key(access.api_key_file), access.ca_path, timeout_seconds)


def client_for(url: str, key: str | None, ca_path: str | None, timeout_seconds: float) -> Client:
    parts = parse_url(url)
    secure = parts.scheme == "https"
    target = Target(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or (443 if secure else 80),
        base="",
        headers={} if key is None else {"Authorization": f"Bearer {key}"},
        tls=_pinned(ca_path) if secure else None,
        hidden=() if key is None else (key,),
    )
    return make_client(target, REQUEST_SECONDS, timeout_seconds)


def _pinned(certificate: str | None) -> ssl.SSLContext:
    """Trusts that one certificate, which is the server's own: it is asked over loopback, by no name of it."""
    context = tls_context(True, certificate, None, None)
    if certificate is not None:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
