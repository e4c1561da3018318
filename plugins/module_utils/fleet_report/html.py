# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elements of HTML as text. Whatever text goes in is escaped; only what comes out of here is taken as markup."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from html import escape
from typing import Union

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import without_controls

# What an element holds; None is nothing.
Content = Union[str, Iterable["Content"], None]
_VOID = frozenset({"meta", "input", "br", "col"})


class Markup(str):
    """Text that is markup already, as C(tag) makes it."""

    __slots__ = ()


# The nodes of a fleet are alike in most that is said of them.
@lru_cache(maxsize=8192)
def escaped(text: str) -> str:
    return escape(without_controls(text))


def tag(element: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Markup:
    """C(class_) and C(for_) stand for names that Python keeps to itself; other underscores become hyphens.

    A plain text as content is escaped. An attribute that is None or False is left out, True has no value.
    """
    told = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return (
        Markup(f"<{element}{told}>") if element in _VOID else Markup(f"<{element}{told}>{joined(content)}</{element}>")
    )


def joined(content: Iterable[Content]) -> Markup:
    parts = []
    for part in content:
        if part is None:
            continue
        if isinstance(part, str):
            parts.append(part if isinstance(part, Markup) else escaped(part))
        else:
            parts.append(joined(part))
    return Markup("".join(parts))


def prose(text: str) -> Markup:
    """A sentence whose commands stand in backticks, as remedies have them."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return joined([text])
    return joined(tag("code", part) if place % 2 else part for place, part in enumerate(parts))


def lines_of(lines: Iterable[str]) -> Markup:
    """Lines that stay lines, for C(pre)."""
    return Markup("\n".join(escaped(line) for line in lines))
