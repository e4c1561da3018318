# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking a change out of a file that others have changed since. Pure."""

from __future__ import annotations

import difflib


def take_out(before: str, ours: str, current: str) -> str | None:
    """C(current) without what made C(ours) out of C(before); None where somebody changed the very same lines.

    Each of our changes is looked for in the text as it is now, with a line around it where one is needed to tell the
    place.
    """
    if current == ours:
        return before
    old, new = before.splitlines(keepends=True), ours.splitlines(keepends=True)
    text = current.splitlines(keepends=True)
    blocks = difflib.SequenceMatcher(None, new, old, autojunk=False).get_opcodes()
    # From the end, so that places stay what they are.
    for tag, first, last, old_first, old_last in reversed(blocks):
        if tag == "equal":
            continue
        replaced = _replaced(text, new, old, (first, last), (old_first, old_last))
        if replaced is None:
            return None
        text = replaced
    return "".join(text)


def _replaced(
    text: list[str], new: list[str], old: list[str], span: tuple[int, int], with_span: tuple[int, int]
) -> list[str] | None:
    first, last = span
    goal = old[with_span[0] : with_span[1]]
    for around in range(4):
        low, high = max(0, first - around), min(len(new), last + around)
        wanted = new[low:high]
        places = [at for at in range(len(text) - len(wanted) + 1) if text[at : at + len(wanted)] == wanted]
        if wanted and len(places) == 1:
            at = places[0] + (first - low)
            return [*text[:at], *goal, *text[at + (last - first) :]]
        if not places and wanted:
            break
    # What was to be taken out is gone already, and what it replaced is there again.
    if goal and _count(text, goal) == 1 and _count(text, new[first:last]) == 0:
        return text
    return text if not goal and first < last and _count(text, new[first:last]) == 0 else None


def _count(text: list[str], part: list[str]) -> int:
    return sum(text[at : at + len(part)] == part for at in range(len(text) - len(part) + 1)) if part else 0
