# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Real C(nvidia-smi topo -m) matrices, parsed, and each made a machine: its /sys, its /proc and its NVML.

Parsing that text is a test's work only; nothing that the collection ships does it. What the matrix does not tell is
made up: PCI addresses, memory, and the NUMA nodes below the highest that it names, which are traps.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.boards import Board
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import BOARDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    format_cpu_list,
    parse_cpu_list,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import DEVICES, node, write

# Issue trackers keep escape sequences of the underlined heading, with or without their first character.
_ESCAPES = re.compile(r"(?:\x1b|\ufffd)?\[\d*m")
# Columns run together where a terminal was narrow: NODENODE, SYS0-35.
_CELL = re.compile(r"\s*(X|NV\d+|PIX|PXB|PHB|NODE|SYS)(?=[\s\dPXNS]|$)")
_CLOSE = ("PIX", "PXB", "PHB")
# No board has more NVLinks than this; what has more peers than that is joined by switches.
_MOST_NVLINKS = 18
NODE_KIB = 4 << 30
DEFAULT_BOARD = Board("NVIDIA H100 80GB HBM3", 81559, "9.0", "hopper", "made up")


@dataclass(frozen=True)
class Matrix:
    """C(nodes) has a node for each GPU, None where the matrix names none or several; C(cpus) likewise.

    C(named) are all nodes that it names, a range included.
    """

    source: str
    levels: tuple[tuple[str, ...], ...]
    cpus: tuple[str | None, ...]
    nodes: tuple[int | None, ...]
    named: frozenset[int]
    boards: tuple[Board, ...]

    @property
    def count(self) -> int:
        return len(self.levels)

    @property
    def homes(self) -> frozenset[int]:
        """Every machine has a node, called 0 where nothing is said about it."""
        return self.named or frozenset((0,))


def parsed(entry: dict[str, Any]) -> Matrix:
    """One entry of the collection of matrices; what is not as expected is an AssertionError, never left out."""
    lines = [_ESCAPES.sub("", line) for line in entry["topo"].splitlines()]
    rows = [line for line in lines if re.match(r"\s*GPU\d+\s", line) and re.search(r"\sX(\s|$)", line)]
    headings = [line for line in lines if "GPU0" in line and line not in rows]
    assert len(headings) == 1, f"{entry['source']}: {len(headings)} headings"
    columns = len(re.findall(r"(?:GPU|NIC|mlx\S*?)\d+", headings[0]))
    assert len(rows) == entry["n_gpu"], f"{entry['source']}: {len(rows)} rows for {entry['n_gpu']} GPUs"
    levels, cpus, nodes = [], [], []
    named: set[int] = set()
    for number, row in enumerate(rows):
        label = re.match(r"\s*GPU(\d+)", row)
        assert label is not None and int(label.group(1)) == number, f"{entry['source']}: {row}"
        cells, rest = _cells(row, label.end(), columns)
        assert len(cells) == columns, f"{entry['source']}: {len(cells)} of {columns} columns in {row}"
        levels.append(tuple(cells[: len(rows)]))
        near, ids = _affinity(rest, entry["source"])
        cpus.append(near)
        nodes.append(ids[0] if len(ids) == 1 else None)
        named.update(ids)
    for one, row_levels in enumerate(levels):
        assert [place for place, level in enumerate(row_levels) if level == "X"] == [one], entry["source"]
    boards = _boards(entry, len(rows))
    return Matrix(entry["source"], tuple(levels), tuple(cpus), tuple(nodes), frozenset(named), boards)


def _cells(row: str, start: int, columns: int) -> tuple[list[str], str]:
    cells: list[str] = []
    while len(cells) < columns:
        cell = _CELL.match(row, start)
        if cell is None:
            break
        cells.append(cell.group(1))
        start = cell.end()
    return cells, row[start:].strip()


