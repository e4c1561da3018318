# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripted start of each release, read by the watch's own grammar."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.lines import form, prefix
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import Scenario, scenario_from
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.start import (
    MAIN,
    fill_in,
    interruptions,
    pool_line,
    shown_rank,
    steps_of,
)

RELEASES = (
    *(f"0.4.{number}" for number in range(7, 11)),
    *(f"0.5.{number}" for number in range(1, 24)),
)


def scenario(release: str, **more: object) -> Scenario:
    pools = [{"bytes": 536_872_960, "tokens": 262_145}]
    return scenario_from({"release": release, "ranks": 2, "host_pools": pools, **more})


def said(played: Scenario, who: str) -> list[str]:
    """The lines of a process as it prints them."""
    rank = None if who == MAIN else shown_rank(played, who)
    texts: list[str] = []
    for step in steps_of(played, who):
        if "say" in step:
            texts.append(step["say"])
        elif "pools" in step:
            texts += [pool_line(played, pool) for pool in played.pools_of(who)]
    return [prefix(rank, 0.0) + fill_in(text, {"pid": 7}) for text in texts]


@pytest.mark.parametrize("release", RELEASES)
def test_every_stage_of_every_release_is_understood(release: str) -> None:
    played = scenario(release)
    events = [parse_line(line, release) for line in said(played, "TP1")]
    minor = ("memory_baseline",)
    found = [(event.kind, event.stage) for event in events if event is not None and event.label not in minor]
    expected = [
        ("stage_begin", "boot"),
        ("stage_end", "boot"),
        ("stage_begin", "load"),
        ("stage_end", "load"),
        ("progress", "device_pool"),
        ("stage_end", "device_pool"),
        ("stage_begin", "capture"),
        ("stage_end", "capture"),
        ("stage_begin", "host_pool"),
    ]
    assert found[: len(expected)] == expected
    # Before 0.5.11 nothing marks the end of pinning.
    assert set(found[len(expected) :]) <= {("stage_end", "host_pool")}
    assert bool(found[len(expected) :]) == (played.version >= (0, 5, 11))
    assert all(event.rank == "TP1" for event in events if event is not None)
    pool = next(event for event in events if event is not None and event.kind == "stage_begin" and event.bytes)
    assert pool.bytes == 540_000_000


@pytest.mark.parametrize("release", RELEASES)
def test_the_main_process_says_that_it_is_ready_last(release: str) -> None:
    events = [parse_line(line, release) for line in said(scenario(release), MAIN)]
    found = [event for event in events if event is not None]
    assert (found[-1].kind, found[-1].rank) == ("ready", None)
    assert found[0].kind == "settings"
    assert found[0].value("mem_fraction_static") == 0.85
    assert any(event.stage == "warm_up" for event in found)


@pytest.mark.parametrize(
    ("release", "words"),
    [("0.5.9", "Rank 1 scheduler is dead"), ("0.5.23", "died during initialization \\(exit code: -9\\)")],
)
def test_a_dead_rank_is_told_as_the_release_tells_it(release: str, words: str) -> None:
    name = "dead_rank" if release == "0.5.9" else "dead_rank_error"
    event = parse_line(str(form(name, release, index=1, code=-9)), release)
    assert event is not None
    assert event.kind == "failure"
    assert event.value("index") == 1


def test_only_the_first_rank_tells_the_capacity() -> None:
    played = scenario("0.5.23", capacity_tokens=4711)
    assert any("max_total_num_tokens=4711," in line for line in said(played, "TP0"))
    assert not any("max_total_num_tokens=4711," in line for line in said(played, "TP1"))


def test_a_server_of_one_rank_prints_no_rank() -> None:
    played = scenario("0.5.23", ranks=1)
    assert all(line.startswith("[1970-01-01 ") and "TP0] " not in line for line in said(played, "TP0"))


def test_a_cpu_captures_no_graphs() -> None:
    assert not any("Capture" in line for line in said(scenario("0.5.23", device="cpu"), "TP0"))


def test_faults_stand_where_they_were_put_and_with_whom() -> None:
    say = {"say": "now"}
    played = scenario(
        "0.5.23",
        faults=[
            {"before": "load", "rank": "TP1", "do": [say]},
            {"after": "ready", "do": [{"exit": 3}]},
            {"within": "host_pool", "share": 0.4, "rank": "TP0", "do": [{"signal": "SIGKILL"}]},
        ],
    )
    steps = steps_of(played, "TP1")
    assert "Load weight begin" in steps[steps.index(say) + 1]["say"]
    assert say not in steps_of(played, "TP0")
    main = steps_of(played, MAIN)
    assert main[main.index({"exit": 3}) - 1] == {"say": "The server is fired up and ready to roll!"}
    assert interruptions(played, "TP0") == [(0.4, ({"signal": "SIGKILL"},))]
    assert interruptions(played, "TP1") == []


def test_a_fault_without_a_rank_is_of_every_rank_that_has_the_point() -> None:
    played = scenario("0.5.23", faults=[{"before": "capture", "do": [{"spin": 1}]}])
    assert all({"spin": 1} in steps_of(played, rank) for rank in played.ranks)
    assert {"spin": 1} not in steps_of(played, MAIN)


def test_steps_of_one_s_own_replace_the_start() -> None:
    played = scenario("0.5.23", steps={"main": [{"raw": "usage: launch_server"}, {"exit": 2}]})
    assert steps_of(played, MAIN) == [{"raw": "usage: launch_server"}, {"exit": 2}]


def test_braces_of_sglang_s_own_lines_stay() -> None:
    assert fill_in("cuda_graph={prefill=0.00} {pid}", {"pid": 7}) == "cuda_graph={prefill=0.00} 7"
