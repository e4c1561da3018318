# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine that is not there yet, out of a few words: a board of the catalogue, how many, and the host around them.

The result has the form of what gpu_topology_info returns, or rather a part of it, and is planned like any other.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import integer
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.board_links import BRIDGE, MESH
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.boards import Board
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_named

KEYS = ("board", "count", "numa_nodes", "gpu_nodes", "memory_gb", "available_gb", "nvlink", "assumptions")
_LARGEST_COUNT = 1024


@dataclass(frozen=True)
class PaperMachine:
    """C(gpu_nodes) is the NUMA node of each GPU; sizes are None where nothing was said."""

    board: Board
    gpu_nodes: tuple[int, ...]
    nodes: int
    memory_bytes: int | None
    available_bytes: int | None
    nvlink: bool
    assumptions: tuple[str, ...]


def machine_on_paper(given: Mapping[str, Any]) -> dict[str, Any]:
    """The topology of such a machine, or Refusal that names the key that is wrong."""
    machine = _machine(given)
    board = machine.board
    links = board.links
    gpus = [
        {
            "index": index,
            "name": board.name,
            "memory_total_bytes": board.memory_bytes,
            "memory_reserved_bytes": board.reserved_bytes,
            "memory_source": "catalogue",
            "compute_capability": board.compute_capability,
            "architecture": board.architecture,
            "numa_node": node,
            "pcie": {
                "generation_max": links.pcie_generation if links else None,
                "width_max": links.pcie_width if links else None,
            },
        }
        for index, node in enumerate(machine.gpu_nodes)
    ]
    topology: dict[str, Any] = {
        "gpus": gpus,
        "numa_nodes": [_node(machine, node) for node in range(machine.nodes)],
        "host": {"memory_total_bytes": machine.memory_bytes, "memory_available_bytes": machine.available_bytes},
        "assumptions": list(machine.assumptions),
    }
    if machine.nvlink:
        topology["gpu_links"] = _links(machine)
    return topology


def _node(machine: PaperMachine, node: int) -> dict[str, Any]:
    """Memory of a node is its even share; without a size nothing is said of it."""
    total = machine.memory_bytes
    return {
        "id": node,
        "memory_total_bytes": None if total is None else total // machine.nodes,
        "gpus": [index for index, home in enumerate(machine.gpu_nodes) if home == node],
    }


def _links(machine: PaperMachine) -> list[list[dict[str, Any]]]:
    ports = machine.board.links.nvlink if machine.board.links else None
    count = 0 if ports is None else ports.links
    indexes = range(len(machine.gpu_nodes))
    return [
        [
            {"level": None if one == two else f"NV{count}", "p2p": None, "nvlinks": None if one == two else count}
            for two in indexes
        ]
        for one in indexes
    ]


def _machine(given: Mapping[str, Any]) -> PaperMachine:
    for key in given:
        if key not in KEYS:
            close = difflib.get_close_matches(str(key), KEYS, n=1)
            raise Refusal(
                "option_unknown",
                f"{key} is not known of a machine on paper.",
                f"The closest is {close[0]}." if close else f"Expected some of {', '.join(KEYS)}.",
                {"option": str(key), "closest": close[0] if close else None},
            )
    board = given.get("board")
    if not isinstance(board, str) or not board.strip():
        raise Refusal(
            "board_missing", f"board is {board!r}.", "Expected a board of the catalogue, such as NVIDIA H200."
        )
    found = board_named(board)
    count = _between(given.get("count", 1), "count", 1, _LARGEST_COUNT)
    nodes = _between(given.get("numa_nodes", 1), "numa_nodes", 1, _LARGEST_COUNT)
    gpu_nodes = _gpu_nodes(given.get("gpu_nodes"), count, nodes)
    memory, available = _size(given.get("memory_gb"), "memory_gb"), _size(given.get("available_gb"), "available_gb")
    assumptions = _sentences(given.get("assumptions"))
    if memory is not None and available is not None and available > memory:
        raise Refusal(
            "value_malformed",
            f"available_gb is {format_gb(available)}, more than memory_gb with {format_gb(memory)}.",
            "Expected what is left of the host memory for a service.",
        )
    if available is None and memory is not None:
        available = memory
        assumptions.append(
            f"All {format_gb(memory, 0)} of the host's memory are available, as available_gb is not said."
        )
    if given.get("gpu_nodes") is None and nodes > 1:
        assumptions.append(f"The {count} GPUs are divided evenly over the {nodes} NUMA nodes, in their order.")
    return PaperMachine(
        board=found,
        gpu_nodes=gpu_nodes,
        nodes=nodes,
        memory_bytes=memory,
        available_bytes=available,
        nvlink=_nvlink(given.get("nvlink"), found, count, assumptions),
        assumptions=tuple(assumptions),
    )


def _nvlink(said: Any, board: Board, count: int, assumptions: list[str]) -> bool:
    """Whether NVLink joins every pair. A switch always does; bridges do where that is said, and join two boards."""
    if said is not None and not isinstance(said, bool):
        raise Refusal("value_malformed", f"nvlink is {said!r}.", "Expected true or false, or nothing.")
    ports = board.links.nvlink if board.links else None
    if ports is None or ports.joined == MESH:
        if said:
            raise Refusal(
                "nvlink_not_had",
                f"nvlink is true, and the catalogue knows no NVLink of {board.name} that joins every pair of GPUs.",
                "Leave nvlink out, or state the machine as a topology with gpu_links.",
            )
        return False
    if count < 2 or said is False:
        return False
    if ports.joined == BRIDGE:
        if said and count > 2:
            raise Refusal(
                "nvlink_not_had",
                f"nvlink is true for {count} boards of {board.name}, and on paper a bridge joins two.",
                "State the pairs as a topology with gpu_links, or leave nvlink out.",
            )
        return bool(said)
    if said is None:
        assumptions.append(f"NVSwitch joins the {count} GPUs, as it does on boards of this form.")
    return True


def _gpu_nodes(said: Any, count: int, nodes: int) -> tuple[int, ...]:
    if said is None:
        return tuple(index * nodes // count for index in range(count))
    if not isinstance(said, Sequence) or isinstance(said, str) or len(said) != count:
        raise Refusal("value_malformed", f"gpu_nodes is {said!r}.", f"Expected one NUMA node for each of {count} GPUs.")
    return tuple(_between(node, f"gpu_nodes[{place}]", 0, nodes - 1) for place, node in enumerate(said))


def _between(value: Any, name: str, smallest: int, largest: int) -> int:
    number = integer(value, name)
    if number is None or not smallest <= number <= largest:
        raise Refusal("value_malformed", f"{name} is {value!r}.", f"Expected a whole number, {smallest} to {largest}.")
    return number


def _size(value: Any, name: str) -> int | None:
    """GB (1e9 bytes), which may have decimals, in bytes."""
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        size = float(value)
        if not 0 < size < 1e9:
            raise ValueError
    except (TypeError, ValueError):
        raise Refusal("value_malformed", f"{name} is {value!r}.", "Expected GB (1e9 bytes) above 0.") from None
    return round(size * GB)


def _sentences(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise Refusal("value_malformed", f"assumptions is {value!r}.", "Expected a list of sentences.")
    return [str(sentence) for sentence in value]
