# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.speed import speed

GB = 1_000_000_000


def points(
    rate: Callable[[float], float], seconds: float, apart: float = 1.0, seed: int = 0
) -> list[tuple[float, int]]:
    """What a counter shows that grows by C(rate) bytes a second, read at moments that are not quite even."""
    dice = random.Random(seed)
    found, at, size, due = [(0.0, 0)], 0.0, 0.0, apart
    while at < seconds:
        at += 0.01
        size += rate(at) * 0.01
        if at >= due:
            found.append((at, int(size)))
            due = at + apart * dice.uniform(0.6, 1.4)
    return found


@pytest.mark.parametrize("found", [[], [(1.0, 5)], [(1.0, 5), (1.0, 9)], [(1.0, 5), (2.0, 5), (9.0, 5)]])
def test_nothing_is_known_before_two_readings_differ(found: list[tuple[float, int]]) -> None:
    assert speed(found) is None


@pytest.mark.parametrize("apart", [0.25, 1.0, 3.0, 10.0])
def test_constant_speed(apart: float) -> None:
    assert speed(points(lambda at: 3 * GB, 60.0, apart)) == pytest.approx(3 * GB, rel=0.01)


def test_time_before_the_first_byte_does_not_count() -> None:
    assert speed(points(lambda at: 2 * GB if at > 30 else 0.0, 40.0)) == pytest.approx(2 * GB, rel=0.1)


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0])
def test_speed_that_changed_for_good_is_the_new_one(factor: float) -> None:
    found = points(lambda at: 4 * GB * (1.0 if at < 60 else factor), 70.0)
    assert speed(found) == pytest.approx(4 * GB * factor, rel=0.1)


def test_second_change_is_seen_too() -> None:
    found = points(lambda at: GB * (4 if at < 30 else 2 if at < 60 else 1), 75.0)
    assert speed(found) == pytest.approx(GB, rel=0.1)


def test_speed_that_comes_and_goes_is_a_mean() -> None:
    found = points(lambda at: 3 * GB if int(at) % 6 < 3 else GB, 60.0)
    assert speed(found) == pytest.approx(2 * GB, rel=0.1)


def test_pause_slows_down_and_does_not_stop() -> None:
    found = points(lambda at: 3 * GB if at < 30 else 0.0, 40.0)
    assert speed(found) == pytest.approx(3 * GB * 30 / 40, rel=0.1)


def test_noise_is_no_change() -> None:
    dice = random.Random(7)
    steps = [dice.uniform(0.5, 1.5) for _step in range(200)]
    assert speed(points(lambda at: 2 * GB * steps[int(at * 2)], 90.0)) == pytest.approx(2 * GB, rel=0.15)


def test_counter_that_goes_back_is_never_a_negative_speed() -> None:
    found = [(0.0, 0), (1.0, 5 * GB), (2.0, GB), (3.0, 0), (4.0, 0)]
    assert (speed(found) or 0.0) >= 0.0
