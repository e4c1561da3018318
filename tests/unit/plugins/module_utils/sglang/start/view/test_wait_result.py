# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.result import (
    failure_message,
    given_up_message,
    joined,
    release_problems,
    report_of,
    would_wait_for,
    would_wait_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import LogHealth
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    MIB,
    POOL,
    READY,
    after,
    both,
    pinning,
    seen,
    start,
)


def test_a_release_that_was_not_read_is_warned_of() -> None:
    assert release_problems("0.5.23") == []
    (problem,) = release_problems("0.9.99")
    assert (problem["code"], problem["severity"]) == ("release_not_read", "warning")
    assert "taken for those of 0.5.23" in problem["message"]


def test_problems_are_told_once_and_as_they_were_last() -> None:
    first = [{"code": "a", "message": "1 line"}, {"code": "b", "message": "b"}]
    assert joined(first, [{"code": "a", "message": "7 lines"}]) == [
        {"code": "a", "message": "7 lines"},
        {"code": "b", "message": "b"},
    ]


def test_report_tells_the_health_of_the_log_over_all_looks() -> None:
    lossy = seen(4.0, ranks=both(MIB, MIB), log=LogHealth("journal", True, 12, False))
    gap = seen(5.0, ranks=both(MIB, MIB), log=LogHealth("journal", True, 3, True))
    report = report_of(after(pinning(3.0), lossy, gap), [])
    assert report["log"] == {"source": "journal", "readable": True, "suppressed": 15, "gap": True}
    assert {problem["code"] for problem in report["problems"]} >= {"log_suppressed", "log_gap"}
    assert (report["meter"], report["n_restarts"], report["outcome"]) == ("shmem", 0, None)
    assert "figures" not in report


def test_report_of_a_start_that_came_up_has_figures_and_ranks() -> None:
    state = after(pinning(3.0), seen(4.0, ranks=both(MIB + POOL, MIB + POOL)), seen(9.0, READY))
    report = report_of(state, [])
    assert (report["outcome"], report["figures"]["pinned_bytes"]) == ("ready", 2 * POOL)
    assert [rank["announced_bytes"] for rank in report["ranks"]] == [410_000_000, 410_000_000]
    assert [rank["planned_bytes"] for rank in report["ranks"]] == [POOL, POOL]


PLAN: dict[str, Any] = {
    "device": {"weights_bytes": 7 * 10**9},
    "timing": {"load_seconds": 12.5, "pin_seconds": 88.8, "start_seconds": 755.8},
}


@pytest.mark.parametrize(
    ("plan", "load", "pin", "whole"),
    [(PLAN, (12.5, 14 * 10**9), 88.8, 755.8), ({}, (None, None), None, None)],
)
def test_a_check_says_what_each_stage_would_take(
    plan: dict[str, Any], load: tuple[Any, Any], pin: Any, whole: Any
) -> None:
    expected = Expectation(ranks=2, bytes_by_stage=(POOL,), timeout_seconds=300.0)
    would = would_wait_for(expected, plan, "0.5.23", {"unit": "sglang-main.service"})
    assert would["stages"] == [
        {"stage": "load", "seconds": load[0], "bytes": load[1]},
        {"stage": "host_pool", "seconds": pin, "bytes": 2 * POOL},
    ]
    assert (would["start_seconds"], would["planned_bytes"], would["unit"]) == (whole, 2 * POOL, "sglang-main.service")


def test_a_check_is_told_in_one_line() -> None:
    expected = Expectation(ranks=8, bytes_by_stage=(44_770_853_376,), timeout_seconds=3624.0)
    assert would_wait_line(would_wait_for(expected, PLAN, "0.5.23", {})) == (
        "would follow the start of 8 ranks that pin 358.17 GB in about 88.8 s, about 12 min 36 s in all, "
        "for at most 60 min 24 s"
    )
    assert would_wait_line(would_wait_for(Expectation(), {}, "0.5.23", {})) == (
        "would follow the start, for at most 60 min 00 s"
    )


def test_messages_begin_with_who_and_why() -> None:
    state = after(pinning(3.0), seen(4.0, ranks=both(MIB, MIB)))
    message = failure_message("gpu-1", "sglang-main.service", state, "It died. Feed it.", ["one", "two"])
    assert message.splitlines() == [
        f"gpu-1: sglang-main.service {state.verdict}: It died. Feed it.",
        "Last lines:",
        "  one",
        "  two",
    ]
    lost = given_up_message("gpu-1", "sglang-main.service", state, "It is gone.", "Run it again.")
    assert lost.startswith(
        "gpu-1: sglang-main.service: It is gone. When it was last seen, it was pinning 0.00 of 0.82 GB"
    )
    assert lost.endswith(" Run it again.")
    assert given_up_message("", "u", start(), "It is gone.", "Go.") == "u: It is gone. Go."
