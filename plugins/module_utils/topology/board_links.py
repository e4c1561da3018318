# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a board is built in, and its ways to the host and to other boards.

PCIe generation and width, NVLink bandwidth and the form are from NVIDIA's data sheets; bandwidth is of all links of a
GPU in both directions together, in GB/s (1e9 bytes). Numbers of links are those that recorded and public
C(nvidia-smi topo -m) and C(nvidia-smi nvlink -s) show. A bridge joins two boards (H200 NVL: up to four) and is bought
on its own, so a machine on paper has it only where that is said; NVSwitch and the links of a superchip are always
there.
"""

from __future__ import annotations

from dataclasses import dataclass

SXM, PCIE, SUPERCHIP = "sxm", "pcie", "superchip"
SWITCH, BRIDGE, MESH = "switch", "bridge", "mesh"


@dataclass(frozen=True)
class NvlinkPorts:
    """C(joined): switch = NVSwitch, every GPU reaches every other by all links; mesh = links go to some of the others;
    bridge = a part between two boards."""

    links: int
    gb_per_second: float
    joined: str


@dataclass(frozen=True)
class BoardLinks:
    """What was not verified is None; C(nvlink) is None too for boards without."""

    form: str
    pcie_generation: int | None
    pcie_width: int | None
    nvlink: NvlinkPorts | None = None


_V100_SXM = BoardLinks(SXM, 3, 16, NvlinkPorts(6, 300, MESH))
_A100_SXM = BoardLinks(SXM, 4, 16, NvlinkPorts(12, 600, SWITCH))
_A800_SXM = BoardLinks(SXM, 4, 16, NvlinkPorts(8, 400, SWITCH))
_H100_SXM = BoardLinks(SXM, 5, 16, NvlinkPorts(18, 900, SWITCH))
_GEN_4 = BoardLinks(PCIE, 4, 16)
_GEN_5 = BoardLinks(PCIE, 5, 16)
_BRIDGE_112 = BoardLinks(PCIE, 4, 16, NvlinkPorts(4, 112.5, BRIDGE))

LINKS: dict[str, BoardLinks] = {
    "Tesla V100-SXM2-16GB": _V100_SXM,
    "Tesla V100-SXM2-32GB": _V100_SXM,
    "Tesla V100-PCIE-16GB": BoardLinks(PCIE, 3, 16),
    "Tesla V100-PCIE-32GB": BoardLinks(PCIE, 3, 16),
    "Tesla T4": BoardLinks(PCIE, 3, 16),
    "NVIDIA A100-SXM4-40GB": _A100_SXM,
    "NVIDIA A100-SXM4-80GB": _A100_SXM,
    "NVIDIA A100-PCIE-40GB": BoardLinks(PCIE, 4, 16, NvlinkPorts(12, 600, BRIDGE)),
    "NVIDIA A100 80GB PCIe": BoardLinks(PCIE, 4, 16, NvlinkPorts(12, 600, BRIDGE)),
    "NVIDIA A800-SXM4-40GB": _A800_SXM,
    "NVIDIA A800-SXM4-80GB": _A800_SXM,
    "NVIDIA A800 80GB PCIe": BoardLinks(PCIE, 4, 16, NvlinkPorts(8, 400, BRIDGE)),
    "NVIDIA A30": BoardLinks(PCIE, 4, 16, NvlinkPorts(4, 200, BRIDGE)),
    "NVIDIA A40": _BRIDGE_112,
    "NVIDIA RTX A6000": _BRIDGE_112,
    "NVIDIA RTX A5000": _BRIDGE_112,
    "NVIDIA GeForce RTX 3090": _BRIDGE_112,
    "NVIDIA A10": _GEN_4,
    "NVIDIA A10G": _GEN_4,
    "NVIDIA A2": BoardLinks(PCIE, 4, 8),
    "NVIDIA A16": BoardLinks(PCIE, 4, None),  # four GPUs share the board's 16 lanes
    "NVIDIA H100 80GB HBM3": _H100_SXM,
    "NVIDIA H100 PCIe": BoardLinks(PCIE, 5, 16, NvlinkPorts(12, 600, BRIDGE)),
    "NVIDIA H100 NVL": BoardLinks(PCIE, 5, 16, NvlinkPorts(12, 600, BRIDGE)),
    "NVIDIA H800": BoardLinks(SXM, 5, 16, NvlinkPorts(8, 400, SWITCH)),
    "NVIDIA H800 PCIe": _GEN_5,  # its bridge: not verified
    "NVIDIA H20": _H100_SXM,
    "NVIDIA H20-3e": _H100_SXM,
    "NVIDIA H200": _H100_SXM,
    "NVIDIA H200 NVL": BoardLinks(PCIE, 5, 16, NvlinkPorts(18, 900, BRIDGE)),
    "NVIDIA GH200": BoardLinks(SUPERCHIP, 5, 16),
    "NVIDIA GH200 144G HBM3e": BoardLinks(SUPERCHIP, 5, 16),
    "NVIDIA GeForce RTX 4090": _GEN_4,
    "NVIDIA RTX 6000 Ada Generation": _GEN_4,
    "NVIDIA L40": _GEN_4,
    "NVIDIA L40S": _GEN_4,
    "NVIDIA L20": _GEN_4,
    "NVIDIA L4": _GEN_4,
    "NVIDIA B200": BoardLinks(SXM, None, 16, NvlinkPorts(18, 1800, SWITCH)),  # sources say PCIe 5 and 6
    "NVIDIA GB200": BoardLinks(SUPERCHIP, None, None, NvlinkPorts(18, 1800, SWITCH)),
    "NVIDIA B300 SXM6 AC": BoardLinks(SXM, 6, 16, NvlinkPorts(18, 1800, SWITCH)),
    "NVIDIA GB300": BoardLinks(SUPERCHIP, None, None, NvlinkPorts(18, 1800, SWITCH)),
    "NVIDIA GeForce RTX 5090": _GEN_5,
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": _GEN_5,
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": _GEN_5,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": _GEN_5,
    "NVIDIA RTX PRO 5000 Blackwell": _GEN_5,
    "NVIDIA RTX PRO 4500 Blackwell": _GEN_5,
}
