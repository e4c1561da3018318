# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A row of the grammar of SGLang's lines, and how what it captures becomes the values of an event.

Groups of a pattern with a meaning of their own: size (in the row's unit), size2 to size6 (added to it), tokens,
seconds and label become fields of the event. Every other group becomes a value under its name; the last word of
the name says what it is, see C(CONVERTERS), and is text without one. C(_gb) is in the row's unit and becomes C(_bytes);
C(_phases) holds "name=seconds, name=seconds" and becomes a value for each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent

# Bounded, because a line may hold anything: more digits are no number of SGLang's.
NUMBER = r"\d{1,15}(?:\.\d{1,6})?"
# What is free, and what was taken between two readings of it: others give memory back meanwhile, and "-0.00" is told.
SIGNED = rf"-?{NUMBER}"
INTEGER = r"\d{1,18}"
SIZE = rf"(?P<size>{NUMBER})"
TOKENS = rf"(?P<tokens>{INTEGER})"
# Before any release.
ALWAYS = Version(0, 0, 0)


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


@dataclass(frozen=True)
class Row:
    """One form of a line, from the release C(since) up to, not including, C(until).

    C(unit) is the number of bytes that one "GB" of the line stands for. C(after_allocating): the line is printed when
    the memory that it tells of is already there; a line that announces memory comes before it, and minutes may pass.
    C(source): the file of SGLang that prints it, in the newest release that does.
    """

    kind: str
    regex: str
    stage: str | None = None
    label: str | None = None
    unit: int = GIB
    since: Version = ALWAYS
    until: Version | None = None
    after_allocating: bool = False
    source: str | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first wanted: of hundreds of rows a log has lines for a few."""
        return _compiled(self.regex)

    def holds(self, version: Version) -> bool:
        return self.since <= version and (self.until is None or version < self.until)


def row(
    kind: str,
    pattern: str,
    stage: str | None = None,
    label: str | None = None,
    unit: int = GIB,
    since: str | None = None,
    until: str | None = None,
    *,
    after_allocating: bool = False,
    source: str | None = None,
) -> Row:
    return Row(
        kind=kind,
        regex=pattern,
        stage=stage,
        label=label,
        unit=unit,
        since=parse_version(since) if since else ALWAYS,
        until=parse_version(until) if until else None,
        after_allocating=after_allocating,
        source=source,
    )


# By the last word of a group's name.
CONVERTERS: Mapping[str, Callable[[str], int | float]] = {
    **dict.fromkeys(("bytes", "code", "count", "gpu", "id", "index", "node", "pid", "port", "rc", "tokens"), int),
    **dict.fromkeys(("fraction", "percent", "ratio", "seconds"), float),
}
# Sizes, which become bytes: those of a row's own unit, and those whose unit the line itself names.
_SIZES = ("size", "size2", "size3", "size4", "size5", "size6")
_FIELDS = (*_SIZES, "tokens", "seconds", "label")
_UNITS = {"gib": GIB, "mib": MIB}
_PHASE = re.compile(rf"(\w{{1,60}})=({NUMBER})")


def _number(text: str | None, convert: Callable[[str], int | float]) -> int | float | None:
    """None for what looks like a number and is none that can be held."""
    if text is None:
        return None
    try:
        number = convert(text)
        return number if math.isfinite(number) else None
    except (ValueError, OverflowError):
        return None


def _in_bytes(unit: int, text: str) -> int:
    return round(float(text) * unit)


def _values(form: Row, groups: Mapping[str, str | None]) -> tuple[tuple[str, Any], ...]:
    values: dict[str, Any] = {}
    for name, text in groups.items():
        if name in _FIELDS or text is None:
            continue
        stem, word = name.rpartition("_")[::2]
        if word == "gb" or word in _UNITS:
            unit = _UNITS.get(word, form.unit)
            values[f"{stem}_bytes"] = _number(text, partial(_in_bytes, unit))
        elif word == "phases":
            values.update({f"{stem}_{phase}_seconds": _number(told, float) for phase, told in _PHASE.findall(text)})
        elif word in CONVERTERS:
            values[name] = _number(text, CONVERTERS[word])
        else:
            values[name] = text
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))


def _integer(text: str | None) -> int | None:
    number = _number(text, int)
    return None if number is None else int(number)


def event_of(form: Row, match: re.Match[str], rank: str | None, text: str) -> LogEvent:
    """What a line that a row matches means."""
    groups = match.groupdict()
    sizes = [_number(groups.get(name), float) for name in _SIZES]
    known = [size for size in sizes if size is not None]
    return LogEvent(
        kind=form.kind,
        text=text,
        stage=form.stage,
        rank=rank,
        bytes=round(sum(known) * form.unit) if known else None,
        tokens=_integer(groups.get("tokens")),
        label=groups.get("label") or form.label,
        seconds=_number(groups.get("seconds"), float),
        values=_values(form, groups),
        after_allocating=form.after_allocating,
    )
