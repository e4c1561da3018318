# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GRUB's menu as grub.cfg builds it: which entry is the default, and which kernel that is.

Not a shell: what grub-mkconfig writes is read (menu entries, submenus, their kernels, where C(default) is set), and
what people add to it, as long as it is written in the same way. Conditions are answered by grubenv's variables; what is
set behind one that cannot be answered is not believed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.grub_script import (
    CUSTOM,
    both,
    condition,
    expand,
    opposite,
    statements,
)

_KERNEL_COMMANDS = ("linux", "linux16", "linuxefi")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_COUNT = re.compile(r"-?\d{1,9}$")
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
    """C(once): C(default) holds for one boot only. C(variables) are those that are known when the menu stands.

    C(bls_at) is where the entries of the Boot Loader Specification come in; None where grub.cfg asks for none.
    """

    entries: tuple[MenuEntry, ...] = ()
    default: str = "0"
    once: bool = False
    bls_at: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Condition:
    """An C(if) that has begun. C(outer): whether it is reached; C(left): whether its next branches can still run."""

    outer: bool | None
    asked: bool | None
    pending: bool = True
    runs: bool | None = False
    left: bool | None = True


@dataclass
class _Block:
    """A block that has begun: a menu entry, a submenu, or a function, of which nothing is kept."""

    kind: str
    title: str = ""
    id: str | None = None
    runs: bool | None = True
    kernel: str | None = None
    arguments: str | None = None
    entries: list[MenuEntry] = field(default_factory=list)
    conditions: list[_Condition] = field(default_factory=list)


@dataclass
class _State:
    """What the script has come to. C(default) holds once by next_entry, or by the saved entry that grub-reboot set."""

    variables: dict[str, str | None]
    custom: str | None
    blocks: list[_Block]
    default: str = "0"
    by_next_entry: bool = False
    by_saved_entry: bool = False
    bls_at: int | None = None


def _opened(words: Sequence[str], runs: bool | None) -> _Block:
    """The block that C(menuentry TITLE ... {) or C(submenu TITLE ... {) begins."""
    identifier = None
    for option, value in zip(words, words[1:]):
        if option in ("$menuentry_id_option", "--id"):
            identifier = value
    return _Block(words[0], words[1] if len(words) > 1 else "", identifier, runs)


def parse_menu(text: str, environment: Mapping[str, str] | None = None, custom: str | None = None) -> Menu:
    """C(environment) is grubenv's; C(custom) the text of the custom.cfg that grub.cfg takes in."""
    top = _Block("submenu")
    state = _State({"default": "0", **(environment or {})}, custom, [top])
    _run(state, text)
    known = {name: value for name, value in state.variables.items() if value is not None}
    once = state.by_next_entry or (state.by_saved_entry and bool(known.get("boot_once")))
    return Menu(tuple(top.entries), state.default, once, state.bls_at, known)


def _run(state: _State, text: str) -> None:
    depth = len(state.blocks)
    for words in statements(text):
        left = _after_conditions(state, words)
        if left:
            _command(state, left)
    while len(state.blocks) > depth:
        _close(state.blocks)


def _running(block: _Block) -> bool | None:
    if not block.conditions:
        return block.runs
    return both(block.conditions[-1].outer, block.conditions[-1].runs)


def _after_conditions(state: _State, words: list[str]) -> list[str]:
    """Follows C(if) and its kin at the begin of a statement; what is left of it is a command."""
    here = state.blocks[-1]
    while words:
        word, rest = words[0], words[1:]
        innermost = here.conditions[-1] if here.conditions else None
        if word in ("if", "while", "until", "for"):
            # A loop runs as often as only GRUB knows.
            asked = condition(rest, state.variables, state.custom is not None) if word == "if" else None
            here.conditions.append(_Condition(_running(here), asked))
            return []
        if innermost is None:
            if word not in ("then", "else", "do"):
                return words
        elif word == "elif":
            innermost.asked = condition(rest, state.variables, state.custom is not None)
            innermost.pending, innermost.runs = True, False
            return []
        elif word in ("then", "do"):
            innermost.pending = False
            innermost.runs = both(innermost.left, innermost.asked)
            innermost.left = both(innermost.left, opposite(innermost.asked))
        elif word == "else":
            innermost.runs = innermost.left
        elif word in ("fi", "done"):
            here.conditions.pop()
        elif innermost.pending:
            # The last of several commands in front of C(then) counts.
            innermost.asked = condition(words, state.variables, state.custom is not None)
            return []
        else:
            return words
        words = rest
    return []


def _command(state: _State, words: list[str]) -> None:
    here = state.blocks[-1]
    runs = _running(here)
    if words[0] in ("menuentry", "submenu", "function") and words[-1] == "{":
        state.blocks.append(_opened(words, runs))
    elif words[0] == "}" and len(state.blocks) > 1:
        _close(state.blocks)
    elif runs is False:
        return
    elif words[0] in _KERNEL_COMMANDS and here.kind == "menuentry" and len(words) > 1 and here.kernel is None:
        here.kernel, here.arguments = words[1], " ".join(words[2:])
    elif len(state.blocks) > 1:
        return  # what entries and functions set is set when they are chosen or called
    elif words[0] == "blscfg" and state.bls_at is None:
        state.bls_at = len(here.entries)
    elif words[0] in ("source", ".") and len(words) == 2 and words[1].endswith(CUSTOM) and runs:
        custom, state.custom = state.custom, None  # once, lest it takes itself in
        _run(state, custom or "")
    else:
        _set(state, words, runs)


def _set(state: _State, words: list[str], runs: bool | None) -> None:
    match = _ASSIGNMENT.match(words[1] if words[0] == "set" and len(words) == 2 else words[0])
    if match is not None and (words[0] == "set" or len(words) == 1):
        name, written = match.groups()
        value = expand(written, state.variables)
    elif words[0] == "unset" and len(words) == 2:
        name, written, value = words[1], "", ""
    elif words[0] in ("increment", "decrement") and len(words) == 2:
        name, written = words[1], ""
        before = state.variables.get(name) or ""
        value = str(int(before) + (1 if words[0] == "increment" else -1)) if _COUNT.match(before) else None
    else:
        return
    if name == "default":
        if runs is None:
            return
        state.default = written if value is None else value
        state.by_next_entry = bool(value) and "next_entry" in written
        state.by_saved_entry = bool(value) and "saved_entry" in written
    if runs or state.variables.get(name) != value:
        state.variables[name] = value if runs else None


def _close(blocks: list[_Block]) -> None:
    done = blocks.pop()
    if done.kind == "function" or done.runs is False:
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
