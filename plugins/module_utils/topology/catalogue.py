# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boards by PCI device id: what a host without a driver holds.

Names are those the driver gives (NVIDIA/open-gpu-kernel-modules, src/nvidia/generated/g_nv_name_released.h) or, for
newer boards, those nvidia-smi prints; what differs between boards of one id is left out (GH200: its CPU's memory).
Memory is what nvidia-smi prints as total, in MiB, with ECC as it leaves the factory; drivers differ by a few hundred
MiB. Compute capabilities are from NVIDIA's list (developer.nvidia.com/cuda-gpus).
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB


@dataclass(frozen=True)
class Board:
    """C(nvlink) is False for boards that have none, neither in the module nor for a bridge between two boards."""

    name: str
    memory_mib: int
    compute_capability: str
    architecture: str
    source: str
    nvlink: bool = True

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * MIB


_SMI = "nvidia-smi as printed in public reports"
_RECORDED = "recorded nvidia-smi -q of the board"

BOARDS: dict[str, Board] = {
    "10de:1db1": Board("Tesla V100-SXM2-16GB", 16384, "7.0", "volta", _SMI),
    "10de:1db4": Board("Tesla V100-PCIE-16GB", 16384, "7.0", "volta", _SMI),
    "10de:1db5": Board("Tesla V100-SXM2-32GB", 32768, "7.0", "volta", _SMI),
    "10de:1db6": Board("Tesla V100-PCIE-32GB", 32768, "7.0", "volta", _SMI),
    "10de:1eb8": Board("Tesla T4", 15360, "7.5", "turing", _RECORDED, nvlink=False),
    "10de:20b0": Board("NVIDIA A100-SXM4-40GB", 40960, "8.0", "ampere", _SMI),
    "10de:20b2": Board("NVIDIA A100-SXM4-80GB", 81920, "8.0", "ampere", _RECORDED),
    "10de:20b5": Board("NVIDIA A100 80GB PCIe", 81920, "8.0", "ampere", _SMI),
    "10de:20b7": Board("NVIDIA A30", 24576, "8.0", "ampere", _SMI),
    "10de:20f1": Board("NVIDIA A100-PCIE-40GB", 40960, "8.0", "ampere", _SMI),
    "10de:20f3": Board("NVIDIA A800-SXM4-80GB", 81920, "8.0", "ampere", _SMI),
    "10de:20f5": Board("NVIDIA A800 80GB PCIe", 81920, "8.0", "ampere", _SMI),
    "10de:2204": Board("NVIDIA GeForce RTX 3090", 24576, "8.6", "ampere", _SMI),
    "10de:2230": Board("NVIDIA RTX A6000", 49140, "8.6", "ampere", _SMI),
    "10de:2235": Board("NVIDIA A40", 46068, "8.6", "ampere", _SMI),
    "10de:2236": Board("NVIDIA A10", 23028, "8.6", "ampere", _SMI, nvlink=False),
    "10de:2237": Board("NVIDIA A10G", 23028, "8.6", "ampere", _RECORDED, nvlink=False),
    "10de:2321": Board("NVIDIA H100 NVL", 95830, "9.0", "hopper", _SMI),
    "10de:2324": Board("NVIDIA H800", 81559, "9.0", "hopper", _SMI),
    "10de:2329": Board("NVIDIA H20", 97871, "9.0", "hopper", _SMI),
    "10de:2330": Board("NVIDIA H100 80GB HBM3", 81559, "9.0", "hopper", _SMI),
    "10de:2331": Board("NVIDIA H100 PCIe", 81559, "9.0", "hopper", _SMI),
    "10de:2335": Board("NVIDIA H200", 143771, "9.0", "hopper", _SMI),
    "10de:233b": Board("NVIDIA H200 NVL", 143771, "9.0", "hopper", _SMI),
    "10de:2342": Board("NVIDIA GH200", 97871, "9.0", "hopper", _SMI),
    "10de:2684": Board("NVIDIA GeForce RTX 4090", 24564, "8.9", "ada", _SMI, nvlink=False),
    "10de:26b1": Board("NVIDIA RTX 6000 Ada Generation", 49140, "8.9", "ada", _SMI, nvlink=False),
    "10de:26b5": Board("NVIDIA L40", 46068, "8.9", "ada", _SMI, nvlink=False),
    "10de:26b9": Board("NVIDIA L40S", 46068, "8.9", "ada", _SMI, nvlink=False),
    "10de:26ba": Board("NVIDIA L20", 46068, "8.9", "ada", _SMI, nvlink=False),
    "10de:27b8": Board("NVIDIA L4", 23034, "8.9", "ada", _SMI, nvlink=False),
    "10de:2901": Board("NVIDIA B200", 183359, "10.0", "blackwell", _SMI),
    "10de:2941": Board("NVIDIA GB200", 189471, "10.0", "blackwell", _SMI),
    "10de:2b85": Board("NVIDIA GeForce RTX 5090", 32607, "12.0", "blackwell", _SMI, nvlink=False),
    "10de:2bb1": Board(
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887, "12.0", "blackwell", _SMI, nvlink=False
    ),
    "10de:2bb4": Board(
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887, "12.0", "blackwell", _SMI, nvlink=False
    ),
    "10de:2bb5": Board(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "12.0", "blackwell", _RECORDED, nvlink=False
    ),
    "10de:3182": Board("NVIDIA B300 SXM6 AC", 275040, "10.3", "blackwell", _SMI),
}


def board_of(pci_id: str | None) -> Board | None:
    """The board with this C(vendor:device) id, in lower-case hexadecimal digits."""
    return BOARDS.get(pci_id or "")
