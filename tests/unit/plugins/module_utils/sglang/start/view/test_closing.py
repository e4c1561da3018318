# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.closing import (
    closing_line,
    given_up_line,
    stage_words,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    BOOT,
    LOAD,
    MIB,
    PIN,
    PINNED,
    POOL,
    READY,
    UNTIL_PINNING,
    WARM_UP,
    after,
    both,
    events,
    pinning,
    seen,
    start,
)


def test_a_start_that_came_up_is_told_in_one_line_with_its_stages() -> None:
    lines = [
        *events(BOOT, 103.0),
        *events(LOAD[:2], 110.0),
        *events(LOAD[2:], 112.0),
        *events(UNTIL_PINNING[6:], 115.0),
        *events(PIN, 116.0),
        *events(PINNED, 136.0),
        *events(WARM_UP, 137.0),
        *events(READY, 160.0),
    ]
    state = after(
        start(),
        seen(1.0, started_at=100.0, read_at=101.0, ranks=both(MIB, MIB)),
        seen(61.0, events=lines, read_at=161.0, ranks=both(MIB + POOL, MIB + POOL)),
    )
    assert state.verdict == "ready"
    line = closing_line(state, 60.0)
    assert line.startswith("ready after 60.0 s: boot 12.0 s, load 2.0 s (1.07 GB), device pool ")
    assert "pin 20.0 s (0.82 GB at 0.04 GB/s)" in line
    assert line.endswith("warm-up 23.0 s")
    assert len(line) <= 160
    # Without the log's own time for the whole, it is what was waited.
    assert closing_line(state, None).startswith("ready after 61.0 s: ")


def test_a_failure_is_told_with_stage_and_cause() -> None:
    state = pinning(3.0)
    failed = after(state, seen(4.0, unit=state.unit, ranks=both(MIB, MIB)))
    line = closing_line(failed, None, "host_memory_guard of TP1")
    assert "while pinning, host_memory_guard of TP1: " in line
    assert given_up_line(failed, "node_lost") == "given up after 4.0 s while pinning, node_lost"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"stage": "host_pool", "seconds": 14.0, "bytes": 358_200_000_000}, "pin 14.0 s (358.2 GB at 25.6 GB/s)"),
        ({"stage": "host_pool", "seconds": 0.0, "bytes": 5_000_000_000}, "pin 0.0 s (5.00 GB)"),
        ({"stage": "load", "seconds": 12.3, "bytes": 24_900_000_000}, "load 12.3 s (24.9 GB)"),
        ({"stage": "warm_up", "seconds": 3.1, "bytes": None}, "warm-up 3.1 s"),
        ({"stage": "capture", "seconds": 184.0, "bytes": None}, "capture 3 min 04 s"),
        ({"stage": "load", "seconds": None, "bytes": None}, None),
    ],
)
def test_words_of_a_stage(row: dict[str, object], words: str | None) -> None:
    assert stage_words(row) == words
