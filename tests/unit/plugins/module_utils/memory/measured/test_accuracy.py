# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import (
    deviation_lines,
    deviations,
)

GIB = 1 << 30
STEP = GIB // 100
LEDGER: dict[str, Any] = {
    "plan": {
        "device": {
            "device": "cuda",
            "max_total_num_tokens": 160000,
            "available_before_load_bytes": 92 * GIB,
            "weights_bytes": 70 * GIB,
        },
        "host": {"bytes_total": 358_000_000_000},
        "timing": {"pin_seconds": 88.8, "start_seconds": 755.8},
    },
    "startup": {
        "max_total_num_tokens": 159200,
        "figures": {
            "resolution_bytes": STEP,
            "available_before_load_bytes": 92 * GIB + STEP,
            "available_after_load_bytes": 20 * GIB,
            "pinned_bytes": 358_000_000_000,
            "pin_seconds": 100.0,
            "start_seconds": None,
        },
    },
}


def test_each_figure_that_is_known_twice_is_compared() -> None:
    found = {one.figure: one for one in deviations(LEDGER)}
    assert list(found) == [
        "max_total_num_tokens",
        "available_before_load_bytes",
        "available_after_load_bytes",
        "weights_bytes",
        "host_bytes",
        "pin_seconds",
    ]
    assert (found["max_total_num_tokens"].difference, found["max_total_num_tokens"].percent) == (-800, -0.5)
    assert abs(found["available_before_load_bytes"].difference) <= found["available_before_load_bytes"].resolution
    assert found["available_after_load_bytes"].difference == -2 * GIB
    assert found["weights_bytes"].difference == 2 * GIB + STEP
    assert found["pin_seconds"].percent == 12.61


def test_a_person_reads_the_difference_with_its_unit_and_sign() -> None:
    lines = deviation_lines(one.as_dict() for one in deviations(LEDGER))
    assert lines == [
        "device tokens: 159,200, planned 160,000 (-800, -0.5 %)",
        "free of a GPU before the weights: 92.01 GiB, planned 92.00 GiB: the same to what is printed",
        "free of a GPU after the weights: 20.00 GiB, planned 22.00 GiB (-2.00 GiB, -9.1 %)",
        "weights a GPU: 72.01 GiB, planned 70.00 GiB (+2.01 GiB, +2.9 %)",
        "host memory pinned: 358.00 GB, planned 358.00 GB: the same",
        "pinning: 1 min 40 s, planned 88.8 s (+11.2 s, +12.6 %)",
    ]


def test_the_memory_of_a_cpu_is_not_that_of_gpus() -> None:
    on_cpu = {**LEDGER, "plan": {**LEDGER["plan"], "device": {**LEDGER["plan"]["device"], "device": "cpu"}}}
    assert [one.figure for one in deviations(on_cpu)] == ["max_total_num_tokens", "host_bytes", "pin_seconds"]


def test_a_percentage_of_nothing_is_unknown() -> None:
    ledger = {"plan": {"timing": {"pin_seconds": 0.0}}, "startup": {"figures": {"pin_seconds": 2.0}}}
    (found,) = deviations(ledger)
    assert found.percent is None
    assert deviation_lines([found.as_dict()]) == ["pinning: 2.0 s, planned 0.0 s (+2.0 s)"]


def test_a_difference_that_is_too_small_to_show_is_none() -> None:
    ledger = {"plan": {"host": {"bytes_total": 1_073_745_920}}, "startup": {"figures": {"pinned_bytes": 1_073_950_720}}}
    assert deviation_lines(one.as_dict() for one in deviations(ledger)) == [
        "host memory pinned: 1.07 GB, planned 1.07 GB: the same to what is shown"
    ]


def test_what_was_pinned_is_compared_with_what_the_allocator_makes_of_the_pools() -> None:
    host = {"bytes_total": 33_000_000_000, "pinned_bytes_total": 34_359_738_368}
    ledger = {"plan": {"host": host}, "startup": {"figures": {"pinned_bytes": 34_359_738_368}}}
    assert [one.difference for one in deviations(ledger)] == [0]


def test_an_empty_ledger_has_nothing_to_compare() -> None:
    assert deviations({}) == ()
