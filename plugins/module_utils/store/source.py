# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a model comes from, as it was asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import is_git_sha1, is_sha256

KINDS = ("folder", "mirror", "hub")
HUB = "https://huggingface.co"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?\Z", re.ASCII)


@dataclass(frozen=True)
class Source:
    """C(locations): the folder; the mirrors' URLs, each of the folder with the model's files; the hub's endpoints."""

    kind: str
    locations: tuple[str, ...]
    repository: str | None = None

    def shown(self, number: int = 0) -> str:
        where = self.locations[number]
        return f"{where}/{self.repository}" if self.repository else where

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "locations": list(self.locations), "repository": self.repository}


def source_from_dict(data: Mapping[str, Any]) -> Source:
    """The inverse of C(Source.as_dict)."""
    return Source(str(data["kind"]), tuple(data["locations"]), data.get("repository"))


def source_of(
    folder: str | None, mirrors: Sequence[str], repository: str | None, endpoints: Sequence[str], revision: str | None
) -> Source | None:
    """Raises Refusal for sources that cannot be asked; None where none is given, for what is there already."""
    given = [name for name, value in (("folder", folder), ("mirrors", mirrors), ("repository", repository)) if value]
    if not given:
        return None
    if len(given) > 1:
        raise Refusal(
            "store_source_unclear",
            f"{' and '.join(given)} are given.",
            "Expected one of folder, mirrors and repository.",
            {"given": given},
        )
    if folder:
        if not folder.startswith("/"):
            raise Refusal(
                "store_source_invalid",
                f"The folder is {folder[:200]!r}.",
                "Expected an absolute path on the node.",
                {"folder": folder},
            )
        return Source("folder", (folder.rstrip("/") or "/",))
    for url in (*mirrors, *(endpoints if repository else ())):
        _check_url(url)
    if mirrors:
        return Source("mirror", tuple(url.rstrip("/") for url in mirrors))
    _check_hub(repository or "", revision)
    return Source("hub", tuple(url.rstrip("/") for url in endpoints) or (HUB,), repository)


def check_content_sha256(value: str | None) -> None:
    if value is not None and not is_sha256(value):
        raise Refusal(
            "store_digest_invalid",
            f"content_sha256 is {value[:80]!r}.",
            "Expected 64 lower-case hexadecimal digits, as model_snapshot returns them.",
            {"content_sha256": value},
        )


def file_url(source: Source, number: int, path: str, revision: str | None) -> str:
    """Where one file is read from."""
    base = source.locations[number]
    if source.kind == "hub":
        return f"{base}/{source.repository}/resolve/{quote(revision or 'main', safe='')}/{quote(path)}"
    return f"{base}/{quote(path)}"


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise Refusal(
            "store_source_invalid",
            "A URL of the source is not one of http or https with a host, or it has a query or a fragment.",
            "Expected for example https://mirror.example/models/Qwen3-32B.",
        )
    if parts.username is not None or parts.password is not None:
        raise Refusal(
            "store_source_secret",
            f"The URL of a source at {host} carries a user or a password, which would show in logs and in facts.",
            "Give the token with token or token_file.",
            {"host": host},
        )


def _check_hub(repository: str, revision: str | None) -> None:
    if _REPOSITORY.match(repository) is None:
        raise Refusal(
            "store_source_invalid",
            f"The repository is {repository[:200]!r}.",
            "Expected owner and name, such as Qwen/Qwen3-32B.",
            {"repository": repository},
        )
    if revision is None or not is_git_sha1(revision):
        raise Refusal(
            "store_revision_not_exact",
            f"The revision of {repository} is {revision!r}, which may be another model tomorrow.",
            "Expected the commit, 40 hexadecimal digits, as the hub shows under Files and versions / History.",
            {"repository": repository, "revision": revision},
        )
