# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which generations of an instance are kept, so that there is one to go back to. No I/O.

A generation is what only a restart puts into force: the files of an instance, named by the digest over them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

SCHEMA = 1
DIGEST = re.compile(r"[0-9a-f]{16,128}")


@dataclass(frozen=True)
class Generation:
    """C(folder) is where its files lie, below the instance's own."""

    digest: str
    folder: str


def checked_digest(digest: str) -> str:
    if not DIGEST.fullmatch(digest):
        raise Refusal(
            "generation_not_a_digest",
            f"The generation is {digest!r}.",
            "Expected a digest of 16 to 128 lower-case hexadecimal digits.",
        )
    return digest


def read_kept(text: str) -> tuple[Generation, ...]:
    """Generations that have been proven, the last proven one first.

    None where the record in C(text) is empty, half written or of a schema to come.
    """
    try:
        record = json.loads(text)
        if record["schema"] != SCHEMA:
            return ()
        return tuple(Generation(str(one["digest"]), str(one["folder"])) for one in record["generations"])
    except (ValueError, TypeError, KeyError):
        return ()


def written(kept: Sequence[Generation]) -> str:
    return json.dumps({"schema": SCHEMA, "generations": [asdict(one) for one in kept]}, indent=2) + "\n"


def with_proven(kept: Sequence[Generation], proven: Generation, count: int) -> tuple[Generation, ...]:
    """The record once C(proven) has been proven too; the oldest beyond C(count) are let go."""
    if count < 1:
        raise Refusal(
            "too_few_generations",
            f"{count} generations were asked to be kept.",
            "Expected 1 or more: the one that serves is always kept.",
            {"count": count},
        )
    return (proven, *(one for one in kept if one.digest != proven.digest))[:count]


def to_go_back_to(kept: Sequence[Generation], left: str | None) -> Generation:
    """The generation that was proven last, but for the one that is left."""
    others = [one for one in kept if one.digest != left]
    if not others:
        found = "The only generation that is kept is the one that is to be left." if kept else "No generation is kept."
        raise Refusal(
            "nothing_to_go_back_to",
            found,
            "Expected another one that was proven to serve: run the site playbook with what is to be in force instead.",
            {"kept": [one.digest for one in kept], "left": left},
        )
    return others[0]


def unused_folders(kept: Sequence[Generation], folders: Iterable[str]) -> tuple[str, ...]:
    """Folders that no kept generation needs, those that an interrupted run left behind among them."""
    return tuple(sorted(set(folders) - {one.folder for one in kept}))
