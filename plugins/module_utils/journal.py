# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of the systemd journal as C(journalctl -o json) prints them, and the command that prints them. No I/O.

A start is followed by its invocation, never by time or by unit alone, so that a line of an earlier start cannot count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Everything else in a record (the command line, which may hold keys, is one) is neither needed nor sent.
OUTPUT_FIELDS = (
    "MESSAGE",
    "_PID",
    "_TRANSPORT",
    "_SYSTEMD_INVOCATION_ID",
    "_LINE_BREAK",
    "_STREAM_ID",
    "CONTAINER_PARTIAL_MESSAGE",
    "N_DROPPED",
    "OBJECT_SYSTEMD_INVOCATION_ID",
)
# sd-messages.h, SD_MESSAGE_JOURNAL_DROPPED: "Suppressed N messages from UNIT", with N_DROPPED from systemd 242 on.
DROPPED_MESSAGE_ID = "a596d6fe7bfa4994828e72309e95d61e"

_CURSOR_FIELD = re.compile(r"(?:^|;)([a-z])=([0-9a-f]+)")
# uvicorn's line for each request; a probe or a scraper makes one even if the server itself does not move.
_ACCESS = re.compile(r'INFO:\s+\S+ - "[A-Z]+ \S+ HTTP/')
# Arguments as a dataclass, as JSON, as a command line and as the list of one, and variables of the environment.
_SECRET = re.compile(
    r"((?:api[_-]key|keyfile[_-]password|(?:hf|hub|access|auth)[_-]token|secret[_-](?:access[_-])?key)"
    r"(?:['\"]?\s*[=:]\s*|['\"],\s*(?=['\"])))(?!None\b)(?:(['\"])(?:\\.|(?!\2).)*\2|[^\s'\",;)}\]]+)"
    r"|(--(?:admin-)?api-key\s+|--ssl-keyfile-password\s+|\bBearer\s+)[^\s'\",]+",
    re.IGNORECASE,
)
# What is a key wherever it stands: tokens of the Hugging Face Hub, keys like OpenAI's, passwords in addresses.
_BARE_SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,})|(?<=://)[^\s/:@]{1,200}:[^\s/@]{1,200}(?=@)"
)
_SUPPRESSED = re.compile(r"^Suppressed (\d+) messages from (.+)$")


@dataclass(frozen=True)
class Record:
    """C(timestamp) in UNIX seconds, as journald received it. C(of_manager): said by systemd about the unit.

    C(broken): the line goes on in the next record of the same C(stream).
    """

    message: str
    timestamp: float | None
    cursor: str | None
    pid: int | None
    of_manager: bool
    transport: str | None = None
    stream: str | None = None
    broken: bool = False
    dropped: int | None = None
    object_invocation_id: str | None = None


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


def parse_record(line: str | bytes) -> Record | None:
    """One line of output; None for a blank, truncated or foreign one."""
    try:
        data = json.loads(line)
    except ValueError:
        return None
    if not isinstance(data, Mapping):
        return None
    get = data.get
    received = _int(get("__REALTIME_TIMESTAMP"))
    pid = _int(get("_PID")) if "_PID" in data else None
    return Record(
        message=last_state(_text(get("MESSAGE"))),
        timestamp=received / 1e6 if received is not None else None,
        cursor=_text(get("__CURSOR")) or None,
        pid=pid,
        of_manager=pid == 1 and not get("_SYSTEMD_INVOCATION_ID"),
        transport=_text(get("_TRANSPORT")) or None,
        stream=_text(get("_STREAM_ID")) or None,
        broken=get("_LINE_BREAK") == "line-max" or get("CONTAINER_PARTIAL_MESSAGE") == "true",
        dropped=_int(get("N_DROPPED")) if "N_DROPPED" in data else None,
        # systemd 252 and others write a second "=" before it (journald-server.c).
        object_invocation_id=_text(get("OBJECT_SYSTEMD_INVOCATION_ID")).lstrip("=") or None,
    )


def last_state(message: str) -> str:
    """A progress bar overwrites itself with carriage returns; only what it last showed is kept."""
    if "\r" not in message:
        return message
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in message.split("\n"))


def without_secrets(message: str) -> str:
    """SGLang prints its arguments, keys included, when it starts."""
    return _BARE_SECRET.sub("***", _SECRET.sub(lambda found: f"{found[1] or found[3]}'***'", message))


