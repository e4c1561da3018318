# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fingerprints of the OpenPGP keys in a file, as C(gpg --show-keys) tells them, on hosts that have no gpg.

RFC 9580: armour in section 6.2, packets in 4.2, fingerprints in 5.5.4.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_PUBLIC_KEY = 6
_ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\r?\n(?:[^\r\n:]+:[^\r\n]*\r?\n)*[ \t]*\r?\n"
    r"(?P<body>[A-Za-z0-9+/=\s]+?)"
    r"(?:\r?\n=[A-Za-z0-9+/]{4})?\s*-----END PGP PUBLIC KEY BLOCK-----"
)


def dearmored(data: bytes) -> bytes:
    """The packets of all armoured blocks, or the data itself where none is armoured; ValueError for broken armour."""
    if not data.lstrip().startswith(b"-----"):
        return data
    blocks = _ARMOUR.findall(data.decode("ascii", "replace"))
    if not blocks:
        raise ValueError("the armour holds no public key")
    try:
        return b"".join(base64.b64decode("".join(block.split()), validate=True) for block in blocks)
    except binascii.Error as error:
        raise ValueError("the armour is broken") from error


def _length(data: bytes, at: int, kind: int | None) -> tuple[int, int]:
    """Length of a packet's body and where that begins. C(kind) is the length type of the old format."""
    if kind is not None:
        size = 1 << kind
        return int.from_bytes(data[at : at + size], "big"), at + size
    first = data[at]
    if first < 192:
        return first, at + 1
    if first < 224:
        return ((first - 192) << 8) + data[at + 1] + 192, at + 2
    return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet; ValueError for what is none, or is cut off. Keys have no partial lengths."""
    at = 0
    while at < len(data):
        head = data[at]
        indeterminate = head & 0xC0 == 0x80 and head & 0x03 == 3
        partial = head & 0xC0 == 0xC0 and at + 1 < len(data) and 224 <= data[at + 1] < 255
        if not head & 0x80 or indeterminate or partial:
            raise ValueError("it is no OpenPGP data")
        new = bool(head & 0x40)
        try:
            size, begin = _length(data, at + 1, None if new else head & 0x03)
        except IndexError:
            raise ValueError("the data is cut off") from None
        if begin + size > len(data):
            raise ValueError("the data is cut off")
        yield head & 0x3F if new else (head >> 2) & 0x0F, data[begin : begin + size]
        at = begin + size


def _fingerprint(body: bytes) -> str:
    version = body[0] if body else 0
    if version == 4:
        # The standard's own choice; a collision would have to be found by whoever made the key.
        data = b"\x99" + len(body).to_bytes(2, "big") + body
        return hashlib.sha1(data, usedforsecurity=False).hexdigest().upper()
    if version == 6:
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise ValueError(f"a key of version {version} is not known")


def fingerprints(data: bytes) -> tuple[str, ...]:
    """Of each primary key in the file, in order; ValueError with a reason for what is no key."""
    found = tuple(_fingerprint(body) for tag, body in packets(dearmored(data)) if tag == _PUBLIC_KEY)
    if not found:
        raise ValueError("it holds no public key")
    return found
