# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Journals of real starts on the rehearsal node (Debian 12, systemd 252, SGLang 0.5.23, two ranks, 0.54 GB each).

Recorded by `journalctl -o json` and `systemctl show` afterwards; lines that only fill were taken out. The fields are
as journald gave them: progress bars as lists of bytes, a line that was too long as null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import Record, parse_record
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import (
    diagnose,
    last_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import timeline
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus, parse_show
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import RUNNING

JOURNALS = Path(__file__).parents[2] / "fixtures" / "journal"
BYTES_PER_RANK = 536_872_960
PLAN = {
    "sglang_version": "0.5.23",
    "device": {"max_total_num_tokens": 8192, "bytes_per_token": 2048, "page_size": 1},
    "host": {"ranks": 2, "bytes_per_rank": BYTES_PER_RANK, "sizing": "ratio", "ratio": 32.0, "guard": {"variant": "D"}},
}


def records(name: str) -> list[Record]:
    lines = (JOURNALS / f"{name}.jsonl").read_text().splitlines()
    found = [parse_record(line) for line in lines]
    assert all(record is not None for record in found)
    return [record for record in found if record is not None]


def observation(at: float, part: list[Record], unit: UnitStatus) -> Observation:
    events = []
    for record in part:
        event = parse_line(record.message, "0.5.23")
        if event is not None:
            events.append(replace(event, timestamp=record.timestamp, pid=record.pid))
    tail = tuple(record.message for record in part)
    return Observation(at=at, unit=unit, events=tuple(events), lines=len(part), tail=tail)


def looks(name: str, end: UnitStatus) -> Iterator[Observation]:
    """One look for every two seconds of the recording, and two after its end."""
    running = replace(RUNNING, invocation_id=end.invocation_id or RUNNING.invocation_id)
    every = records(name)
    first = every[0].timestamp or 0.0
    part: list[Record] = []
    at = 0.0
    for record in every:
        while (record.timestamp or 0.0) - first >= at + 2.0:
            yield observation(at, part, running)
            part, at = [], at + 2.0
        part.append(record)
    yield observation(at, part, end)
    yield observation(at + 2.0, [], end)


def play(name: str, end: UnitStatus | None = None) -> StartupState:
    show = JOURNALS / f"{name}.show"
    end = end or parse_show(show.read_text(), "sglang-main.service")
    state = initial(Expectation(ranks=2, bytes_by_stage=(BYTES_PER_RANK,)), 0.0)
    for look in looks(name, end):
        state = advance(state, look)
    return state


def test_start_that_got_ready() -> None:
    state = play("ready", RUNNING)
    assert (state.verdict, state.reason) == ("ready", "log")
    assert (state.max_total_num_tokens, state.host_tokens) == (8192, 262_145)
    seconds = {row["stage"]: row["seconds"] for row in timeline(state)}
    assert seconds == {"boot": 2.313, "load": 0.124, "device_pool": 0.579, "host_pool": 16.839, "warm_up": 2.459}


@pytest.mark.parametrize(
    ("name", "code", "rank", "words", "remedy"),
    [
        (
            "killed-rank-while-pinning",
            "scheduler_died",
            "TP1",
            "Rank TP1 was killed by SIGKILL while pinning.",
            "memory",
        ),
        (
            "guard-refused",
            "host_memory_guard",
            "TP0",
            "host pool of rank TP0: it asks for 33.55 GB and its check lets it have 5.94 GB.",
            "Set hicache.ratio to 235.83 or less",
        ),
        (
            "register-refused",
            "registration_failed",
            "TP1",
            "refused to pin 0.54 GB of host memory for rank TP1",
            "LimitMEMLOCK",
        ),
        ("stopped-while-pinning", "stopped_meanwhile", None, "was stopped while it was pinning", "who stopped it"),
        ("missing-model", "model_not_found", None, "/srv/models/missing-model", "model_path"),
        ("bad-flag", "flag_unknown", None, "does not know --no-such-flag", "Leave --no-such-flag out."),
    ],
)
def test_start_that_failed(name: str, code: str, rank: str | None, words: str, remedy: str) -> None:
    state = play(name)
    found = diagnose(state, PLAN)
    assert state.verdict == "failed"
    assert (found.code, found.rank) == (code, rank)
    assert words in found.message
    assert remedy in found.remedy


def test_last_lines_tell_something() -> None:
    lines = last_lines(play("guard-refused"), 3)
    assert lines[-1] == "sglang-main.service: Failed with result 'signal'."
    assert not any("Killing process" in line or "CPU time" in line for line in lines)


def test_process_that_spoke_tells_the_rank_where_a_line_does_not() -> None:
    state = play("register-refused")
    pids = {rank.rank: rank.pid for rank in state.ranks}
    cause = next(line for line in state.troubles if line.label == "registration_failed")
    assert cause.rank is None
    assert cause.pid == pids["TP1"]
