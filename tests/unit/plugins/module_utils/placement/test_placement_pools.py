# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import Placement, place
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.placement.paper import GB, two_sockets


def loaded(
    available: tuple[int | None, int | None],
    *pools: int,
    release: str = "0.5.23",
    reserve: int = 0,
    host: Mapping[str, int] = MappingProxyType({}),
) -> Placement:
    """Two instances of four ranks, each on a socket with so many GB; one more node is the memory of a GPU."""
    facts = two_sockets()
    facts["host"] = {name: size * GB for name, size in host.items()}
    facts["numa_nodes"] = [
        {"id": node, "memory_available_bytes": None if size is None else size * GB}
        for node, size in enumerate(available)
    ]
    facts["numa_nodes"].append({"id": 2, "kind": "gpu_memory", "has_cpus": False, "memory_available_bytes": 900 * GB})
    instances = [Instance(f"i{place}", 4, pool_bytes_per_rank=pool * GB) for place, pool in enumerate(pools)]
    return place(machine_facts(facts), instances, version_facts(release), reserve_bytes=reserve * GB)


def codes(placement: Placement) -> list[str]:
    return [entry.code for entry in placement.problems]


def test_pools_that_fit_are_counted_on_their_nodes_only() -> None:
    placement = loaded((200, 200), 45, 30, reserve=10)
    assert [(load.node, load.ranks, load.needed_bytes) for load in placement.nodes] == [
        (0, 4, 180 * GB),
        (1, 4, 120 * GB),
    ]
    assert [load.there_bytes for load in placement.nodes] == [195 * GB] * 2
    assert [load.largest_pool_bytes_per_rank for load in placement.nodes] == [195 * GB // 4] * 2
    assert [load.fits for load in placement.nodes] == [True, True]
    assert codes(placement) == []


def test_a_node_that_overflows_says_what_fits_and_what_else_can_be_done() -> None:
    placement = loaded((100, 300), 40, 40)
    assert codes(placement) == ["pool_exceeds_node"]
    message = placement.problems[0].message
    assert "4 ranks on NUMA node 0 need 160.00 GB, and 100.00 GB are there" in message
    assert "bound strictly, a rank will fail" in message
    assert "25.00 GB a rank, or 2 ranks with 40.00 GB each" in message
    assert "SGLANG_NUMA_BIND_V2=false" in message
    assert "NUMAPolicy=interleave" in message
    # 400 GB over eight ranks.
    assert "50.00 GB a rank fit" in message


def test_where_memory_spills_over_that_is_all() -> None:
    message = loaded((100, 300), 40, 40, release="0.5.9").problems[0].message
    assert "the rest comes from other nodes" in message
    assert "need " in message and "strict" not in message


def test_a_release_that_only_binds_offers_what_it_has() -> None:
    message = loaded((100, 300), 40, 40, release="0.5.12").problems[0].message
    assert "preferred instead of strict" in message
    assert "interleave" not in message


@pytest.mark.parametrize(
    "host", [{}, {"memory_available_bytes": 300}, {"cgroup_limit_bytes": 300}, {"cgroup_available_bytes": 300}]
)
def test_what_no_binding_can_help_is_an_error(host: dict[str, int]) -> None:
    placement = loaded((150, 150) if not host else (500, 500), 40, 40, reserve=20, host=host)
    assert codes(placement) == ["pools_exceed_host"]
    assert placement.problems[0].severity == "error"
    assert (
        "8 ranks need 320.00 GB, and 280.00 GB are there with 20.00 GB kept in reserve" in placement.problems[0].message
    )
    assert "35.00 GB a rank fit" in placement.problems[0].message


def test_memory_that_is_not_known_is_not_judged() -> None:
    placement = loaded((None, 300), 40, 40)
    assert codes(placement) == ["pool_memory_unknown"]
    assert [(load.there_bytes, load.fits) for load in placement.nodes] == [(None, None), (300 * GB, True)]


def test_without_pools_nothing_is_said() -> None:
    assert codes(loaded((1, 1), 0, 0)) == []


def test_every_code_says_what_it_means_and_what_to_do() -> None:
    for code, known in CODES.items():
        assert code.replace("_", "").isalpha()
        assert known.meaning.endswith(".")
        assert known.remedy.endswith(".")


def uneven(*instances: Instance, sizes: tuple[int, int] = (100, 900), **host: int) -> Placement:
    facts = two_sockets()
    facts["host"] = {name: size * GB for name, size in host.items()}
    facts["numa_nodes"] = [{"id": node, "memory_available_bytes": size * GB} for node, size in enumerate(sizes)]
    return place(machine_facts(facts), instances, version_facts("0.5.23"))


def nodes_of(placement: Placement) -> list[tuple[int, ...]]:
    return [one.numa_nodes for one in placement.instances]


def test_of_equal_sets_the_one_is_taken_whose_pools_fit() -> None:
    alone = uneven(Instance("a", 4, pool_bytes_per_rank=100 * GB))
    assert (nodes_of(alone), codes(alone)) == ([(1,)], [])
    # What fits on either is no reason to move.
    assert nodes_of(uneven(Instance("a", 4, pool_bytes_per_rank=25 * GB))) == [(0,)]


@pytest.mark.parametrize("others", [0, 10])
def test_instances_of_one_size_are_swapped_for_their_pools(others: int) -> None:
    large = Instance("large", 4, pool_bytes_per_rank=100 * GB)
    small = Instance("small", 4, pool_bytes_per_rank=others * GB)
    for order, nodes in (((large, small), [(1,), (0,)]), ((small, large), [(0,), (1,)])):
        placement = uneven(*order)
        assert (nodes_of(placement), codes(placement)) == (nodes, [])


def test_pools_of_a_smaller_instance_decide_where_the_larger_does_not_care() -> None:
    placement = uneven(Instance("four", 4), Instance("two", 2, pool_bytes_per_rank=200 * GB))
    assert (nodes_of(placement), codes(placement)) == ([(0,), (1,)], [])


def test_pools_that_lie_there_already_count() -> None:
    there = Instance("there", 2, (4, 5), pool_bytes_per_rank=100 * GB)
    stated = Instance("stated", 1, (0,), numa_nodes=(1,), pool_bytes_per_rank=100 * GB)
    more = Instance("more", 2, pool_bytes_per_rank=30 * GB)
    # The pair beside them is left over, as long as its pools fit.
    assert nodes_of(uneven(there, more, sizes=(300, 260))) == [(1,), (1,)]
    assert nodes_of(uneven(there, more, sizes=(300, 259))) == [(1,), (0,)]
    assert nodes_of(uneven(there, stated, more, sizes=(300, 359))) == [(1,), (1,), (0,)]


def test_pools_on_stated_nodes_count_there_and_nowhere_else() -> None:
    stated = Instance("stated", 4, numa_nodes=(1, 1, 1, 1), pool_bytes_per_rank=50 * GB)
    placement = uneven(stated, Instance("more", 4, pool_bytes_per_rank=50 * GB), sizes=(210, 250))
    assert (nodes_of(placement), codes(placement)) == ([(1,), (0,)], [])


def test_links_come_before_pools() -> None:
    # Half of the ranks on either node would fit, and joined by SYS.
    placement = uneven(Instance("a", 4, pool_bytes_per_rank=60 * GB), sizes=(150, 200))
    assert (nodes_of(placement), codes(placement)) == ([(1,)], ["pool_exceeds_node"])


def test_ranks_without_pools_take_no_share() -> None:
    with_pools = Instance("a", 2, (0, 1), pool_bytes_per_rank=130 * GB)
    placement = uneven(with_pools, Instance("b", 2, (2, 3)), sizes=(250, 250))
    assert codes(placement) == ["pool_exceeds_node"]
    message = placement.problems[0].message
    assert "The pools of 2 ranks on NUMA node 0 need 260.00 GB" in message
    assert "On this node fit 125.00 GB a rank, or 1 rank with 130.00 GB each" in message
    assert "where 250.00 GB a rank fit" in message
    assert [(load.ranks, load.largest_pool_bytes_per_rank) for load in placement.nodes] == [
        (4, 125 * GB),
        (0, None),
    ]
    strangers = uneven(with_pools, Instance("b", 4, (4, 5, 6, 7)), sizes=(250, 250), memory_available_bytes=200)
    assert "The pools of 2 ranks need 260.00 GB" in strangers.problems[0].message
    assert "100.00 GB a rank fit" in strangers.problems[0].message


def test_how_a_node_is_bound_is_asked_of_ranks_with_pools_only() -> None:
    # The node of one GPU is not known, so the instance on it is not bound, and cannot be.
    facts = two_sockets()
    facts["gpus"][7]["numa_node"] = None
    facts["numa_nodes"] = [{"id": node, "memory_available_bytes": 100 * GB} for node in (0, 1)]
    one, two = Instance("a", 2, (0, 1), pool_bytes_per_rank=60 * GB), Instance("b", 2, (2, 7))
    message = place(machine_facts(facts), [one, two], version_facts("0.5.12")).problems[0].message
    assert "preferred instead of strict" in message


def test_a_node_gives_no_more_than_a_service_may_have_in_all() -> None:
    for limit in ("cgroup_available_bytes", "cgroup_limit_bytes", "memory_available_bytes"):
        placement = uneven(Instance("a", 4, pool_bytes_per_rank=20 * GB), sizes=(500, 500), **{limit: 100})
        assert [(load.there_bytes, load.fits) for load in placement.nodes] == [(100 * GB, True)] * 2
        assert placement.nodes[0].largest_pool_bytes_per_rank == 25 * GB
        assert codes(placement) == []
    # Two nodes do not give it twice.
    both = uneven(
        *(Instance(name, 4, pool_bytes_per_rank=10 * GB) for name in "ab"), sizes=(20, 500), memory_available_bytes=100
    )
    assert [load.there_bytes for load in both.nodes] == [20 * GB, 100 * GB]
    assert [load.largest_pool_bytes_per_rank for load in both.nodes] == [5 * GB, 20 * GB]


def test_a_reserve_beyond_a_node_leaves_nothing_there() -> None:
    placement = loaded((3, 300), 1, 1, reserve=10)
    assert [(load.there_bytes, load.largest_pool_bytes_per_rank, load.fits) for load in placement.nodes] == [
        (0, 0, False),
        # What the small node cannot keep free, the whole has to.
        (293 * GB, 293 * GB // 4, True),
    ]
    assert "0.00 GB are there with 5.00 GB kept in reserve" in placement.problems[0].message
    nothing = loaded((3, 3), 1, 1, reserve=10)
    assert [load.there_bytes for load in nothing.nodes] == [0, 0]
    assert "0.00 GB are there with 10.00 GB kept in reserve; 0.00 GB a rank fit" in nothing.problems[0].message
