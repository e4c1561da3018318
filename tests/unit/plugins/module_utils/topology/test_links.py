# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import nvlink_count, pci_level

ROOT = "pci0000:00"
PORT = (ROOT, "0000:00:01.1")


@pytest.mark.parametrize(
    ("one", "two", "nodes", "node_count", "level"),
    [
        ((*PORT, "01:00.0", "02:01.0"), (*PORT, "01:00.0", "02:02.0"), (0, 0), 2, "PIX"),
        (
            (*PORT, "01:00.0", "02:00.0", "03:00.0", "04:00.0"),
            (*PORT, "01:00.0", "02:01.0", "05:00.0", "06:00.0"),
            (0, 0),
            2,
            "PXB",
        ),
        ((ROOT, "0000:00:01.1"), (ROOT, "0000:00:02.1"), (0, 0), 2, "PHB"),
        ((ROOT,), (ROOT,), (None, None), 1, "PHB"),
        ((ROOT, "0000:00:01.1"), ("pci0000:40", "0000:40:01.1"), (0, 0), 2, "NODE"),
        ((ROOT, "0000:00:01.1"), ("pci0000:40", "0000:40:01.1"), (0, 1), 2, "SYS"),
        # Memory without CPUs makes a node as well.
        ((ROOT, "0000:00:01.1"), ("pci0000:40", "0000:40:01.1"), (0, 1), 1, "SYS"),
        ((ROOT, "0000:00:01.1"), ("pci0000:40", "0000:40:01.1"), (None, 1), 1, "NODE"),
        # Not known where they are: with one node it must be that one, with several it stays unknown.
        ((ROOT, "0000:00:01.1"), ("pci0000:40", "0000:40:01.1"), (None, None), 1, "NODE"),
        ((ROOT, "0000:00:01.1"), ("pci0000:40", "0000:40:01.1"), (None, 1), 2, None),
        ((), (ROOT,), (0, 0), 2, None),
    ],
)
def test_level_between_two_ways(
    one: tuple[str, ...],
    two: tuple[str, ...],
    nodes: tuple[int | None, int | None],
    node_count: int,
    level: str | None,
) -> None:
    assert pci_level(one, two, nodes, node_count) == level
    assert pci_level(two, one, (nodes[1], nodes[0]), node_count) == level


def test_nvlinks_lead_straight_or_through_switches() -> None:
    assert nvlink_count(["0000:07:00.0", "0000:07:00.0", "0000:0a:00.0"], "0000:07:00.0", 0, 0) == 2
    assert nvlink_count([], "0000:07:00.0", 18, 16) == 16
    assert nvlink_count([], None, 0, 0) == 0
