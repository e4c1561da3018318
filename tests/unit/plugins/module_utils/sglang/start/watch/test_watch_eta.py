# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random

from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.pinned_starts import (
    drawn,
    worst_after_the_change,
    worst_at_constant_speed,
)

SEEDS = range(20)


def test_time_left_at_constant_speed_is_right_to_15_percent_after_a_fifth_of_the_bytes() -> None:
    worst = [worst_at_constant_speed(drawn(random.Random(seed))) for seed in SEEDS]
    print(f"constant speed, {len(worst)} starts: worst {max(worst):.1%}")
    assert max(worst) <= 0.15


def test_time_left_is_right_to_30_percent_soon_after_the_speed_halved() -> None:
    worst = [worst_after_the_change(drawn(random.Random(seed), factor=0.5)) for seed in SEEDS]
    print(f"speed that halves midway, {len(worst)} starts: worst {max(worst):.1%}")
    assert max(worst) <= 0.30
