# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Topologies on paper, in the shape that gpu_topology_info returns, for tests of what is made of them."""

from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts, machine_facts

GB = 10**9

Level = Callable[[int, int], str]


def topology(
    nodes: Sequence[int | None], level: Level | None = None, numa_nodes: Sequence[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A GPU on each of C(nodes); C(level) joins two of them by their indexes."""
    ids = sorted({node for node in nodes if node is not None} | {0})
    size = range(len(nodes))
    found: dict[str, Any] = {
        "gpus": [
            {"index": index, "uuid": f"GPU-{index}", "pci_address": f"0000:{index + 16:02x}:00.0", "numa_node": node}
            for index, node in enumerate(nodes)
        ],
        "numa_nodes": list(numa_nodes) if numa_nodes is not None else [{"id": node} for node in ids],
        "host": {},
    }
    if level is not None:
        found["gpu_links"] = [
            [{"level": "SELF" if one == two else level(min(one, two), max(one, two))} for two in size] for one in size
        ]
    return found


def machine(*arguments: Any, **more: Any) -> MachineFacts:
    return machine_facts(topology(*arguments, **more))


def pairs_of(nodes: Sequence[int], joined: str = "PIX") -> Level:
    """Boards with two GPUs behind one switch: C(joined) within a board, NODE within a node, SYS beyond."""

    def level(one: int, two: int) -> str:
        if one // 2 == two // 2:
            return joined
        return "NODE" if nodes[one] == nodes[two] else "SYS"

    return level


TWO_SOCKETS = (0, 0, 0, 0, 1, 1, 1, 1)


def two_sockets() -> dict[str, Any]:
    """Eight GPUs in pairs on two sockets, as the founding box has them."""
    return topology(TWO_SOCKETS, pairs_of(TWO_SOCKETS))
