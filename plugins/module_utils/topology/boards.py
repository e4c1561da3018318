# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boards of the catalogue, one a row.

Names and PCI device ids are those of the driver (NVIDIA/open-gpu-kernel-modules, README.md of 595.45.04) or, for boards
that it does not serve, those nvidia-smi prints; what differs between boards of one id is left out (GH200: its CPU's
memory). An id that boards with memory of several sizes share is None (A2 and A16; RTX PRO 5000 with 48 and 72 GB; GB300
and its workstation). Memory is what nvidia-smi prints as total, in MiB, with ECC as it leaves the factory; drivers
differ by a few hundred MiB. Compute capabilities are from NVIDIA's list (developer.nvidia.com/cuda-gpus). The nominal
size is the one in the board's data sheet, in GB.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.board_links import BoardLinks
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.board_memory import CudaMemory


@dataclass(frozen=True)
class Board:
    """C(nvlink) is False for boards that have none, neither in the module nor for a bridge between two boards.

    C(cuda) and C(links) are None where no report of them was found: nothing here is derived from another board.
    """

    name: str
    memory_mib: int
    compute_capability: str
    architecture: str
    source: str
    nvlink: bool = True
    nominal_gb: int | None = None
    pci_id: str | None = None
    cuda: CudaMemory | None = None
    links: BoardLinks | None = None

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * MIB

    @property
    def cuda_memory_bytes(self) -> int | None:
        """What CUDA gives as the total, the smallest that was reported: planning errs on the side that fits."""
        return None if self.cuda is None else self.cuda.lowest_mib * MIB

    @property
    def reserved_bytes(self) -> int | None:
        """What the driver keeps of the memory that nvidia-smi prints; NVML calls it reserved."""
        cuda = self.cuda_memory_bytes
        return None if cuda is None else self.memory_bytes - cuda


_SMI = "nvidia-smi as printed in public reports"
_RECORDED = "recorded nvidia-smi -q of the board"

