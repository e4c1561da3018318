# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks a source which files it has, how large they are, and what their sums are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_folder import read_folder
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.hub import (
    listing_from_answer,
    revision_url,
    with_head,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.listing import listing_from_index
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import (
    MANIFEST_NAME,
    MAX_FILES,
    MAX_MANIFEST_BYTES,
    ListedFile,
    chosen,
    fingerprint,
    is_sha256,
    listed,
    listing_from_sums,
    manifest_from_text,
    refuse_bad_paths,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.retry import History, Limits, after, pause_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source, file_url
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import files_below, read_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.reading import Broken, Web

SUMS_NAME = "SHA256SUMS"
# Folders in folders of a mirror without a manifest.
MAX_DEPTH = 4
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Resolved:
    """C(fingerprint) is of the whole list as the source gives it, C(files) those that are wanted of it."""

    files: tuple[ListedFile, ...]
    fingerprint: str
    problems: tuple[Problem, ...]


def resolve(
    source: Source,
    revision: str | None,
    web: Web,
    include: Sequence[str],
    exclude: Sequence[str],
    limits: Limits,
    sleep: Callable[[float], None] = time.sleep,
) -> Resolved:
    """Raises Refusal where no location of the source answers with a list, or none of its files are wanted."""
    if source.kind == "folder":
        found = _of_folder(Path(source.locations[0]))
    elif source.kind == "hub":
        found = _first(source, lambda number: _of_hub(source, number, revision or "", web), limits, sleep)
    else:
        found = _first(source, lambda number: _of_mirror(source, number, web), limits, sleep)
    # What tools leave behind is no part of a model: .git, .cache, .gitattributes.
    found = tuple(file for file in found if not _is_hidden(file.path))
    files = chosen(found, include, exclude)
    if not files:
        raise Refusal(
            "store_source_empty",
            f"{source.shown()} has {len(found)} files, none of which is wanted.",
            "Check the address, include and exclude.",
            {"files": [file.path for file in found[:50]], "include": list(include), "exclude": list(exclude)},
        )
    unknown = [file for file in files if file.sha256 is None and file.git_sha1 is None]
    problems: tuple[Problem, ...] = ()
    if unknown and source.kind != "folder":
        code = "store_sums_unknown"
        words = (
            f"{source.shown()} states no SHA-256 of {len(unknown)} of {len(files)} files, such as {unknown[0].path}."
        )
        problems = (CODES[code].of(code, words),)
    return Resolved(files, fingerprint(files), problems)


def settled(source: Source | None) -> Source | None:
    """A folder of the hub's cache as the snapshot that it means; what is wrong with it is for resolve to say."""
    if source is None or source.kind != "folder":
        return source
    try:
        return replace(source, locations=(str(read_folder(Path(source.locations[0]))[0]),))
    except (Refusal, OSError):
        return source


def _of_folder(path: Path) -> tuple[ListedFile, ...]:
    folder, _hub, _problems = read_folder(path)
    text = read_text(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
    if text is not None:
        return listed(manifest_from_text(text, str(folder / MANIFEST_NAME)))
    text = read_text(folder / SUMS_NAME, MAX_MANIFEST_BYTES)
    if text is not None:
        files = listing_from_sums(text, str(folder / SUMS_NAME))
        return tuple(_with_status(folder, file) for file in files)
    paths = [path for path in files_below(folder) if not _is_hidden(path)]
    refuse_bad_paths(paths, str(folder))
    return tuple(_with_status(folder, ListedFile(name)) for name in paths)


def _with_status(folder: Path, file: ListedFile) -> ListedFile:
    path = folder / file.path
    try:
        status = path.stat()
    except OSError as error:
        raise Refusal(
            "store_source_broken",
            f"{path} cannot be read: {error.strerror or error}.",
            "Complete the folder, or use another source.",
            {"path": str(path)},
        ) from None
    # In the hub's cache large files are links to blobs that are named by their SHA-256.
    blob = path.resolve().name if path.is_symlink() else ""
    sha256 = file.sha256 or (blob if is_sha256(blob) and path.resolve().parent.name == "blobs" else None)
    return replace(file, size_bytes=status.st_size, sha256=sha256, validator=str(status.st_mtime_ns))


def _of_hub(source: Source, number: int, revision: str, web: Web) -> tuple[ListedFile, ...]:
    endpoint, repository = source.locations[number], source.repository or ""
    text, _headers = web.text(revision_url(endpoint, repository, revision), MAX_MANIFEST_BYTES)
    files = listing_from_answer(text, revision, source.shown(number))
    return tuple(
        file
        if file.size_bytes is not None and (file.sha256 or file.git_sha1)
        else with_head(file, web.head(file_url(source, number, file.path, revision)))
        for file in files
    )


def _of_mirror(source: Source, number: int, web: Web) -> tuple[ListedFile, ...]:
    base = source.locations[number]
    text = _unless_missing(lambda: web.text(f"{base}/{MANIFEST_NAME}", MAX_MANIFEST_BYTES)[0])
    if text is not None:
        return listed(manifest_from_text(text, f"{base}/{MANIFEST_NAME}"))
    text = _unless_missing(lambda: web.text(f"{base}/{SUMS_NAME}", MAX_MANIFEST_BYTES)[0])
    if text is not None:
        files: Sequence[ListedFile] = listing_from_sums(text, f"{base}/{SUMS_NAME}")
    else:
        files = list(_of_index(base, "", web, MAX_DEPTH))
        refuse_bad_paths((file.path for file in files), base)
    return tuple(
        with_head(file, web.head(file_url(source, number, file.path, None)))
        for file in files
        if not _is_hidden(file.path)
    )


def _of_index(base: str, below: str, web: Web, depth: int) -> Sequence[ListedFile]:
    text, headers = web.text(f"{base}/{below}", MAX_MANIFEST_BYTES)
    kind = {name.lower(): value for name, value in headers.items()}.get("content-type", "")
    files, folders = listing_from_index(text, kind)
    found = [replace(file, path=below + file.path) for file in files]
    for folder in folders if depth > 0 else ():
        if not folder.startswith("."):
            found.extend(_of_index(base, f"{below}{folder}/", web, depth - 1))
        if len(found) > MAX_FILES:
            break
    return found


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _unless_missing(call: Callable[[], str]) -> str | None:
    """What a mirror does not have it may still serve otherwise; some say 403 for it."""
    try:
        return call()
    except Broken as broken:
        if broken.trouble.fatal and ("(404)" in broken.trouble.words or "(403)" in broken.trouble.words):
            return None
        raise


def _first(source: Source, call: Callable[[int], _Found], limits: Limits, sleep: Callable[[float], None]) -> _Found:
    """What the first location says that answers."""
    history = History()
    places = len(source.locations)
    told: dict[str, str] = {}
    while True:
        try:
            return call(history.place)
        except Broken as broken:
            trouble = broken.trouble
        told[source.shown(history.place)] = trouble.words
        history, again = after(history, trouble, 0, places, limits)
        if not again:
            words = "; ".join(f"{place}: {why}" for place, why in told.items())
            raise Refusal(
                "store_source_unreachable",
                f"No list of files could be had from {words}.",
                "Check the address, the token and the way to it from the node. Nothing was written.",
                {"places": told},
            )
        sleep(pause_seconds(history, trouble, limits, 0.5))
