# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Kernel modules as files: what they say about themselves, who signed them, whatever they are packed in.

That the same is read as by the real modinfo is shown on real modules in tests/integration.
"""

import gzip
import lzma
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.compressed import expand
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.elf import (
    ModuleInfo,
    find_section,
    module_info,
    read_module_info,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.signatures import (
    MARK,
    TAIL_BYTES,
    Signature,
    signature_of,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import (
    RELEASE,
    der,
    elf,
    modinfo,
    nvidia_module,
    pkcs7,
    signature,
    write,
)


def info_of(data: bytes) -> ModuleInfo | None:
    return module_info(lambda offset, length: data[offset : offset + length], len(data))


@pytest.mark.parametrize(("bits", "order"), [(64, "<"), (64, ">"), (32, "<"), (32, ">")])
def test_the_fields_of_every_kind_of_elf(bits: int, order: str) -> None:
    found = info_of(elf([(".text", b"x"), (".modinfo", modinfo(version="1.2", license="GPL"))], bits=bits, order=order))
    assert found == ModuleInfo((("version", "1.2"), ("license", "GPL")), None)


def test_fields_may_repeat_and_hold_equals_signs() -> None:
    data = elf([(".modinfo", b"alias=a\0alias=b=c\0\0nothing\0version=\0version=2\0")])
    found = info_of(data)
    assert found is not None
    assert found.fields == (("alias", "a"), ("alias", "b=c"), ("version", ""), ("version", "2"))
    assert (found.first("alias"), found.first("version"), found.first("absent")) == ("a", "2", None)


def test_a_section_whose_name_only_begins_alike_is_another() -> None:
    assert info_of(elf([(".modinfo.more", modinfo(version="1"))])) is None


def test_more_sections_than_the_header_can_count() -> None:
    """nvidia.ko may have so many: then number and index lie in the first entry of the table."""
    data = bytearray(elf([(f".s{number}", b"") for number in range(300)] + [(".modinfo", modinfo(version="3"))]))
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    struct.pack_into("<Q", data, table + 32, count)
    struct.pack_into("<I", data, table + 40, names)
    found = info_of(bytes(data))
    assert found is not None and found.first("version") == "3"


@pytest.mark.parametrize("cut", [0, 4, 15, 16, 40, 63, 64, 100])
def test_a_file_that_is_cut_off(cut: int) -> None:
    assert info_of(nvidia_module()[:cut]) is None


@pytest.mark.parametrize(
    ("place", "form", "value"),
    [
        (40, "<Q", 1 << 63),  # the table lies beyond every file
        (40, "<Q", 0),
        (58, "<H", 3),  # entries too small to be any
        (60, "<H", 0xFFFF),  # more entries than there are
        (62, "<H", 0xFFF0),  # no such names' section
        (4, "<B", 9),  # neither 32 nor 64 bits
        (5, "<B", 0),  # no byte order
    ],
)
def test_a_header_that_lies(place: int, form: str, value: int) -> None:
    data = bytearray(nvidia_module())
    struct.pack_into(form, data, place, value)
    assert info_of(bytes(data)) is None


def test_a_section_larger_than_allowed_is_not_read() -> None:
    data = elf([(".modinfo", modinfo(version="1" * 5000))])
    assert find_section(lambda at, size: data[at : at + size], len(data), b".modinfo", 1000) is None


def test_no_change_of_a_few_bytes_makes_it_crash() -> None:
    """Whatever is in the file, the answer is an info or None."""
    module = nvidia_module(signer="somebody")
    chance = random.Random(1)
    answers = set()
    for _round in range(3000):
        data = bytearray(module)
        for _byte in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        answers.add(info_of(bytes(data)) is None)
    assert answers == {True, False}


# Signatures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", [(0x0C, "utf-8"), (0x13, "ascii"), (0x14, "latin-1"), (0x16, "ascii"), (0x1E, "utf-16-be")]
)
def test_the_signer_in_every_kind_of_string(encoding: tuple[int, str]) -> None:
    assert signature_of(signature(pkcs7("Build key of Acme", encoding=encoding))) == Signature("Build key of Acme")


def test_a_module_without_a_signature() -> None:
    assert signature_of(nvidia_module()[-TAIL_BYTES:]) is None
    assert signature_of(b"") is None


@pytest.mark.parametrize(
    "tail",
    [
        MARK,  # nothing in front of the mark
        signature(b""),
        signature(pkcs7("x"), length=1 << 31),
        signature(pkcs7("x"), length=len(pkcs7("x")) - 1),
        signature(pkcs7("x", by_key=True)),  # a key identifier names nobody
        signature(der(0x30, der(0x06, b"\x01"))),
        signature(b"\x30\x84\xff\xff\xff\xff"),
        signature(b"\x30\x80\x00\x00"),  # a length that only BER has
        signature(b"\xff" * 100),
    ],
)
def test_a_signature_that_names_nobody_is_one(tail: bytes) -> None:
    assert signature_of(tail) == Signature(None)


def test_the_signer_of_old_kernels_stands_in_front() -> None:
    data = b"text" + b"Old Key" + b"\x01" * 20 + b"\x02" * 256
    trailer = struct.pack(">BBBBB3xI", 1, 4, 1, 7, 20, 256)
    assert signature_of(data + trailer + MARK) == Signature("Old Key")
    assert signature_of(b"\x02" * 8 + trailer + MARK) == Signature(None)


# Files and compression ------------------------------------------------------------------------------------------------


def zstd(data: bytes, folder: Path) -> bytes:
    """Compressed by the real program, or in a frame that holds the data as it is where there is none."""
    if shutil.which("zstd"):
        (folder / "plain").write_bytes(data)
        done = subprocess.run(["zstd", "-q", "-c", folder / "plain"], check=True, capture_output=True)
        return done.stdout
    # A frame with its size in four bytes, and one raw block (RFC 8878).
    head = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data))
    return head + struct.pack("<I", len(data) << 3 | 1)[:3] + data


@pytest.mark.parametrize("kind", ["ko", "ko.gz", "ko.xz", "ko.zst"])
def test_a_module_file_in_every_compression(tmp_path: Path, kind: str) -> None:
    module = nvidia_module(signer="Acme")
    packed = {
        "ko": module,
        "ko.gz": gzip.compress(module),
        "ko.xz": lzma.compress(module, check=lzma.CHECK_CRC32),
        "ko.zst": zstd(module, tmp_path),
    }[kind]
    write(tmp_path, {f"lib/nvidia.{kind}": packed})
    found = read_module_info(Tree(tmp_path), f"lib/nvidia.{kind}")
    assert found is not None
    assert (found.first("version"), found.first("license")) == (RELEASE, "Dual MIT/GPL")
    assert found.signature == Signature("Acme")


def test_the_compression_is_told_by_the_content_and_not_by_the_name(tmp_path: Path) -> None:
    write(tmp_path, {"nvidia.ko": gzip.compress(nvidia_module())})
    assert read_module_info(Tree(tmp_path), "nvidia.ko") is not None


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_data_is_never_expanded_beyond_the_limit(compress: object) -> None:
    assert callable(compress)
    bomb = compress(bytes(4_000_000))
    assert len(bomb) < 10_000
    assert expand(bomb, 3_999_999) is None
    assert expand(bomb, 4_000_000) == bytes(4_000_000)


def test_zstd_is_never_expanded_beyond_the_limit(tmp_path: Path) -> None:
    bomb = zstd(bytes(100_000), tmp_path)
    assert expand(bomb, 99_999) is None
    assert expand(bomb, 100_000) == bytes(100_000)


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_broken_compressed_data(tmp_path: Path, kind: str) -> None:
    module = nvidia_module() * 20
    packed = {"gz": gzip.compress(module), "xz": lzma.compress(module), "zst": zstd(module, tmp_path)}[kind]
    assert expand(packed, 1 << 20) == module
    assert expand(packed[: len(packed) // 2], 1 << 20) is None
    assert expand(packed[:6], 1 << 20) is None
    assert expand(packed[:6] + b"\xff" * 50, 1 << 20) is None


def test_a_file_that_is_no_module(tmp_path: Path) -> None:
    write(tmp_path, {"empty.ko": b"", "text.ko": b"hello", "folder/x": ""})
    tree = Tree(tmp_path)
    assert [read_module_info(tree, name) for name in ("empty.ko", "text.ko", "folder", "absent")] == [None] * 4
