# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hub's HTTP API, as its own client uses it. Pure.

Facts of huggingface_hub 1.33.0: C(hf_api.py) (RepoSibling, BlobLfsInfo: C(GET /api/models/REPO/revision/REV?blobs=true)
gives C(sha) and C(siblings) with C(rfilename), C(size), C(blobId) and, for large files, C(lfs.sha256)),
C(file_download.py) (C(get_hf_file_metadata): C(HEAD /REPO/resolve/REV/FILE) gives C(X-Repo-Commit), and
C(X-Linked-Etag), C(X-Linked-Size) before a redirect; an ETag is the SHA-256 of a large file and the git blob's SHA-1 of
any other). Files that the hub keeps in xet are served by the same address over plain HTTP to whoever does not ask for
xet, so that nothing but HTTP is needed here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import (
    ListedFile,
    is_git_sha1,
    is_sha256,
    refuse_bad_paths,
)

# What the hub says of a refusal beside the status (huggingface_hub, utils/_http.py).
_ERROR_CODES = {
    "GatedRepo": "access to it has to be asked for on its page, and a token of who may be given",
    "RepoNotFound": "there is no such repository, or the token may not see it",
    "RevisionNotFound": "the repository has no such commit",
    "EntryNotFound": "that commit has no such file",
}


def revision_url(endpoint: str, repository: str, revision: str) -> str:
    return f"{endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true"


def listing_from_answer(text: str, revision: str, where: str) -> tuple[ListedFile, ...]:
    """The files of a commit. Sizes and sums that a mirror leaves out stay None."""
    try:
        data = json.loads(text)
        commit, siblings = data["sha"], data["siblings"]
        files = tuple(_file_of(entry) for entry in siblings)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refusal(
            "store_hub_answer",
            f"{where} gave no list of the files of commit {revision}.",
            "Check that it is an endpoint of the hub or a mirror of its API.",
            {"where": where},
        ) from None
    if commit != revision:
        raise Refusal(
            "store_hub_answer",
            f"{where} was asked for commit {revision} and answered with {str(commit)[:80]}.",
            "Use another endpoint.",
            {"where": where, "revision": revision, "answered": str(commit)[:80]},
        )
    refuse_bad_paths((file.path for file in files), where)
    return files


def with_head(file: ListedFile, headers: Mapping[str, str]) -> ListedFile:
    """What the listing left out, from the head of the file's own address."""
    low = {name.lower(): value for name, value in headers.items()}
    etag = plain_etag(low.get("x-linked-etag") or low.get("etag"))
    size = low.get("x-linked-size") or low.get("content-length")
    return ListedFile(
        path=file.path,
        size_bytes=int(size) if file.size_bytes is None and size and size.isdigit() else file.size_bytes,
        sha256=file.sha256 or (etag if is_sha256(etag) else None),
        git_sha1=file.git_sha1 or (etag if is_git_sha1(etag) else None),
        validator=etag or low.get("last-modified"),
    )


def plain_etag(value: str | None) -> str | None:
    """C(W/"abc") -> C(abc)."""
    if not value:
        return None
    return (value[2:] if value.startswith("W/") else value).strip('"') or None


def git_blob_hash(size_bytes: int) -> Any:
    """git names a file by SHA-1 over its kind, its size and its bytes; no secret depends on it."""
    return hashlib.sha1(f"blob {size_bytes}\0".encode(), usedforsecurity=False)


def refusal_words(headers: Mapping[str, str]) -> str | None:
    low = {name.lower(): value for name, value in headers.items()}
    return _ERROR_CODES.get(low.get("x-error-code", ""))


def _file_of(entry: Mapping[str, Any]) -> ListedFile:
    lfs = entry.get("lfs") or {}
    size = lfs.get("size", entry.get("size"))
    sha256 = lfs.get("sha256")
    blob = entry.get("blobId")
    return ListedFile(
        path=str(entry["rfilename"]),
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        sha256=sha256 if is_sha256(sha256) else None,
        # Of a large file it names the pointer, and not the file.
        git_sha1=blob if not lfs and is_git_sha1(blob) else None,
    )
