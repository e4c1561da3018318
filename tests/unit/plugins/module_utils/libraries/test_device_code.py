# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import (
    DeviceCode,
    Target,
    cubin_target,
    device_code_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.elf_file import demands_of, opened_elf
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.libraries.elf_files import (
    ALONE,
    COMPRESSED,
    FAMILY,
    LONG,
    code_for,
    container,
    dynamic,
    elf,
    entry,
)


def read(path: Path, content: bytes) -> DeviceCode:
    path.write_bytes(content)
    with opened_elf(path) as file:
        assert file is not None
        return device_code_of(file)


def names(code: DeviceCode) -> list[tuple[list[str], int]]:
    return [([target.name for target in sorted(part)], count) for part, count in code.items()]


# The first bytes of entries as nvcc wrote them: of libnccl.so.2.28.9 and of sgl_kernel 0.4.10, with what cuobjdump of
# CUDA 13.5 says of them; the last is what fatbinary of CUDA 13.0 writes for sm_103f.
REAL = {
    "0200010140000000b810000000000000b310000000000000080001004b00000000000000000000001180000000000000": "sm_75",
    "0200010170000000881100000000000086110000400000000800010064000000000000000000000011802001000000000000": "sm_100f",
    "020001014000000020e00100000000000000000000000000080001005a00000000000000000000001100100000000000": "sm_90a",
    "0200010170000000485f000000000000435f0000400000000800010078000000000000000000000011801001000000000000": "sm_120a",
    "0100010160000000106a0000000000000d6a000040000000000009007800000000000000000000001180000000000000": "compute_120",
    "020001017000000038130000000000000000000040000000080001006700000000000000000000001100200100000000": "sm_103f",
}


@pytest.mark.parametrize(("header", "name"), list(REAL.items()))
def test_headers_as_nvcc_writes_them(tmp_path: Path, header: str, name: str) -> None:
    head = bytes.fromhex(header)[:48]
    length = int.from_bytes(head[4:8], "little")
    whole = head[:8] + (8).to_bytes(8, "little") + head[16:] + bytes(length - len(head)) + bytes(8)
    assert names(read(tmp_path / "x.so", elf({".nv_fatbin": container(whole)}))) == [([name], 1)]


def test_every_container_of_every_section_counts(tmp_path: Path) -> None:
    hopper = code_for((2, 80, 0), (2, 90, ALONE | COMPRESSED))
    blackwell = code_for((2, 100, FAMILY | LONG), (1, 120, COMPRESSED | LONG))
    content = elf({".text": b"x" * 100, "__nv_relfatbin": hopper * 3, ".nv_fatbin": hopper + blackwell})
    assert names(read(tmp_path / "x.so", content)) == [(["sm_80", "sm_90a"], 4), (["sm_100f", "compute_120"], 1)]


def test_padding_and_foreign_entries_between_code_are_passed_over(tmp_path: Path) -> None:
    one = code_for((2, 80, 0))
    other = container(entry(16, 90, 0), entry(2, 90, 0, b"code that is longer than the others"))
    content = elf({".nv_fatbin": one + bytes(24) + other + bytes(4096)})
    assert names(read(tmp_path / "x.so", content)) == [(["sm_80"], 1), (["sm_90"], 1)]


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {".nv_fatbin": b""},
        {".nv_fatbin": b"\x50\xed\x55\xba"},
        {".nv_fatbin": b"\xff" * 100000},
        # A container that claims more than there is, and entries that lead nowhere.
        {".nv_fatbin": code_for((2, 80, 0))[:40]},
        {".nv_fatbin": container(bytes(64))},
        {".nv_fatbin": container(b"\x02\0\x01\x01" + b"\xff" * 60)},
    ],
)
def test_what_is_no_device_code_ends(tmp_path: Path, sections: dict[str, bytes]) -> None:
    assert len(read(tmp_path / "x.so", elf(sections))) <= 1


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, elf({})[:100], b"\x7fELF\x01\x01" + bytes(200)]
)
def test_what_is_no_library_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.so").write_bytes(content)
    with opened_elf(tmp_path / "x.so") as file:
        assert file is None
    with opened_elf(tmp_path / "absent.so") as file:
        assert file is None


def test_only_headers_are_read(tmp_path: Path) -> None:
    big = container(*(entry(2, number, 0, bytes(1 << 20)) for number in (80, 86, 90)))
    (tmp_path / "x.so").write_bytes(elf({".nv_fatbin": big * 4}))
    asked = []
    with opened_elf(tmp_path / "x.so") as file:
        assert file is not None
        original = file.read

        def counted(offset: int, length: int) -> bytes:
            asked.append(length)
            return original(offset, length)

        object.__setattr__(file, "read", counted)
        code = device_code_of(file)
    assert sum(code.values()) == 4
    assert sum(asked) < 2000 < (tmp_path / "x.so").stat().st_size // 1000


def test_a_compressed_entry_says_as_much_as_another(tmp_path: Path) -> None:
    plain, packed = (
        read(tmp_path / f"{flags}.so", elf({".nv_fatbin": code_for((2, 90, flags))})) for flags in (0, COMPRESSED)
    )
    assert plain == packed


@pytest.mark.parametrize(
    ("flags", "abi", "name", "expected"),
    [
        # As ptxas of CUDA 13.0 writes them.
        (0x6004B04, 8, "k.cubin", "sm_75"),
        (0x6005A04, 8, "k.cubin", "sm_90"),
        (0x6006402, 8, "fmhaSm100fKernel_x.cubin", "sm_100f"),
        (0x6006402, 8, "fmhaSm100aKernel_x.cubin", "sm_100a"),
        (0x6006702, 8, "gemm_sm103.cubin", "sm_103"),
        # A name that speaks of another architecture does not count.
        (0x6006702, 8, "gemm_sm100a.cubin", "sm_103"),
        # The form of CUDA 12, with its bit for code of one architecture.
        (0x55A, 7, "k.cubin", "sm_90"),
        (0xD5A, 7, "k.cubin", "sm_90a"),
    ],
)
def test_loose_machine_code(flags: int, abi: int, name: str, expected: str) -> None:
    target = cubin_target(elf({}, machine=190, flags=flags, abi=abi)[:64], name)
    assert target is not None
    assert target.name == expected


def test_other_files_are_no_machine_code_for_gpus() -> None:
    assert cubin_target(elf({})[:64], "k.cubin") is None
    assert cubin_target(b"text", "k.cubin") is None


def test_demands(tmp_path: Path) -> None:
    sections = dynamic(["libtorch.so", "libcudart.so.13"], runpath="$ORIGIN/../lib::/opt/lib", soname="libx.so.1")
    (tmp_path / "x.so").write_bytes(elf(sections))
    with opened_elf(tmp_path / "x.so") as file:
        assert file is not None
        demands = demands_of(file)
    assert demands.needed == ("libtorch.so", "libcudart.so.13")
    assert demands.runpath == ("$ORIGIN/../lib", "/opt/lib")
    assert (demands.soname, demands.rpath) == ("libx.so.1", ())


def test_targets_are_named_as_nvcc_names_them() -> None:
    assert [Target(90, "a").name, Target(100, "f").name, Target(120, "", "ptx").name] == [
        "sm_90a",
        "sm_100f",
        "compute_120",
    ]