# PCI id, name, MiB, nominal GB, compute capability, architecture, source, NVLink.
ROWS: tuple[tuple[str | None, str, int, int, str, str, str, bool], ...] = (
    ("10de:1db1", "Tesla V100-SXM2-16GB", 16384, 16, "7.0", "volta", _SMI, True),
    ("10de:1db4", "Tesla V100-PCIE-16GB", 16384, 16, "7.0", "volta", _SMI, True),
    ("10de:1db5", "Tesla V100-SXM2-32GB", 32768, 32, "7.0", "volta", _SMI, True),
    ("10de:1db6", "Tesla V100-PCIE-32GB", 32768, 32, "7.0", "volta", _SMI, True),
    ("10de:1eb8", "Tesla T4", 15360, 16, "7.5", "turing", _RECORDED, False),
    ("10de:20b0", "NVIDIA A100-SXM4-40GB", 40960, 40, "8.0", "ampere", _SMI, True),
    ("10de:20b2", "NVIDIA A100-SXM4-80GB", 81920, 80, "8.0", "ampere", _RECORDED, True),
    ("10de:20b5", "NVIDIA A100 80GB PCIe", 81920, 80, "8.0", "ampere", _SMI, True),
    ("10de:20b7", "NVIDIA A30", 24576, 24, "8.0", "ampere", _SMI, True),
    ("10de:20bd", "NVIDIA A800-SXM4-40GB", 40960, 40, "8.0", "ampere", _SMI, True),
    ("10de:20f1", "NVIDIA A100-PCIE-40GB", 40960, 40, "8.0", "ampere", _SMI, True),
    ("10de:20f3", "NVIDIA A800-SXM4-80GB", 81920, 80, "8.0", "ampere", _SMI, True),
    ("10de:20f5", "NVIDIA A800 80GB PCIe", 81920, 80, "8.0", "ampere", _SMI, True),
    ("10de:2204", "NVIDIA GeForce RTX 3090", 24576, 24, "8.6", "ampere", _SMI, True),
    ("10de:2230", "NVIDIA RTX A6000", 49140, 48, "8.6", "ampere", _SMI, True),
    ("10de:2231", "NVIDIA RTX A5000", 24564, 24, "8.6", "ampere", _SMI, True),
    ("10de:2235", "NVIDIA A40", 46068, 48, "8.6", "ampere", _SMI, True),
    ("10de:2236", "NVIDIA A10", 23028, 24, "8.6", "ampere", _SMI, False),
    ("10de:2237", "NVIDIA A10G", 23028, 24, "8.6", "ampere", _RECORDED, False),
    (None, "NVIDIA A2", 15356, 16, "8.6", "ampere", _SMI, False),
    (None, "NVIDIA A16", 15356, 16, "8.6", "ampere", _SMI, False),
    ("10de:2321", "NVIDIA H100 NVL", 95830, 94, "9.0", "hopper", _SMI, True),
    ("10de:2322", "NVIDIA H800 PCIe", 81559, 80, "9.0", "hopper", _SMI, True),
    ("10de:2324", "NVIDIA H800", 81559, 80, "9.0", "hopper", _SMI, True),
    ("10de:2329", "NVIDIA H20", 97871, 96, "9.0", "hopper", _SMI, True),
    ("10de:232c", "NVIDIA H20-3e", 143771, 141, "9.0", "hopper", _SMI, True),
    ("10de:2330", "NVIDIA H100 80GB HBM3", 81559, 80, "9.0", "hopper", _SMI, True),
    ("10de:2331", "NVIDIA H100 PCIe", 81559, 80, "9.0", "hopper", _SMI, True),
    ("10de:2335", "NVIDIA H200", 143771, 141, "9.0", "hopper", _SMI, True),
    ("10de:233b", "NVIDIA H200 NVL", 143771, 141, "9.0", "hopper", _SMI, True),
    ("10de:2342", "NVIDIA GH200", 97871, 96, "9.0", "hopper", _SMI, True),
    ("10de:2348", "NVIDIA GH200 144G HBM3e", 146831, 144, "9.0", "hopper", _SMI, True),
    ("10de:2684", "NVIDIA GeForce RTX 4090", 24564, 24, "8.9", "ada", _SMI, False),
    ("10de:26b1", "NVIDIA RTX 6000 Ada Generation", 49140, 48, "8.9", "ada", _SMI, False),
    ("10de:26b5", "NVIDIA L40", 46068, 48, "8.9", "ada", _SMI, False),
    ("10de:26b9", "NVIDIA L40S", 46068, 48, "8.9", "ada", _SMI, False),
    ("10de:26ba", "NVIDIA L20", 46068, 48, "8.9", "ada", _SMI, False),
    ("10de:27b8", "NVIDIA L4", 23034, 24, "8.9", "ada", _SMI, False),
    ("10de:2901", "NVIDIA B200", 183359, 180, "10.0", "blackwell", _SMI, True),
    ("10de:2941", "NVIDIA GB200", 189471, 186, "10.0", "blackwell", _SMI, True),
    ("10de:2b85", "NVIDIA GeForce RTX 5090", 32607, 32, "12.0", "blackwell", _SMI, False),
    ("10de:2bb1", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887, 96, "12.0", "blackwell", _SMI, False),
    (
        "10de:2bb4",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        97887,
        96,
        "12.0",
        "blackwell",
        _SMI,
        False,
    ),
    ("10de:2bb5", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, 96, "12.0", "blackwell", _RECORDED, False),
    (None, "NVIDIA RTX PRO 5000 Blackwell", 48935, 48, "12.0", "blackwell", _SMI, False),
    ("10de:2c31", "NVIDIA RTX PRO 4500 Blackwell", 32623, 32, "12.0", "blackwell", _SMI, False),
    ("10de:3182", "NVIDIA B300 SXM6 AC", 275040, 288, "10.3", "blackwell", _SMI, True),
    (None, "NVIDIA GB300", 284208, 288, "10.3", "blackwell", _SMI, True),
)
