# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts that others wrote (firmware, kernels, drivers), as what may be shown.

A terminal obeys control characters, and half of a surrogate pair fits no encoding.
"""

from __future__ import annotations

import re

# What a terminal obeys: sequences (ECMA-48) with all that belongs to them, other control characters, and marks that
# turn the direction of a text or end a line for Python and for YAML.
_OBEYED = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])?|\x9b[0-?]*[ -/]*[@-~]"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def without_controls(text: str) -> str:
    """The same text with blanks for what cannot be shown."""
    return text if text.isprintable() else "".join(mark if mark.isprintable() else " " for mark in text)


def one_line(text: str, limit: int | None = None) -> str:
    """One line of C(limit) characters at most, which any encoding of Unicode can hold; blanks in a row become one."""
    return " ".join(without_controls(text).split())[:limit].rstrip()


def escaped(text: str) -> str:
    """One line in which what cannot be shown is named, so that a file can still be told by it: C(\\x1b), C(\\udcff)."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def plain_lines(text: str) -> str:
    """The lines of a log without what a terminal would obey; ends of lines and tabs stay."""
    return text if text.isprintable() else _OBEYED.sub("", text)
