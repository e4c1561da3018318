# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a kernel module says about itself: its .modinfo section and its signature, as modinfo prints them.

Read in Python, so that it works below another root and where kmod is not installed. A file that is no module, is cut
off or lies about its sizes gives None.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.compressed import GZIP, XZ, ZSTD, expand
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.signatures import (
    TAIL_BYTES,
    Signature,
    signature_of,
)

# The largest nvidia.ko so far has about 110 MB.
MODULE_LIMIT = 512 << 20
_COMPRESSED_LIMIT = 256 << 20
_SECTIONS_LIMIT = 1 << 17
_NAMES_LIMIT = 16 << 20
_MODINFO_LIMIT = 1 << 20
_MAGIC = b"\x7fELF"

# Reads C(size) bytes at an offset; fewer at the end.
ReadAt = Callable[[int, int], bytes]


@dataclass(frozen=True)
class ModuleInfo:
    """C(fields) are the lines of modinfo in the module's order; a name may come more than once."""

    fields: tuple[tuple[str, str], ...]
    signature: Signature | None

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.fields if key == name and value), None)


def parse_modinfo(data: bytes) -> tuple[tuple[str, str], ...]:
    """The section's strings, each C(name=value) with a zero byte behind it."""
    found = []
    for entry in data.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "replace").partition("=")
        if equals:
            found.append((name, value))
    return tuple(found)


@dataclass(frozen=True)
class _Layout:
    """Where the fields of an ELF file are, by its class and byte order."""

    header: struct.Struct  # e_shoff, e_shentsize, e_shnum, e_shstrndx
    section: struct.Struct  # sh_name, sh_offset, sh_size, sh_link


def _layout(ident: bytes) -> _Layout | None:
    order = {1: "<", 2: ">"}.get(ident[5])
    if order is None or ident[4] not in (1, 2):
        return None
    if ident[4] == 2:
        return _Layout(struct.Struct(f"{order}40xQ10xHHH"), struct.Struct(f"{order}I20xQQI20x"))
    return _Layout(struct.Struct(f"{order}32xI10xHHH"), struct.Struct(f"{order}I12xIII12x"))


@dataclass(frozen=True)
class Section:
    """A part of the file: where it lies in it, and how long it is."""

    name: bytes
    offset: int
    size: int


def read_sections(read: ReadAt, size: int) -> list[Section] | None:
    """All sections in the file's order; None for what is no ELF file, is cut off or lies about its sizes."""
    start = read(0, 64)
    layout = _layout(start) if len(start) >= 16 and start.startswith(_MAGIC) else None
    if layout is None or len(start) < layout.header.size:
        return None
    table, entry_size, count, names_index = layout.header.unpack_from(start)
    if entry_size < layout.section.size or not 0 < table <= size - entry_size:
        return None
    zeroth = read(table, layout.section.size)
    if len(zeroth) < layout.section.size:
        return None
    _name, _offset, extended_count, extended_index = layout.section.unpack(zeroth)
    # With many sections the numbers do not fit into the header and lie in the first entry of the table.
    count = count or extended_count
    names_index = extended_index if names_index == 0xFFFF else names_index
    if not names_index < count <= _SECTIONS_LIMIT or count * entry_size > size - table:
        return None
    entries = read(table, count * entry_size)
    if len(entries) < count * entry_size:
        return None
    found = [layout.section.unpack_from(entries, index * entry_size) for index in range(count)]
    names = read_section(read, size, Section(b"", *found[names_index][1:3]), _NAMES_LIMIT)
    if names is None:
        return None
    return [Section(names[name:].split(b"\0", 1)[0], offset, length) for name, offset, length, _link in found]


def read_section(read: ReadAt, size: int, section: Section, limit: int) -> bytes | None:
    """The content of a section, where it lies within the file and is no longer than this."""
    if section.size > limit or section.offset + section.size > size:
        return None
    return read(section.offset, section.size)


def find_section(read: ReadAt, size: int, wanted: bytes, limit: int) -> bytes | None:
    """The content of the section with this name."""
    for section in read_sections(read, size) or ():
        if section.name == wanted:
            return read_section(read, size, section, limit)
    return None


def module_info(read: ReadAt, size: int) -> ModuleInfo | None:
    data = find_section(read, size, b".modinfo", _MODINFO_LIMIT)
    if data is None:
        return None
    tail = read(max(0, size - TAIL_BYTES), TAIL_BYTES)
    return ModuleInfo(parse_modinfo(data), signature_of(tail))


def read_module_info(tree: Tree, relative: str) -> ModuleInfo | None:
    """The info of a module file, which may be compressed. Of a plain one only the parts that matter are read."""
    file = tree.open(relative)
    if file is None:
        return None
    try:
        size = os.fstat(file).st_size
        if os.pread(file, 6, 0).startswith((GZIP, XZ, ZSTD)):
            data = tree.data(relative, _COMPRESSED_LIMIT) if size <= _COMPRESSED_LIMIT else None
            whole = None if data is None else expand(data, MODULE_LIMIT)
            if whole is None:
                return None
            return module_info(lambda offset, length: whole[offset : offset + length], len(whole))
        return module_info(lambda offset, length: os.pread(file, length, offset), size)
    except (OSError, OverflowError):
        return None
    finally:
        os.close(file)
