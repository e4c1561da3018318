# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server import memory
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.memory import (
    bytes_at,
    fill,
    knots,
)

COLLECTIONS = str(Path(memory.__file__).parents[5])
PAGES = 512 * mmap.PAGESIZE


PROGRAM = f"""
import faulthandler, re
from pathlib import Path
from {memory.__name__} import bus_error, fill, knots, region

def resident(field):
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(rf"^{{field}}:\\s+(\\d+) kB$", text, re.MULTILINE)[1]) * 1024

def grown(kind, field, size):
    before = resident(field)
    fill(region(kind, size), knots(size, 1000.0))
    return resident(field) - before

"""


def in_a_process(words: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own prints: memory of this one, which has threads, is neither measured nor forked."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + words],
        env={**os.environ, "PYTHONPATH": COLLECTIONS},
        check=False,
        capture_output=True,
        text=True,
    )


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


@pytest.mark.parametrize(
    # Private memory of the interpreter itself moves as well.
    ("kind", "field", "spare"),
    [("shared", "RssShmem", 0), ("private", "RssAnon", 1 << 20)],
)
def test_memory_shows_where_the_release_shows_it_to_the_page(kind: str, field: str, spare: int) -> None:
    done = in_a_process(f"print(grown('{kind}', '{field}', {PAGES}))")
    assert done.returncode == 0, done.stderr
    assert 0 <= int(done.stdout) - PAGES <= spare


def test_memory_of_the_driver_is_of_no_process() -> None:
    done = in_a_process(f"print(grown('driver', 'RssShmem', {PAGES}))")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_filling_stops_where_a_fault_wants_it() -> None:
    written: list[int] = []
    seen: list[int] = []
    stops = [(0.75, lambda: seen.append(sum(written))), (0.25, lambda: seen.append(sum(written)))]
    fill(lambda _offset, data: written.append(len(data)), knots(PAGES, 1000.0), stops)
    assert seen == [PAGES // 4, PAGES * 3 // 4]
    assert sum(written) == PAGES


def test_a_bus_error_is_the_kernel_s_own() -> None:
    assert in_a_process("faulthandler.disable(); bus_error()").returncode == -signal.SIGBUS
