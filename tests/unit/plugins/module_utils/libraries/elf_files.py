# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared libraries and the device code in them, written as linkers and fatbinary write them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

# Kind, architecture, flags: 1 is PTX and 2 machine code; 0x8000 compressed, 1 << 20 for one architecture, 1 << 21 for
# a family, 1 << 24 with metadata behind the header, which is longer then.
Entry = tuple[int, int, int]
COMPRESSED, ALONE, FAMILY, LONG = 0x8000, 1 << 20, 1 << 21, 1 << 24
_FLAGS = 0x11
_PACKAGES = "lib/python3.11/site-packages"


def entry(kind: int, architecture: int, flags: int = 0, code: bytes = b"\x7fELF code") -> bytes:
    code += bytes(-len(code) % 8)
    header = 112 if flags & LONG else 64
    head = struct.pack("<HHIQ", kind, 0x101, header, len(code))
    head += struct.pack("<IIIIII", 0, 0, 0x10008, architecture, 0, 0) + struct.pack("<Q", _FLAGS | flags)
    return head + bytes(header - len(head)) + code


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def code_for(*entries: Entry) -> bytes:
    """A container with machine code (2) or PTX (1) for these."""
    return container(*(entry(kind, architecture, flags) for kind, architecture, flags in entries))


def elf(sections: Mapping[str, bytes], machine: int = 62, flags: int = 0, abi: int = 0) -> bytes:
    """A 64-bit file with these sections behind the header, and its table of sections at the end."""
    parts = {"": b"", **sections, ".shstrtab": b""}
    names = b"\0".join(name.encode() for name in parts) + b"\0"
    parts[".shstrtab"] = names
    body, rows, place = b"", [], 64
    for name, content in parts.items():
        body += bytes(-(place + len(body)) % 8)
        where = names.index(b"\0" + name.encode() + b"\0") + 1 if name else 0
        rows.append(struct.pack("<IIQQQQIIQQ", where, 1, 0, 0, place + len(body), len(content), 0, 0, 8, 0))
        body += content
    body += bytes(-len(body) % 8)
    ident = b"\x7fELF\x02\x01\x01\x00" + bytes([abi]) + bytes(7)
    table = place + len(body)
    head = struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, table, flags, 64, 0, 0, 64, len(rows), len(rows) - 1)
    return ident + head + body + b"".join(rows)


def dynamic(needed: Sequence[str] = (), runpath: str | None = None, soname: str | None = None) -> dict[str, bytes]:
    """The two sections that tell the loader what a library needs."""
    strings, entries = b"\0", b""
    wanted = [(1, name) for name in needed] + [(29, runpath), (14, soname)]
    for tag, text in wanted:
        if text is not None:
            entries += struct.pack("<QQ", tag, len(strings))
            strings += text.encode() + b"\0"
    return {".dynstr": strings, ".dynamic": entries + bytes(16)}


def environment_of(folder: Path, files: Mapping[str, bytes]) -> Path:
    """A virtual environment with these files among its packages."""
    packages = folder / _PACKAGES
    packages.mkdir(parents=True)
    for name, content in files.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_bytes(content)
    return folder
