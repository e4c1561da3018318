# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of the systemd journal as C(journalctl -o json) prints them, and the command that prints them. No I/O.

A start is followed by its invocation, never by time or by unit alone, so that a line of an earlier start cannot count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Everything else in a record (the command line, which may hold keys, is one) is neither needed nor sent.
OUTPUT_FIELDS = ("MESSAGE", "PRIORITY", "_PID", "_SYSTEMD_INVOCATION_ID", "SYSLOG_IDENTIFIER", "CODE_FUNC")

_CURSOR_TIME = re.compile(r"(?:^|;)t=([0-9a-f]+)")
# uvicorn's line for each request; a probe or a scraper makes one even if the server itself does not move.
_ACCESS = re.compile(r'INFO:\s+\S+ - "[A-Z]+ \S+ HTTP/')
_SECRET = re.compile(r"((?:api_key|admin_api_key|api-key|ssl_keyfile_password|hf_token)['\"]?\s*[=:]\s*)(['\"]).*?\2")


@dataclass(frozen=True)
class Record:
    """C(timestamp) in UNIX seconds, as journald received it. C(of_manager): said by systemd about the unit."""

    message: str
    timestamp: float | None
    cursor: str | None
    pid: int | None
    priority: int | None
    of_manager: bool


def _text(value: Any) -> str:
    """A field is a string, a list of bytes when it is not printable, a list of strings when it occurs repeatedly."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value).decode("utf-8", "replace")
        return "\n".join(_text(item) for item in value)
    return str(value)


def _int(value: Any) -> int | None:
    try:
        return int(_text(value))
    except ValueError:
        return None


def parse_record(line: str) -> Record | None:
    """One line of output; None for a blank, truncated or foreign one."""
    try:
        data = json.loads(line)
    except ValueError:
        return None
    if not isinstance(data, Mapping):
        return None
    received = _int(data.get("__REALTIME_TIMESTAMP"))
    return Record(
        message=last_state(_text(data.get("MESSAGE"))),
        timestamp=received / 1e6 if received is not None else None,
        cursor=_text(data.get("__CURSOR")) or None,
        pid=_int(data.get("_PID")),
        priority=_int(data.get("PRIORITY")),
        of_manager=not data.get("_SYSTEMD_INVOCATION_ID") and _int(data.get("_PID")) == 1,
    )


def last_state(message: str) -> str:
    """A progress bar overwrites itself with carriage returns; only what it last showed is kept."""
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in message.split("\n"))


def without_secrets(message: str) -> str:
    """SGLang prints its arguments, keys included, when it starts."""
    return _SECRET.sub(r"\1'***'", message)


def is_access_log(message: str) -> bool:
    return _ACCESS.search(message) is not None


def cursor_time(cursor: str) -> float | None:
    """UNIX seconds held in a cursor (C(t=), hexadecimal microseconds)."""
    match = _CURSOR_TIME.search(cursor)
    return int(match.group(1), 16) / 1e6 if match else None


def journalctl_command(
    invocation_id: str, cursor: str | None = None, since: float | None = None, lines: int | None = None
) -> list[str]:
    """What the processes of an invocation said, and what systemd said about it.

    C(--all), because longer fields are null otherwise.
    """
    command = ["journalctl", "--output=json", "--all", "--no-pager", "--quiet"]
    command.append(f"--output-fields={','.join(OUTPUT_FIELDS)}")
    if cursor:
        command.append(f"--after-cursor={cursor}")
    elif since is not None:
        command.append(f"--since=@{since:.6f}")
    if lines is not None:
        command.append(f"--lines={lines}")
    # `+` is OR between groups of AND. Only systemd itself is believed about an invocation.
    command += [f"_SYSTEMD_INVOCATION_ID={invocation_id}", "+", f"INVOCATION_ID={invocation_id}", "_PID=1"]
    return command
