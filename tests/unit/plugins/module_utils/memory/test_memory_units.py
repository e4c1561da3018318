# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    format_count,
    format_gb,
    format_gb_to_free,
    format_gib,
    format_rate,
    format_seconds,
)


def test_gb_and_gib_are_told_apart() -> None:
    assert (format_gb(11_192_713_344), format_gib(11_192_713_344)) == ("11.19 GB", "10.42 GiB")
    assert format_gb(358_166_827_008) == "358.17 GB"


def test_what_is_to_be_freed_is_rounded_up() -> None:
    assert [format_gb_to_free(size) for size in (1, 10_000_000, 10_000_001)] == ["0.01 GB", "0.01 GB", "0.02 GB"]
    assert format_gb_to_free(2_500_000_000, 3) == "2.500 GB"


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (2_896_000_000, "2.90 GB/s"),
        (60_000_000, "0.06 GB/s"),
        (10_000_000, "0.01 GB/s"),
        (4_200_000, "0.0042 GB/s"),
        (0, "0.00 GB/s"),
    ],
)
def test_a_slow_rate_is_not_shown_as_nothing(rate: float, shown: str) -> None:
    assert format_rate(rate) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(8.25, "8.2 s"), (99.94, "99.9 s"), (184, "3 min 04 s")])
def test_seconds_become_minutes(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown


def test_counts_have_separators() -> None:
    assert format_count(159277) == "159,277"
