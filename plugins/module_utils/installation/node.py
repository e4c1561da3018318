# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node has for an environment: interpreters, wheels, room. The only part that reads anything."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import NodePython, Place, Wheelhouse
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.record import RECORD, read_record
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target, Wheel, parse_wheel

SUMS = "SHA256SUMS"
# What the bundle puts beside its wheels.
REQUIREMENTS = "requirements.txt"
_MOST_TEXT_BYTES = 16 << 20

_ASK_PYTHON = """\
import importlib.util, json, os, platform, sys
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (AttributeError, ValueError, OSError):
    libc = ""
print(json.dumps({
    "version": platform.python_version(),
    "machine": platform.machine(),
    "libc": libc,
    "implementation": sys.implementation.name,
    "venv": all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")),
}))
"""


def read_python(run_command: Callable[..., Any], path: str) -> NodePython | None:
    """None for what does not run as a Python."""
    # -I: what the user's own folders hold is no part of it.
    status, output, _errors = answer_of(run_command, [path, "-I", "-c", _ASK_PYTHON])
    if status != 0:
        return None
    try:
        found = json.loads(output)
    except ValueError:
        return None
    major, minor = found["version"].split(".")[:2]
    name, _space, number = found["libc"].partition(" ")
    glibc = tuple(int(part) for part in number.split(".")[:2]) if name == "glibc" else ()
    target = Target(
        python=(int(major), int(minor)),
        machine=found["machine"],
        glibc=(glibc[0], glibc[1]) if len(glibc) == 2 else None,
        implementation=found["implementation"],
    )
    return NodePython(found["version"], target, bool(found["venv"]))


def text_of(path: Path, most_bytes: int = _MOST_TEXT_BYTES) -> str | None:
    """None for what is not there, cannot be read, or is larger than any file of its kind."""
    try:
        with path.open("rb") as stream:
            content = stream.read(most_bytes + 1)
    except OSError:
        return None
    return content.decode("utf-8", "replace") if len(content) <= most_bytes else None


def read_sums(text: str | None) -> dict[str, str] | None:
    """What sha256sum(1) prints, by the name of the file alone."""
    if text is None:
        return None
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {pair[1].lstrip("*").rsplit("/", 1)[-1]: pair[0].lower() for pair in pairs if len(pair) == 2}


def read_wheelhouse(folder: str) -> Wheelhouse | None:
    """None where the folder is not there."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return None
    wheels = tuple(found for found in map(parse_wheel, names) if found is not None)
    known = {one.file for one in wheels}
    return Wheelhouse(
        wheels=wheels,
        sums=read_sums(text_of(Path(folder, SUMS))),
        requirements=text_of(Path(folder, REQUIREMENTS)),
        others=tuple(name for name in names if name not in known),
    )


def unpacked_bytes(folder: str, wheels: Iterable[Wheel]) -> int:
    """From the directories at the end of the wheels. One that cannot be read counts with its own size."""
    total = 0
    for wheel in wheels:
        path = Path(folder, wheel.file)
        try:
            with zipfile.ZipFile(path) as archive:
                total += sum(entry.file_size for entry in archive.infolist())
        except (OSError, zipfile.BadZipFile):
            total += path.stat().st_size if path.is_file() else 0
    return total


def read_place(folder: str) -> Place:
    """Of the nearest folder that is there already."""
    path = Path(folder)
    while not path.is_dir() and path != path.parent:
        path = path.parent
    figures = os.statvfs(path)
    return Place(
        folder=folder,
        free_bytes=figures.f_bavail * figures.f_frsize,
        executable=not figures.f_flag & os.ST_NOEXEC,
        writable=not figures.f_flag & os.ST_RDONLY,
    )


def installed_at(folder: Path, digest: str | None = None) -> dict[str, Any] | None:
    """The record of an environment that is whole, and whose interpreter still runs off something."""
    record = read_record(text_of(folder / RECORD), digest)
    # An upgrade of the distribution takes the interpreter away from under it.
    return record if record is not None and (folder / "bin" / "python").exists() else None


def environments_below(folder: Path) -> list[Path]:
    """The environments, whole or not; what begins with a dot is the role's own."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."]


def size_of(folder: Path) -> int:
    """Bytes on the disk; what has several names counts once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for parent, _folders, files in os.walk(folder):
        for name in files:
            try:
                found = Path(parent, name).lstat()
            except OSError:
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                total += found.st_blocks * 512
    return total
