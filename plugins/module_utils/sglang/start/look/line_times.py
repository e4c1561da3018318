# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a line of a file was written: by the logger of a container, or by SGLang's own prefix."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

_PREFIX = re.compile(r"^\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?[ \]]")
_STAMP = re.compile(
    r"^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?\s?(Z|[+-]\d\d:?\d\d)?(?: [A-Z]{1,5})?$"
)


@dataclass(frozen=True)
class Line:
    """C(at) in UNIX seconds, None where it does not tell. C(goes_on): the next line of C(stream) belongs to it."""

    text: str
    at: float | None = None
    stream: str = ""
    goes_on: bool = False


Decode = Callable[[bytes], Line]


def _moment(match: re.Match[str], zone: tzinfo | None) -> datetime:
    year, month, day, hour, minute, second = (int(match.group(number)) for number in range(1, 7))
    return datetime(year, month, day, hour, minute, second, tzinfo=zone)


def parse_stamp(text: str) -> float | None:
    """RFC 3339, also as Go prints times: C(2026-11-30T04:00:00.123456789Z), C(2026-11-30 04:00:00.1 +0000 UTC)."""
    match = _STAMP.match(text.strip())
    if match is None:
        return None
    zone = match.group(8)
    offset = timedelta()
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    try:
        moment = _moment(match, timezone(offset))
    except ValueError:
        return None
    if moment.year <= 1:
        return None  # Go's zero time: never
    return moment.timestamp() + float(f"0.{match.group(7) or 0}")


def prefix_time(text: str, zone: tzinfo | None) -> float | None:
    """The time of SGLang's prefix, which is local to the server: of C(zone), or of this process where it is None."""
    match = _PREFIX.match(text)
    if match is None:
        return None
    try:
        moment = _moment(match, zone)
        return moment.timestamp() + int(match.group(7) or 0) / 1000
    except (ValueError, OverflowError, OSError):
        return None


def plain_line(zone: tzinfo | None) -> Decode:
    def decode(line: bytes) -> Line:
        text = line.decode("utf-8", "replace")
        return Line(text, prefix_time(text, zone))

    return decode


def k8s_line(line: bytes) -> Line:
    """conmon's k8s-file: C(TIME STREAM F|P TEXT), P for a part of a line."""
    words = line.decode("utf-8", "replace").split(" ", 3)
    if len(words) < 3 or words[2] not in ("F", "P"):
        return Line(line.decode("utf-8", "replace"))
    return Line(words[3] if len(words) > 3 else "", parse_stamp(words[0]), words[1], words[2] == "P")


def docker_line(line: bytes) -> Line:
    """Docker's json-file: C({"log": TEXT, "stream": NAME, "time": TIME}); a part of a line has no newline."""
    try:
        data = json.loads(line)
        text, stream, stamp = str(data["log"]), str(data.get("stream", "")), str(data.get("time", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Line(line.decode("utf-8", "replace"))
    return Line(text.rstrip("\n"), parse_stamp(stamp), stream, not text.endswith("\n"))
