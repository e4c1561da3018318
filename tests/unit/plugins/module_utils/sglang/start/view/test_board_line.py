# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.board import (
    Entry,
    entry_from_dict,
    entry_of,
    summary_line,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    HALF,
    MIB,
    POOL,
    READY,
    after,
    both,
    pinning,
    seen,
)

GB = 10**9


def node(number: int, stage: str = "boot", **others: Any) -> Entry:
    return Entry(host=f"node-{number:02d}", instance="main", pid=number, began_at=0.0, at=10.0, stage=stage, **others)


def pins(number: int, pinned: float, planned: float = 30.0, rate: float = 0.5, eta: float = 9.0) -> Entry:
    return node(
        number,
        "host_pool",
        pinned_bytes=round(pinned * GB),
        planned_bytes=round(planned * GB),
        rate_bytes_per_second=rate * GB,
        eta_seconds=eta,
    )


def test_fifty_nodes_are_one_line() -> None:
    nodes = [node(number, "ready", end="ready") for number in range(3)]
    nodes += [pins(number, 18.0) for number in range(3, 14)]
    nodes += [pins(17, 3.6, eta=48.4)]
    nodes += [node(number, "warm_up") for number in (20, 21)]
    assert summary_line(nodes) == (
        "17 nodes: 3 ready, 2 warming up, 12 pinning 201.60 of 360.00 GB 6.00 GB/s ETA 48 s; "
        "slowest node-17 pinning 12 %"
    )
    nodes += [node(number, "load") for number in range(22, 55)]
    line = summary_line(nodes)
    assert line == (
        "50 nodes: 3 ready, 2 warming up, 12 pinning 201.60 of 360.00 GB 6.00 GB/s ETA 48 s, 33 loading weights; "
        "slowest node-22 loading weights"
    )
    assert len(line) <= 160


def test_ends_that_need_somebody_are_named_while_they_are_few() -> None:
    nodes = [node(number, "load") for number in range(4)]
    nodes += [node(7, "load", end="failed"), node(8, "capture", end="stalled"), node(9, "load", end="lost")]
    assert summary_line(nodes) == (
        "7 nodes: 1 failed (node-07), 1 stalled (node-08), 1 lost (node-09), 4 loading weights"
    )
    many = [node(number, "load", end="failed") for number in range(10, 14)]
    assert summary_line([*nodes, *many]).startswith("11 nodes: 5 failed, 1 stalled (node-08)")


def test_nodes_out_of_reach_are_told_apart_from_what_they_did_last() -> None:
    nodes = [node(1, "load"), node(2, "load"), node(3, "load", away=True)]
    assert summary_line(nodes) == "3 nodes: 2 loading weights, 1 out of reach (node-03)"


def test_pools_of_unknown_size_are_counted_and_not_summed() -> None:
    unknown = node(1, "host_pool", pinned_bytes=GB)
    assert summary_line([unknown, pins(2, 15.0)]).startswith("2 nodes: 2 pinning 15.00 of 30.00 GB 0.50 GB/s ETA 9 s")
    assert summary_line([unknown, node(2, "host_pool")]) == "2 nodes: 2 pinning"


def test_instances_are_named_where_they_differ() -> None:
    other = replace(pins(1, 1.0), instance="second")
    assert summary_line([pins(1, 20.0), other]).endswith("slowest node-01 second pinning 3 %")


def test_an_entry_survives_the_way_through_its_file() -> None:
    state = after(pinning(3.0), seen(5.0, ranks=both(MIB, MIB)), seen(9.0, ranks=both(MIB + HALF, MIB + HALF)))
    entry = entry_of(state, "node-1", "main", 42)
    assert (entry.stage, entry.pinned_bytes, entry.planned_bytes, entry.end) == ("host_pool", 2 * HALF, 2 * POOL, None)
    assert entry.share == pytest.approx(0.5)
    assert entry_from_dict(entry.as_dict()) == entry
    with pytest.raises(TypeError):
        entry_from_dict({"host": "node-1"})


def test_an_entry_tells_how_its_start_ended() -> None:
    state = after(pinning(3.0), seen(5.0, READY))
    assert entry_of(state, "node-1", "main", 42).end == "ready"
    assert entry_of(pinning(3.0), "node-1", "main", 42, lost=True).end == "lost"
