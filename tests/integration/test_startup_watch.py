# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watch of a start through real plays: how soon it knows, and that nothing deceives it.

Every start is played by the scripted server under a real systemd. Figures are printed (pytest -s, or the captured
output in the JUnit file); asserted are verdicts, counts and ratios.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server import installing
from ansible_collections.gpufleet.sglang.tests.integration.scripted import (
    READY,
    Ended,
    Line,
    ScriptedNode,
    ScriptedPlay,
    Start,
    bring_up,
    install,
    remove,
    take_down,
)

NODES = {
    "gpufleet-watch-1": "10.213.77.210",
    "gpufleet-watch-cut": "10.213.77.212",
    "gpufleet-watch-journald": "10.213.77.213",
    "gpufleet-watch-vacuum": "10.213.77.214",
    "gpufleet-watch-noise": "10.213.77.215",
}
IDENTITY = {"gpufleet-identity": "10.213.77.216"}
RELEASE = "0.5.23"
STARTS = 20
# So many starts at a time: the lag shall be that of the watch, and not of a controller that has more to do than cores.
AT_A_TIME = 5
URI_DELAY_SECONDS = 10.0
# What a careful person adds to the slowest start that was ever seen.
SLEEP_MARGIN = 1.2
PINNED = r"pinning ([\d.]+) of ([\d.]+) GB.* ETA (?:(\d+) min )?([\d.]+) s"
STOPS = r"^drains +drains +stopping the old server"
TROUBLES = ("cut", "journald", "vacuum", "noise")
# Whole pages.
DISTURBED_BYTES = 36_000 * 4096
QUICK = {"boot": 0.2, "load": 0.2, "device_pool": 0.1, "capture": 0.1, "register": 0.1, "warm_up": 0.3}


def scenario(port: int, size: int, gb_per_second: float, **more: Any) -> dict[str, Any]:
    """Two ranks that pin so many bytes each."""
    pools = [{"bytes": size, "tokens": 4096, "gb_per_second": gb_per_second, **more.pop("pool", {})}]
    return {"release": RELEASE, "ranks": 2, "port": port, "seconds": QUICK, "host_pools": pools, **more}


@pytest.fixture(scope="module", name="nodes")
def fixture_nodes() -> Iterator[dict[str, ScriptedNode]]:
    nodes = bring_up(NODES)
    yield nodes
    take_down(NODES)


@pytest.fixture(scope="module", name="node")
def fixture_node(nodes: dict[str, ScriptedNode]) -> ScriptedNode:
    return nodes["gpufleet-watch-1"]


# How soon it is known


class Lags(NamedTuple):
    """Seconds from a server's own ready stamp to when the play knew, the health poll's own second taken out."""

    name: str
    seconds: list[float]

    def __str__(self) -> str:
        middle, worst = statistics.median(self.seconds), max(self.seconds)
        return f"{self.name:<46}{len(self.seconds):>4}{middle:>10.2f} s{worst:>9.2f} s"


class Seen(NamedTuple):
    """One start: when it was begun, when it was ready, and when the watch knew."""

    began: float
    ready: float
    known: float


