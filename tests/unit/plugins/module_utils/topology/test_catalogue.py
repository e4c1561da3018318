# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.board_links import BRIDGE, LINKS, SWITCH
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.board_memory import CUDA_MEMORY
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import (
    BOARDS,
    CATALOGUE,
    board_named,
    board_of,
)


@pytest.mark.parametrize(
    ("pci_id", "name", "memory_mib", "nvlink"),
    [
        ("10de:1db1", "Tesla V100-SXM2-16GB", 16384, True),
        ("10de:1db4", "Tesla V100-PCIE-16GB", 16384, True),
        ("10de:1db5", "Tesla V100-SXM2-32GB", 32768, True),
        ("10de:1db6", "Tesla V100-PCIE-32GB", 32768, True),
        ("10de:20f3", "NVIDIA A800-SXM4-80GB", 81920, True),
        ("10de:20f5", "NVIDIA A800 80GB PCIe", 81920, True),
        ("10de:2204", "NVIDIA GeForce RTX 3090", 24576, True),
        ("10de:2324", "NVIDIA H800", 81559, True),
        ("10de:2329", "NVIDIA H20", 97871, True),
        ("10de:2342", "NVIDIA GH200", 97871, True),
        ("10de:2684", "NVIDIA GeForce RTX 4090", 24564, False),
        ("10de:26ba", "NVIDIA L20", 46068, False),
        ("10de:2941", "NVIDIA GB200", 189471, True),
        ("10de:2b85", "NVIDIA GeForce RTX 5090", 32607, False),
    ],
)
def test_boards_met_often(pci_id: str, name: str, memory_mib: int, nvlink: bool) -> None:
    board = board_of(pci_id)
    assert board is not None
    assert (board.name, board.memory_bytes, board.nvlink) == (name, memory_mib * 2**20, nvlink)


def test_boards_without_nvlink() -> None:
    families = re.compile(r"T4|A10G?|A2|A16|L4|L40S?|L20|RTX PRO .*|RTX 6000 Ada .*|GeForce RTX [45]090")
    alone = {board.name for board in CATALOGUE if not board.nvlink}
    assert alone == {
        board.name for board in CATALOGUE if families.fullmatch(board.name.replace("NVIDIA ", "").replace("Tesla ", ""))
    }
    assert len(alone) == 17


def test_what_it_does_not_hold() -> None:
    # One id of boards with memory of several sizes, or with several names: A16 and A2, GB300 and its workstation.
    assert [board_of(pci_id) for pci_id in ("10de:25b6", "10de:31c2", "10de:ffff", "", None)] == [None] * 5


def test_every_name_and_id_stands_once() -> None:
    assert len({board.name for board in CATALOGUE}) == len(CATALOGUE) == 48
    assert len(BOARDS) == sum(board.pci_id is not None for board in CATALOGUE)


def test_tables_beside_the_rows_are_about_boards_of_the_rows() -> None:
    names = {board.name for board in CATALOGUE}
    assert set(CUDA_MEMORY) <= names
    assert set(LINKS) == names


def test_cuda_sees_less_than_the_board_has_and_not_much_less() -> None:
    known = [board for board in CATALOGUE if board.cuda is not None]
    assert len(known) == 33
    for board in known:
        assert board.cuda is not None and board.cuda.source
        assert board.cuda.lowest_mib <= board.cuda.highest_mib < board.memory_mib, board.name
        assert board.cuda.highest_mib - board.cuda.lowest_mib <= 300, board.name
        # What the driver keeps: 200 MiB to 1.1 GiB, the more the larger the board.
        assert board.memory_mib - board.cuda.highest_mib >= 200, board.name
        assert board.reserved_bytes is not None and board.reserved_bytes <= 1100 * 2**20, board.name


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("NVIDIA H100 80GB HBM3", 79.10),
        ("NVIDIA H200", 139.80),
        ("NVIDIA B200", 178.35),
        ("NVIDIA GB200", 184.31),
        ("NVIDIA B300 SXM6 AC", 267.69),
        ("NVIDIA GB300", 276.50),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 94.97),
        ("NVIDIA H20", 95.00),
    ],
)
def test_memory_as_cuda_sees_it(name: str, gib: float) -> None:
    size = board_named(name).cuda_memory_bytes
    assert size is not None
    assert size / 2**30 == pytest.approx(gib, abs=0.01)


def test_what_was_not_reported_is_not_known() -> None:
    board = board_named("NVIDIA H800")
    assert (board.cuda, board.cuda_memory_bytes, board.reserved_bytes) == (None, None, None)


def test_nvlink_is_told_by_tables_that_agree() -> None:
    for board in CATALOGUE:
        assert board.links is not None
        assert board.nvlink or board.links.nvlink is None, board.name
    h200, bridge = board_named("NVIDIA H200").links, board_named("NVIDIA H200 NVL").links
    assert h200 is not None and h200.nvlink is not None
    assert (h200.nvlink.links, h200.nvlink.gb_per_second, h200.nvlink.joined) == (18, 900, SWITCH)
    assert bridge is not None and bridge.nvlink is not None and bridge.nvlink.joined == BRIDGE


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("H100-80GB-SXM", "NVIDIA H100 80GB HBM3"),
        ("h100 sxm5", "NVIDIA H100 80GB HBM3"),
        ("H100 PCIe", "NVIDIA H100 PCIe"),
        ("h200", "NVIDIA H200"),
        ("H20", "NVIDIA H20"),
        ("H20-141GB", "NVIDIA H20-3e"),
        ("L40S", "NVIDIA L40S"),
        ("L40", "NVIDIA L40"),
        ("b300", "NVIDIA B300 SXM6 AC"),
        ("A100-80GB-SXM4", "NVIDIA A100-SXM4-80GB"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("rtx-pro-6000-server", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
    ],
)
def test_boards_by_the_names_that_people_use(said: str, name: str) -> None:
    assert board_named(said).name == name


def test_every_board_is_found_by_its_own_name() -> None:
    assert [board_named(board.name) for board in CATALOGUE] == list(CATALOGUE)


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ("H100", "board_ambiguous", "Expected one of NVIDIA H100 NVL, NVIDIA H100 80GB HBM3, NVIDIA H100 PCIe."),
        ("RTX PRO 6000", "board_ambiguous", "Max-Q"),
        ("H300", "board_unknown", "NVIDIA H200"),
        (
            "NVIDIA RTX PRO 600 Blackwell Server Edition",
            "board_unknown",
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        ),
        ("Instinct MI300X", "board_unknown", "topology.gpus"),
        ("", "board_unknown", "topology.gpus"),
        ("DGX Spark", "board_not_planned", "no memory of its own"),
        ("NVIDIA GB10", "board_not_planned", "no memory of its own"),
    ],
)
def test_names_that_are_no_board(said: str, code: str, told: str) -> None:
    with pytest.raises(Refusal) as caught:
        board_named(said)
    assert caught.value.code == code
    assert told in str(caught.value)
