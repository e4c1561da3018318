# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import faulthandler
import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.memory import (
    bus_error,
    bytes_at,
    fill,
    knots,
    region,
)

PAGES = 512 * mmap.PAGESIZE


def in_a_child(work: Callable[[], int]) -> int:
    """What C(work) returns in a process of its own, by its wait status."""
    pid = os.fork()
    if pid == 0:
        os._exit(work())
    return os.waitpid(pid, 0)[1]


def resident(field: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def test_even_growth() -> None:
    curve = knots(2_000_000_000, 0.5)
    assert curve == [(0.0, 0.0), (4.0, 2_000_000_000.0)]
    assert [bytes_at(curve, at) for at in (0.0, 1.0, 4.0, 99.0)] == [0, 500_000_000, 2_000_000_000, 2_000_000_000]


def test_half_the_speed_midway() -> None:
    curve = knots(1_000_000_000, 1.0, speeds=[(0.5, 0.5)])
    assert curve[-1] == (1.5, 1_000_000_000.0)
    assert bytes_at(curve, 1.0) == 750_000_000


def test_a_pause_is_a_time_without_a_byte() -> None:
    curve = knots(1_000_000_000, 1.0, pauses=[(0.25, 30)])
    assert curve[-1] == (31.0, 1_000_000_000.0)
    assert {bytes_at(curve, at) for at in (0.25, 10.0, 30.25)} == {250_000_000}


def test_a_pause_before_the_first_byte_and_one_after_the_last() -> None:
    curve = knots(1_000_000_000, 1.0, pauses=[(0.0, 2), (1.0, 3)])
    assert curve[-1] == (6.0, 1_000_000_000.0)
    assert bytes_at(curve, 2.0) == 0


@pytest.mark.parametrize(("kind", "field"), [("shared", "RssShmem"), ("private", "RssAnon")])
def test_memory_shows_where_the_release_shows_it_to_the_page(kind: str, field: str) -> None:
    def grow() -> int:
        before = resident(field)
        fill(region(kind, PAGES), knots(PAGES, 1000.0))
        grown = resident(field) - before
        # Private memory of the interpreter itself moves as well.
        return 0 if grown == PAGES or (kind == "private" and PAGES <= grown < PAGES + (1 << 20)) else 1

    assert in_a_child(grow) == 0


def test_memory_of_the_driver_is_of_no_process() -> None:
    def grow() -> int:
        before = resident("RssShmem")
        fill(region("driver", PAGES), knots(PAGES, 1000.0))
        return 0 if resident("RssShmem") == before else 1

    assert in_a_child(grow) == 0


def test_filling_stops_where_a_fault_wants_it() -> None:
    written: list[int] = []
    seen: list[int] = []
    stops = [(0.75, lambda: seen.append(sum(written))), (0.25, lambda: seen.append(sum(written)))]
    fill(lambda _offset, data: written.append(len(data)), knots(PAGES, 1000.0), stops)
    assert seen == [PAGES // 4, PAGES * 3 // 4]
    assert sum(written) == PAGES


def test_a_bus_error_is_the_kernel_s_own() -> None:
    def fall() -> int:
        faulthandler.disable()
        bus_error()
        return 0

    assert os.WTERMSIG(in_a_child(fall)) == 7
