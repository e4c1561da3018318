# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the files of a store lie. Pure.

<root>/<name>/<revision>/          a published revision, which nothing writes to any more
<root>/<name>/current              the link to one of them
<root>/<name>/.partial/<key>/      what is being fetched, until every byte of it has been checked
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

PARTIAL = ".partial"
TRASH = ".trash"
CURRENT = "current"
# A file that is not whole yet, and what is known of it.
PART_SUFFIX = ".part"
NOTE_SUFFIX = ".part.json"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}\Z")


@dataclass(frozen=True)
class Place:
    """The folders of one model."""

    root: str
    name: str

    @property
    def folder(self) -> Path:
        return Path(self.root) / self.name

    @property
    def current(self) -> Path:
        return self.folder / CURRENT

    def revision(self, revision: str) -> Path:
        return self.folder / revision

    def partial(self, key: str) -> Path:
        return self.folder / PARTIAL / key


def place_of(root: str, name: str) -> Place:
    """Raises Refusal for names that could leave the store."""
    if not root.startswith("/") or root.rstrip("/") == "" or "/../" in f"{root}/":
        raise Refusal(
            "store_root_invalid",
            f"The store's root is {root!r}.",
            "Expected an absolute path of a folder for models alone, such as /srv/models.",
            {"root": root},
        )
    check_name("name", name)
    return Place(root.rstrip("/"), name)


def check_name(what: str, value: str) -> None:
    if _NAME.match(value) is None or value == CURRENT:
        raise Refusal(
            "store_name_invalid",
            f"The {what} of the model is {value[:140]!r}, which cannot name a folder of the store.",
            "Expected 1 to 128 letters, digits, dots, dashes, plus signs and underscores, a letter or digit first, and "
            f"not the word {CURRENT}, such as {suggested_name(value)}.",
            {what: value},
        )


def suggested_name(value: str) -> str:
    """The nearest name that is allowed: of a repository its last part."""
    last = value.rstrip("/").rpartition("/")[2]
    cleaned = re.sub(r"[^A-Za-z0-9._+-]+", "-", last).lstrip("._+-")[:128]
    return cleaned if cleaned and cleaned != CURRENT else "Qwen3-32B"


def is_revision_name(name: str) -> bool:
    return _NAME.match(name) is not None and name != CURRENT


def revision_of(asked: str | None, content_sha256: str, include: Sequence[str], exclude: Sequence[str]) -> str:
    """The folder's name: what was asked for, else the content's digest. A part of a revision is not that revision."""
    if asked is None:
        return content_sha256[:16]
    return f"{asked}{suffix_of(include, exclude)}"


def suffix_of(include: Sequence[str], exclude: Sequence[str]) -> str:
    if not include and not exclude:
        return ""
    patterns = json.dumps([sorted(include), sorted(exclude)])
    return f"-{hashlib.sha256(patterns.encode()).hexdigest()[:8]}"


def job_key(
    place: Place,
    asked: str | None,
    wanted_sha256: str | None,
    location: str,
    include: Sequence[str],
    exclude: Sequence[str],
) -> str:
    """Names what is fetched and not from where, so that another source goes on with what the first has fetched."""
    identity = asked or wanted_sha256 or location
    text = json.dumps([place.root, place.name, identity, suffix_of(include, exclude)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
