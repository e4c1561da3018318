# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with a key or with the file that holds it, said without the key. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# As systemd's own limit for all credentials of a unit, which is far above any key.
LARGEST_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class KeyFile:
    """A file as it lies on the node. C(content) is None where it is encrypted and could not be opened."""

    path: str
    owner: int
    mode: int
    content: bytes | None = None


def text_of(content: bytes) -> bytes:
    """The key in a file: what an editor or echo puts behind it is not of it."""
    return content.rstrip(b"\r\n")


def malformed(content: bytes) -> str | None:
    """Why these bytes are no key that HTTP carries as a bearer token."""
    key = text_of(content)
    if not key:
        return "is empty"
    if any(byte <= 0x20 or byte >= 0x7F for byte in key):
        return "holds blanks, line breaks or bytes that are no printable ASCII"
    return None


def open_to_others(file: KeyFile) -> str | None:
    """Who beside root may read or write the file, by its owner and mode."""
    if file.owner != 0:
        return f"belongs to user {file.owner}"
    if file.mode & 0o077:
        return f"has mode {file.mode & 0o7777:04o}"
    return None


def key_file_problems(files: Mapping[str, KeyFile | None]) -> list[str]:
    """Sentences about the file of each key by its name; None where there is none to be read."""
    said = []
    for name, file in files.items():
        if file is None:
            said.append(f"The file of {name} is not there or is no file.")
            continue
        wide = open_to_others(file)
        if wide is not None:
            said.append(f"{file.path} ({name}) {wide}; expected owner root and mode 0600 or 0400.")
        if file.content is None:
            said.append(f"{file.path} ({name}) cannot be decrypted on this node under the name {name}.")
            continue
        wrong = malformed(file.content)
        if wrong is not None:
            said.append(f"What {file.path} ({name}) holds {wrong}; expected printable ASCII without blanks.")
    held = [text_of(file.content) for file in files.values() if file is not None and file.content]
    if len(set(held)) < len(held):
        said.append("The key for clients and the one for administration are the same; expected two keys.")
    return said


def differing(files: Mapping[str, KeyFile | None], running: Mapping[str, bytes | None]) -> list[str]:
    """Names of the keys that a running server was not started with. C(running): what it was handed."""
    names = []
    for name, file in files.items():
        wanted = None if file is None or file.content is None else text_of(file.content)
        handed = running.get(name)
        if wanted is not None and wanted != (None if handed is None else text_of(handed)):
            names.append(name)
    return names
