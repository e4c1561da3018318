# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.openpgp import dearmored, fingerprints, packets

# Made for this test by gpg 2.2, which tells this fingerprint of it; its secret half was thrown away.
FINGERPRINT = "9AB8003084278C7EE6216B12A8178D73F0F5100F"
KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEaw0u8xYJKwYBBAHaRw8BAQdAyNSycu7sRXKu787EfURFrFo/5Nov4x8trNj7
5etmBoC0F3VuaXQgPHVuaXRAZXhhbXBsZS5vcmc+iJAEExYIADgWIQSauAAwhCeM
fuYhaxKoF41z8PUQDwUCaw0u8wIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAK
CRCoF41z8PUQD/G6AP4+FikYFCTPmM89t1DvksVWnQwIYuhHOXOnCQe685hlbgEA
jjM9nkZognq0RhZSJeTgvyT96Eal/EQG1aWKIXWaYgE=
=gOxv
-----END PGP PUBLIC KEY BLOCK-----
"""


def old(tag: int, body: bytes, kind: int = 1) -> bytes:
    return bytes((0x80 | tag << 2 | kind,)) + len(body).to_bytes(1 << kind, "big") + body


def new(tag: int, body: bytes) -> bytes:
    head = bytes((0xC0 | tag,))
    if len(body) < 192:
        return head + bytes((len(body),)) + body
    if len(body) < 8384:
        rest = len(body) - 192
        return head + bytes((192 + (rest >> 8), rest & 0xFF)) + body
    return head + b"\xff" + len(body).to_bytes(4, "big") + body


def test_the_fingerprint_is_gpgs() -> None:
    assert fingerprints(KEY.encode()) == (FINGERPRINT,)
    assert fingerprints(dearmored(KEY.encode())) == (FINGERPRINT,)


@pytest.mark.parametrize(
    "text",
    [
        KEY.replace("BLOCK-----\n\n", "BLOCK-----\nComment: by hand\nVersion: 1\n\n"),
        KEY.replace("\n", "\r\n"),
        "\n\n" + KEY,
        # NVIDIA's own key has a checksum behind the last line; keys of RFC 9580 have none.
        KEY.replace("=gOxv\n", ""),
    ],
    ids=["headers", "carriage returns", "blank lines", "no checksum"],
)
def test_armour_in_its_forms(text: str) -> None:
    assert fingerprints(text.encode()) == (FINGERPRINT,)


def test_a_second_key_is_told_as_well() -> None:
    """Whoever slips another key into the file has it trusted by apt, which takes all of them."""
    body = b"\x04another"
    other = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()
    assert fingerprints(dearmored(KEY.encode()) + old(6, body)) == (FINGERPRINT, other)
    assert fingerprints((KEY + KEY).encode()) == (FINGERPRINT, FINGERPRINT)


@pytest.mark.parametrize("size", [3, 191, 192, 8383, 8384, 70000])
def test_lengths_of_both_formats(size: int) -> None:
    body = bytes(size)
    assert list(packets(new(13, body) + old(13, body, 2))) == [(13, body), (13, body)]


def test_a_key_of_version_6() -> None:
    body = b"\x06" + bytes(40)
    expected = hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    assert fingerprints(new(6, body)) == (expected,)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "holds no public key"),
        (b"<html>Not found</html>", "no OpenPGP data"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "holds no public key"),
        (KEY.replace("mDMEaw0u", "mDMEaw0*").encode(), "holds no public key"),
        (old(2, b"a signature"), "holds no public key"),
        (old(6, b"\x04body")[:-1], "cut off"),
        (b"\x99", "cut off"),
        (b"\xc6\xe1" + bytes(2), "no OpenPGP data"),
        (old(6, b"\x03an old key"), "version 3"),
    ],
)
def test_what_is_no_key_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        fingerprints(data)
