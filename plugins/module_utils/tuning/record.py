# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record on the node: what was in force before the first change, so that it can be given back. Pure.

One file for both modules, a section each. It is written before anything is changed, so that whatever happens in between
is covered by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import KINDS, State

VERSION = 1
PATH = "/var/lib/gpufleet/node_tuning.json"
SECTIONS = ("settings", "kernel")


@dataclass(frozen=True)
class Entry:
    """C(before): what was found first, of a file that others write as well with what they wrote since; C(ours): what
    was put in its place last. C(previous): both as they were before a change that may not have come to its end."""

    kind: str
    target: str
    before: State
    ours: State
    words: tuple[str, ...] = ()
    previous: tuple[State, State] | None = None

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.target}"


@dataclass(frozen=True)
class Section:
    """C(notes): what a module keeps beside, such as the boot in which it changed the kernel's arguments."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.entries and not self.notes


def section_of(entries: Iterable[Entry], notes: Mapping[str, Any] | None = None) -> Section:
    return Section({entry.key: entry for entry in entries}, dict(notes or {}))


def render_record(sections: Mapping[str, Section]) -> str | None:
    """None where nothing is left to be remembered."""
    told: dict[str, Any] = {
        name: {
            "entries": [
                {
                    "kind": entry.kind,
                    "target": entry.target,
                    "before": entry.before,
                    "ours": entry.ours,
                    "words": list(entry.words),
                    "previous": None if entry.previous is None else list(entry.previous),
                }
                for entry in section.entries.values()
            ],
            "notes": dict(section.notes),
        }
        for name, section in sections.items()
        if not section.empty
    }
    if not told:
        return None
    return json.dumps({"version": VERSION, **told}, indent=1, sort_keys=True) + "\n"


def parse_record(text: str | None, path: str = PATH) -> dict[str, Section]:
    """Every section, empty where there is no record. What is broken is refused: to guess would lose what was before."""
    found = {name: Section() for name in SECTIONS}
    if text is None:
        return found
    try:
        told = json.loads(text)
        if not isinstance(told, dict):
            raise TypeError("it holds no object")
        version = told.get("version")
    except (ValueError, TypeError) as error:
        raise _broken(path, str(error)) from None
    if version != VERSION:
        raise Refusal(
            "tuning_record_version",
            f"{path} is of version {version}, and this release of the collection knows version {VERSION}.",
            "Restore with the release of the collection that wrote it, then tune anew.",
            {"version": version},
        )
    try:
        for name in SECTIONS:
            section = told.get(name) or {}
            found[name] = section_of([_entry(entry) for entry in section.get("entries", ())], section.get("notes"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _broken(path, f"{type(error).__name__} {error}") from None
    return found


def _entry(told: Mapping[str, Any]) -> Entry:
    kind, target = told["kind"], told["target"]
    if kind not in KINDS or not isinstance(target, str) or not target:
        raise ValueError(f"an entry of kind {kind!r}")
    words = tuple(str(word) for word in told.get("words", ()))
    previous = told.get("previous")
    return Entry(
        kind, target, told["before"], told["ours"], words, None if previous is None else (previous[0], previous[1])
    )


def _broken(path: str, what: str) -> Refusal:
    return Refusal(
        "tuning_record_broken",
        f"{path}, which holds what was in force before the node was tuned, cannot be read: {what}.",
        "Take it from a backup; or, when nothing is to be given back, remove it.",
        {"path": path},
    )
