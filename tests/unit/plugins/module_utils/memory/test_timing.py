# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.timing import plan_timing


def test_field_rates_of_one_thread_and_of_a_machine() -> None:
    one = plan_timing(65_500_000_000, 1, 0, Observed())
    many = plan_timing(1_500_000_000_000, 8, 0, Observed())
    assert one.pin_seconds == pytest.approx(21.2, abs=0.05)
    assert many.pin_seconds == 372.0
    assert "31424" in many.source


def test_measured_rates_replace_those_of_the_field() -> None:
    timing = plan_timing(10**9, 2, 5 * 10**9, Observed(pin_bytes_per_second=60e6, load_seconds=7.0, rest_seconds=30.0))
    assert timing.source == "observed"
    assert timing.pin_seconds == 16.7
    assert timing.start_seconds == 53.7


def test_the_arithmetic_is_told_with_its_sources() -> None:
    (line,) = plan_timing(358_167_389_184, 8, 547_000_000_000, Observed(rest_seconds=90.0)).explanation
    assert "loading for 547.00 GB at 1.00 GB/s" in line
    assert "pinning 358.17 GB at 4.03 GB/s (field rates" in line
    assert (
        line.endswith("1 min 30 s for the rest as observed = 12 min 06 s") or "90.0 s for the rest as observed" in line
    )


def test_nothing_pinned_takes_no_time() -> None:
    assert plan_timing(0, 2, None, Observed()).pin_seconds == 0.0
