# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Placements on the machine profiles, as they are surveyed without a driver."""

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts, machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import place
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

MACHINES = Path(machine_tree.__file__).parent / "machines"


def surveyed(name: str, root: Path) -> MachineFacts:
    machine_tree.build_tree(machine_tree.load_profile(MACHINES / f"{name}.yml"), root)
    host = read_host(root)
    machine = survey(host, read_numa_nodes(root, host), read_pci_gpus(root), None, read_driver_version(root))
    return machine_facts(machine.as_dict())


@pytest.mark.parametrize(
    ("profile", "nodes", "mode", "told"),
    [
        ("founding", [0, 0, 0, 0, 1, 1, 1, 1], "strict", False),
        ("dgx-a100-nps4", [3, 3, 1, 1, 7, 7, 5, 5], "strict", False),
        ("hgx-h100-snc4", [0, 2, 3, 1, 4, 6, 7, 5], "strict", False),
        # 34 nodes, of which two have CPUs.
        ("gb200-nvl4-node", [0, 0, 1, 1], "strict", False),
        ("gh200", [0], "strict", False),
        ("cxl-expander", [0, 1], "strict", False),
        # The server looks for a node 1 and at ids below the number of nodes.
        ("power9-v100", [0, 0, 0, 8, 8, 8], "strict", True),
        # The control group leaves services nothing of node 0.
        ("hybrid-cgroup-container", [1] * 8, "strict", True),
        ("kvm-guest", [0, 0], "none", False),
        ("pci-wide-domain-guest", [None, None], "none", False),
    ],
)
def test_ranks_of_the_whole_machine(
    profile: str, nodes: list[int | None], mode: str, told: bool, tmp_path: Path
) -> None:
    facts = surveyed(profile, tmp_path / "machine")
    (one,) = place(facts, [Instance("all", len(nodes))], version_facts("0.5.23")).instances
    assert [seat.numa_node for seat in one.seats] == nodes
    assert (one.binding.mode, bool(one.binding.numa_nodes)) == (mode, told)
    assert all(seat.cpus for seat in one.seats if seat.numa_node is not None)


@pytest.mark.parametrize(
    ("profile", "sets"),
    [
        ("founding", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("dgx-a100-nps4", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("hgx-h100-snc4", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("gb200-nvl4-node", [[0, 1], [2, 3]]),
        ("power9-v100", [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_two_instances_share_a_machine_along_its_sockets(profile: str, sets: list[list[int]], tmp_path: Path) -> None:
    facts = surveyed(profile, tmp_path / "machine")
    placement = place(facts, [Instance("one", len(sets[0])), Instance("two", len(sets[1]))])
    assert [[gpu.index for gpu in one.gpus] for one in placement.instances] == sets
