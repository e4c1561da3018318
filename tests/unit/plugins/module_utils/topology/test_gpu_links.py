# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.gpu_links import gpu_links, level_conflicts
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Gpu,
    GpuLink,
    Host,
    NumaNode,
    NvLinks,
    Pcie,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import (
    LinkEnds,
    NvmlGpu,
    NvmlReading,
)

BARE = Host(virtualization="none")
NODES = (NumaNode(0, "0-7", True), NumaNode(1, "8-15", True))
SWITCH = ("pci0000:00", "0000:00:01.1", "0000:01:00.0")
CLEAR = (False, False, False, False)
NO_LINKS = LinkEnds()
ITSELF = GpuLink("SELF", None, 0)
Levels = tuple[tuple["str | None", ...], ...]


def gpu(
    index: int,
    node: int = 0,
    bridges: tuple[str, ...] | None = None,
    acs: tuple[bool | None, ...] = CLEAR,
    ends: LinkEnds | None = NO_LINKS,
    pci_id: str = "10de:2330",
    nvlinks: NvLinks | None = None,
) -> Joined:
    """GPUs hang on one switch, each at a port of its own, unless told otherwise."""
    address = f"0000:1{index}:00.0"
    way = (*SWITCH, f"0000:02:0{index}.0") if bridges is None else bridges
    pci = PciGpu(address, pci_id, way, node, None, "nvidia", Pcie(), None, acs)
    one = Gpu(index, pci_address=address, numa_node=node, nvlinks=nvlinks)
    return Joined(one, pci, NvmlGpu(one, ends))


def reading(levels: Levels, p2p: Levels | None = None) -> NvmlReading:
    unknown = tuple((None,) * len(levels) for _row in levels)
    return NvmlReading(Driver(source="nvml"), (), levels, p2p or unknown, ())


def between(one: Joined, two: Joined, nvml: NvmlReading | None = None, host: Host = BARE) -> GpuLink:
    (itself, there), (back, other) = gpu_links([one, two], nvml, NODES, host)
    assert there == back
    assert itself == other == ITSELF
    return there


def test_two_at_one_switch_turn_around_there() -> None:
    assert between(gpu(0), gpu(1)) == GpuLink("PIX", None, 0, "switch")


@pytest.mark.parametrize(
    ("acs", "peer_acs", "route"),
    [
        ((False, False, False, True), CLEAR, "redirected"),
        (CLEAR, (False, False, False, True), "redirected"),
        ((False, False, False, True), (), "redirected"),
        (CLEAR, (False, False, False, None), None),
        (CLEAR, (), None),
        # The port into the switch from above is not on their way.
        ((False, False, True, False), (False, False, True, False), "switch"),
    ],
)
def test_access_control_sends_their_traffic_up(
    acs: tuple[bool | None, ...], peer_acs: tuple[bool | None, ...], route: str | None
) -> None:
    assert between(gpu(0, acs=acs), gpu(1, acs=peer_acs)).route == route


def test_only_the_ports_of_the_switch_where_ways_part_matter() -> None:
    """Below a second switch traffic for outside goes up in any case, whatever its ports are told."""
    deep = (*SWITCH, "0000:02:00.0", "0000:03:00.0", "0000:04:00.0")
    acs = (*CLEAR, False, True)
    assert between(gpu(0, bridges=deep, acs=acs), gpu(1)) == GpuLink("PXB", None, 0, "switch")


def test_at_different_root_ports_they_meet_in_the_host() -> None:
    near = between(gpu(0, bridges=("pci0000:00", "0000:00:01.1")), gpu(1, bridges=("pci0000:00", "0000:00:02.1")))
    assert near == GpuLink("PHB", None, 0, "host")
    far = between(gpu(0), gpu(1, node=1, bridges=("pci0000:80", "0000:80:01.1")))
    assert far == GpuLink("SYS", None, 0, "host")


def test_two_functions_at_one_port_need_no_switch() -> None:
    assert between(gpu(0, bridges=SWITCH[:2]), gpu(1, bridges=SWITCH[:2])).route == "switch"


def test_what_a_guest_sees_is_no_way_through_the_machine() -> None:
    link = between(gpu(0), gpu(1), host=Host(virtualization="kvm"))
    assert (link.level, link.route) == ("PIX", None)


def test_a_gpu_that_the_bus_does_not_show_has_the_drivers_level_only() -> None:
    hidden = Joined(Gpu(1), None, None)
    link = between(gpu(0), hidden, reading(((None, "NODE"), ("NODE", None)), ((None, "ok"), ("ok", None))))
    assert link == GpuLink("NODE", "ok", 0, None)
    assert between(gpu(0), hidden) == GpuLink(None, None, 0)
    assert between(gpu(0, ends=None), hidden) == GpuLink(None, None)


