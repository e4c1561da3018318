# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import (
    GPU_IDLE_BYTES,
    MARGIN_SECONDS,
    Bounds,
    Needs,
    gpus_of_plan,
    needs_from_dict,
    needs_of_plan,
    release_seconds,
    time_limit_seconds,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.idle_cases import GB, plan


def test_plan_says_what_has_to_be_free_and_what_is_enough() -> None:
    needs = needs_of_plan(plan())
    # 40 GB of pools and 10 GB of reserve; the server's own check wants 45 GB at least, and 48 GB in any order.
    assert needs.host == Bounds(50 * GB, 45 * GB)
    assert needs.nodes == ((0, Bounds(25 * GB, 20 * GB)), (1, Bounds(25 * GB, 20 * GB)))
    assert (needs.gpu_free_bytes, needs.gpu_idle_bytes) == (95 * GB, GPU_IDLE_BYTES)
    assert needs.hugepages == ()


def test_needs_survive_the_way_to_the_node() -> None:
    for needs in (needs_of_plan(plan()), needs_of_plan(plan(hugepage_size="2MB")), Needs()):
        assert needs_from_dict(needs.as_dict()) == needs
    assert needs_from_dict({}) == Needs()
    assert needs_from_dict({"required_available_bytes": 7}).host == Bounds(7, 7)


def test_without_a_guard_the_pools_alone_are_enough() -> None:
    assert needs_of_plan(plan(guard=None)).host == Bounds(50 * GB, 40 * GB)


def test_on_a_cpu_the_device_has_host_memory_and_no_gpu_is_waited_for() -> None:
    cpu = plan(held_by_device_bytes=4 * GB, required_available_bytes=54 * GB)
    cpu["device"]["device"] = "cpu"
    needs = needs_of_plan(cpu)
    assert needs.host == Bounds(54 * GB, 49 * GB)
    assert needs.gpu_free_bytes is None


def test_a_check_that_wants_more_than_the_reserve_leaves_is_what_is_required() -> None:
    needs = needs_of_plan(plan(reserve_bytes=0, required_available_bytes=40 * GB))
    assert needs.host == Bounds(48 * GB, 45 * GB)


@pytest.mark.parametrize(
    ("available", "bounds"),
    [(50 * GB, Bounds(50 * GB, 45 * GB)), (47 * GB, Bounds(47 * GB, 45 * GB)), (44 * GB, None)],
)
def test_a_forced_plan_does_not_wait_for_what_cannot_come(available: int, bounds: Bounds | None) -> None:
    assert needs_of_plan(plan(available_bytes=available)).host == bounds


def test_a_node_that_never_had_enough_is_not_waited_for() -> None:
    numa = [
        {"node": 0, "pinned_bytes": 20 * GB, "available_bytes": 10 * GB},
        {"node": 1, "pinned_bytes": 20 * GB, "available_bytes": 21 * GB},
        {"node": 2, "pinned_bytes": 0, "available_bytes": 10 * GB},
    ]
    assert needs_of_plan(plan(numa=numa)).nodes == ((1, Bounds(21 * GB, 20 * GB)),)


def test_nodes_only_count_where_ranks_are_bound_strictly() -> None:
    assert needs_of_plan(plan(numa_binding="preferred")).nodes == ()


def test_pools_in_huge_pages_need_free_ones_on_their_nodes() -> None:
    needs = needs_of_plan(plan(hugepage_size="1GB"))
    assert (needs.hugepage_bytes, needs.nodes) == (GIB, ())
    assert needs.hugepages == ((0, 20 * GB), (1, 20 * GB))
    assert needs_of_plan(plan(hugepage_size="1GB", numa_binding="none")).hugepages == ((None, 40 * GB),)


def test_gpus_are_those_of_the_seats() -> None:
    assert gpus_of_plan(plan()) == ["0", "1"]
    assert gpus_of_plan({"placement": [{"rank": 0, "gpu": None}]}) == []
    assert gpus_of_plan({}) is None


def test_time_limit_follows_the_pools_at_the_rate_that_was_seen() -> None:
    # 243 GB in 25.9 s (sgl-project/sglang#32829), twice over.
    assert release_seconds(243 * GB) == pytest.approx(51.8)
    assert time_limit_seconds(plan(pinned_bytes_total=243 * GB)) == pytest.approx(MARGIN_SECONDS + 51.8)
    assert time_limit_seconds({}) > time_limit_seconds(plan())


def test_an_empty_plan_needs_nothing() -> None:
    assert needs_of_plan({}) == Needs()
