# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a line must hold for a pattern to match, read from the pattern itself.

Searching a line for a text costs a fraction of matching a pattern against it, and almost every line of a log means
nothing. No anchors means that it cannot be told, so the pattern has to be tried.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Shorter texts occur in too many lines to be worth it.
SHORTEST = 4
_WORD = re.compile(r"\w{3,}")
_QUANTIFIER = re.compile(r"(?:[?*+]|\{\d*,?\d*\})\??")
_OPTIONAL = ("?", "*", "{")
_META = frozenset(".^$*+?{}[]()|\\")


def anchors_of(pattern: str) -> tuple[str, ...]:
    """Texts of which a line holds at least one if the pattern matches it; none where that cannot be told."""
    if "(?i" in pattern or "(?x" in pattern:
        return ()
    found: list[str] = []
    for branch in _branches(pattern):
        best = _best(branch)
        if not best:
            return ()
        found.extend(text for text in best if text not in found)
    return tuple(found)


def by_common_word(anchors: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Anchors by a word that each of a group holds, as few groups as a greedy choice gives.

    A line without the word holds none of the group, so it is searched for the few words alone. An anchor without any
    is a group of its own.
    """
    left = dict.fromkeys(anchors)
    groups: dict[str, tuple[str, ...]] = {}
    while left:
        counts = Counter(word for anchor in left for word in set(_WORD.findall(anchor)))
        # Of words that are equally frequent the longest occurs in the fewest lines; the last one makes it certain.
        word = max(counts, key=lambda one: (counts[one], len(one), one), default=None) or next(iter(left))
        groups[word] = tuple(anchor for anchor in left if word in anchor)
        left = {anchor: None for anchor in left if word not in anchor}
    return groups


def _best(branch: str) -> tuple[str, ...]:
    """Of all that a branch demands, the longest."""
    best: tuple[str, ...] = ()
    for texts in _demands(branch):
        if texts and min(map(len, texts)) >= SHORTEST and (not best or min(map(len, texts)) > min(map(len, best))):
            best = texts
    return best


def _branches(pattern: str) -> list[str]:
    """The alternatives of the outermost level."""
    found, start, place = [], 0, 0
    while place < len(pattern):
        if pattern[place] == "|":
            found.append(pattern[start:place])
            start = place + 1
            place = start
        else:
            place = _end_of_item(pattern, place)
    return [*found, pattern[start:]]


def _demands(branch: str) -> list[tuple[str, ...]]:
    """Runs of literal characters, and what groups demand, leaving out whatever may be absent."""
    found: list[tuple[str, ...]] = []
    run, place = "", 0
    while place < len(branch):
        end = _end_of_item(branch, place)
        item, quantifier = branch[place:end], _quantifier(branch, end)
        literal = _literal(item)
        optional = quantifier.startswith(_OPTIONAL)
        if literal and not optional:
            run += literal
        if not literal or optional or quantifier.startswith("+"):
            found.append((run,))
            run = ""
        if item.startswith("(") and not optional:
            found.append(anchors_of(_inside(item)))
        place = end + len(quantifier)
    return [*found, (run,)]


def _literal(item: str) -> str:
    """The character that an item of a pattern stands for, nothing for a class, a group or an assertion."""
    if len(item) == 1:
        return "" if item in _META else item
    return item[1] if len(item) == 2 and item[0] == "\\" and not item[1].isalnum() else ""


def _inside(group: str) -> str:
    """The pattern in a group; nothing in an assertion, which consumes nothing."""
    body = group[1:-1]
    if body.startswith(("?=", "?!", "?<=", "?<!")):
        return ""
    if body.startswith("?P<"):
        return body[body.index(">") + 1 :]
    return body[2:] if body.startswith("?:") else "" if body.startswith("?") else body


def _end_of_item(pattern: str, place: int) -> int:
    """Behind one character, escape, class or group."""
    first = pattern[place]
    if first == "\\":
        return place + 2
    if first == "[":
        end = place + (2 if pattern.startswith("^", place + 1) else 1)
        end += pattern.startswith("]", end)  # a bracket that comes first is one of the class
        while pattern[end] != "]":
            end += 2 if pattern[end] == "\\" else 1
        return end + 1
    if first != "(":
        return place + 1
    end = place + 1
    while pattern[end] != ")":
        end = _end_of_item(pattern, end)
    return end + 1


def _quantifier(branch: str, place: int) -> str:
    """How often the item before may come; empty for exactly once."""
    found = _QUANTIFIER.match(branch, place)
    return found.group() if found is not None else ""
