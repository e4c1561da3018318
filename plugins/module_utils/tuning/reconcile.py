# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Brings a node to what is wanted, and back: writes down what was there, then changes what differs.

Whatever interrupts it, the next run finds the record and goes on, forth or back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import (
    ACS,
    FILE,
    FOLDER,
    LINK,
    VALUE,
    Item,
    State,
    file_state,
    matches,
    text_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import without_words
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.merge import take_out
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.record import (
    Entry,
    Section,
    parse_record,
    render_record,
    section_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.settled import matches_previous, settled


@dataclass(frozen=True)
class Step:
    """One change: from C(current) to C(goal). C(back): it gives back what was there before."""

    kind: str
    target: str
    current: State
    goal: State
    back: bool = False


@dataclass(frozen=True)
class Course:
    """What is to be done. C(entries) is what the record has to hold before anything of it is done, C(left) after."""

    steps: tuple[Step, ...]
    entries: tuple[Entry, ...]
    left: tuple[Entry, ...]
    notes: tuple[Problem, ...] = ()


def plot(node: Node, items: Sequence[Item], section: Section) -> Course:
    """Compares what is wanted with what is there; reads only."""
    wanted = {item.key: item for item in [*_folders(node, items, section), *items] if node.effective(item.kind)}
    notes: list[Problem] = []
    back: list[Step] = []
    for entry in reversed(list(section.entries.values())):
        if entry.key not in wanted:
            step, note = _undo(node, entry)
            back += [] if step is None else [step]
            notes += [] if note is None else [note]
    kept = {entry.key: entry for entry in section.entries.values()}
    forth: list[Step] = []
    for item in wanted.values():
        current = node.read(item.kind, item.target)
        known = kept.get(item.key)
        if not matches(item.kind, current, item.wanted):
            forth.append(Step(item.kind, item.target, current, item.wanted))
        elif known is None:
            continue  # it was so before, and is nobody's business
        if item.kept:
            kept[item.key] = _entry(item, known, current)
    left = tuple(replace(entry, previous=None, words=wanted[key].words) for key, entry in kept.items() if key in wanted)
    return Course((*back, *forth), tuple(kept.values()), left, tuple(notes))


def _entry(item: Item, known: Entry | None, current: State) -> Entry:
    """What has to be written down before the item is brought about."""
    before = current if known is None else known.before
    if known is not None and item.base is not None:
        # What others wrote into the file since is theirs to keep.
        there = before if before is not None else current
        before = None if before is None and not item.base else {**(there or {}), "text": item.base}
    if known is None or (known.ours == item.wanted and known.before == before):
        return Entry(item.kind, item.target, before, item.wanted, item.words)
    words = tuple(dict.fromkeys([*known.words, *item.words]))
    # Until it is done, the node may still be as it was brought before.
    previous = known.previous if matches_previous(known, current) else (known.before, known.ours)
    return Entry(item.kind, item.target, before, item.wanted, words, previous)


def _folders(node: Node, items: Iterable[Item], section: Section) -> list[Item]:
    """Folders that are not there yet, or that are ours, as they go back as well."""
    found: dict[str, Item] = {}
    for item in items:
        if item.kind not in (FILE, LINK) or item.wanted is None:
            continue
        parts = item.target.split("/")[1:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/" + "/".join(parts[:depth])
            if f"{FOLDER}:{folder}" in section.entries or not node.exists(folder):
                found[folder] = Item(FOLDER, folder, {})
    return list(found.values())


def _undo(node: Node, known: Entry) -> tuple[Step | None, Problem | None]:
    current = node.read(known.kind, known.target)
    entry = settled(known, current)
    if matches(entry.kind, current, entry.before):
        return None, None
    if current is None and (entry.kind == VALUE or (entry.kind == FILE and entry.ours is not None)):
        return None, Problem(
            "tuning_value_gone",
            "info",
            f"{entry.target} is not there any more, so that nothing is given back to it.",
            "Nothing to do where what it belonged to, such as a kernel or a processor, is gone.",
        )
    goal, note = entry.before, None
    if not matches(entry.kind, current, entry.ours):
        if entry.kind == FILE and current is not None:
            goal = _without_ours(entry, current)
        elif entry.kind != FOLDER:
            note = Problem(
                "tuning_changed_since",
                "warning",
                f"{entry.target} was {entry.ours} by this role, is {current} now, and becomes {entry.before} again.",
                "Set it anew where the value in between was meant.",
            )
    if matches(entry.kind, current, goal):
        return None, note
    return Step(entry.kind, entry.target, current, goal, True), note


def _without_ours(entry: Entry, current: State) -> State:
    """A file that somebody changed after us, without our part in it."""
    before, ours, text = text_of(entry.before), text_of(entry.ours), text_of(current)
    if entry.words and text is not None:
        kept = set((before or "").split())
        return {**current, "text": without_words(text, [word for word in entry.words if word not in kept])}
    left = None if ours is None or text is None else take_out(before or "", ours, text)
    if left is None:
        raise Refusal(
            "tuning_file_changed",
            f"Somebody has changed {entry.target} since, in the lines that this role wrote.",
            "Take the lines of this role out of it by hand, or put its former content back, which "
            "/var/lib/gpufleet/node_tuning.json holds, then restore again.",
            {"path": entry.target},
        )
    if entry.before is None and not left:
        return None
    return {**current, "text": left}


def base_text(section: Section, key: str, current: str | None) -> str | None:
    """A file's text as it would be without us, for who computes a new one from it."""
    known = section.entries.get(key)
    if known is None or current is None:
        return current
    entry = settled(known, {"text": current})
    before, ours = text_of(entry.before), text_of(entry.ours)
    if ours is None:
        return current
    left = take_out(before or "", ours, current)
    if left is None:
        return current
    return before if left == (before or "") else left


class Keeper:
    """The record of a node: C(save) replaces one section of it."""

    def __init__(self, node: Node, path: str) -> None:
        self._node = node
        self._path = path
        self._sections = parse_record(text_of(node.read(FILE, path)), path)

    def section(self, name: str) -> Section:
        return self._sections[name]

    def save(self, name: str, section: Section) -> None:
        if section != self._sections[name]:
            self._sections[name] = section
            text = render_record(self._sections)
            self._node.write(FILE, self._path, None if text is None else file_state(text, 0o600))

    def close(self) -> None:
        """Takes the folder away where it is not needed any more, or never was, and nobody else uses it."""
        folder = self._path.rpartition("/")[0]
        if folder.endswith("/gpufleet") and all(section.empty for section in self._sections.values()):
            self._node.sweep(self._path)
            self._node.write(FOLDER, folder, None)


def follow(node: Node, course: Course, keeper: Keeper, name: str, notes: Mapping[str, Any]) -> list[Step]:
    """Does it, and returns what did not take. C(notes) are kept beside the entries from the first change on."""
    keeper.save(name, section_of(course.entries, notes if course.steps else keeper.section(name).notes))
    for entry in course.entries:
        if entry.kind in (FILE, LINK):
            node.sweep(entry.target)
    missed = []
    for step in course.steps:
        node.write(step.kind, step.target, step.goal)
        if step.kind != FOLDER:
            got = node.read(step.kind, step.target)
            if not matches(step.kind, got, step.goal):
                missed.append(replace(step, current=got))
    keeper.save(name, section_of(course.left, keeper.section(name).notes))
    return missed


def differences(steps: Sequence[Step]) -> list[dict[str, str]]:
    """For Ansible's diff: a part for each file, and one for all values."""
    parts = []
    lines: list[tuple[str, str]] = []
    for step in steps:
        if step.kind == FILE:
            parts.append(
                {
                    "before_header": step.target,
                    "after_header": step.target,
                    "before": _shown(step.current),
                    "after": _shown(step.goal),
                }
            )
        elif step.kind != FOLDER:
            before, after = (f"{step.target} = {told(state, step.kind)}\n" for state in (step.current, step.goal))
            lines.append((before, after))
    if lines:
        parts.append(
            {
                "before_header": "in force",
                "after_header": "in force",
                "before": "".join(before for before, _after in lines),
                "after": "".join(after for _before, after in lines),
            }
        )
    return parts


def changes_of(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps for who reads a result; of files only whether they are there."""
    found = []
    for step in steps:
        plain = step.kind not in (FILE, FOLDER)
        before, after = (
            None if state is None else told(state, step.kind) if plain else step.kind
            for state in (step.current, step.goal)
        )
        found.append({"kind": step.kind, "target": step.target, "before": before, "after": after})
    return found


def _shown(state: State) -> str:
    if state is None:
        return ""
    text = text_of(state)
    return "(no text)\n" if text is None else text


def told(state: State, kind: str = VALUE) -> str:
    """A state as one word or a few."""
    if state is None:
        return "(not there)"
    if isinstance(state, list):
        return ", ".join(str(one["device"]) for one in state) or "(none)"
    return f"{state:#06x}" if kind == ACS else str(state)
