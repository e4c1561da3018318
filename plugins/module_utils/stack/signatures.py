# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who signed a kernel module: the trailer after the module and the PKCS#7 message in front of it.

Nothing is verified here; that is the kernel's business. The layout is that of include/linux/module_signature.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MARK = b"~Module signature appended~\n"
# algo, hash, id_type, signer_len, key_id_len, padding, sig_len
_TRAILER = struct.Struct(">BBBBB3xI")
_PKCS7 = 2
_MESSAGE_LIMIT = 64 << 10
_SEQUENCE, _SET, _OID, _CONTEXT_0 = 0x30, 0x31, 0x06, 0xA0
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_COMMON_NAME = bytes.fromhex("550403")
_TEXT_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be", 0x1C: "utf-32-be"}
# What the trailer, the mark and the largest message need; the end of a module holds all of it.
TAIL_BYTES = len(MARK) + _TRAILER.size + _MESSAGE_LIMIT


@dataclass(frozen=True)
class Signature:
    """C(signer) is the common name in the certificate that made it, None where the message does not tell."""

    signer: str | None


def signature_of(tail: bytes) -> Signature | None:
    """The signature at the end of a module, given its last TAIL_BYTES; None for a module that has none."""
    if not tail.endswith(MARK):
        return None
    rest = tail[: -len(MARK)]
    if len(rest) < _TRAILER.size:
        return Signature(None)
    end = len(rest) - _TRAILER.size
    _algo, _hash, kind, signer_length, key_length, length = _TRAILER.unpack_from(rest, end)
    rest = rest[:end]
    if kind != _PKCS7:
        # Before Linux 4.3 the name lay in front of the signature as it is.
        start = len(rest) - length - key_length - signer_length
        name = rest[start : start + signer_length] if start >= 0 else b""
        return Signature(name.decode("utf-8", "replace") or None)
    if not 0 < length <= min(len(rest), _MESSAGE_LIMIT):
        return Signature(None)
    try:
        return Signature(_signer(rest[-length:]))
    except ValueError:
        return Signature(None)


@dataclass(frozen=True)
class _Element:
    tag: int
    content: bytes


def _elements(data: bytes) -> Iterator[_Element]:
    """The DER elements that follow one another in C(data)."""
    at = 0
    while at < len(data):
        if len(data) - at < 2:
            raise ValueError("cut off")
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or len(data) - at < count:
                raise ValueError("a length that DER does not have")
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if length > len(data) - at:
            raise ValueError("cut off")
        yield _Element(tag, data[at : at + length])
        at += length


def _only(data: bytes, tag: int) -> bytes:
    """The content of the first element, which has to be of this kind."""
    first = next(_elements(data), None)
    if first is None or first.tag != tag:
        raise ValueError("another element than expected")
    return first.content


def _signer(message: bytes) -> str | None:
    content = list(_elements(_only(message, _SEQUENCE)))
    if len(content) < 2 or content[0] != _Element(_OID, _SIGNED_DATA) or content[1].tag != _CONTEXT_0:
        raise ValueError("not signed data")
    parts = list(_elements(_only(content[1].content, _SEQUENCE)))
    # The signers' infos come last; in front of them are the digests' names and perhaps certificates.
    if not parts or parts[-1].tag != _SET:
        raise ValueError("no signers")
    info = list(_elements(_only(parts[-1].content, _SEQUENCE)))
    # Version, then issuer and serial number; a key identifier in their place names nobody.
    if len(info) < 2 or info[1].tag != _SEQUENCE:
        return None
    return _common_name(_only(info[1].content, _SEQUENCE))


def _common_name(name: bytes) -> str | None:
    for group in _elements(name):
        for attribute in _elements(group.content):
            pair = list(_elements(attribute.content))
            if len(pair) == 2 and pair[0] == _Element(_OID, _COMMON_NAME) and pair[1].tag in _TEXT_ENCODINGS:
                return pair[1].content.decode(_TEXT_ENCODINGS[pair[1].tag], "replace") or None
    return None
