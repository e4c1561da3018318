# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, Host, NumaNode, Pcie
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.places import (
    host_of,
    node_of,
    placed,
    placed_nodes,
    redirecting_ports,
)

NODES = (NumaNode(0, "0-7", True), NumaNode(8, "8-15", True), NumaNode(9, "", False))
WAY = ("pci0000:00", "0000:00:01.1", "0000:01:00.0", "0000:02:01.0")


def seen(acs: tuple[bool | None, ...] = (), kind: str | None = None, bridges: tuple[str, ...] = WAY) -> PciGpu:
    return PciGpu("0000:06:00.0", "10de:2330", bridges, 0, "0-7", "nvidia", Pcie(), None, acs, 17, kind, 9)


@pytest.mark.parametrize(
    ("node", "cpu_list", "found"),
    [
        (8, "0-7", 8),
        (9, None, 9),
        # The firmware names a node that is not there; the CPUs nearby tell all the same.
        (3, None, None),
        (3, "8-15", 8),
        (None, "8-11", 8),
        # CPUs of several nodes tell nothing.
        (None, "0-15", None),
        (None, None, None),
    ],
)
def test_the_node_is_one_of_those_there(node: int | None, cpu_list: str | None, found: int | None) -> None:
    assert node_of(node, cpu_list, NODES) == found


def test_without_nodes_the_kernels_word_stands() -> None:
    assert node_of(3, None, ()) == 3


def test_the_only_node_is_not_made_up_from_cpus() -> None:
    assert node_of(None, "0-7", NODES[:1]) is None


def test_a_gpu_gets_its_places_filled_in() -> None:
    found = placed(Joined(Gpu(0, numa_node=3), seen(), None), NODES).gpu
    assert (found.numa_node, found.iommu_group, found.gpu_numa_id) == (None, 17, 9)


def test_what_the_driver_says_of_its_memory_node_comes_first() -> None:
    assert placed(Joined(Gpu(0, gpu_numa_id=8), seen(), None), NODES).gpu.gpu_numa_id == 8


def test_memory_that_is_no_node_of_the_host_has_no_number() -> None:
    for pci in (seen(), None):
        assert placed(Joined(Gpu(0, gpu_numa_id=2), pci, None), NODES).gpu.gpu_numa_id is None


def test_a_gpu_that_the_bus_does_not_show_keeps_what_is_known() -> None:
    assert placed(Joined(Gpu(0, numa_node=8), None, None), NODES).gpu == Gpu(0, numa_node=8)
    assert placed(Joined(Gpu(0, numa_node=7), None, None), NODES).gpu == Gpu(0)


def test_nodes_get_their_gpus_and_memory_of_gpus_is_told_apart() -> None:
    nodes = placed_nodes(NODES, [Gpu(0, numa_node=8, gpu_numa_id=9), Gpu(1, numa_node=8, gpu_numa_id=0)])
    assert [(node.kind, node.gpus) for node in nodes] == [("general", ()), ("general", (0, 1)), ("gpu_memory", ())]


def test_ports_that_redirect_are_listed_once() -> None:
    both = [seen((False, False, False, True)), seen((False, False, False, True))]
    assert redirecting_ports(both) == ("0000:02:01.0",)
    assert redirecting_ports([seen((False, False, None, False))]) == ()
    assert redirecting_ports([seen((False, False, None, None))]) is None
    # Right at a root port there is no switch that could.
    assert redirecting_ports([seen((False, False), bridges=WAY[:2])]) == ()
    assert redirecting_ports([seen(bridges=())]) is None
    assert redirecting_ports([]) is None


@pytest.mark.parametrize(
    ("kinds", "iommu"), [(["identity"], "passthrough"), (["DMA", "identity"], "on"), ([None], "off"), ([], "off")]
)
def test_the_mode_of_the_gpus_groups_is_the_hosts(kinds: list[str | None], iommu: str) -> None:
    assert host_of(Host(iommu="off"), [seen(kind=kind) for kind in kinds]).iommu == iommu
