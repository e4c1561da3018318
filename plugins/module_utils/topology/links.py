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


# From the closest to the farthest.
_ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
# The way down to a device from the host bridge, and of each bridge on it whether ACS makes it redirect.
Way = tuple[Sequence[str], Sequence["bool | None"]]


def _shared(one: Sequence[str], two: Sequence[str]) -> int:
    """How many bridges two ways have in common."""
    shared = 0
    while shared < min(len(one), len(two)) and one[shared] == two[shared]:
        shared += 1
    return shared


def pci_level(
    one: Sequence[str], two: Sequence[str], nodes: tuple[int | None, int | None], node_count: int
) -> str | None:
    """The level between two GPUs from their ways down from the host bridge.

    PIX: one switch between them; PXB: several; PHB: they meet at the host bridge; NODE: at different host bridges of
    one NUMA node; SYS: on different nodes. None where the ways or the nodes are not known. C(node_count) counts the
    nodes with CPUs: where there is one, it is the node of a GPU of which none is told.
    """
    if not one or not two:
        return None
    shared = _shared(one, two)
    if shared > 1:
        return "PIX" if max(len(one), len(two)) - shared <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    if None in nodes:
        return "NODE" if node_count == 1 else None
    return "NODE" if nodes[0] == nodes[1] else "SYS"


def route_of(one: Way, two: Way) -> str | None:
    """The way that traffic between two GPUs takes over PCIe; None where it is not known.

    Where their ways part below a root port, traffic turns around in the switch there, unless ACS of the ports by which
    it enters from either side makes the switch send it up. Ports further down pass it up in any case.
    """
    if not one[0] or not two[0]:
        return None
    shared = _shared(one[0], two[0])
    if shared < 2:
        return "host"
    ports = [told[shared] if shared < len(told) else None for way, told in (one, two) if shared < len(way)]
    if True in ports:
        return "redirected"
    return None if None in ports else "switch"


def agreed_level(there: str | None, back: str | None) -> str | None:
    """One level for both directions: the farther, as no closer one holds for both.

    NVML's lowest level, SELF, between two GPUs means one board with both (Tesla K80), so a switch they share.
    """
    told = ["PIX" if level == "SELF" else level for level in (there, back) if level is not None]
    return max(told, key=lambda level: _ORDER.index(level) if level in _ORDER else -1, default=None)


def agreed_p2p(there: str | None, back: str | None) -> str | None:
    """One state for both directions: ok only where nothing else was said of either."""
    told = [state for state in (there, back) if state is not None]
    return next((state for state in told if state != "ok"), told[0] if told else None)


def nvlink_count(direct: Sequence[str], peer_address: str | None, switched: int, peer_switched: int) -> int:
    """NVLinks that join two GPUs: C(direct) are the addresses at the far ends of one GPU's links that are up; links
    into switches join as many as both have."""
    straight = sum(1 for address in direct if address == peer_address)
    return straight + min(switched, peer_switched)
