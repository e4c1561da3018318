# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file that the role renders, without PyYAML: one level of names, scalars, and lists of scalars.

The release itself reads it with PyYAML (utils/server_args_config_parser.py). What is read here means the same there,
and what is not read here is refused; the node needs no package for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_ENTRY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*):(?: +(.*))?\Z")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?\Z")
# What YAML takes for the beginning of something that is not read here, or for a number of another kind.
_STRANGE = re.compile(
    r"[\[\]{}&*!|>%@`,?]|- |=\Z"
    r"|[-+]?(?:0x[0-9a-f_]+|0b?[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|\.(?:inf|nan))\Z",
    re.IGNORECASE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


class ConfigFileError(ValueError):
    """A file that is not of this form, with the line that shows it."""


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU":
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", one, text)


def scalar(text: str) -> Any:
    """What PyYAML makes of it."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _unescaped(text[1:-1])
    if text in _NULLS:
        return None
    if text.lower() in _BOOLEANS and text in (text.lower(), text.title(), text.upper()):
        return _BOOLEANS[text.lower()]
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    if _STRANGE.match(text) or re.search(r":(\s|\Z)|\s#", text) or text[0] in "'\"":
        raise ConfigFileError(f"cannot read the value {text!r}; expected a scalar")
    return text


def _joined(first: str, more: str) -> str:
    """A scalar that goes on in the next line. A backslash at the end joins without a blank, and one before a blank
    keeps that."""
    if first.startswith('"') and first.endswith("\\") and not first.endswith("\\\\"):
        return first[:-1] + more
    return f"{first} {more}" if first else more


def _entries(text: str) -> Iterator[tuple[int, str]]:
    """(number of the line, the line with what belongs to it)."""
    held: tuple[int, str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped == "---" or line.startswith("#"):
            continue
        # to_nice_yaml() begins entries and the items of lists in the first column, and wraps long scalars.
        if held is not None and line.startswith(" "):
            held = (held[0], _joined(held[1], stripped))
            continue
        if held is not None:
            yield held
        held = (number, stripped)
    if held is not None:
        yield held


def read_config(text: str) -> dict[str, Any]:
    """Raises C(ConfigFileError) for what is not of this form."""
    found: dict[str, Any] = {}
    name = ""
    for number, entry in _entries(text):
        try:
            if entry.startswith("- "):
                items = found.get(name)
                if items is None and name:
                    items = found[name] = []
                if not isinstance(items, list):
                    raise ConfigFileError("cannot read a list here")
                items.append(scalar(entry[2:].strip()))
                continue
            match = _ENTRY.match(entry)
            if match is None:
                raise ConfigFileError("expected NAME: VALUE")
            name = match[1]
            given = (match[2] or "").strip()
            found[name] = [] if given == "[]" else scalar(given)
        except ConfigFileError as error:
            raise ConfigFileError(f"line {number}: {error}") from error
    return found