def _affinity(text: str, source: str) -> tuple[str | None, list[int]]:
    """The CPUs and the nodes behind the links: C(0-47,96-143  0  N/A), C(0-239  0-1), C(N/A), C(56-111,168-2231N/A)."""
    glued = re.fullmatch(r"([\d,-]+\d)N/A", text)
    if glued is not None:
        text = " ".join(_unglued(glued.group(1)))
    words = [word for word in text.replace("N/A", " ").split() if word]
    assert len(words) <= 2 and all(re.fullmatch(r"[\d,-]+", word) for word in words), f"{source}: {text!r}"
    if not words:
        return None, []
    return words[0], list(parse_cpu_list(words[1])) if len(words) == 2 else []


def _unglued(text: str) -> tuple[str, str]:
    """C(56-111,168-2231) -> C(56-111,168-223) and C(1): both threads of the cores make ranges of one length."""
    ranges = text.split(",")
    first, last = (re.fullmatch(r"(\d+)-(\d+)", part) for part in (ranges[0], ranges[-1]))
    assert first is not None and last is not None and len(ranges) == 2, text
    end = int(last.group(1)) + int(first.group(2)) - int(first.group(1))
    rest = last.group(2)[len(str(end)) :]
    assert last.group(2).startswith(str(end)) and rest, text
    return f"{ranges[0]},{last.group(1)}-{end}", rest


def _boards(entry: dict[str, Any], count: int) -> tuple[Board, ...]:
    """The board of each GPU by the name that the report gives it, with the catalogue's size or a default."""
    names: dict[int, str] = {}
    capability = re.search(r"Compute Capability: (\d+\.\d)", " ".join(entry["env"]))
    for line in entry["gpu_lines"]:
        told = re.fullmatch(r"GPU (\d+(?:,\d+)*): (.*\S)\s*", line)
        if told is not None:
            names.update({int(index): told.group(2) for index in told.group(1).split(",")})
    known = {board.name: board for board in BOARDS.values()}
    found = []
    for index in range(count):
        name = names.get(index, DEFAULT_BOARD.name)
        other = Board(name, DEFAULT_BOARD.memory_mib, capability.group(1) if capability else "9.0", "hopper", "made up")
        found.append(known.get(name, other))
    return tuple(found)


# The machine ----------------------------------------------------------------------------------------------------------


def build(matrix: Matrix, root: Path) -> None:
    """sys/, proc/ and machine.nvml of a machine with this matrix."""
    owned = _cpus_of_nodes(matrix)
    files = {"proc/meminfo": f"MemTotal: {NODE_KIB * len(owned)} kB\nMemAvailable: {NODE_KIB * len(owned) // 2} kB"}
    for identity, cpus in owned.items():
        distances = " ".join("10" if other == identity else "32" for other in owned)
        files.update(node(identity, format_cpu_list(cpus), NODE_KIB, distance=distances))
    files["sys/devices/system/node/online"] = format_cpu_list(owned)
    files["sys/devices/system/cpu/online"] = format_cpu_list(cpu for cpus in owned.values() for cpu in cpus)
    for index, path in enumerate(_ways(matrix)):
        here = f"sys/devices/{path}"
        at = matrix.nodes[index]
        # For a device without a node the kernel shows every CPU.
        near = str(matrix.cpus[index]) if at is not None else files["sys/devices/system/cpu/online"]
        pci = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}
        pci.update(numa_node=str(-1 if at is None else at), local_cpulist=near)
        files.update({f"{here}/{name}": content for name, content in pci.items()})
    files["machine.nvml"] = machine_file(matrix)
    write(root, files)
    (root / DEVICES).mkdir(parents=True, exist_ok=True)
    for index, path in enumerate(_ways(matrix)):
        (root / DEVICES / address(index)).symlink_to(f"../../../devices/{path}")


def address(index: int) -> str:
    return f"0000:{index + 16:02x}:00.0"


