# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is meant to be in service behind a router, and who is held out of it by whom. Facts and rules; no I/O.

The router itself remembers nothing over a restart, so this is what it is told again when it comes back: a worker that
was taken out stays out, whoever restarts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.problem_codes import CODES

SCHEMA = 1
KINDS = ("regular", "prefill", "decode")


@dataclass(frozen=True)
class Member:
    """One worker. C(held_by) None: it is meant to serve; else who keeps it out, with the reason that they gave.

    C(bootstrap_port): where a prefill worker hands its KV cache over, None for the others.
    """

    url: str
    kind: str = "regular"
    bootstrap_port: int | None = None
    held_by: str | None = None
    reason: str | None = None

    @property
    def wanted(self) -> bool:
        return self.held_by is None

    def as_dict(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "kind": self.kind,
            "bootstrap_port": self.bootstrap_port,
            "held_by": self.held_by,
            "reason": self.reason,
        }


def normal_url(url: str) -> str:
    """The URL as workers are told apart by it. Raises Refusal for what is no C(http://HOST:PORT)."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = not (parts.username or parts.password or parts.query or parts.fragment or parts.path.strip("/"))
    if parts.scheme not in ("http", "https") or not parts.hostname or port is None or not plain:
        raise Refusal(
            "worker_url_malformed",
            f"The worker's URL is '{one_line(url, 200)}'.",
            CODES["worker_url_malformed"].remedy,
            {"url": url[:200]},
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def read_members(text: str) -> tuple[Member, ...]:
    """What members_text has written. Raises Refusal for anything else."""
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        members = tuple(_member(row) for row in data["workers"])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Refusal("members_unreadable", "It is no list of members.", CODES["members_unreadable"].remedy) from None
    return members


def _member(row: Mapping[str, Any]) -> Member:
    port = row["bootstrap_port"]
    return Member(
        normal_url(row["url"]),
        row["kind"] if row["kind"] in KINDS else KINDS[0],
        None if port is None else int(port),
        row["held_by"],
        row["reason"],
    )


def members_text(members: Sequence[Member]) -> str:
    rows = [one.as_dict() for one in sorted(members, key=lambda one: one.url)]
    return json.dumps({"schema": SCHEMA, "workers": rows}, indent=2) + "\n"


def declared(members: Sequence[Member], wanted: Sequence[Member]) -> tuple[Member, ...]:
    """The members after an inventory has said who they are: who is held out stays so, who is not named is gone."""
    held = {one.url: one for one in members if not one.wanted}
    return tuple(
        replace(one, held_by=held[one.url].held_by, reason=held[one.url].reason) if one.url in held else one
        for one in wanted
    )


def taken_out(members: Sequence[Member], urls: Iterable[str], holder: str, reason: str) -> tuple[Member, ...]:
    """Whoever is held out already stays held by whom they are."""
    named = _known(members, urls)
    return tuple(
        replace(one, held_by=holder, reason=reason) if one.url in named and one.wanted else one for one in members
    )


def put_back(members: Sequence[Member], urls: Iterable[str], holder: str) -> tuple[Member, ...]:
    """Only what the same holder has taken out comes back."""
    named = _known(members, urls)
    return tuple(
        replace(one, held_by=None, reason=None) if one.url in named and one.held_by == holder else one
        for one in members
    )


def _known(members: Sequence[Member], urls: Iterable[str]) -> frozenset[str]:
    named = frozenset(urls)
    strange = sorted(named - {one.url for one in members})
    if strange:
        there = ", ".join(sorted(one.url for one in members)) or "none"
        raise Refusal(
            "worker_not_declared",
            f"This router has no member {', '.join(strange)}; its members are: {there}.",
            CODES["worker_not_declared"].remedy,
            {"workers": strange},
        )
    return named
