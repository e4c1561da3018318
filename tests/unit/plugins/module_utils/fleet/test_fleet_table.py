# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import fleet_plans
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.table import short_board, table_lines
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet.fleets import (
    CPU_PLAN,
    KIMI_PLAN,
    OFF_PLAN,
    OVER_PLAN,
    REFUSED_RESULT,
    fleet,
    host,
)


def row(plan: dict[str, Any]) -> list[str]:
    """The cells of the one row of a table; no cell here holds two blanks."""
    line = table_lines(fleet(**{"node-1": plan}))[2]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_one_node() -> None:
    lines = table_lines(fleet(**{"kimi-01": KIMI_PLAN}))
    head = "node model SGLang GPUs layout fraction tokens pinned of available NUMA left guard start verdict"
    assert " ".join(lines[0].split()) == head
    assert row(KIMI_PLAN)[:10] == [
        "node-1",
        "Kimi-K2.5",
        "0.5.9",
        "8 x RTX PRO 6000 Server",
        "TP8",
        "0.88",
        "159,277",
        "358.2 of 396.0 GB",
        "18.9 GB",
        "A passes",
    ]
    assert lines[-1] == "1 node: 1 planned"
    assert len(lines) == 5


def test_columns_stand_below_their_heads() -> None:
    head, _rule, *rows = table_lines(fleet(a=KIMI_PLAN, b=CPU_PLAN, c=None))[:5]
    place = head.index("SGLang")
    assert [line[place : place + 6].strip() for line in rows if not line.startswith(" ")] == ["0.5.9", "0.5.23", "-"]


def test_what_is_off_or_unknown_is_a_dash() -> None:
    assert "HiCache off" in row(OFF_PLAN)
    assert row(OFF_PLAN)[8:10] == ["-", "-"]
    cells = row(CPU_PLAN)
    assert cells[3:6] == ["none, on CPUs", "TP2", "-"]
    unknown = copy.deepcopy(KIMI_PLAN)
    unknown["host"].update(available_bytes=None, left_bytes=None)
    assert "358.2 GB of unknown" in row(unknown)


def test_verdicts() -> None:
    assert row(OVER_PLAN)[-1] == "oversubscribed"
    warned = copy.deepcopy(KIMI_PLAN)
    warned["warnings"] = [{"code": "one", "severity": "warning", "message": "", "remedy": ""}]
    assert row(warned)[-1] == "fits, 1 warning"
    warned["warnings"] *= 2
    assert row(warned)[-1] == "fits, 2 warnings"
    assert row({**KIMI_PLAN, "warnings": []})[-1] == "fits"


def test_the_least_that_a_node_with_ranks_has_left() -> None:
    uneven = copy.deepcopy(KIMI_PLAN)
    uneven["host"]["numa"][1]["left_bytes"] = -2_000_000_000
    uneven["host"]["numa"].append(
        {"node": 2, "ranks": [], "pinned_bytes": 0, "available_bytes": 1, "left_bytes": -9_000_000_000}
    )
    assert "-2.0 GB" in row(uneven)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"tp-size": 8}, "TP8"),
        ({"tp-size": 8, "pp-size": 1, "dp-size": 1}, "TP8"),
        ({"tp-size": 8, "pp-size": 2, "dp-size": 4, "ep-size": 8}, "TP8 PP2 DP4 EP8"),
        ({}, "-"),
    ],
)
def test_layouts(arguments: dict[str, Any], told: str) -> None:
    assert told in row({**KIMI_PLAN, "arguments": arguments})


def test_gpus_of_which_some_are_used() -> None:
    fewer = {**KIMI_PLAN, "placement": KIMI_PLAN["placement"][:4]}
    assert row(fewer)[3] == "4 of 8 x RTX PRO 6000 Server"
    assert short_board(None) == "unnamed GPU"
    assert short_board("NVIDIA GeForce RTX 4090") == "RTX 4090"


def test_nodes_alike_are_one_row_and_refused_ones_come_last_with_the_reason() -> None:
    plans: dict[str, Any] = {f"gpu-{number:03}": KIMI_PLAN for number in range(1, 13)}
    lines = table_lines(fleet(bad=None, **plans, worse=None))
    body = lines[2:]
    assert body[0].startswith("12 nodes")
    assert body[1] == "    12 nodes alike: gpu-001 to gpu-012"
    assert body[2].startswith("2 nodes") and body[2].endswith("refused: host_memory_short")
    assert body[3:5] == [
        "    2 nodes alike: bad, worse",
        "    Ratio 8.0 is too much. Set hicache.ratio to 4.3 or less.",
    ]
    assert lines[-1] == "14 nodes: 12 planned, 2 refused"


def test_a_node_that_was_not_reached_is_a_row() -> None:
    lines = table_lines(fleet_plans([host("gone"), host("bad", plan_failure=REFUSED_RESULT)]))
    assert lines[2].startswith("gone") and lines[2].endswith("not reached")
    assert lines[3].startswith("bad")
    assert lines[-1] == "2 nodes: 0 planned, 1 refused, 1 not reached"


def test_names_that_nobody_vouches_for_stay_on_their_line() -> None:
    plan = copy.deepcopy(KIMI_PLAN)
    plan["model"]["name"] = "/srv/models/evil\n\x1b[2Jname-that-is-much-too-long-for-a-column"
    lines = table_lines(fleet(**{"node\n2": plan}))
    assert all(line.isprintable() for line in lines)
    assert lines[2].startswith("node 2  evil [2Jname-that-is-much-t…")


def test_a_thousand_nodes_take_few_lines() -> None:
    many: dict[str, Any] = {f"gpu-{number:04}": KIMI_PLAN if number % 25 else None for number in range(1, 1001)}
    lines = table_lines(fleet(**many))
    assert len(lines) < 12
    assert lines[-1] == "1,000 nodes: 960 planned, 40 refused"
