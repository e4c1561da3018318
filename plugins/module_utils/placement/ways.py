# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far GPUs are from one another: over the links between them, and between their NUMA nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts, Link, MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import distance_of

# Costs of a link by NVML's level; NVLinks cost less than any of them, and the less the more there are.
_LEVEL_COST = {"PIX": 200, "PXB": 300, "PHB": 400, "NODE": 500, "SYS": 600}
UNKNOWN_COST = 700
_MOST_NVLINKS = 99
# The firmware's word for "cannot be reached"; stands in where it is silent on a pair of nodes.
_FAR = 255


def link_cost(machine: MachineFacts, one: GpuFacts, two: GpuFacts) -> int:
    """What it costs to talk from one GPU to the other; where no link is known, their nodes tell a little."""
    link = machine.links.get((one.index, two.index), Link())
    if link.nvlinks > 0:
        return _MOST_NVLINKS + 1 - min(link.nvlinks, _MOST_NVLINKS)
    if link.level in _LEVEL_COST:
        return _LEVEL_COST[link.level]
    if one.numa_node is None or two.numa_node is None:
        return UNKNOWN_COST
    return _LEVEL_COST["NODE" if one.numa_node == two.numa_node else "SYS"]


def worst_link(machine: MachineFacts, gpus: Sequence[GpuFacts]) -> str | None:
    """The level of the slowest link in a set; None for a single GPU and where a link is not known."""
    pairs = list(combinations(gpus, 2))
    if not pairs:
        return None
    one, two = max(pairs, key=lambda pair: link_cost(machine, *pair))
    links = [machine.links.get((first.index, second.index), Link()).level for first, second in pairs]
    return None if None in links else machine.links[one.index, two.index].level


def distances(machine: MachineFacts, gpus: Sequence[GpuFacts]) -> list[list[int]]:
    """Between the nodes of any two GPUs; all the same where the firmware tells none."""
    nodes = {node.id: node for node in machine.nodes}
    if not any(node.distances for node in machine.nodes):
        return [[0] * len(gpus) for _gpu in gpus]

    def apart(one: int | None, two: int | None) -> int:
        told = distance_of(nodes[one], nodes[two]) if one in nodes and two in nodes else None
        return _FAR if told is None else told

    return [[apart(one.numa_node, two.numa_node) for two in gpus] for one in gpus]
