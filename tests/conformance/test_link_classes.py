# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What NVML means by PIX, PXB, PHB, NODE and SYS, from 210 real matrices, against how the probe derives them.

The matrices come without their PCI trees. But what is closer nests in what is farther, so a tree can be grown out of
PIX, PXB and PHB; and NODE and SYS are told from the column of NUMA nodes, which is another witness.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import pci_level
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import TOPOLOGY

pytestmark = needs_recorded_data

CLOSE = ("PIX", "PXB", "PHB")
PCI = (*CLOSE, "NODE", "SYS")
# Releases that print SYS between all host bridges, those of one node as well; those before and after print NODE.
SYS_WITHIN_A_NODE = re.compile(r"535\.(129|146|154)\.|545\.23\.|550\.54\.")
# The same on a guest of a cloud and on a workstation, with other releases.
SYS_WITHIN_A_NODE_ELSEWHERE = {"vllm-project/vllm/issues/7474", "vllm-project/vllm/issues/18217"}

Pair = tuple[int, int]


@dataclass(frozen=True)
class Matrix:
    source: str
    driver: str
    count: int
    levels: dict[Pair, str]
    nodes: tuple[int | None, ...]


def parsed(entry: dict[str, Any]) -> Matrix:
    lines = entry["topo"].splitlines()
    heading = next((line for line in lines if "GPU0" in line and "X" not in line.split()), "")
    columns = len(re.findall(r"(?:GPU|NIC|mlx\S*?)\d+", heading))
    rows = [line.split()[1:] for line in lines if re.match(r"\s*GPU\d+\s+.*\bX\b", line)]
    nodes: list[int | None] = []
    for row in rows:
        behind = [cell for cell in row[columns:] if cell != "N/A"]
        plain = "NUMA Affinity" in heading and len(behind) > 1 and behind[1].isdigit()
        nodes.append(int(behind[1]) if plain else None)
    size = range(len(rows))
    levels = {(one, two): rows[one][two] for one in size for two in size if one != two}
    releases = (re.search(r"\d{3}\.\d+[.\d]*", line) for line in entry["env"] if "river" in line)
    driver = next((match.group() for match in releases if match), "")
    return Matrix(entry["source"], driver, len(rows), levels, tuple(nodes))


@pytest.fixture(name="matrices", scope="module")
def _matrices() -> list[Matrix]:
    entries = json.loads((TOPOLOGY / "smi-topo-matrices.json").read_text(encoding="utf-8"))
    assert len(entries) == 210
    return [parsed(entry) for entry in entries]


def groups(matrix: Matrix, close: tuple[str, ...]) -> list[int]:
    """For each GPU the first one that it reaches by these levels alone."""
    found = list(range(matrix.count))
    for one, two in sorted(pair for pair, level in matrix.levels.items() if level in close):
        low, high = sorted((found[one], found[two]))
        found = [low if group == high else group for group in found]
    return found


def ways(matrix: Matrix) -> list[tuple[str, ...]]:
    """A tree with these levels: host bridge, root port, switch and below it one more for each group of PIX."""
    hosts, ports, switches = (groups(matrix, CLOSE[:count]) for count in (3, 2, 1))
    return [
        (f"pci{host}", f"port{port}", f"up{port}", f"down{switch}", f"lower{switch}", f"slot{index}")
        for index, (host, port, switch) in enumerate(zip(hosts, ports, switches))
    ]


def test_what_holds_there_holds_back(matrices: list[Matrix]) -> None:
    for matrix in matrices:
        assert all(level == matrix.levels[two, one] for (one, two), level in matrix.levels.items()), matrix.source


def test_close_levels_are_those_of_a_tree(matrices: list[Matrix]) -> None:
    told = 0
    for matrix in matrices:
        paths = ways(matrix)
        for (one, two), level in matrix.levels.items():
            if level in PCI:
                found = pci_level(paths[one], paths[two], (None, None), 2)
                assert found == (level if level in CLOSE else None), (matrix.source, one, two)
                told += level in CLOSE
    assert told > 400


def test_node_and_sys_are_told_by_the_numa_nodes(matrices: list[Matrix]) -> None:
    told = {"NODE": 0, "SYS": 0}
    apart = []
    for matrix in matrices:
        paths = ways(matrix)
        for (one, two), level in matrix.levels.items():
            places = (matrix.nodes[one], matrix.nodes[two])
            if level not in PCI or None in places:
                continue
            found = pci_level(paths[one], paths[two], places, 2)
            if found == level:
                told[level] = told.get(level, 0) + 1
            else:
                # Never the other way round: what is on different nodes is SYS to every driver.
                assert (found, level) == ("NODE", "SYS"), matrix.source
                apart.append(matrix)
    assert told["NODE"] > 300
    assert told["SYS"] > 800
    for matrix in apart:
        known = SYS_WITHIN_A_NODE.match(matrix.driver) or matrix.source.split("github.com/")[1] in (
            SYS_WITHIN_A_NODE_ELSEWHERE
        )
        assert known, (matrix.source, matrix.driver)
    assert len({matrix.source for matrix in apart}) == 13
