# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A shared library as a file: its sections and what it asks the loader for. Only the parts that are asked for are read,
whatever the size of the file."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.elf import (
    ReadAt,
    Section,
    read_section,
    read_sections,
)

_DYNAMIC_LIMIT = 1 << 20
_STRINGS_LIMIT = 256 << 20
# Tags of the dynamic section (elf.h).
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_ENTRY = struct.Struct("<QQ")


@dataclass(frozen=True)
class ElfFile:
    """C(header) is the first 64 bytes: all of the header of a 64-bit file, which is what all GPU hosts have."""

    read: ReadAt
    size: int
    header: bytes
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Demands:
    """What a library asks the loader for. Of two lists of folders the loader follows C(runpath) where there is one."""

    needed: tuple[str, ...] = ()
    soname: str | None = None
    runpath: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()


@contextmanager
def opened_elf(path: Path) -> Iterator[ElfFile | None]:
    """The file while it is open; None for what cannot be read, or is no 64-bit little-endian ELF file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        yield None
        return
    try:
        yield _elf_of(file)
    finally:
        os.close(file)


def _elf_of(file: int) -> ElfFile | None:
    def read(offset: int, length: int) -> bytes:
        return os.pread(file, length, offset)

    try:
        size = os.fstat(file).st_size
        header = read(0, 64)
        if len(header) < 64 or header[4:6] != b"\x02\x01":
            return None
        sections = read_sections(read, size)
    except (OSError, OverflowError):
        return None
    return None if sections is None else ElfFile(read, size, header, tuple(sections))


def demands_of(elf: ElfFile) -> Demands:
    """Of a file without a dynamic section, a static one for example: nothing."""
    by_name = {section.name: section for section in elf.sections}
    if b".dynamic" not in by_name or b".dynstr" not in by_name:
        return Demands()
    dynamic = read_section(elf.read, elf.size, by_name[b".dynamic"], _DYNAMIC_LIMIT)
    strings = read_section(elf.read, elf.size, by_name[b".dynstr"], _STRINGS_LIMIT)
    if dynamic is None or strings is None:
        return Demands()
    found: dict[int, list[str]] = {}
    for tag, value in _ENTRY.iter_unpack(dynamic[: len(dynamic) - len(dynamic) % _ENTRY.size]):
        if tag == 0:
            break
        if tag in (_NEEDED, _SONAME, _RPATH, _RUNPATH) and value < len(strings):
            found.setdefault(tag, []).append(strings[value:].split(b"\0", 1)[0].decode("utf-8", "replace"))

    def folders(tag: int) -> tuple[str, ...]:
        return tuple(folder for text in found.get(tag, ()) for folder in text.split(":") if folder)

    return Demands(
        needed=tuple(found.get(_NEEDED, ())),
        soname=next(iter(found.get(_SONAME, ())), None),
        runpath=folders(_RUNPATH),
        rpath=folders(_RPATH),
    )
