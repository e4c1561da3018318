# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where GPUs are in the host, joined from what the bus, the nodes and the driver say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import name_iommu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import FIRST_SWITCH_PORT, PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_cpu_list
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, Host, NumaNode


def node_of(node: int | None, cpu_list: str | None, nodes: Sequence[NumaNode]) -> int | None:
    """The node a GPU is on, one of C(nodes) where these are known.

    Firmware can name a node that is not there. It can also name none and yet tell the CPUs nearby: where these belong
    to one node of several, that is the one.
    """
    if not nodes or node in {one.id for one in nodes}:
        return node
    homes = [one for one in nodes if one.has_cpus]
    near = frozenset(parse_cpu_list(cpu_list))
    around = [one.id for one in homes if near.intersection(parse_cpu_list(one.cpus))]
    return around[0] if len(around) == 1 and len(homes) > 1 else None


def placed(one: Joined, nodes: Sequence[NumaNode]) -> Joined:
    """The same GPU with its places in the host filled in."""
    gpu, pci = one.gpu, one.pci
    numa_node = node_of(gpu.numa_node, gpu.cpu_list, nodes)
    memory_node = gpu.gpu_numa_id if pci is None or gpu.gpu_numa_id is not None else pci.memory_node
    # Memory that the driver keeps for itself, or that is offline, forms no node of the host.
    if nodes and memory_node not in {node.id for node in nodes}:
        memory_node = None
    found = replace(gpu, numa_node=numa_node, gpu_numa_id=memory_node)
    return replace(one, gpu=found if pci is None else replace(found, iommu_group=pci.iommu_group))


def placed_nodes(nodes: Sequence[NumaNode], gpus: Sequence[Gpu]) -> tuple[NumaNode, ...]:
    """The nodes with the GPUs on them, and those told apart that the driver says are the memory of a GPU."""
    of_gpus = {gpu.gpu_numa_id for gpu in gpus}
    return tuple(
        replace(
            node,
            kind="gpu_memory" if node.id in of_gpus and not node.has_cpus else node.kind,
            gpus=tuple(gpu.index for gpu in gpus if gpu.numa_node == node.id),
        )
        for node in nodes
    )


def redirecting_ports(pci_gpus: Sequence[PciGpu]) -> tuple[str, ...] | None:
    """Switch ports above GPUs that redirect, in the order of the GPUs; None where of none it is known."""
    ports: dict[str, bool | None] = {}
    for pci in pci_gpus:
        ports.update(tuple(zip(pci.bridges, pci.acs))[FIRST_SWITCH_PORT:])
    ways_known = bool(pci_gpus) and all(pci.bridges for pci in pci_gpus)
    if all(redirects is None for redirects in ports.values()) and (ports or not ways_known):
        return None
    return tuple(bridge for bridge, redirects in ports.items() if redirects)


def host_of(host: Host, pci_gpus: Sequence[PciGpu]) -> Host:
    """The host with what the GPUs' ways through it tell."""
    types = [pci.iommu_type for pci in pci_gpus]
    iommu = name_iommu(None, None, types) or host.iommu
    return replace(host, iommu=iommu, acs_redirecting=redirecting_ports(pci_gpus))
