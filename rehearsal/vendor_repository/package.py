# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Debian package as data, and its file, which the real dpkg-deb makes of it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The same file for the same data, whenever it is built.
EPOCH = "1767225600"
RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Provides", "Conflicts", "Replaces", "Breaks")


@dataclass(frozen=True)
class File:
    """What lies at a path: content, or where a link leads."""

    content: bytes = b""
    mode: int = 0o644
    link: str | None = None


def text(content: str, mode: int = 0o644) -> File:
    return File(content.encode(), mode)


def program(content: str) -> File:
    return text(content, 0o755)


def link(target: str) -> File:
    return File(link=target)


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    description: str
    relations: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, File] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    conffiles: tuple[str, ...] = ()
    architecture: str = "amd64"
    source: str | None = None
    section: str = "non-free/utils"

    @property
    def file_name(self) -> str:
        # An epoch is no part of a file's name.
        return f"{self.name}_{self.version.partition(':')[2] or self.version}_{self.architecture}.deb"

    def control(self) -> str:
        lines = {
            "Package": self.name,
            "Source": self.source,
            "Version": self.version,
            "Architecture": self.architecture,
            "Section": self.section,
            "Priority": "optional",
            "Maintainer": "Rehearsal <rehearsal@example.org>",
            **{name: self.relations.get(name) for name in RELATIONS},
            "Description": self.description,
        }
        return "".join(f"{name}: {value}\n" for name, value in lines.items() if value)


def _write(folder: Path, path: str, file: File) -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if file.link is not None:
        place.symlink_to(file.link)
        return
    place.write_bytes(file.content)
    place.chmod(file.mode)


def build(package: Package, folder: Path) -> Path:
    """The package's file in the folder. Not compressed much: it is made often and read once."""
    target = folder / package.file_name
    with tempfile.TemporaryDirectory(dir=folder) as work:
        tree = Path(work)
        tree.chmod(0o755)
        for path, file in package.files.items():
            _write(tree, path, file)
        _write(tree, "DEBIAN/control", text(package.control()))
        for name, script in package.scripts.items():
            _write(tree, f"DEBIAN/{name}", program(script))
        if package.conffiles:
            _write(tree, "DEBIAN/conffiles", text("".join(f"/{path}\n" for path in package.conffiles)))
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(tree), str(target)],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        )
    return target
