# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How GPUs reach one another: over NVLink, else over the PCI bridges that they share."""

from __future__ import annotations

from collections.abc import Sequence

# NVML's nvmlGpuTopologyLevel_t and the names nvidia-smi gives them (nvidia-smi topo -m, legend).
LEVELS = {0: "SELF", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
# NVML's nvmlGpuP2PStatus_t.
P2P_STATES = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "topology_not_supported",
    4: "disabled_by_regkey",
    5: "not_supported",
    6: "unknown",
}


def pci_level(
    one: Sequence[str], two: Sequence[str], nodes: tuple[int | None, int | None], node_count: int
) -> str | None:
    """The level between two GPUs from their ways down from the host bridge.

    PIX: one switch between them; PXB: several; PHB: they meet at the host bridge; NODE: at different host bridges of
    one NUMA node; SYS: on different nodes. None where the ways or the nodes are not known.
    """
    if not one or not two:
        return None
    shared = 0
    while shared < min(len(one), len(two)) and one[shared] == two[shared]:
        shared += 1
    if shared > 1:
        return "PIX" if max(len(one), len(two)) - shared <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    if node_count == 1:
        return "NODE"
    if None in nodes:
        return None
    return "NODE" if nodes[0] == nodes[1] else "SYS"


def nvlink_count(direct: Sequence[str], peer_address: str | None, switched: int, peer_switched: int) -> int:
    """NVLinks that join two GPUs: C(direct) are the addresses at the far ends of one GPU's links that are up; links
    into switches join as many as both have."""
    straight = sum(1 for address in direct if address == peer_address)
    return straight + min(switched, peer_switched)
