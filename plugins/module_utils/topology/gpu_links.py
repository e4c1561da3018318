# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The matrix of links between GPUs, joined from the driver's levels and the PCI tree."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import (
    agreed_level,
    agreed_p2p,
    nvlink_count,
    pci_level,
    route_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import GpuLink, Host, NumaNode
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import NvmlReading

Matrix = Sequence[Sequence["str | None"]]


def _both(matrix: Matrix, one: int, two: int) -> tuple[str | None, str | None]:
    return matrix[one][two], matrix[two][one]


def _nvlinks_to(one: Joined, two: Joined) -> int | None:
    """What the ends of one GPU's links tell of those to another; None where they may lead there unsaid."""
    if one.nvml is None or one.nvml.link_ends is None:
        return None
    ends, peer = one.nvml.link_ends, two.nvml.link_ends if two.nvml is not None else None
    count = nvlink_count(ends.to_gpus, two.gpu.pci_address, ends.to_switches, peer.to_switches if peer else 0)
    active = one.nvml.gpu.nvlinks.active if one.nvml.gpu.nvlinks else 0
    unsaid = active > len(ends.to_gpus) + ends.to_switches
    nameless = bool(ends.to_gpus) and two.gpu.pci_address is None
    if not count and (unsaid or nameless or (ends.to_switches and peer is None)):
        return None
    return count


def _nvlinks(one: Joined, two: Joined) -> int | None:
    """Links that are up are so at both ends, so the end that could be read counts; None where none could."""
    ends = ((one, two), (two, one))
    told = [count for count in (_nvlinks_to(*end) for end in ends) if count is not None]
    return max(told, default=None)


def _pci_route(one: Joined, two: Joined, nvlinks: int | None) -> str | None:
    """The way over PCIe, where it is known that no NVLink spares it."""
    if one.pci is None or two.pci is None:
        return None
    boards = (board_of(one.pci.pci_id), board_of(two.pci.pci_id))
    if nvlinks is None and all(board is None or board.nvlink for board in boards):
        return None
    return route_of((one.pci.bridges, one.pci.acs), (two.pci.bridges, two.pci.acs))


def _seen_level(one: Joined, two: Joined, nodes: Sequence[NumaNode]) -> str | None:
    """The level by the PCI tree."""
    if one.pci is None or two.pci is None:
        return None
    places = (one.gpu.numa_node, two.gpu.numa_node)
    return pci_level(one.pci.bridges, two.pci.bridges, places, len([node for node in nodes if node.has_cpus]))


def level_conflicts(
    pairs: Sequence[Joined], nvml: NvmlReading | None, nodes: Sequence[NumaNode], host: Host
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Pairs of GPUs by (what the driver tells, what the PCI tree shows), where the two differ."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    # In a guest the bus is an invention of the hypervisor.
    if nvml is None or host.virtualization not in (None, "none"):
        return found
    for high, two in enumerate(pairs):
        for low, one in enumerate(pairs[:high]):
            told, seen = agreed_level(*_both(nvml.levels, low, high)), _seen_level(one, two, nodes)
            if told is not None and seen is not None and told != seen:
                found.setdefault((told, seen), []).append((one.gpu.index, two.gpu.index))
    return found


def gpu_links(
    pairs: Sequence[Joined], nvml: NvmlReading | None, nodes: Sequence[NumaNode], host: Host
) -> tuple[tuple[GpuLink, ...], ...]:
    """One row a GPU, one entry a peer; what holds from one to the other holds back. C(nvml) is None where the driver
    did not answer."""
    # In a guest the bus is an invention of the hypervisor: it tells no way through the machine.
    real = host.virtualization in (None, "none")
    found: dict[tuple[int, int], GpuLink] = {}
    for high, two in enumerate(pairs):
        for low, one in enumerate(pairs[:high]):
            level = agreed_level(*_both(nvml.levels, low, high)) if nvml else None
            count = _nvlinks(one, two)
            route = _pci_route(one, two, count) if real else None
            found[low, high] = GpuLink(
                level=f"NV{count}" if count else level or _seen_level(one, two, nodes),
                p2p=agreed_p2p(*_both(nvml.p2p, low, high)) if nvml else None,
                nvlinks=count,
                route="nvlink" if count else route,
            )
    size = range(len(pairs))
    itself = GpuLink("SELF", None, 0)
    return tuple(tuple(itself if one == two else found[min(one, two), max(one, two)] for two in size) for one in size)
