# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.timing import plan_timing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.unit_limits import UnitLimits, unit_limits
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.stop_versions import stop_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version

TOTAL, RANK = 358_167_389_184, 44_770_923_648


def limits(version: str = "0.5.9", observed: Observed | None = None, in_force: int | None = None) -> UnitLimits:
    timing = plan_timing(TOTAL, 8, 547_000_000_000, observed or Observed())
    return unit_limits(timing, stop_facts(parse_version(version)), TOTAL, RANK, in_force)


@pytest.mark.parametrize(
    ("share", "kept"), [(0.1, True), (0.99, True), (1.01, True), (1.3, True), (1.4, False), (20.0, False)]
)
def test_a_limit_of_the_stop_stays_while_half_of_its_margin_is_left(share: float, kept: bool) -> None:
    timing, stop = plan_timing(TOTAL, 8, 547_000_000_000, Observed()), stop_facts(parse_version("0.5.9"))
    first = unit_limits(timing, stop, TOTAL, RANK).timeout_stop_seconds
    again = unit_limits(timing, stop, int(TOTAL * share), RANK, None, first)
    assert (again.timeout_stop_seconds == first) is kept
    assert again.timeout_stop_seconds >= 307 + 1.5 * int(TOTAL * share) / (243e9 / 25.9)


def test_a_start_has_four_times_what_is_expected_and_ten_minutes() -> None:
    # 547 s loading, 88.8 s pinning and 120 s for the rest.
    assert limits().timeout_start_seconds == 600 + 4 * 755.8 + 0.8


@pytest.mark.parametrize(("version", "seconds"), [("0.5.9", 382), ("0.5.14", 397), ("0.5.18", 397), ("0.5.23", 457)])
def test_a_stop_has_time_to_drain_to_end_its_ranks_and_to_unpin(version: str, seconds: int) -> None:
    # 300 s + 5 s + what the release waits for + 2 x 38.2 s.
    found = limits(version)
    assert found.timeout_stop_seconds == seconds
    assert any(f"= {seconds} s" in line and "358.17 GB at 9.38 GB/s" in line for line in found.explanation)


def test_a_rank_may_lock_its_pool_and_a_margin() -> None:
    assert limits().memlock_bytes == RANK + (1 << 30)


@pytest.mark.parametrize(("factor", "kept"), [(0.5, True), (0.9, True), (1.1, True), (1.6, True), (3.0, False)])
def test_a_limit_in_force_stays_while_it_is_not_far_off(factor: float, kept: bool) -> None:
    first = limits()
    measured = Observed(load_seconds=547.0 * factor, rest_seconds=120.0 * factor, pin_bytes_per_second=4e9 / factor)
    again = limits(observed=measured, in_force=first.timeout_start_seconds)
    assert (again.timeout_start_seconds == first.timeout_start_seconds) is kept
    assert ("as in force" in again.explanation[0]) is kept


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0.8, max_value=1.25), min_size=2, max_size=8))
def test_starts_that_differ_a_little_never_move_a_limit(factors: list[float]) -> None:
    in_force: int | None = None
    seen = set()
    for factor in factors:
        measured = Observed(load_seconds=500 * factor, rest_seconds=100 * factor, pin_bytes_per_second=4e9 / factor)
        in_force = limits(observed=measured, in_force=in_force).timeout_start_seconds
        seen.add(in_force)
    assert len(seen) == 1
