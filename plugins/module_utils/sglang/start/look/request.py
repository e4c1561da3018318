# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one look is asked for, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading, reading_from_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import meter_of, parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.container import ENGINES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.subject import Subject

LOG_TYPES = ("journal", "file", *ENGINES)
LONGEST_WAIT_SECONDS = 30.0
# systemd.unit(5); without a suffix systemd takes it for a service. Others have no process, so that nothing would come.
# A template without an instance is no unit either.
_UNIT = re.compile(
    r"(?![\w:.\\-]*@(?:\.\w+)?$)"
    r"(?![\w:.\\@-]*\.(?:socket|target|device|mount|automount|swap|timer|path|slice)$)"
    r"[\w:.\\@-]{1,255}",
    re.ASCII,
)


@dataclass(frozen=True)
class Request:
    subject: Subject
    invocation_id: str | None
    cursor: str | None
    version: str
    meter: str
    known: tuple[RankReading, ...]
    ready_url: str | None
    wait_seconds: float
    last_lines: int
    log_type: str | None
    log_path: str | None
    ledger_path: str | None


def _subject(unit: str | None, log_type: str, path: str | None, container: str | None) -> Subject:
    engine = log_type if log_type in ENGINES else None
    if log_type == "file" and not path:
        raise Refusal("log_incomplete", "The log is of type file and has no path.", "Give log.path.", {"type": "file"})
    if engine and not container:
        raise Refusal(
            "log_incomplete",
            f"The log is of type {log_type} and names no container.",
            "Give log.container.",
            {"type": log_type},
        )
    if not unit and not engine:
        raise Refusal(
            "nothing_to_watch",
            "Neither a unit nor a container is named.",
            "Give unit, or log with the type podman or docker and a container.",
            {"type": log_type},
        )
    if unit and not _UNIT.fullmatch(unit):
        raise Refusal(
            "unit_name_malformed",
            f"unit is {unit!r}, which names no service.",
            "Expected the name of one service (or scope) as `systemctl status` shows it, without wildcards.",
            {"unit": unit},
        )
    return Subject(unit, engine, container if engine else None)


def request_from(params: Mapping[str, Any]) -> Request:
    version = str(parse_version(params["sglang_version"]))
    wait = float(params["wait_seconds"])
    if not 0 <= wait <= LONGEST_WAIT_SECONDS:
        raise Refusal(
            "wait_too_long",
            f"wait_seconds is {wait:g}.",
            f"Expected 0 to {LONGEST_WAIT_SECONDS:g}; call again for more.",
            {"wait_seconds": wait},
        )
    log: Mapping[str, Any] = params.get("log") or {}
    log_type = str(log.get("type") or "journal")
    return Request(
        subject=_subject(params.get("unit"), log_type, log.get("path"), log.get("container")),
        invocation_id=params.get("invocation_id"),
        cursor=params.get("cursor"),
        version=version,
        meter=params.get("meter") or meter_of(version),
        known=tuple(reading_from_dict(one) for one in params.get("known_ranks") or ()),
        ready_url=params.get("ready_url"),
        wait_seconds=wait,
        last_lines=int(params.get("max_lines") or 0),
        log_type=log_type if log else None,
        log_path=log.get("path"),
        ledger_path=params.get("ledger_path"),
    )
