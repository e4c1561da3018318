# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an entry of the catalogue of failures is. No I/O, and nothing of the watch, so that the grammar can read it."""

from __future__ import annotations

from dataclasses import dataclass

# How much a line says. Of several lines the one that says most counts, and of these the earliest.
CAUSE = "cause"  # names what is wrong
GENERAL = "general"  # says that something failed, and a better line often stands beside it
HINT = "hint"  # is often said by servers that come up, and counts when nothing else does
EFFECT = "effect"  # follows from another failure
STANDINGS = (CAUSE, GENERAL, HINT, EFFECT)

# The start of the last line of a traceback. Exceptions that are only reported stand behind other words.
RAISED = r"^(?:\w+\.)*\w*(?:Error|Exception)(?:\[[^\]]*\])?: (?:\[Errno -?\d+\] )?"


@dataclass(frozen=True)
class Pattern:
    """A form of line.

    C(regex) is searched for in one line, groups are named as in the grammar (lines/rows.py). C(example) is the line
    with its places filled, C(source) where it is written. It holds from C(since) up to, not including, C(until).
    """

    regex: str
    source: str
    example: str
    since: str = "0.4.0"
    until: str | None = None


@dataclass(frozen=True)
class Failure:
    """One failure.

    C(cause): what is wrong, a sentence. C(remedy): what to do where nothing can be computed. C(fatal): the server
    cannot come up after such a line, so that the watch need not wait for its end. C(stage): where it happens, if in
    one only.
    """

    code: str
    cause: str
    remedy: str
    patterns: tuple[Pattern, ...] = ()
    stage: str | None = None
    standing: str = CAUSE
    fatal: bool = False
