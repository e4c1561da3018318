# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What hwloc reads from a recorded machine against what the probe reads from the same files.

hwloc is a witness of its own: other authors, another language, and it starts from other files (masks instead of lists,
bus numbers in configuration space instead of links). Where the two are not to agree, the reason stands beside.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import names_in
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import (
    DEVICES,
    read_memory_nodes,
    read_place,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_cpu_list
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.places import node_of
from ansible_collections.gpufleet.sglang.tests.conformance.lstopo import Seen, mask, read_lstopo
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import TARS, read_machine

pytestmark = needs_recorded_data

# These hold no CPUs, without which hwloc gives up; their own tests complete them from other evidence.
DERIVED = ("8xh100-hgx-lspci", "8xrtxpro6000-2xepyc9575f")
COMPLETE = [path for path in TARS if not path.name.startswith(DERIVED)]
assert len(COMPLETE) > 15 or not DATA.is_dir()

# hwloc reads what a group of version 1 asks for (cpuset.cpus); this group is granted less (cpuset.effective_cpus).
GRANTED_LESS = "nvidiagpunumanodes"
# hwloc leaves out what does not fit its tree: domains beyond 16 bits, unless it was built for them, and a bridge whose
# bus numbers the firmware has not set.
NOT_IN_HWLOC = {
    "2pa-pcidomain32bits": {"10000:00:00.0", "10000:00:04.0"},
    "32em64t-2n8c+dax+nvme+mic+dimms": {"0000:00:11.0"},
}

# A recording's name, its folder, and what either reads from it.
Both = tuple[str, Path, Machine, Seen]


@pytest.fixture(name="both", params=COMPLETE, ids=lambda path: path.name.split(".tar")[0], scope="module")
def _both(request: pytest.FixtureRequest, recorded: Callable[[str], Path]) -> Both:
    root = recorded(request.param.name)
    return request.param.name.split(".tar")[0], root, read_machine(root), read_lstopo(root)


def test_masks_of_hwloc_are_understood() -> None:
    assert mask("0x0000ffff,0xffffffff")[-1] == 47
    assert mask("0x20000000,,,,,,,0x0") == (253,)
    assert mask(None) == ()


def test_node_sets_agree(both: Both) -> None:
    _name, _root, machine, seen = both
    assert [node.id for node in machine.numa_nodes] == sorted(seen.nodes)


def test_cpusets_agree(both: Both) -> None:
    _name, _root, machine, seen = both
    # To a node without CPUs hwloc gives those of the closest node that has some, as its locality.
    for node in machine.numa_nodes:
        if node.has_cpus:
            assert parse_cpu_list(node.cpus) == seen.nodes[node.id].cpus, node.id
    # Some recordings lack the list of CPUs online; hwloc counts the folders then.
    if machine.host.cpus is not None:
        assert parse_cpu_list(machine.host.cpus) == seen.cpus


def test_what_groups_allow_agrees(both: Both) -> None:
    name, root, machine, seen = both
    host = machine.host
    if name == GRANTED_LESS:
        group = root / "sys/fs/cgroup/cpuset/jjh"
        assert set(seen.cpus_allowed) == set(seen.cpus) & set(parse_cpu_list((group / "cpuset.cpus").read_text()))
        assert seen.nodes_allowed == parse_cpu_list((group / "cpuset.mems").read_text())
        assert parse_cpu_list(host.memory_nodes_usable) == parse_cpu_list((group / "cpuset.effective_mems").read_text())
        return
    every_node = tuple(node.id for node in machine.numa_nodes)
    assert (parse_cpu_list(host.cpus_usable) or seen.cpus) == seen.cpus_allowed
    assert (parse_cpu_list(host.memory_nodes_usable) or every_node) == seen.nodes_allowed
    usable = {cpu for node in machine.numa_nodes for cpu in parse_cpu_list(node.cpus_usable)}
    homes = {cpu for node in machine.numa_nodes for cpu in parse_cpu_list(node.cpus)}
    assert usable == homes & set(seen.cpus_allowed)
    assert [node.id for node in machine.numa_nodes if node.usable] == [*seen.nodes_allowed]


def test_memory_and_pages_agree(both: Both) -> None:
    _name, _root, machine, seen = both
    for node in machine.numa_nodes:
        told = seen.nodes[node.id]
        if len(machine.numa_nodes) > 1:
            assert node.memory_total_bytes == told.memory_bytes, node.id
        else:
            # The host's number stands for an only node; it was recorded some memory hot-plug or balloon apart.
            assert node.memory_total_bytes == pytest.approx(told.memory_bytes, rel=1e-4)
        for pages in node.hugepages:
            assert pages.total == told.pages[pages.size_bytes], node.id


def test_distances_agree(both: Both) -> None:
    _name, _root, machine, seen = both
    ids = [node.id for node in machine.numa_nodes]
    found = {(node.id, other): far for node in machine.numa_nodes for other, far in zip(ids, node.distances)}
    # hwloc prints no matrix of one.
    assert found == (seen.distances or {(ids[0], ids[0]): 10})


def test_memory_of_gpus_agrees(both: Both) -> None:
    _name, root, machine, seen = both
    gpus = {node: one.gpu for node, one in seen.nodes.items() if one.gpu is not None}
    assert {node: address for address, node in read_memory_nodes(root).items()} == gpus
    assert {node.id for node in machine.numa_nodes if node.kind == "gpu_memory"} == set(gpus)


def test_the_pci_tree_agrees(both: Both) -> None:
    name, root, _machine, seen = both
    names = set(names_in(root, DEVICES))
    assert names - set(seen.devices) == NOT_IN_HWLOC.get(name, set())
    assert set(seen.devices) <= names
    for device, told in seen.devices.items():
        # hwloc knows a bridge by the bus numbers in its configuration space, which some recordings lack.
        known = [one for one in read_place(root, device).bridges[1:] if (root / DEVICES / one / "config").is_file()]
        assert tuple(known) == told.bridges, device


def test_pci_locality_agrees(both: Both) -> None:
    _name, root, machine, seen = both
    homes = [node for node in machine.numa_nodes if node.has_cpus]
    for device, told in seen.devices.items():
        place = read_place(root, device)
        near = [node.id for node in homes if set(parse_cpu_list(node.cpus)) & set(told.cpus)]
        found = node_of(place.numa_node, place.cpu_list, machine.numa_nodes)
        if len(homes) == 1:
            # hwloc hangs all on the only node; firmware names it or does not.
            assert found in (None, homes[0].id), device
        else:
            assert found == (near[0] if len(near) == 1 else None), device
