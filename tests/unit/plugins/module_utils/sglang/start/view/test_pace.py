# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.pace import (
    LONGEST_SECONDS,
    least_seconds,
    look_seconds,
    wait_seconds,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    after,
    pinning,
    seen,
    start,
)


@pytest.mark.parametrize(
    ("stage", "watched", "blind", "seconds"),
    [
        ("host_pool", 1, False, 5.0),
        ("load", 1, False, 10.0),
        ("warm_up", 1, False, 10.0),
        ("load", 1, True, 2.0),
        ("host_pool", 50, False, 20.0),
        ("load", 50, True, 20.0),
        ("load", 1000, False, 30.0),
    ],
)
def test_a_look_waits_the_longer_the_more_nodes_are_watched(
    stage: str, watched: int, blind: bool, seconds: float
) -> None:
    assert look_seconds(replace(start(), stage=stage), watched, blind) == seconds


def test_looks_of_all_nodes_together_are_bounded() -> None:
    state = replace(start(), stage="host_pool")
    for watched in range(1, 75):
        assert watched / look_seconds(state, watched) <= 2.5
    assert least_seconds(1) == 0.5
    assert all(watched / least_seconds(watched) <= 20 for watched in range(10, 500))


def test_a_look_waits_the_longer_the_longer_bytes_have_been_counted() -> None:
    state = replace(start(), stage="host_pool")
    seconds = [look_seconds(replace(state, now=state.began_at + elapsed), 1) for elapsed in (0, 60, 160, 900)]
    assert seconds == [5.0, 5.0, 8.0, 10.0]


def test_a_look_is_long_once_all_bytes_are_there() -> None:
    """What comes next are lines, and the one that says that it is ready shall not fall between two looks."""
    state = pinning(3.0)
    assert look_seconds(state, 1) == 5.0
    there = tuple(replace(rank, pinned_bytes=rank.announced_bytes) for rank in state.ranks)
    assert look_seconds(replace(state, ranks=there), 1) == 10.0


def test_first_look_does_not_wait() -> None:
    assert wait_seconds(start(), 1, False, None) == 0.0


def test_what_was_asked_for_comes_before_the_rule() -> None:
    assert wait_seconds(pinning(3.0), 50, False, 0.7) == 0.7


def test_a_look_ends_when_the_time_limit_or_the_stall_is_due() -> None:
    state = after(start(ranks=1, timeout_seconds=20.0), seen(12.0))
    assert wait_seconds(state, 1, False, LONGEST_SECONDS) == pytest.approx(8.0)
    stalling = after(start(ranks=1, timeout_seconds=900.0, stall_seconds=40.0), seen(33.0))
    assert wait_seconds(stalling, 1, False, LONGEST_SECONDS) == pytest.approx(7.0)


def test_a_server_that_dies_is_looked_at_closely() -> None:
    assert wait_seconds(replace(pinning(3.0), dying_since=2.0), 50, False, None) == 1.0
