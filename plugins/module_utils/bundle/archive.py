# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A flat repository of Debian packages, as apt reads it from a folder. Pure.

https://wiki.debian.org/DebianRepository/Format#Flat_Repository_Format
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Deb:
    """C(control): the fields of its control file as dpkg-deb prints them."""

    file: str
    control: str
    size_bytes: int
    sha256: str


def packages_index(debs: Iterable[Deb]) -> str:
    stanzas = (
        f"{one.control.strip()}\nFilename: ./{one.file}\nSize: {one.size_bytes}\nSHA256: {one.sha256}\n"
        for one in sorted(debs, key=lambda one: one.file)
    )
    return "\n".join(stanzas)


def release_file(suite: str, date: str, indexes: Mapping[str, bytes]) -> str:
    """C(date) as RFC 5322 has it."""
    lines = ["Origin: gpufleet bundle", f"Suite: {suite}", f"Date: {date}", "SHA256:"]
    lines += [
        f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}" for name, content in sorted(indexes.items())
    ]
    return "\n".join(lines) + "\n"
