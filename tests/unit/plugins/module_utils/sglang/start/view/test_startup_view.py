# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import (
    live_line,
    rank_lines,
    ranks_as_dicts,
    timeline,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.progress import eta_seconds
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    BOOT,
    HALF,
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
    reading,
    seen,
    start,
)


def test_stages_are_timed_by_the_journal_however_late_one_looks() -> None:
    lines = [
        *events(BOOT, 103.0),
        *events(LOAD[:2], 110.0),
        *events(LOAD[2:], 112.0),
        *events(UNTIL_PINNING[6:], 115.0),
        *events(PIN[:1], 116.0),
        *events(PIN[1:], 118.0),
        *events(PINNED[:1], 135.0),
        *events(PINNED[1:], 136.0),
        *events(WARM_UP, 137.0),
        *events(READY, 160.0),
    ]
    state = after(start(), seen(1.0, events=lines, started_at=100.0, ranks=both(MIB + POOL, MIB + POOL)))
    rows = {row["stage"]: (row["started_at"], row["seconds"], row["bytes"]) for row in timeline(state)}
    assert rows["boot"][:2] == (100.0, 12.0)
    assert rows["load"] == (110.0, 2.0, 1 << 30)
    assert rows["device_pool"] == (110.0, 5.0, 4 * round(0.05 * (1 << 30)))
    assert rows["host_pool"][:2] == (116.0, 20.0)
    assert rows["warm_up"] == (137.0, 23.0, None)
    assert state.verdict == "ready"
    assert [row["pin_seconds"] for row in ranks_as_dicts(state)] == [18.0, 19.0]


def test_rate_and_time_left() -> None:
    state = after(pinning(3.0), seen(5.0, ranks=both(MIB, MIB)), seen(9.0, ranks=both(MIB + HALF, MIB + HALF)))
    assert eta_seconds(state) == pytest.approx(4.0)
    assert live_line(state) == "pinning 0.41 of 0.82 GB (TP0 0.20/0.41, TP1 0.20/0.41) 0.10 GB/s ETA 4 s"


def test_live_line_before_anything_is_pinned() -> None:
    assert live_line(pinning()) == "pinning 0.00 of 0.82 GB (TP0 0.00/0.41, TP1 0.00/0.41)"


def test_live_line_of_many_ranks_names_the_slowest() -> None:
    state = start(ranks=8)
    lines = [line.replace("TP1", f"TP{rank}") for rank in range(8) for line in PIN[:1]]
    readings = [reading(f"TP{rank}", MIB) for rank in range(8)]
    moved = [reading(f"TP{rank}", MIB + (HALF if rank != 3 else 0)) for rank in range(8)]
    state = after(state, seen(1.0, ranks=tuple(readings)), seen(2.0, lines, ranks=tuple(readings)))
    state = after(state, seen(3.0, ranks=tuple(moved)))
    sizes = " ".join("0.00" if rank == 3 else "0.20" for rank in range(8))
    assert live_line(state).startswith(f"pinning 1.43 of 3.28 GB (TP0 to TP7 {sizes} of 0.41 each)")
    assert live_line(state, columns=90).startswith("pinning 1.43 of 3.28 GB (slowest TP3 0.00/0.41)")
    assert len(live_line(state)) <= 130


def test_each_rank_has_a_line_for_those_who_ask_for_more() -> None:
    state = after(pinning(3.0), seen(5.0, ranks=both(MIB + HALF, MIB)))
    assert rank_lines(state) == [
        "TP0: pinning 0.20 of 0.41 GB pinned, process 200",
        "TP1: pinning, process 201",
    ]
