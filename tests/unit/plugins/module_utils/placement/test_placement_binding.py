# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding import how_to
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import PlacedInstance, place
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.placement.paper import machine


def bound(facts: MachineFacts, release: str | None, *nodes: int) -> PlacedInstance:
    instance = Instance("a", 2, numa_nodes=nodes)
    return place(facts, [instance], None if release is None else version_facts(release)).instances[0]


@pytest.mark.parametrize(
    ("release", "mode", "possible"),
    [
        ("0.4.10", "none", ("interleave", "none")),
        ("0.5.5", "none", ("preferred", "interleave", "none")),
        ("0.5.7", "none", ("strict", "preferred", "interleave", "none")),
        ("0.5.9", "preferred", ("strict", "preferred", "interleave", "none")),
        ("0.5.10", "strict", ("strict", "preferred")),
        ("0.5.17", "strict", ("strict", "preferred")),
        ("0.5.18", "strict", ("strict", "preferred", "interleave", "none")),
        ("0.5.23", "strict", ("strict", "preferred", "interleave", "none")),
    ],
)
def test_what_a_release_does_by_itself(release: str, mode: str, possible: tuple[str, ...]) -> None:
    binding = bound(machine((0, 1)), release).binding
    assert (binding.mode, binding.possible, binding.numa_nodes) == (mode, possible, ())
    assert release in binding.reason


@pytest.mark.parametrize(
    ("release", "mode", "told"),
    [("0.5.1", "none", ()), ("0.5.2", "preferred", (1, 1)), ("0.5.9", "strict", (1, 1)), ("0.5.23", "strict", (1, 1))],
)
def test_stated_nodes_become_the_flag_where_there_is_one(release: str, mode: str, told: tuple[int, ...]) -> None:
    one = bound(machine((0, 1)), release, 1, 1)
    assert (one.binding.mode, one.binding.numa_nodes) == (mode, told)
    assert ("numa_nodes_not_bound" in [entry.code for entry in one.problems]) == (release == "0.5.1")


@pytest.mark.parametrize(
    ("nodes", "listed", "why"),
    [
        ((0, 8), [{"id": 0}, {"id": 8}], "gaps"),
        ((0, 2), [{"id": 0}, {"id": 2}, {"id": 3}], "gaps"),
        ((1, 8), [{"id": 0}, {"id": 1}, {"id": 8}], "gaps"),
        ((0, 1), [{"id": 0, "distances": [10, 20, 12]}, {"id": 1, "usable": False}, {"id": 2}], "cannot take them"),
        ((None, None), [{"id": 0}, {"id": 1, "has_cpus": False}], "cannot find"),
    ],
)
def test_what_the_server_would_not_find_by_itself_it_is_told(
    nodes: tuple[int | None, ...], listed: list[dict[str, object]], why: str
) -> None:
    one = bound(machine(nodes, numa_nodes=listed), "0.5.23")
    assert one.binding.mode == "strict"
    assert one.binding.numa_nodes == tuple(seat.numa_node for seat in one.seats)
    assert why in one.binding.reason


def test_ids_that_begin_above_zero_are_found() -> None:
    binding = bound(machine((1, 1), numa_nodes=[{"id": 1}, {"id": 2}]), "0.5.23").binding
    assert (binding.mode, binding.numa_nodes) == ("strict", ())


def test_one_node_needs_no_binding() -> None:
    binding = bound(machine((0, 0)), "0.5.23").binding
    assert (binding.mode, binding.possible) == ("none", ("none",))


def test_without_a_release_every_way_is_open() -> None:
    binding = bound(machine((0, 1)), None).binding
    assert binding.possible == ("strict", "preferred", "interleave", "none")
    assert "depends on its release" in binding.reason


@pytest.mark.parametrize(
    ("release", "mode", "said"),
    [
        ("0.5.10", "preferred", "SGLANG_NUMA_BIND_V2=false"),
        ("0.5.23", "interleave", "SGLANG_AUTO_NUMA_BIND=false and NUMAPolicy=interleave"),
        ("0.5.23", "none", "SGLANG_AUTO_NUMA_BIND=false"),
        ("0.5.9", "none", "--disable-hicache-numa-detect"),
        ("0.5.4", "none", "no binding"),
    ],
)
def test_each_way_says_what_to_do(release: str, mode: str, said: str) -> None:
    assert said in how_to(mode, version_facts(release))
