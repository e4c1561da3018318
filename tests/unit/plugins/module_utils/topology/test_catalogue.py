# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import BOARDS, board_of


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
    families = re.compile(r"T4|A10G?|L4|L40S?|L20|RTX PRO 6000 .*|RTX 6000 Ada .*|GeForce RTX [45]090")
    alone = {board.name for board in BOARDS.values() if not board.nvlink}
    assert alone == {
        board.name
        for board in BOARDS.values()
        if families.fullmatch(board.name.replace("NVIDIA ", "").replace("Tesla ", ""))
    }
    assert len(alone) == 13


def test_what_it_does_not_hold() -> None:
    # One id of boards with memory of several sizes, or with several names: A16 and A2, GB300 and its workstation.
    assert [board_of(pci_id) for pci_id in ("10de:25b6", "10de:31c2", "10de:ffff", "", None)] == [None] * 5
