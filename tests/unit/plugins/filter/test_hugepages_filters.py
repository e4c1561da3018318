# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.hugepages_argument import hugepages_argument
from ansible_collections.gpufleet.sglang.plugins.filter.hugepages_of_plans import hugepages_of_plans

PLAN: dict[str, Any] = {
    "host": {"hugepage_size": "1GB", "pools": [{}], "numa": [{"node": 1, "ranks": [0], "pinned_bytes": 3 << 30}]}
}


def test_a_plan_and_a_list_of_plans() -> None:
    assert hugepages_of_plans(PLAN, "1GB") == [{"size": "1GB", "numa_node": 1, "pages": 3}]
    assert hugepages_of_plans([PLAN, PLAN], "1GB") == [{"size": "1GB", "numa_node": 1, "pages": 6}]
    assert hugepages_of_plans([]) == []


@pytest.mark.parametrize(
    ("plans", "size", "words"),
    [
        (PLAN, "4KB", "expected one of 2MB, 1GB"),
        ({"host": {}}, "1GB", "no plan of memory_plan"),
        (
            {"host": {**PLAN["host"], "numa": [{"node": None, "ranks": [0], "pinned_bytes": 1}]}},
            "1GB",
            "no NUMA node",
        ),
    ],
)
def test_what_is_no_plan_is_refused(plans: Any, size: str, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        hugepages_of_plans(plans, size)


def test_the_kernels_argument_is_of_one_size_and_of_all_nodes() -> None:
    pages = [
        {"size": "1GB", "numa_node": 1, "bytes": 3 << 30},
        {"size": "2MB", "numa_node": 0, "pages": 5},
        {"size": "1GB", "numa_node": 0, "pages": 2},
    ]
    assert hugepages_argument(pages) == "hugepagesz=1G hugepages=0:2,1:3"
    assert hugepages_argument(pages, "2MB") == "hugepagesz=2M hugepages=0:5"
    assert hugepages_argument([]) == ""


@pytest.mark.parametrize("pages", [[{"size": "1GB"}], [{"size": "1GB", "numa_node": 0}]])
def test_pages_that_say_too_little_are_refused(pages: list[dict[str, Any]]) -> None:
    with pytest.raises(AnsibleFilterError):
        hugepages_argument(pages)
