# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import (
    NodeMemory,
    Wanted,
    kernel_words,
    of_plans,
    refuse_too_many,
    shortfall,
)

NODES = {node: NodeMemory(256 * GIB, {2 << 20: 0, GIB: 0}) for node in (0, 1)}


def plan(size: str | None, *shares: tuple[int | None, int]) -> dict[str, Any]:
    return {
        "host": {
            "hugepage_size": size,
            "pools": [{"kind": "mha"}, {"kind": "draft"}],
            "numa": [{"node": node, "ranks": [0, 1], "pinned_bytes": pinned} for node, pinned in shares],
        }
    }


def test_a_plan_of_huge_pages_is_taken_as_it_is() -> None:
    assert of_plans([plan("1GB", (0, 5 * GIB), (1, 3 * GIB))], "1GB") == [
        {"size": "1GB", "numa_node": 0, "pages": 5},
        {"size": "1GB", "numa_node": 1, "pages": 3},
    ]


def test_a_plan_of_ordinary_memory_gets_a_page_a_pool_and_rank() -> None:
    assert of_plans([plan(None, (0, 5 * GIB))], "1GB") == [{"size": "1GB", "numa_node": 0, "pages": 5 + 4}]


def test_plans_of_one_host_are_added_up() -> None:
    assert of_plans([plan("2MB", (0, 4 << 20)), plan("2MB", (0, 2 << 20))], "2MB") == [
        {"size": "2MB", "numa_node": 0, "pages": 3}
    ]


def test_a_pool_without_a_node_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        of_plans([plan("2MB", (None, 4 << 20))], "2MB")
    assert caught.value.code == "hugepages_node_unknown"


def refusal(wanted: list[Wanted], available: int = 500 * GIB, leave: int = 10 * GIB) -> Refusal:
    with pytest.raises(Refusal) as caught:
        refuse_too_many(wanted, NODES, available, 512 * GIB, leave)
    return caught.value


def test_a_node_keeps_its_share_of_what_is_left() -> None:
    refused = refusal([Wanted("1GB", 1, 252)])
    assert refused.code == "hugepages_too_many"
    # Half of 10 GiB for a node with half of the memory.
    assert refused.evidence["largest_bytes"] == 251 * GIB
    assert "270.58 GB in huge pages" in refused.message and "269.51 GB at most" in refused.remedy
    refuse_too_many([Wanted("1GB", 1, 251)], NODES, 500 * GIB, 512 * GIB, 10 * GIB)


def test_both_sizes_count_together() -> None:
    assert refusal([Wanted("1GB", 0, 200), Wanted("2MB", 0, 52 * 512)]).code == "hugepages_too_many"


def test_what_is_in_use_now_has_to_fit_as_well() -> None:
    refused = refusal([Wanted("2MB", 0, 50 * 512)], available=59 * GIB)
    assert (refused.code, refused.evidence["largest_bytes"]) == ("hugepages_no_room", 49 * GIB)


def test_pages_that_are_there_already_need_no_room() -> None:
    there = {0: NodeMemory(256 * GIB, {2 << 20: 50 * 512})}
    refuse_too_many([Wanted("2MB", 0, 50 * 512)], there, 11 * GIB, 256 * GIB, 10 * GIB)


@pytest.mark.parametrize(
    ("wanted", "code", "word"),
    [
        (Wanted("2MB", 7, 1), "hugepages_node_missing", "nodes with memory are: 0, 1"),
        (Wanted("1GB", 3, 1), "hugepages_size_missing", "pdpe1gb"),
    ],
)
def test_what_is_not_there_is_named(wanted: Wanted, code: str, word: str) -> None:
    nodes = {**NODES, **({3: NodeMemory(256 * GIB, {2 << 20: 0})} if wanted.numa_node == 3 else {})}
    with pytest.raises(Refusal) as caught:
        refuse_too_many([wanted], nodes, 500 * GIB, 512 * GIB, GIB)
    assert caught.value.code == code and word in str(caught.value)


def test_the_kernels_words_have_a_number_for_each_node() -> None:
    wanted = [Wanted("1GB", 1, 2), Wanted("1GB", 0, 4), Wanted("2MB", 0, 9), Wanted("1GB", 2, 0)]
    assert kernel_words(wanted, "1GB") == ("hugepagesz=1G", "hugepages=0:4,1:2")
    assert kernel_words(wanted, "2MB") == ("hugepagesz=2M", "hugepages=0:9")
    assert kernel_words([], "1GB") == ()


def test_a_shortfall_has_both_figures_and_the_cause() -> None:
    assert shortfall(GIB, 1, 8, 3) == (
        "NUMA node 1: 3 of 8 huge pages of 1GB could be reserved (3.22 GB of 8.59 GB), although that much memory was "
        "available: it is fragmented, so that there are not enough whole pieces of this size, even after it was "
        "compacted."
    )
