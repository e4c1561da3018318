# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel modules that tell of themselves and do nothing: ELF files with .modinfo, and a trailer as if signed."""

from __future__ import annotations

import struct
from collections.abc import Mapping

SIGNATURE_MARK = b"~Module signature appended~\n"
# Object identifiers: common name, signed data, data, RSA, SHA-512.
_COMMON_NAME = bytes.fromhex("550403")
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_DATA = bytes.fromhex("2a864886f70d010701")
_RSA = bytes.fromhex("2a864886f70d010101")
_SHA512 = bytes.fromhex("608648016503040203")
_HEADER, _ENTRY = 64, 64
_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21}


def kernel_module(fields: Mapping[str, str], architecture: str, signer: str | None = None) -> bytes:
    info = b"".join(f"{name}={value}\0".encode() for name, value in fields.items())
    names = b"\0.modinfo\0.shstrtab\0"
    sections = [(0, 0, 0, 0), (1, 1, _HEADER, len(info)), (10, 3, _HEADER + len(info), len(names))]
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0) for name, kind, offset, size in sections
    )
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    start = _HEADER + len(info) + len(names)
    header = struct.pack(
        "<HHIQQQIHHHHHH", 1, _MACHINES[architecture], 1, 0, 0, start, 0, _HEADER, 0, 0, _ENTRY, len(sections), 2
    )
    return ident + header + info + names + table + (_signature(signer) if signer else b"")


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    if len(body) < 0x80:
        return bytes((tag, len(body))) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def _signature(signer: str) -> bytes:
    """A PKCS#7 message that names its signer, with no real signature in it, and the trailer of a signed module."""
    name = _der(0x30, _der(0x31, _der(0x30, _der(0x06, _COMMON_NAME), _der(0x0C, signer.encode()))))
    digest = _der(0x30, _der(0x06, _SHA512))
    cipher = _der(0x30, _der(0x06, _RSA), _der(0x05))
    who = _der(0x30, name, _der(0x02, b"\x01"))
    signed_by = _der(0x30, _der(0x02, b"\x01"), who, digest, cipher, _der(0x04, bytes(256)))
    content = _der(0x30, _der(0x02, b"\x01"), _der(0x31, digest), _der(0x30, _der(0x06, _DATA)), _der(0x31, signed_by))
    message = _der(0x30, _der(0x06, _SIGNED_DATA), _der(0xA0, content))
    return message + struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, len(message)) + SIGNATURE_MARK
