# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which revisions may go, and why the others stay. Pure: what a node says of its units and processes comes in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# What ends a path in units, command lines, YAML and JSON; systemd writes a blank in a path as \\x20.
_PATH = re.compile(r"/[^\s\"'`,;|<>(){}\[\]\x00]+")
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True)
class Use:
    """Somebody who names or holds something of the store. C(path) is below the store's root, after all links."""

    who: str
    path: str


@dataclass(frozen=True)
class Candidate:
    """A revision in the store. C(size_bytes) is what removing it frees: files that another one shares stay."""

    name: str
    revision: str
    size_bytes: int
    published_at: float
    current: bool = False
    known: bool = True


@dataclass(frozen=True)
class Decision:
    name: str
    revision: str
    size_bytes: int
    remove: bool
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "revision": self.revision,
            "size_bytes": self.size_bytes,
            "remove": self.remove,
            "reasons": list(self.reasons),
        }


def paths_in(text: str) -> set[str]:
    """Whatever in a text may be an absolute path; what follows an equals sign or a colon is one as well."""
    unescaped = _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)
    found: set[str] = set()
    for version in (text, unescaped, text.replace("\\/", "/")):
        for match in _PATH.findall(version):
            whole = match.rstrip(".")
            found.add(whole)
            # /host/path:/container/path of a bind mount, and lists of paths.
            found.update(part for part in re.split(r"[:=]", whole) if part.startswith("/"))
    return found


def lines_naming(text: str, root: str) -> set[str]:
    """Paths below the root even where blanks are part of them: up to the end of the quotation or line."""
    found = set()
    for match in re.finditer(re.escape(root) + r"/[^\n\"'\x00]*", text):
        found.add(match.group(0).rstrip())
    return found


def decide(
    candidates: Sequence[Candidate],
    uses: Iterable[Use],
    blind: Sequence[str],
    keep: int,
    only: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
) -> list[Decision]:
    """What becomes of each revision.

    C(blind): what could not be looked at, which keeps everything. C(links): the revision that each model's link leads
    to. C(only): models that may lose revisions; all where empty. C(keep): so many of the newest of each model stay.
    """
    held = _held(uses, links or {})
    newest: dict[str, list[str]] = {}
    for one in sorted(candidates, key=lambda one: (-one.published_at, one.revision)):
        newest.setdefault(one.name, []).append(one.revision)
    decisions = []
    for one in candidates:
        reasons = [f"{who} uses it" for who in held.get((one.name, one.revision), ())]
        reasons += [f"{who} names the model without a revision" for who in held.get((one.name, ""), ())]
        reasons += [f"{who} names the whole store" for who in held.get(("", ""), ())]
        if one.current:
            reasons.append("the link current leads to it")
        rank = newest[one.name].index(one.revision)
        if rank < keep:
            reasons.append(f"it is number {rank + 1} of the newest, {keep} of which are kept")
        if only and one.name not in only:
            reasons.append("this run is about other models")
        if not one.known:
            reasons.append("it has no manifest of this store, so it is not the store's to remove")
        reasons += [f"{what} could not be looked at, and may use it" for what in blind]
        decisions.append(Decision(one.name, one.revision, one.size_bytes, not reasons, tuple(reasons)))
    return decisions


def _held(uses: Iterable[Use], links: Mapping[str, str]) -> dict[tuple[str, str], list[str]]:
    held: dict[tuple[str, str], list[str]] = {}
    for use in uses:
        parts = [part for part in use.path.split("/") if part]
        name = parts[0] if parts else ""
        revision = parts[1] if len(parts) > 1 else ""
        if revision == "current":
            revision = links.get(name, "")
        who = held.setdefault((name, revision), [])
        if use.who not in who:
            who.append(use.who)
    return held


def users_of(name: str, revision: str, uses: Iterable[Use], links: Mapping[str, str]) -> list[str]:
    """Who uses one revision, by its own path or by the link."""
    return _held(uses, links).get((name, revision), [])
