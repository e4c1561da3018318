# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GRUB's menu as grub.cfg builds it: which entry is the default, and which kernel that is.

Not a shell: what grub-mkconfig writes is read (menu entries, submenus, their kernels, where C(default) is set), and
what people add to it, as long as it is written in the same way. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_KERNEL_COMMANDS = ("linux", "linux16", "linuxefi")
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r]|\\\n)+)|(?P<comment>\#[^\n]*)|(?P<end>[\n;])"""
    r"""|(?P<word>(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s;'"\\])+)""",
    re.DOTALL,
)
_PIECE = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
_TITLE_PART = re.compile(r"(?:>>|[^>])+")


@dataclass(frozen=True)
class MenuEntry:
    """An entry, or a submenu where C(entries) is not None. C(kernel) is the path that is loaded, as GRUB sees it."""

    title: str
    id: str | None = None
    kernel: str | None = None
    arguments: str | None = None
    entries: tuple[MenuEntry, ...] | None = None


@dataclass(frozen=True)
class Menu:
    """C(default) is what holds where no next_entry is set; C(${saved_entry}) in it stands for the saved one.

    C(bls_at) is where the entries of the Boot Loader Specification come in; None where grub.cfg asks for none.
    """

    entries: tuple[MenuEntry, ...] = ()
    default: str = "0"
    next_entry_counts: bool = False
    bls_at: int | None = None


@dataclass
class _Block:
    """A block that has begun: a menu entry, a submenu, or a function, of which nothing is kept."""

    kind: str
    title: str = ""
    id: str | None = None
    kernel: str | None = None
    arguments: str | None = None
    entries: list[MenuEntry] = field(default_factory=list)


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


def _opened(words: Sequence[str]) -> _Block:
    """The block that C(menuentry TITLE ... {) or C(submenu TITLE ... {) begins."""
    identifier = None
    for option, value in zip(words, words[1:]):
        if option in ("$menuentry_id_option", "--id"):
            identifier = value
    return _Block(words[0], words[1] if len(words) > 1 else "", identifier)


def parse_menu(text: str) -> Menu:
    top = _Block("submenu")
    blocks = [top]
    default, next_entry_counts, bls_at = "0", False, None
    asked: str | None = None
    for words in statements(text):
        # What begins on the line of a condition belongs to it: "if ...; then menuentry" is not how menus are written.
        while words and words[0] in ("then", "else", "do"):
            words = words[1:]
        if not words:
            continue
        here = blocks[-1]
        if words[0] in ("menuentry", "submenu", "function") and words[-1] == "{":
            blocks.append(_opened(words))
        elif words[0] == "}" and len(blocks) > 1:
            _close(blocks)
        elif words[0] in _KERNEL_COMMANDS and here.kind == "menuentry" and len(words) > 1 and here.kernel is None:
            here.kernel, here.arguments = words[1], " ".join(words[2:])
        elif words[0] == "blscfg" and bls_at is None and here is top:
            bls_at = len(top.entries)
        elif words[0] == "if" and "x$default" in words:
            # How grub-mkconfig maps the titles of old releases: if [ "x$default" = 'OLD' ]; then default='NEW'; fi
            asked = words[-2] if words[-1] == "]" else None
        elif words[0].startswith("default=") and asked is not None:
            default = words[0].partition("=")[2] if default == asked else default
            asked = None
        elif words[0] == "set" and len(words) == 2 and words[1].startswith("default=") and here is top:
            value = words[1].partition("=")[2]
            if value == "${next_entry}":
                next_entry_counts = True
            else:
                default = value
    while len(blocks) > 1:
        _close(blocks)
    return Menu(tuple(top.entries), default, next_entry_counts, bls_at)


def _close(blocks: list[_Block]) -> None:
    done = blocks.pop()
    if done.kind == "function":
        return
    inside = tuple(done.entries) if done.kind == "submenu" else None
    blocks[-1].entries.append(MenuEntry(done.title, done.id, done.kernel, done.arguments, inside))


def parse_environment(text: str | None) -> dict[str, str]:
    """grubenv: a block of 1024 bytes with C(name=value) lines, filled up with C(#)."""
    found = {}
    for line in (text or "").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name] = re.sub(r"\\(.)", r"\1", value)
    return found


def chosen_entry(entries: Sequence[MenuEntry], wanted: str) -> MenuEntry | None:
    """The entry that GRUB boots for this value of C(default), as grub-core/normal/menu.c finds it.

    The parts of a way through submenus stand between C(>) and are numbers, titles or ids. What is not found is the
    first entry.
    """
    parts = [part.replace(">>", ">") for part in _TITLE_PART.findall(wanted)]
    here: Sequence[MenuEntry] = entries
    # Menus are not deeper than their text is long, but a hostile one is not followed for ever.
    for depth in range(32):
        if not here:
            return None
        part = parts[depth] if depth < len(parts) else "0"
        found = _in_menu(here, part)
        if found.entries is None:
            return found
        here = found.entries
    return None


def _in_menu(entries: Sequence[MenuEntry], part: str) -> MenuEntry:
    for entry in entries:
        if part in (entry.title, entry.id):
            return entry
    number = re.match(r"\d{1,6}$", part)
    index = int(number.group()) if number else 0
    return entries[index] if index < len(entries) else entries[0]
