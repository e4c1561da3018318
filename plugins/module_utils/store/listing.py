# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Indexes of folders as web servers make them: names at least, sizes where they say them. Pure."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import ListedFile, safe_path


def listing_from_index(text: str, content_type: str) -> tuple[tuple[ListedFile, ...], tuple[str, ...]]:
    """(files, folders) of an index, by their names in it. Understands nginx's C(autoindex_format json) and links."""
    if "json" in content_type:
        return _of_json(text)
    parser = _Links()
    parser.feed(text)
    names = list(dict.fromkeys(parser.names))
    return (
        tuple(ListedFile(name) for name in names if not name.endswith("/") and safe_path(name)),
        tuple(name[:-1] for name in names if name.endswith("/") and safe_path(name[:-1])),
    )


class _Links(HTMLParser):
    """Names that a page links to and that lie in its own folder."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href") if tag == "a" else None
        if not target:
            return
        parts = urlsplit(target)
        # Columns to sort by are queries, the way up is absolute or begins with dots.
        if parts.scheme or parts.netloc or parts.query or not parts.path or parts.path.startswith(("/", "..")):
            return
        name = unquote(parts.path)
        name = name[2:] if name.startswith("./") else name
        if name and "/" not in name.rstrip("/"):
            self.names.append(name)


def _of_json(text: str) -> tuple[tuple[ListedFile, ...], tuple[str, ...]]:
    try:
        entries = json.loads(text)
    except ValueError:
        return (), ()
    files, folders = [], []
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or not safe_path(str(entry.get("name", ""))):
            continue
        if entry.get("type") == "directory":
            folders.append(str(entry["name"]))
        elif entry.get("type") == "file":
            size = entry.get("size")
            files.append(
                ListedFile(
                    str(entry["name"]),
                    size if isinstance(size, int) and size >= 0 else None,
                    validator=str(entry["mtime"]) if entry.get("mtime") else None,
                )
            )
    return tuple(files), tuple(folders)
