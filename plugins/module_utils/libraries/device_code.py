# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs the device code of a library is compiled for, out of the headers of its fat binaries.

nvcc leaves the code of each source file in a container: machine code (cubin) for some architectures, assembly (PTX)
for some, each with a header that names its architecture. The headers are never compressed, whatever their code is, so
that a library of gigabytes is read in milliseconds. NVIDIA does not document the format; the fields used here are those
that cuobjdump of CUDA 13 prints for the same files, and fatbinary of CUDA 13 writes (tests/unit, tests/conformance).
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.elf_file import ElfFile
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.elf import Section

CUBIN, PTX = "cubin", "ptx"
# Of programs that are linked at once, and of those whose device code is linked on its own (nvcc -rdc).
_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
_MAGIC = 0xBA55ED50
# Magic, version, size of the header, size of all that follows.
_CONTAINER = struct.Struct("<IHHQ")
# Kind, version, size of the header, size of the code, three unused, architecture, two unused, flags.
_ENTRY = struct.Struct("<HHIQ12xI8xQ")
_KINDS = {1: PTX, 2: CUBIN}
_ARCHITECTURE_SPECIFIC = 1 << 20
_FAMILY_SPECIFIC = 1 << 21
# Containers begin at multiples of this; what lies between is padding.
_ALIGNMENT = 8
_PADDING_LIMIT = 1 << 16
# No file of today comes near: it bounds the work on a file that is none of nvcc's.
_ENTRIES_LIMIT = 1 << 20
_MACHINE_CUDA = 190


@dataclass(frozen=True, order=True)
class Target:
    """What code is compiled for: C(architecture) is 90 for compute capability 9.0.

    C(variant): a for that architecture and no other, f for its family, which is the architectures of one generation
    from it on; empty for code that later ones take as well.
    """

    architecture: int
    variant: str = ""
    kind: str = CUBIN

    @property
    def name(self) -> str:
        """As nvcc names it: sm_90a is machine code, compute_90 assembly."""
        return f"{'sm' if self.kind == CUBIN else 'compute'}_{self.architecture}{self.variant}"


# The targets of a container, and how many containers have these: a source file is usually one.
DeviceCode = Counter[frozenset[Target]]


def device_code_of(elf: ElfFile) -> DeviceCode:
    """The device code of a library, empty where it has none."""
    found: DeviceCode = Counter()
    left = _ENTRIES_LIMIT
    for section in elf.sections:
        if section.name in _SECTIONS and section.offset + section.size <= elf.size:
            left = _read_section(elf, section, found, left)
    return found


def _read_section(elf: ElfFile, section: Section, found: DeviceCode, left: int) -> int:
    place, end = section.offset, section.offset + section.size
    padding = 0
    while place + _CONTAINER.size <= end and left > 0 and padding < _PADDING_LIMIT:
        magic, _version, header, length = _CONTAINER.unpack(elf.read(place, _CONTAINER.size))
        if magic != _MAGIC or header < _CONTAINER.size:
            place, padding = place + _ALIGNMENT, padding + _ALIGNMENT
            continue
        padding = 0
        stop = min(end, place + header + length)
        targets, read = _targets(elf, place + header, stop, left)
        left -= read
        if targets:
            found[targets] += 1
        place = stop + -stop % _ALIGNMENT if section.offset % _ALIGNMENT == 0 else stop
    return left


def _targets(elf: ElfFile, place: int, stop: int, left: int) -> tuple[frozenset[Target], int]:
    found = set()
    read = 0
    while place + _ENTRY.size <= stop and read < left:
        kind, _version, header, length, architecture, flags = _ENTRY.unpack(elf.read(place, _ENTRY.size))
        read += 1
        if header < _ENTRY.size:
            break
        if kind in _KINDS:
            found.add(Target(architecture, _variant(flags), _KINDS[kind]))
        place += header + length
    return frozenset(found), max(read, 1)


def _variant(flags: int) -> str:
    if flags & _FAMILY_SPECIFIC:
        return "f"
    return "a" if flags & _ARCHITECTURE_SPECIFIC else ""


def cubin_target(header: bytes, name: str) -> Target | None:
    """Of a file that is machine code and nothing else, as FlashInfer ships them; None for what is no such file.

    The header tells the architecture. Whether the code is for it alone it tells only of some, so that a name such as
    C(..._sm100f.cubin) counts too. Fields: LLVM, include/llvm/BinaryFormat/ELF.h, EF_CUDA_*.
    """
    if len(header) < 64 or not header.startswith(b"\x7fELF") or header[5] != 1:
        return None
    (machine,) = struct.unpack_from("<H", header, 18)
    (flags,) = struct.unpack_from("<I", header, 48)
    if machine != _MACHINE_CUDA:
        return None
    second_form = header[8] >= 8
    architecture = flags >> 8 & 0xFF if second_form else flags & 0xFF
    told = re.search(rf"[sS][mM]_?{architecture}([af])(?![a-z0-9])", name)
    variant = told.group(1) if told else "a" if flags & (0x8 if second_form else 0x800) else ""
    return Target(architecture, variant)
