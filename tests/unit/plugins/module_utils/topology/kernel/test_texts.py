# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    MAX_ID,
    format_cpu_list,
    parse_count,
    parse_cpu_list,
    parse_cpu_mask,
    parse_int,
    parse_link_speed,
    parse_link_width,
    parse_meminfo,
    parse_numa_node,
    parse_pci_address,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        (" -1\n", -1),
        ("", None),
        (None, None),
        ("0x10", None),
        # Python itself reads digits of other scripts, and refuses numbers of thousands of digits by an exception.
        ("\u0663", None),
        ("9" * 5000, None),
    ],
)
def test_a_number_is_read_or_is_none(text: str | None, number: int | None) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("-1", None), ("x", None)])
def test_a_count_is_never_negative(text: str, count: int | None) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("0-1,8,10-11", (0, 1, 8, 10, 11)),
        ("5", (5,)),
        ("", ()),
        (None, ()),
        ("0-63,128-191", tuple(range(64)) + tuple(range(128, 192))),
        ("nonsense,3", (3,)),
        ("-1", ()),
        ("7-5", ()),
        ("3,3,2-3", (2, 3)),
        ("4294967295", ()),
        (f"{MAX_ID - 1}-99999999999999999999", (MAX_ID - 1,)),
        ("\x00\ufffd,1", (1,)),
    ],
)
def test_cpu_list_is_parsed(text: str | None, numbers: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == numbers


def test_a_list_of_everything_is_cut_off_at_what_kernels_can_have() -> None:
    assert len(parse_cpu_list("0-4294967295")) == MAX_ID


@pytest.mark.parametrize("text", ["0-238,240-255", "0,2,4", "7", ""])
def test_cpu_list_comes_back_as_it_was(text: str) -> None:
    assert format_cpu_list(parse_cpu_list(text)) == text


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3", (0, 1)),
        ("1,00000003", (0, 1, 32)),
        # Words after the first may lack their zeros in recordings written by hand.
        ("1,3", (0, 1, 32)),
        ("0000,00000000,0000ffff", tuple(range(16))),
        ("", ()),
        ("xyz", ()),
        (None, ()),
        (",".join(["ffffffff"] * 5000), ()),
    ],
)
def test_cpu_mask_is_parsed(text: str | None, numbers: tuple[int, ...]) -> None:
    assert parse_cpu_mask(text) == numbers


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:06:00.0", "0000:06:00.0"),
        ("00000000:F4:00.0", "0000:f4:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0009d7e8:00:02.0", "9d7e8:00:02.0"),
        ("ffffffff:00:02.0", "ffffffff:00:02.0"),
        ("00:1f.3", None),
        ("", None),
        (None, None),
    ],
)
def test_pci_address_has_one_spelling(text: str | None, address: str | None) -> None:
    assert parse_pci_address(text) == address


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("8.0 GT/s PCIe", 3),
        ("16.0 GT/s PCIe", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("8 GT/s", 3),
        ("Unknown", None),
        ("Unknown speed", None),
        ("12.0 GT/s", None),
        (None, None),
    ],
)
def test_link_speed_names_its_generation(text: str | None, generation: int | None) -> None:
    assert parse_link_speed(text) == generation


@pytest.mark.parametrize(
    ("text", "width"), [("16", 16), ("1", 1), ("0", None), ("63", None), ("255", None), ("x", None)]
)
def test_link_width_is_one_that_links_have(text: str, width: int | None) -> None:
    assert parse_link_width(text) == width


@pytest.mark.parametrize(
    ("text", "node"), [("-1", None), ("0", 0), ("72", 72), ("", None), (None, None), ("99999999", None)]
)
def test_numa_node_minus_one_is_unknown(text: str | None, node: int | None) -> None:
    assert parse_numa_node(text) == node


def test_meminfo_gives_bytes_and_counts() -> None:
    text = "MemTotal:       1584850944 kB\nActive(file):      12 kB\nHugePages_Total:    3\nrubbish\n"
    assert parse_meminfo(text) == {"MemTotal": 1622887366656, "Active(file)": 12288, "HugePages_Total": 3}


def test_more_memory_than_machines_have_is_not_believed() -> None:
    assert parse_meminfo("MemTotal: 99999999999999999999 kB\nMemFree: 1 kB") == {"MemFree": 1024}


def test_node_meminfo_is_the_same_with_a_prefix() -> None:
    assert parse_meminfo("\nNode 12 MemFree:   100 kB\nNode 12 HugePages_Free:  7\n") == {
        "MemFree": 102400,
        "HugePages_Free": 7,
    }


def test_ranges_that_overlap_are_spelled_out_once() -> None:
    many = ",".join(f"{first}-99999999" for first in range(20000))
    began = time.process_time()
    assert parse_cpu_list(many) == tuple(range(MAX_ID))
    # Each range on its own would be a billion numbers: minutes.
    assert time.process_time() - began < 5
    assert parse_cpu_list("4-6,0-1,5-9,2") == (0, 1, 2, 4, 5, 6, 7, 8, 9)
    assert parse_cpu_list("0-9,3-4,9") == tuple(range(10))


def test_no_more_ranges_are_read_than_a_list_can_have() -> None:
    assert parse_cpu_list("1," * (MAX_ID // 2) + "7") == (1,)
    assert parse_cpu_list(",".join(str(number) for number in range(0, MAX_ID, 2))) == tuple(range(0, MAX_ID, 2))
