# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a line about a start that goes on is worth showing. Pure: what was shown last is a value that is handed on."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds

# Who has looked for this long wants to see something; a server that was ready before says so alone.
FIRST_SECONDS = 2.0
# A line for each change, but not closer than this; further apart the longer it takes already, so that pinning for an
# hour prints a hundred lines and not a thousand.
EVERY_SECONDS = 3.0
EVERY_SHARE = 1 / 20
# A sign of life where nothing changes, and the longest time between two changes that are shown.
AT_LEAST_EVERY_SECONDS = 30.0


@dataclass(frozen=True)
class Shown:
    """The last line that was shown. C(at): seconds of the controller's monotonic clock."""

    at: float
    text: str


def pause_seconds(elapsed_seconds: float) -> float:
    """How far apart two lines of a start are that has been watched for so long."""
    return min(max(EVERY_SECONDS, elapsed_seconds * EVERY_SHARE), AT_LEAST_EVERY_SECONDS)


def next_at(last: Shown | None, now: float, began_at: float) -> float:
    """The earliest moment at which something new may be shown; C(began_at) is when the watch began."""
    return began_at + FIRST_SECONDS if last is None else last.at + pause_seconds(now - began_at)


def is_due(last: Shown | None, text: str, now: float, began_at: float) -> bool:
    """Whether C(text) is to be shown now."""
    if last is not None and text == last.text:
        return now - last.at >= AT_LEAST_EVERY_SECONDS
    return now >= next_at(last, now, began_at)


def with_sign_of_life(text: str, last: Shown | None, elapsed_seconds: float) -> str:
    """The line; one that was shown before says for how long it has been watched."""
    if last is None or last.text != text:
        return text
    return f"{text}, {format_seconds(round(elapsed_seconds)).replace('.0 s', ' s')} so far"
