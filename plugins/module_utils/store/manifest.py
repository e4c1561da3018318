# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a model is made of, file by file, and the digest that tells it from any other. Pure.

The digest is over path, size and SHA-256 of every file, so that two folders with the same digest are the same model to
the last byte. The C(manifest_sha256) of M(gpufleet.sglang.model_info) is another thing: a digest over what can be read
in seconds (names, sizes and headers). Folders of the same content have the same one, but not the other way round: a
model that was merely trained on has the headers that it had before.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

SCHEMA = 1
# In the folder of each revision; hidden, so that neither SGLang nor model_info takes it for a part of the model.
MANIFEST_NAME = ".manifest.json"
# Sizes and times as they were when every byte had been read.
RECORD_NAME = ".verified.json"
OWN_NAMES = frozenset((MANIFEST_NAME, RECORD_NAME))
MAX_MANIFEST_BYTES = 64 << 20
MAX_FILES = 100_000

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SHA1 = re.compile(r"[0-9a-f]{40}\Z")
# sha256sum(1): a backslash before the sum where the name is escaped, which no file of a model needs.
_SUM_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)\Z")


@dataclass(frozen=True)
class ManifestFile:
    """A file of a model that is known to the last byte; C(path) is below the model's folder."""

    path: str
    size_bytes: int
    sha256: str

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "size_bytes": self.size_bytes, "sha256": self.sha256}


@dataclass(frozen=True)
class ListedFile:
    """A file as a source lists it; what it does not say is None. C(git_sha1): the hub's name of small files."""

    path: str
    size_bytes: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None
    # What changes when the file does: an ETag, a time. Nothing is compared with it but itself.
    validator: str | None = None


@dataclass(frozen=True)
class Manifest:
    files: tuple[ManifestFile, ...]
    # Where it came from: kind, location, commit, and the fingerprint of what was listed there.
    origin: Mapping[str, Any]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def content_sha256(self) -> str:
        return content_sha256(self.files)

    def as_text(self) -> str:
        data = {
            "schema": SCHEMA,
            "content_sha256": self.content_sha256,
            "origin": dict(self.origin),
            "files": [file.as_dict() for file in sorted(self.files, key=lambda one: one.path)],
        }
        return json.dumps(data, indent=1, sort_keys=True) + "\n"


def content_sha256(files: Iterable[ManifestFile]) -> str:
    """The digest over all files, whatever their order; sorted by path, so that C(sha256sum) can make it as well."""
    total = hashlib.sha256()
    for file in sorted(files, key=lambda one: one.path):
        total.update(f"{file.sha256}  {file.size_bytes}  {file.path}\n".encode())
    return total.hexdigest()


def safe_path(path: str) -> bool:
    """Whether a path of a listing stays below the folder, and can be a file of a model."""
    parts = path.split("/")
    return (
        0 < len(path) <= 1024
        and path.isprintable()
        and "\\" not in path
        and not any(part in ("", ".", "..") for part in parts)
        and not any(part in OWN_NAMES for part in parts)
    )


def is_sha256(text: object) -> bool:
    return isinstance(text, str) and _SHA256.match(text) is not None


def is_git_sha1(text: object) -> bool:
    return isinstance(text, str) and _SHA1.match(text) is not None


def manifest_from_text(text: str, where: str) -> Manifest:
    """Raises Refusal for a text that is no manifest of ours, or one whose digest is not that of its files."""
    try:
        data = json.loads(text)
        entries = data["files"]
        files = tuple(_file_of(entry) for entry in entries)
        schema, stated, origin = data["schema"], data["content_sha256"], data.get("origin") or {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _malformed(where, f"it is not a manifest ({type(error).__name__}: {str(error)[:100]})") from None
    if schema != SCHEMA:
        raise _malformed(where, f"its schema is {schema!r}, expected {SCHEMA}")
    refuse_bad_paths((file.path for file in files), where)
    manifest = Manifest(files, origin if isinstance(origin, dict) else {})
    if manifest.content_sha256 != stated:
        raise _malformed(
            where, f"its files have the digest {manifest.content_sha256}, and it states {str(stated)[:64]}"
        )
    return manifest


def listed(manifest: Manifest) -> tuple[ListedFile, ...]:
    return tuple(ListedFile(file.path, file.size_bytes, file.sha256) for file in manifest.files)


def listing_from_sums(text: str, where: str) -> tuple[ListedFile, ...]:
    """The files of a C(SHA256SUMS), as sha256sum writes it; it says no sizes."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SUM_LINE.match(line)
        if match is None:
            raise _malformed(where, f"its line {number} is not a SHA-256 and a name")
        found.append(ListedFile(match.group(2), None, match.group(1).lower()))
    refuse_bad_paths((file.path for file in found), where)
    return tuple(found)


def refuse_bad_paths(paths: Iterable[str], where: str) -> None:
    """Raises Refusal for names that leave the folder, are there twice, or are more than a model has."""
    seen: set[str] = set()
    for path in paths:
        if not safe_path(path):
            raise _malformed(where, f"it names {path[:80]!r}, which is no path below the model's folder")
        if path in seen:
            raise _malformed(where, f"it names {path[:80]!r} twice")
        seen.add(path)
    if len(seen) > MAX_FILES:
        raise _malformed(where, f"it names {len(seen):,} files, above {MAX_FILES:,}")


def chosen(files: Iterable[ListedFile], include: Iterable[str], exclude: Iterable[str]) -> tuple[ListedFile, ...]:
    """The files that patterns of C(fnmatch) let through, by path; all where there is no pattern."""
    wanted, unwanted = tuple(include), tuple(exclude)
    return tuple(
        file
        for file in sorted(files, key=lambda one: one.path)
        if (not wanted or any(fnmatchcase(file.path, pattern) for pattern in wanted))
        and not any(fnmatchcase(file.path, pattern) for pattern in unwanted)
    )


def fingerprint(files: Iterable[ListedFile]) -> str:
    """What a listing says, as one digest: the same listing is the same model, where it names sums or validators."""
    total = hashlib.sha256()
    for file in sorted(files, key=lambda one: one.path):
        total.update(f"{file.path}\0{file.size_bytes}\0{file.sha256 or file.git_sha1 or file.validator}\n".encode())
    return total.hexdigest()


def _file_of(entry: Mapping[str, Any]) -> ManifestFile:
    path, size, sha256 = entry["path"], entry["size_bytes"], entry["sha256"]
    if not isinstance(path, str) or isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ValueError(f"a file is {str(entry)[:80]}")
    if not is_sha256(sha256):
        raise ValueError(f"{path[:80]} has no SHA-256")
    return ManifestFile(path, size, sha256)


def _malformed(where: str, what: str) -> Refusal:
    return Refusal(
        "store_manifest_malformed",
        f"{where} cannot be used: {what}.",
        "Make it anew from a model that is known to be whole, or use a source that needs none.",
        {"where": where},
    )
