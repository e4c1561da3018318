# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What SGLang says while it starts: one line of its log to one event.

The grammar is data by version, in the files of rows beside this one. A release newer than those that were read keeps
the open rows: what still matches is used, the rest of the watch rests on bytes and readiness.

Units: device lines print GiB (2^30) under the letters GB, host lines print GB (1e9). Both are rounded to two decimals.
"""

from __future__ import annotations

import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    standing_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.grammar import (
    Grammar,
    grammar_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import (
    HEAD_CHARACTERS,
    is_head,
    split_prefix,
    without_colours,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import event_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.settings import SETTINGS, settings_of

# No line of SGLang's is longer, but for its arguments; whatever is costs no more than this. Of a record with more lines
# or characters the end tells most: a traceback has its cause there.
LINE_CHARACTERS = 8192
MESSAGE_CHARACTERS = 65536
MESSAGE_LINES = 2000
# Kinds that are quoted inside other text: the kind of an exception stands before what it says.
_QUOTED = ("failure", "exception")


def parse_line(message: str, version: str | None) -> LogEvent | None:
    """The event behind one record of a log, None if it means nothing for a start.

    C(version) None: the release is not known, so the forms of all are taken. A record may hold several lines (a
    traceback in one write, the states of a bar); the first line that means something beyond a mere consequence or a
    state of a bar speaks for it.
    """
    grammar = grammar_of(version)
    inherited: str | None = None
    continues = False
    first: LogEvent | None = None
    progress: LogEvent | None = None
    failure: LogEvent | None = None
    for line in _lines_of(message):
        prefixed, rank, rest = split_prefix(line)
        if prefixed:
            inherited, continues = rank, True
        event = _settings(rest, continues and not prefixed) or _event(
            rest[:LINE_CHARACTERS].rstrip(), inherited, grammar, prefixed, continues
        )
        if event is None:
            continue
        if event.value("total_count") is not None:
            progress = event
        elif event.kind == "failure":
            # Of several failures the one that says most.
            if failure is None or standing_of(event.label) < standing_of(failure.label):
                failure = event
        elif event.kind not in ("consequence", "exception"):
            return failure or event
        # Of several lines the last exception is the one that was not handled.
        elif first is None or first.kind == "consequence" or event.kind == "exception":
            first = event
    return failure or first or progress


def _lines_of(message: str) -> list[str]:
    if len(message) > MESSAGE_CHARACTERS:
        message = f"{message[: MESSAGE_CHARACTERS // 4]}\n{message[-MESSAGE_CHARACTERS * 3 // 4 :]}"
    lines = without_colours(message).splitlines()
    if len(lines) > MESSAGE_LINES:
        lines = [*lines[: MESSAGE_LINES // 4], *lines[-MESSAGE_LINES * 3 // 4 :]]
    return lines


def _settings(line: str, continues: bool) -> LogEvent | None:
    """The arguments of the server, in a line that may be longer than all others."""
    place = line.find(SETTINGS, 0, HEAD_CHARACTERS)
    return settings_of(line[place:]) if place >= 0 and not continues and is_head(line[:place]) else None


def _event(line: str, rank: str | None, grammar: Grammar, prefixed: bool, continues: bool) -> LogEvent | None:
    """C(continues): the line belongs to a record that began with SGLang's prefix, so it is no line of its own."""
    if not line:
        return None
    for row in grammar.candidates(line):
        if row.kind in _QUOTED:
            found = row.pattern.search(line)
        elif prefixed:
            found = row.pattern.match(line)
        else:
            found = None if continues else _after_head(row.pattern, line)
        if found is not None:
            return event_of(row, found, rank, line)
    return None


def _after_head(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    found = pattern.search(line)
    return found if found is not None and is_head(line[: found.start()]) else None
