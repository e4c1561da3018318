# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GRUB's script: its words, its variables and its tests, as far as they can be told without booting. Pure.

An answer is None where it hangs on what only GRUB knows, such as the platform or the files of another disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r]|\\\n)+)|(?P<comment>\#[^\n]*)|(?P<end>[\n;])"""
    r"""|(?P<word>(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s;'"\\])+)""",
    re.DOTALL,
)
_PIECE = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|[?*@#])")
# What distributions keep in grubenv: not set there means empty. All other names may be GRUB's own.
_KEPT_IN_GRUBENV = frozenset(
    ("boot_counter", "boot_indeterminate", "boot_once", "boot_success", "initrdfail", "kernelopts", "menu_auto_hide")
    + ("menu_show_once", "next_entry", "prev_entry", "prev_saved_entry", "recordfail", "saved_entry", "tuned_params")
)
_FILE_TESTS = ("-d", "-e", "-f", "-s")
_COMPARISONS = ("=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge")
# Longer than any command line; a value that is doubled again and again is not followed.
_VALUE_LIMIT = 16384
_NUMBER = re.compile(r"-?\d{1,9}$")
CUSTOM = "/custom.cfg"

Variables = Mapping[str, "str | None"]


def _unquoted(word: str) -> str:
    parts = []
    for single, double, escaped, plain in _PIECE.findall(word):
        # A backslash before the end of a line joins it with the next.
        parts.append(single or re.sub(r"\\([\"\\$])", r"\1", double) or escaped.replace("\n", "") or plain)
    return "".join(parts)


def statements(text: str) -> Iterator[list[str]]:
    """The script's words, statement by statement; quotes are taken off, variables stay as they are written."""
    words: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            at += 1  # a quote that nothing ends
            continue
        at = match.end()
        if match.lastgroup == "word":
            words.append(_unquoted(match.group()))
        elif match.lastgroup == "end" and words:
            yield words
            words = []
    if words:
        yield words


def expand(word: str, variables: Variables) -> str | None:
    """The word with its variables' values; None where one of them is not known."""
    parts: list[str] = []
    at = length = 0
    for match in _VARIABLE.finditer(word):
        name = match.group(1) or match.group(2) or ""
        value = variables.get(name, "" if name in _KEPT_IN_GRUBENV else None)
        length += len(value or "")
        if value is None or length > _VALUE_LIMIT:
            return None
        parts += [word[at : match.start()], value]
        at = match.end()
    return "".join([*parts, word[at:]])


def both(one: bool | None, two: bool | None) -> bool | None:
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def condition(words: Sequence[str], variables: Variables, has_custom: bool) -> bool | None:
    """What a command that stands after C(if) answers. C(has_custom): whether custom.cfg is there."""
    if words[:1] == ["["] and words[-1] == "]":
        return _tested(words[1:-1], variables, has_custom)
    if words[:1] == ["test"]:
        return _tested(words[1:], variables, has_custom)
    return {"true": True, "false": False}.get(" ".join(words[:2]))


def _tested(words: Sequence[str], variables: Variables, has_custom: bool) -> bool | None:
    """GRUB's test: C(-a), which may be left out, binds closer than C(-o)."""
    if not words or "(" in words:
        return None if words else False
    former: bool | None = False
    here: bool | None = True
    inverted = False
    at = 0
    while at < len(words):
        word, rest = words[at], len(words) - at - 1
        answer: bool | None
        if rest >= 2 and words[at + 1] in _COMPARISONS:
            answer = _compared(expand(word, variables), words[at + 1], expand(words[at + 2], variables))
            at += 3
        elif rest >= 1 and word in _FILE_TESTS:
            answer = has_custom if words[at + 1].endswith(CUSTOM) else None
            at += 2
        elif rest >= 1 and word in ("-n", "-z"):
            value = expand(words[at + 1], variables)
            answer = None if value is None else bool(value) == (word == "-n")
            at += 2
        else:
            at += 1
            if word == "!":
                inverted = not inverted
                continue
            if word == "-a":
                continue
            if word == "-o":
                former, here = opposite(both(opposite(former), opposite(here))), True
                continue
            value = expand(word, variables)
            answer = None if value is None else bool(value)
        here = both(here, opposite(answer) if inverted else answer)
        inverted = False
    return opposite(both(opposite(former), opposite(here)))


def _compared(one: str | None, how: str, two: str | None) -> bool | None:
    if one is None or two is None:
        return None
    if how in ("=", "==", "!="):
        return (one == two) == (how != "!=")
    if not _NUMBER.match(one) or not _NUMBER.match(two):
        return None
    first, second = int(one), int(two)
    answers = {"-eq": first == second, "-ne": first != second, "-lt": first < second, "-le": first <= second}
    return answers[how] if how in answers else opposite(answers["-le" if how == "-gt" else "-lt"])
