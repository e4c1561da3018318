# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.victims import victim, victims
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    FAILED,
    MIB,
    PLAN,
    after,
    both,
    dead,
    pinning,
    raw_events,
    seen,
)

DIED = "RuntimeError: Rank 1 scheduler died during initialization (exit code: {}). If exit code is -9 (SIGKILL)"


def names(one: int | None, two: int | None) -> list[str]:
    look = (dead("TP0", one), dead("TP1", two))
    return [rank.rank for rank in victims(after(pinning(), seen(5.0, ranks=look)))]


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (1, -9, ["TP1"]),
        (-3, -9, ["TP1"]),
        (-15, -7, ["TP1"]),
        (-9, -11, ["TP1"]),
        (-11, -9, ["TP0"]),
        (-6, -9, ["TP1"]),
        (1, -6, ["TP1"]),
        (-3, 1, ["TP1"]),
        (0, 1, ["TP1"]),
        (-9, -9, ["TP0", "TP1"]),
        (1, 1, ["TP0", "TP1"]),
        (None, None, ["TP0", "TP1"]),
        (None, -15, ["TP0"]),
    ],
)
def test_crash_counts_before_kill_before_abort_before_leaving(
    one: int | None, two: int | None, expected: list[str]
) -> None:
    assert names(one, two) == expected


def test_two_dead_ranks_wait_for_the_line_that_tells_the_first() -> None:
    look = (dead("TP0", -9), dead("TP1", -9))
    waiting = after(pinning(), seen(4.0, ranks=both(MIB, MIB)), seen(5.0, ranks=look))
    assert waiting.verdict is None
    late = after(waiting, seen(7.0, events=raw_events([DIED.format(-9)], 6.5), ranks=look))
    found = diagnose(late, PLAN)
    assert (late.verdict, found.code, found.rank) == ("failed", "scheduler_died", "TP1")


def test_two_dead_ranks_without_a_line_are_told_by_how_they_died() -> None:
    look = (dead("TP0", -3), dead("TP1", -11))
    state = after(pinning(), seen(5.0, ranks=look), seen(12.0, ranks=look))
    found = diagnose(state, PLAN)
    assert (state.verdict, found.rank, found.evidence["signal"]) == ("failed", "TP1", "SIGSEGV")


def test_two_dead_ranks_that_nothing_tells_apart_are_both_named() -> None:
    look = (dead("TP0", 1), dead("TP1", 1))
    found = diagnose(after(pinning(), seen(5.0, ranks=look), seen(12.0, ranks=look)), PLAN)
    assert (found.code, found.rank, found.evidence["ranks"]) == ("scheduler_died", None, ["TP0", "TP1"])
    assert "nothing tells which of them died first: TP0 ended with exit status 1, TP1 ended with exit" in found.message


def test_one_dead_rank_with_a_status_is_told_at_once() -> None:
    assert after(pinning(), seen(5.0, ranks=(dead("TP0", -9), both(MIB, MIB)[1]))).verdict == "failed"


def test_line_of_a_rank_that_left_when_asked_does_not_hide_the_one_that_crashed() -> None:
    said = raw_events([DIED.format(-3)], 5.0)
    state = after(pinning(), seen(5.0, events=said, ranks=(dead("TP0", -11), dead("TP1", -3))), seen(12.0))
    assert (diagnose(state, PLAN).rank, victim(state)) == ("TP0", "TP0")


def test_ranks_of_a_server_that_ended_before_them_are_no_victims() -> None:
    for code in (None, -9):
        look = (dead("TP0", code), dead("TP1", code))
        state = after(pinning(), seen(4.0, ranks=both(MIB, MIB)), seen(5.0, unit=FAILED, ranks=look))
        found = diagnose(after(state, seen(7.0, unit=FAILED, ranks=look)), PLAN)
        assert (found.code, found.rank) == ("server_exited", None)