def test_nvlink_outranks_the_bus() -> None:
    ends = (LinkEnds(("0000:11:00.0",) * 4), LinkEnds(("0000:10:00.0",) * 4))
    assert between(gpu(0, ends=ends[0]), gpu(1, ends=ends[1])) == GpuLink("NV4", None, 4, "nvlink")
    # A link that is up at the end which could be read is up.
    assert between(gpu(0, ends=ends[0]), gpu(1)).nvlinks == 4
    assert between(gpu(0), gpu(1, ends=ends[1])).nvlinks == 4
    through = between(gpu(0, ends=LinkEnds((), 18)), gpu(1, ends=LinkEnds((), 17)))
    assert through == GpuLink("NV17", None, 17, "nvlink")


L40S, H100, STRANGER = "10de:26b9", "10de:2330", "10de:ffff"


@pytest.mark.parametrize(
    ("boards", "route"),
    [
        ((H100, H100), None),
        ((STRANGER, STRANGER), None),
        ((L40S, L40S), "switch"),
        # A board without NVLink is enough.
        ((L40S, STRANGER), "switch"),
    ],
)
def test_unasked_only_boards_without_nvlink_are_known_to_use_the_bus(
    boards: tuple[str, str], route: str | None
) -> None:
    one, two = (replace(gpu(index, pci_id=board), nvml=None) for index, board in enumerate(boards))
    assert between(one, two) == GpuLink("PIX", None, None, route)
    first, second = (gpu(index, pci_id=board, ends=None) for index, board in enumerate(boards))
    assert between(first, second) == GpuLink("PIX", None, None, route)


TO_OTHER = LinkEnds(("0000:1f:00.0",) * 2)


@pytest.mark.parametrize(
    ("ends", "nvlinks", "count"),
    [
        # What the other end could tell is enough: links that are up are so at both.
        (NO_LINKS, None, 0),
        (TO_OTHER, NvLinks(2, 4), 0),
        (LinkEnds(("0000:11:00.0",)), NvLinks(1, 4), 1),
        # Not so where a link leads to a switch, or the driver does not say whereto.
        (LinkEnds((), 18), NvLinks(18, 18), None),
        (TO_OTHER, NvLinks(3, 4), None),
        (NO_LINKS, NvLinks(4, 4), None),
    ],
)
def test_one_gpu_that_does_not_tell(ends: LinkEnds, nvlinks: NvLinks | None, count: int | None) -> None:
    told = gpu(0, ends=ends, nvlinks=nvlinks)
    assert between(told, gpu(1, ends=None)).nvlinks == count
    assert between(told, replace(gpu(1), nvml=None)).nvlinks == count


def test_links_to_other_gpus_may_be_those_to_one_without_an_address() -> None:
    lost = Joined(Gpu(1), None, NvmlGpu(Gpu(1)))
    assert between(gpu(0, ends=TO_OTHER), lost).nvlinks is None
    assert between(gpu(0), lost).nvlinks == 0


def test_one_answer_holds_both_ways() -> None:
    levels = ((None, "PIX"), ("SYS", None))
    assert between(gpu(0), gpu(1), reading(levels)).level == "SYS"
    assert between(gpu(0), gpu(1), reading(((None, None), ("NODE", None)))).level == "NODE"
    p2p = ((None, "ok"), ("chipset_not_supported", None))
    assert between(gpu(0), gpu(1), reading(levels, p2p)).p2p == "chipset_not_supported"
    assert between(gpu(0), gpu(1), reading(levels, ((None, "ok"), (None, None)))).p2p == "ok"


def test_two_on_one_board_share_a_switch() -> None:
    assert between(gpu(0), gpu(1), reading(((None, "SELF"), ("SELF", None)))).level == "PIX"


def test_where_driver_and_tree_differ_is_told() -> None:
    far = gpu(1, bridges=("pci0000:80", "0000:80:01.1"))
    nvml = reading(((None, "SYS"), ("SYS", None)))
    # Both on node 0, so NODE by the tree; the driver's word is what is reported.
    assert level_conflicts([gpu(0), far], nvml, NODES, BARE) == {("SYS", "NODE"): [(0, 1)]}
    assert between(gpu(0), far, nvml).level == "SYS"
    assert level_conflicts([gpu(0), far], nvml, NODES, Host(virtualization="kvm")) == {}
    assert level_conflicts([gpu(0), far], None, NODES, BARE) == {}
    agreed = reading(((None, "NODE"), ("NODE", None)))
    assert level_conflicts([gpu(0), far], agreed, NODES, BARE) == {}
    assert level_conflicts([gpu(0), Joined(Gpu(1), None, None)], nvml, NODES, BARE) == {}


def test_no_gpus_no_links() -> None:
    assert gpu_links([], None, NODES, BARE) == ()