def _cpus_of_nodes(matrix: Matrix) -> dict[int, list[int]]:
    """CPUs by node: those that the matrix gives; a range's divided; others for the nodes that it does not name."""
    owned: dict[int, list[int]] = {identity: [] for identity in range(max(matrix.homes) + 1)}
    taken: set[int] = set()
    for near, at in zip(matrix.cpus, matrix.nodes):
        cpus = [cpu for cpu in parse_cpu_list(near) if cpu not in taken]
        homes = sorted(matrix.homes) if at is None else [at]
        taken.update(cpus)
        share = -(-len(cpus) // len(homes))
        for place, home in enumerate(homes):
            owned[home] += cpus[place * share : (place + 1) * share]
    fresh = max(taken, default=-1) + 1
    for cpus in owned.values():
        if not cpus:
            cpus += range(fresh, fresh + 8)
            fresh += 8
    return owned


def _groups(matrix: Matrix, close: tuple[str, ...]) -> list[int]:
    """For each GPU the first one that it reaches by these levels alone."""
    found = list(range(matrix.count))
    for one, row in enumerate(matrix.levels):
        for two, level in enumerate(row):
            if level in close:
                low, high = sorted((found[one], found[two]))
                found = [low if group == high else group for group in found]
    return found


def _ways(matrix: Matrix) -> list[str]:
    """A PCI tree with these levels: a host bridge, a root port and switches for what is close to each other."""
    hosts, ports, switches = (_groups(matrix, _CLOSE[:count]) for count in (3, 2, 1))
    return [
        f"pci0000:{hosts[index] * 2 + 64:02x}/0000:{ports[index] + 64:02x}:01.0/0000:{ports[index] + 80:02x}:00.0/"
        f"0000:{switches[index] + 96:02x}:02.0/0000:{switches[index] + 112:02x}:00.0/0000:{index + 128:02x}:03.0/"
        f"{address(index)}"
        for index in range(matrix.count)
    ]


def machine_file(matrix: Matrix) -> str:
    """What the NVML stand-in tells; the format is described in rehearsal/nvml/machine_file.h."""
    lines = ["[system]", "driver_version = 595.58.03", "nvml_version = 13.595.58.03", "cuda_version = 13020"]
    switched = _switched(matrix)
    for index, board in enumerate(matrix.boards):
        facts = {
            "name": board.name,
            "uuid": f"GPU-{index:08d}",
            "address": address(index),
            "pci_device_id": "0x233010de",
            "minor": index,
            "memory_total": board.memory_bytes,
            "memory_reserved": 600 << 20,
            "memory_used": 600 << 20,
            "compute_capability": board.compute_capability,
            "architecture": 9,
            "compute_mode": 0,
            "persistence": 1,
        }
        if matrix.cpus[index]:
            facts["cpus"] = str(matrix.cpus[index])
        if matrix.nodes[index] is not None:
            facts["numa"] = str(matrix.nodes[index])
        for link, end in enumerate(_link_ends(matrix, index, switched)):
            facts[f"nvlink.{link}"] = end
        lines += [f"[gpu {index}]", *(f"{key} = {value}" for key, value in facts.items())]
        for two in range(index + 1, matrix.count):
            level = matrix.levels[index][two]
            if level.startswith("NV"):
                # NVML's level is that of the PCIe way even where NVLinks are.
                level = "NODE" if matrix.nodes[index] == matrix.nodes[two] else "SYS"
            lines += [f"[pair {index} {two}]", f"level = {level}", "p2p = OK"]
    return "\n".join(lines)


def _nvlinks(level: str) -> int:
    return int(level[2:]) if level.startswith("NV") else 0


def _switched(matrix: Matrix) -> bool:
    """Whether NVLinks lead into switches: a GPU would need more of them than there are to reach its peers directly."""
    if all(sum(map(_nvlinks, row)) <= _MOST_NVLINKS for row in matrix.levels):
        return False
    counts = {_nvlinks(level) for row in matrix.levels for level in row if level != "X"}
    assert len(counts) == 1, f"{matrix.source}: {counts} NVLinks cannot all lead through switches"
    return True


def _link_ends(matrix: Matrix, index: int, switched: bool) -> list[str]:
    row = matrix.levels[index]
    if switched:
        return ["up 0000:f0:00.0 switch"] * max(map(_nvlinks, row))
    return [f"up {address(two)} gpu" for two, level in enumerate(row) for _link in range(_nvlinks(level))]
