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
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import version_facts
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