def lag_starts(node: ScriptedNode) -> dict[str, Start]:
    """Starts that differ in how long they take, so that they are ready at any moment between two polls."""
    starts = {}
    for number in range(STARTS):
        seconds = {**QUICK, "boot": 0.5 + 0.37 * (number % AT_A_TIME) + 0.23 * (number // AT_A_TIME)}
        starts[f"lag-{number:02d}"] = Start(
            node,
            scenario(31000 + number, 60_000_000, 0.03, seconds=seconds),
        )
    return starts


@pytest.fixture(scope="module", name="seen")
def fixture_seen(node: ScriptedNode, tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    starts = lag_starts(node)
    install(starts)
    try:
        run = ScriptedPlay(tmp_path_factory.mktemp("lag"), starts, AT_A_TIME)
        ended = run.ends()
        assert [end.result.get("outcome") for end in ended.values()] == ["ready"] * STARTS, run.output
        ready = node.ready_times()
        found = []
        for end in ended.values():
            began = end.result["stages"][0]["started_at"]
            # This release has an endpoint that tells at once (/ready): no second of a health poll to take out.
            found.append(Seen(began, ready[end.result["invocation_id"]], end.at))
        return found
    finally:
        remove(starts)


def test_the_watch_knows_sooner_than_retries_and_than_a_sleep(
    node: ScriptedNode, seen: list[Seen], tmp_path: Path
) -> None:
    watch = Lags("wait_for_startup", [one.known - one.ready for one in seen])
    # A poll that finds it healthy takes the server's own second, which is taken out, so its beginning counts.
    polls = [-(-(one.ready - one.began) // URI_DELAY_SECONDS) * URI_DELAY_SECONDS for one in seen]
    uri = Lags("uri, delay 10, computed", [poll - (one.ready - one.began) for poll, one in zip(polls, seen)])
    slowest = max(one.ready - one.began for one in seen)
    sleep = Lags("fixed sleep, computed", [SLEEP_MARGIN * slowest - (one.ready - one.began) for one in seen])
    real_uri, real_sleep = really_waited(node, SLEEP_MARGIN * slowest, tmp_path)
    print(f"\n{'seconds from ready to known':<46}{'':>4}{'median':>12}{'worst':>11}")
    for lags in (watch, uri, real_uri, sleep, real_sleep):
        print(lags)
    assert len(watch.seconds) == STARTS
    # Not before the server said so itself: that would be a guess.
    assert min(watch.seconds) > 0
    assert statistics.median(watch.seconds) < min(map(statistics.median, (uri.seconds, real_uri.seconds)))
    assert statistics.median(watch.seconds) < min(map(statistics.median, (sleep.seconds, real_sleep.seconds)))


def really_waited(node: ScriptedNode, sleep_seconds: float, folder: Path) -> tuple[Lags, Lags]:
    """The same with the uri module's retries and with a sleep, for a few starts."""
    starts = {}
    for number in range(3):
        played = scenario(31100 + number, 60_000_000, 0.03, seconds={**QUICK, "boot": 0.5 + 0.8 * number})
        starts[f"uri-{number}"] = Start(node, played, {"scripted_way": "uri"})
        also = {"scripted_way": "sleep", "scripted_starts": False, "scripted_sleep_seconds": round(sleep_seconds)}
        starts[f"sleep-{number}"] = Start(node, played, also, unit=f"uri-{number}")
    install(starts)
    try:
        ended = ScriptedPlay(folder, starts).ends()
        ready = sorted(node.ready_times().values())[-3:]
    finally:
        remove(starts)
    # The later it began, the later it was ready: they are started side by side.
    lags = {
        way: [end.at - at for end, at in zip((ended[f"{way}-{number}"] for number in range(3)), ready)]
        for way in ("uri", "sleep")
    }
    return (
        Lags("uri, delay 10, really waited", [lag - 1.0 for lag in lags["uri"]]),
        Lags("fixed sleep, really waited", lags["sleep"]),
    )


# What must not deceive it


class Calm(NamedTuple):
    """Starts side by side, each with a difficulty of its own, and those whose time left is told."""

    ended: dict[str, Ended]
    play: ScriptedPlay
    forecast: ScriptedPlay


@pytest.fixture(scope="module", name="calm")
def fixture_calm(node: ScriptedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calm]:
    hang: list[dict[str, Any]] = [{"before": "warm_up", "do": [{"hang": True}]}]
    loses_main = {"within": "host_pool", "share": 0.3, "rank": "TP0", "do": [{"kill": {"rank": "main"}}]}
    starts = {
        # 33 s of one long pool: not a line is printed meanwhile.
        "silent": Start(node, scenario(31200, 100_000_000, 0.003), {"scripted_stall_seconds": 10}),
        # It never gets ready; its older start did, and other units say so.
        "never": Start(
            node,
            scenario(31203, 20_000_000, 0.01, faults=hang),
            {"scripted_timeout_seconds": 25, "scripted_starts": False},
        ),
        "restarts": Start(node, scenario(31204, 100_000_000, 0.01, faults=[loses_main])),
    }
    # So few that each has a line of its own, and so long that a busy machine prints several.
    told = {
        "constant": Start(node, scenario(31201, 240_000_000, 0.006)),
        "halving": Start(node, scenario(31202, 180_000_000, 0.006, pool={"speeds": [[2 / 3, 0.003]]})),
    }
    everything = {**starts, **told}
    install(everything, {"RestartSec": "1"})
    unit = installing.unit_name("never")
    try:
        installing.install(node.run, {"never": scenario(31203, 20_000_000, 1.0)})
        installing.start(node.run, ["never"])
        node.wait_for_line(unit, READY)
        installing.install(node.run, {"never": starts["never"].scenario})
        node.run(f"systemctl restart {unit}")
        play = ScriptedPlay(tmp_path_factory.mktemp("calm"), starts)
        forecast = ScriptedPlay(tmp_path_factory.mktemp("forecast"), told)
        play.until(r"^never +never ")
        # A unit of another name, and those that call themselves by this one's.
        for options in ("--unit=stranger", f"--unit=stranger-2 --property=SyslogIdentifier={unit}"):
            node.run(f"systemd-run --quiet --collect {options} echo '[2026-01-01 00:00:00] {READY}'")
        node.run(f"logger --tag {unit} '{READY}'")
        yield Calm({**play.ends(), **forecast.ends()}, play, forecast)
    finally:
        remove(everything)


def test_silence_while_bytes_grow_is_no_stall(calm: Calm) -> None:
    result = calm.ended["silent"].result
    assert result["outcome"] == "ready", calm.play.output
    pin = next(row for row in result["stages"] if row["stage"] == "host_pool")
    assert pin["seconds"] >= 30


def test_the_ready_line_of_an_older_start_or_of_another_unit_is_not_believed(calm: Calm) -> None:
    never = calm.ended["never"]
    assert never.status == "failed", calm.play.output
    assert never.result["outcome"] in ("failed", "stalled")


def test_a_unit_that_restarts_by_itself_is_noticed(calm: Calm) -> None:
    result = calm.ended["restarts"].result
    assert result["outcome"] == "failed", calm.play.output
    assert re.search(r"SIGKILL|restart", result["msg"]), result["msg"]


class Forecast(NamedTuple):
    """What a live line said at a share of the bytes, beside what became of it."""

    share: float
    error_of_all: float
    error_of_rest: float


class Pace(NamedTuple):
    """How a pool is pinned: for how long where nothing is in the way, and the share of time at a share of the bytes.

    The forecast is what is judged here: how late a busy controller prints a line is no error of it, and a node that is
    disturbed takes longer than anybody can tell beforehand.
    """

    seconds: float
    share_of_time: Callable[[float], float]
    bound: float


PACES = {
    "constant": Pace(40.0, lambda share: share, 0.15),
    # Half the speed from the middle of the time on, which is two thirds of the bytes.
    "halving": Pace(40.0, lambda share: 0.75 * share if share <= 2 / 3 else 1.5 * share - 0.5, 0.30),
}


def forecasts(name: str, lines: list[Line], pinned_seconds: float) -> list[Forecast]:
    """Each live line of a start that tells a time left."""
    found = []
    for _at, text in lines:
        match = re.search(PINNED, text) if text.startswith(f"{name} ") else None
        if match is None:
            continue
        share = float(match[1]) / float(match[2])
        left = pinned_seconds * (1 - PACES[name].share_of_time(share))
        wrong = abs(60 * int(match[3] or 0) + float(match[4]) - left)
        found.append(Forecast(share, wrong / pinned_seconds, wrong / max(left, 1.0)))
    return found


@pytest.mark.parametrize("name", PACES)
def test_the_time_left_is_right_after_a_fifth_of_the_bytes(calm: Calm, name: str) -> None:
    took = next(row["seconds"] for row in calm.ended[name].result["stages"] if row["stage"] == "host_pool")
    disturbance = max(took / PACES[name].seconds - 1, 0.0)
    told = [one for one in forecasts(name, calm.forecast.lines, took) if one.share >= 0.2]
    print(f"\n{name}: {took:.1f} s. Share of the bytes, error of the whole time, error of the time left")
    for one in told:
        print(f"{one.share:>8.0%}{one.error_of_all:>8.1%}{one.error_of_rest:>8.1%}")
    assert len(told) >= 3, calm.forecast.output
    assert max(one.error_of_all for one in told) <= PACES[name].bound + disturbance


# What happens to nodes


class Disturbed(NamedTuple):
    """What became of the starts, and when those that got ready said so themselves."""

    ended: dict[str, Ended]
    play: ScriptedPlay
    ready: dict[str, float]


@pytest.fixture(scope="module", name="disturbed")
def fixture_disturbed(
    nodes: Mapping[str, ScriptedNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Disturbed]:
    """On each node one start that gets ready and one that loses a rank, while the node has its own trouble."""
    starts: dict[str, Start] = {}
    loses = [{"within": "host_pool", "share": 0.9, "rank": "TP1", "do": [{"signal": "SIGKILL"}]}]
    for number, trouble in enumerate(TROUBLES):
        node = nodes[f"gpufleet-watch-{trouble}"]
        # 10,000 lines a second on the node, of both units together.
        loud = [{"lines_per_second": 5_000, "seconds": 40}] if trouble == "noise" else []
        for port, (name, faults) in enumerate((("good", []), ("bad", loses)), 31300 + 2 * number):
            played = scenario(port, DISTURBED_BYTES, 0.005, faults=faults, noise=loud)
            starts[f"{trouble}-{name}"] = Start(node, played)
    install(starts)
    try:
        play = ScriptedPlay(tmp_path_factory.mktemp("disturbed"), starts)
        for name, start in starts.items():
            start.node.wait_for_line(installing.unit_name(name), "Allocating")
        # The watch has a cursor into what is thrown away below.
        play.until("pinning")
        nodes["gpufleet-watch-cut"].inside("ip link set eth0 down; sleep 20; ip link set eth0 up")
        for _unused in range(3):
            nodes["gpufleet-watch-journald"].run("systemctl restart systemd-journald")
            nodes["gpufleet-watch-vacuum"].run("journalctl --quiet --rotate --vacuum-size=1K --vacuum-files=1")
            time.sleep(2.0)
        ended = play.ends()
        ready = {name: at for node in nodes.values() for name, at in node.ready_times().items()}
        yield Disturbed(ended, play, ready)
    finally:
        remove(starts)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_of_the_node_does_not_change_the_verdict(disturbed: Disturbed, trouble: str) -> None:
    good, bad = disturbed.ended[f"{trouble}-good"], disturbed.ended[f"{trouble}-bad"].result
    assert good.result.get("outcome") == "ready", disturbed.play.output
    lag = good.at - disturbed.ready[good.result["invocation_id"]]
    print(f"\n{trouble}: known {lag:.2f} s after the server said that it is ready")
    assert bad.get("outcome") == "failed", disturbed.play.output
    assert (bad["failure"]["code"], bad["failure"]["rank"]) == ("scheduler_died", "TP1")


def test_every_byte_is_counted_to_the_page_whatever_happens_meanwhile(disturbed: Disturbed) -> None:
    # Among 10,000 lines a second the last reading may be older than the line that ends the watch.
    for trouble in TROUBLES[:3]:
        ranks = disturbed.ended[f"{trouble}-good"].result["ranks"]
        assert [rank["pinned_bytes"] for rank in ranks] == [DISTURBED_BYTES] * 2, trouble


# Which start it is


class Identified(NamedTuple):
    """What became of each start, and the invocation of its unit before the play."""

    ended: dict[str, Ended]
    before: dict[str, str]
    play: ScriptedPlay


def invocation(node: ScriptedNode, name: str) -> str:
    return node.run(f"systemctl show --property=InvocationID --value {installing.unit_name(name)}").strip()


def end_now(node: ScriptedNode, name: str) -> None:
    node.run(f"systemctl kill --signal=KILL {installing.unit_name(name)} || :")


@pytest.fixture(scope="module", name="identified")
def fixture_identified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identified]:
    """The play restarts a server that takes its time to stop, one that is made ready first, and one that just fails."""
    node = bring_up(IDENTITY)["gpufleet-identity"]
    crash = {"crash": "ValueError: Not enough host memory available. Requesting 8.00 GB but only have 1.50 GB free."}
    fails = [{"before": "load", "rank": "TP1", "do": [crash]}]
    starts = {
        # The old one stops for longer than any play takes to see it, and is ended once that was told.
        "drains": Start(node, scenario(31500, 4_096_000, 1.0, stop_seconds=600.0)),
        "prepares": Start(node, scenario(31501, 4_096_000, 1.0)),
        # SIGKILL counts as success in its unit, so that systemd forgets it when it has ended.
        "ended": Start(
            node, scenario(31502, 4_096_000, 1.0, faults=fails) | {"release": "0.5.12"}, {"scripted_starts": False}
        ),
    }
    install(starts)
    installing.install(node.run, {"prepares": starts["prepares"].scenario}, {"ExecStartPre": "/bin/sleep 2"})
    try:
        installing.start(node.run, starts)
        for name in ("drains", "prepares"):
            node.wait_for_line(installing.unit_name(name), READY)
        node.run(
            f"timeout 60 sh -c 'while systemctl --quiet is-active {installing.unit_name('ended')}; do sleep 0.1; done'"
        )
        before = {name: invocation(node, name) for name in starts}
        play = ScriptedPlay(tmp_path_factory.mktemp("identity"), starts)
        play.until(STOPS)
        end_now(node, "drains")
        yield Identified(play.ends(), before, play)
    finally:
        end_now(node, "drains")
        remove(starts)
        take_down(IDENTITY)


@pytest.mark.parametrize("name", ["drains", "prepares"])
def test_a_restart_that_is_queued_is_followed_and_not_the_server_before_it(identified: Identified, name: str) -> None:
    result = identified.ended[name].result
    assert result["outcome"] == "ready", identified.play.output
    assert len(result["invocation_id"]) == len(identified.before[name]) == 32
    assert result["invocation_id"] != identified.before[name]
    # Its times are those of the new server.
    assert sum(row["seconds"] for row in result["stages"]) < 20


def test_a_play_says_that_the_old_server_stops(identified: Identified) -> None:
    assert re.search(STOPS, identified.play.output, re.MULTILINE)


def test_the_cause_of_a_start_that_systemd_has_forgotten_is_found(identified: Identified) -> None:
    result = identified.ended["ended"].result
    assert identified.before["ended"] == ""
    assert result["failure"]["code"] == "host_memory_guard", identified.play.output
    assert len(result["invocation_id"]) == 32