def is_access_log(message: str) -> bool:
    return " HTTP/" in message and _ACCESS.search(message) is not None


def suppressed_messages(record: Record, unit: str) -> int | None:
    """How many messages of the unit journald says it dropped for coming too fast; None if it says nothing of it.

    The record is journald's own, filed under its own unit, and written with the first message that is let through
    again (journald-server.c).
    """
    match = _SUPPRESSED.match(record.message)
    if record.transport != "driver" or match is None or match.group(2) != unit:
        return None
    return record.dropped if record.dropped is not None else int(match.group(1))


def _cursor_fields(cursor: str) -> dict[str, str]:
    return dict(_CURSOR_FIELD.findall(cursor))


def cursor_time(cursor: str) -> float | None:
    """UNIX seconds held in a cursor (C(t=), hexadecimal microseconds)."""
    text = _cursor_fields(cursor).get("t")
    return int(text, 16) / 1e6 if text else None


def same_record(cursor: str, other: str) -> bool:
    """Whether two cursors mean one record. Its sequence number changes when /run is flushed to /var."""
    first, second = _cursor_fields(cursor), _cursor_fields(other)
    return all(first.get(name) == second.get(name) for name in "bmtx")


def is_not_after(cursor: str, other: str) -> bool:
    """Whether a record of the same boot is the other one or lies before it, by the clock that never jumps."""
    first, second = _cursor_fields(cursor), _cursor_fields(other)
    if first.get("b") != second.get("b") or "m" not in first or "m" not in second:
        return False
    return int(first["m"], 16) <= int(second["m"], 16)


def invocation_matches(invocation_id: str) -> tuple[tuple[str, ...], ...]:
    """What the processes of an invocation said, what systemd said about it, and what journald dropped of any unit.

    Only systemd itself is believed about an invocation, and only journald about itself.
    """
    return (
        (f"_SYSTEMD_INVOCATION_ID={invocation_id}",),
        (f"INVOCATION_ID={invocation_id}", "_PID=1"),
        (f"MESSAGE_ID={DROPPED_MESSAGE_ID}", "_TRANSPORT=driver"),
    )


def container_matches(container_id: str) -> tuple[tuple[str, ...], ...]:
    """What conmon (podman) and dockerd write for a container; both run as root for a container of root."""
    return ((f"CONTAINER_ID_FULL={container_id}", "_TRANSPORT=journal", "_UID=0"),)


KERNEL_MATCHES: tuple[tuple[str, ...], ...] = (("_TRANSPORT=kernel",),)


def journalctl_command(
    matches: Iterable[tuple[str, ...]],
    cursor: str | None = None,
    since: float | None = None,
    follow: bool = False,
    namespace: str | None = None,
) -> list[str]:
    """Records that match any of the groups, beginning with that of the cursor itself.

    What systemd and the kernel say is not in the C(namespace) of a unit (LogNamespace=), hence the +.

    With C(--after-cursor) journalctl would leave out one record too many where the cursor's own is gone. C(--all),
    because longer fields are null otherwise.
    """
    command = ["journalctl", "--output=json", "--all", "--no-pager", "--quiet"]
    command.append(f"--output-fields={','.join(OUTPUT_FIELDS)}")
    if namespace:
        command.append(f"--namespace=+{namespace}")
    if follow:
        command += ["--follow", "--no-tail"]
    if cursor:
        command.append(f"--cursor={cursor}")
    elif since is not None:
        command.append(f"--since=@{since:.6f}")
    for number, group in enumerate(matches):
        # `+` is OR between groups of AND.
        command += ["+", *group] if number else group
    return command


def starts_command(unit: str, count: int = 50) -> list[str]:
    """The last records of this boot that systemd itself wrote about a unit, the newest first."""
    fields = "--output-fields=INVOCATION_ID"
    options = ["--output=json", "--boot", "--reverse", f"--lines={count}", "--no-pager", "--quiet", fields]
    return ["journalctl", *options, "_PID=1", f"UNIT={unit}"]


def starts_in(output: str) -> tuple[str, ...]:
    """The invocations that C(starts_command) found, each once, the newest first."""
    found: dict[str, None] = {}
    for line in output.splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue
        told = _text(data.get("INVOCATION_ID")) if isinstance(data, Mapping) else ""
        if told:
            found[told] = None
    return tuple(found)
