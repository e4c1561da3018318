# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logs of real starts of SGLang 0.5.23: each has to end in the right outcome, cause and rank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import timeline
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import FAILED, KILLED, RUNNING

LOGS = DATA / "sglang" / "real-logs"
pytestmark = needs_recorded_data

_TIME = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


def looks(name: str, end: UnitStatus, upto: str | None = None) -> Iterator[Observation]:
    """One look for each second of the log, as a watcher sees it, and one after its end."""
    now = 0.0
    lines: list[str] = []
    text = (LOGS / name).read_text(errors="replace")
    for line in text.splitlines():
        match = _TIME.match(line)
        if match:
            stamp = datetime.strptime(match.group(1), "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
            if now and stamp != now:
                yield observation(now, lines, RUNNING)
                lines = []
            now = stamp
        lines.append(line)
        if upto is not None and upto in line:
            break
    yield observation(now, lines, RUNNING if upto is not None else end)
    if upto is None:
        yield observation(now + 5, [], end)


def observation(now: float, lines: list[str], unit: UnitStatus) -> Observation:
    found = [
        replace(event, timestamp=now) for event in (parse_line(line, "0.5.23") for line in lines) if event is not None
    ]
    return Observation(at=now, unit=unit, events=tuple(found), lines=len(lines), tail=tuple(lines))


def play(name: str, end: UnitStatus, ranks: int = 1, upto: str | None = None) -> StartupState:
    seen = list(looks(name, end, upto))
    state = initial(Expectation(ranks=ranks, timeout_seconds=3600.0), seen[0].at)
    for look in seen:
        state = advance(state, look)
    return state


@pytest.mark.parametrize(
    ("name", "ranks", "tokens", "host_tokens"),
    [
        ("tp2-pinned.log", 2, 400_000, 1_600_001),
        ("tp2.log", 2, 4096, 8193),
        ("host-hit.log", 1, 1024, 8193),
        ("inflight.log", 1, 4096, 1_953_126),
        ("sigterm_idle.log", 1, 4096, 1_953_126),
        ("killsched.log", 1, 4096, 1_953_126),
    ],
)
def test_start_that_got_ready(name: str, ranks: int, tokens: int, host_tokens: int) -> None:
    state = play(name, RUNNING, ranks, upto="ready to roll")
    assert state.verdict == "ready"
    assert (state.max_total_num_tokens, state.host_tokens) == (tokens, host_tokens)
    stages = {row["stage"]: row["seconds"] for row in timeline(state)}
    assert {"load", "device_pool", "host_pool", "warm_up"} <= set(stages)
    assert all(seconds is not None and seconds >= 0 for seconds in stages.values())
    assert [rank.rank for rank in state.ranks] == [f"TP{number}" for number in range(ranks)]


def test_stages_of_the_real_two_rank_start_are_timed_by_the_log() -> None:
    stages = {
        row["stage"]: row["seconds"] for row in timeline(play("tp2-pinned.log", RUNNING, 2, upto="ready to roll"))
    }
    assert stages == {"boot": 3.0, "load": 1.0, "device_pool": 1.0, "host_pool": 2.0, "warm_up": 29.0}


@pytest.mark.parametrize(
    ("name", "end", "code", "rank", "words"),
    [
        ("badargs.log", FAILED, "flags_exclude_each_other", None, "mutually exclusive"),
        ("killboot.log", FAILED, "scheduler_died", "TP0", "killed by SIGKILL while starting"),
        ("missing-transfer-kernel.log", KILLED, "scheduler_exception", "TP0", "transfer_kv_all_layer_direct_lf_pf"),
        ("no-shim-scheduler-death.log", KILLED, "scheduler_exception", "TP0", "BrokenPipeError"),
        ("nohostmem.log", KILLED, "host_memory_guard", "TP0", "100.00 GB and its check lets it have 9.38 GB"),
        (
            "registerfail.log",
            KILLED,
            "registration_failed",
            "TP0",
            "1.00 GB of host memory for rank TP0 (out of memory)",
        ),
    ],
)
def test_start_that_failed(name: str, end: UnitStatus, code: str, rank: str | None, words: str) -> None:
    state = play(name, end)
    found: Diagnosis = diagnose(state, {})
    assert state.verdict == "failed"
    assert (found.code, found.rank) == (code, rank)
    assert words in found.message


def test_rank_killed_while_serving_is_the_cause_of_the_death() -> None:
    whole = list(looks("killsched.log", KILLED))
    state = initial(Expectation(ranks=1), 0.0)
    # A watcher that comes late sees everything at once, the ready line included.
    events = tuple(event for look in whole for event in look.events)
    state = advance(state, Observation(at=1.0, unit=KILLED, events=events, lines=1))
    found = diagnose(state, {})
    assert state.verdict == "failed"
    assert (found.code, found.rank, found.evidence["signal"], found.evidence["pid"]) == (
        "scheduler_died",
        "TP0",
        "SIGKILL",
        20542,
    )
