# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import (
    ScenarioError,
    default_memory,
    rank_names,
    scenario_from,
    version_of,
)


def test_a_release_is_all_that_is_needed() -> None:
    scenario = scenario_from({"release": "0.5.9"})
    assert (scenario.version, scenario.ranks, scenario.host_pools) == ((0, 5, 9), ("TP0",), ())
    assert scenario.seconds["warm_up"] > 0
    assert scenario.http["health"] == "real"


@pytest.mark.parametrize(
    ("release", "expected"), [("0.5.9.post1", (0, 5, 9)), ("0.5.0rc2", (0, 5, 0)), ("0.4.10", (0, 4, 10))]
)
def test_releases_are_numbers(release: str, expected: tuple[int, ...]) -> None:
    assert version_of(release) == expected


@pytest.mark.parametrize(
    ("release", "kind"), [("0.5.4", "driver"), ("0.5.5", "private"), ("0.5.12", "private"), ("0.5.13", "shared")]
)
def test_pinned_memory_is_of_the_kind_of_the_release(release: str, kind: str) -> None:
    assert default_memory(release) == kind
    given = {"release": release, "host_pools": [{"bytes": 1}]}
    assert scenario_from(given).host_pools[0].memory == kind


def test_ranks_by_number_and_by_name() -> None:
    assert rank_names(2) == ("TP0", "TP1")
    assert rank_names(["DP0 TP0", "DP1 TP0"]) == ("DP0 TP0", "DP1 TP0")


def test_a_rank_may_differ_from_the_others() -> None:
    scenario = scenario_from(
        {
            "release": "0.5.23",
            "ranks": 2,
            "host_pools": [{"bytes": 10, "gb_per_second": 1}],
            "rank_changes": {"TP1": {"gb_per_second": 0.5, "delay_seconds": 2}},
        }
    )
    assert [pool.gb_per_second for rank in scenario.ranks for pool in scenario.pools_of(rank)] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no release"),
        ({"release": "newest"}, "newest"),
        ({"release": "0.5.23", "rank": 2}, "the scenario has rank"),
        ({"release": "0.5.23", "http": {"healthy": 1}}, "http has healthy"),
        ({"release": "0.5.23", "seconds": {"pin": 1}}, "seconds has pin"),
        ({"release": "0.5.23", "rank_changes": {"TP7": {}}}, "TP7"),
        ({"release": "0.5.23", "host_pools": [{"bytes": 1, "memory": "swap"}]}, "swap"),
        ({"release": "0.5.23", "host_pools": [{"bytes": 1, "speed": 1}]}, "speed"),
        ({"release": "0.5.23", "noise": [{"kind": "loud"}]}, "loud"),
        ({"release": "0.5.23", "faults": [{"do": []}]}, "no place"),
        ({"release": "0.5.23", "faults": [{"before": "load", "after": "load", "do": []}]}, "before and after"),
        ({"release": "0.5.23", "faults": [{"before": "lunch", "do": []}]}, "lunch"),
        ({"release": "0.5.23", "faults": [{"within": "load", "do": []}]}, "host_pool"),
        ({"release": "0.5.23", "faults": [{"before": "load", "do": [{"explode": 1}]}]}, "explode"),
        ({"release": "0.5.23", "faults": [{"before": "load", "do": [{"say": "a", "exit": 1}]}]}, "expected one of"),
    ],
)
def test_what_cannot_be_played_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        scenario_from(given)
