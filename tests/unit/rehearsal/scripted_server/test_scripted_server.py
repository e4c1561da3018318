# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripted server as real processes on this machine, beside the recorded journal of a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import parse_record
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import title_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import rank_from_title
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server import play

RECORDED = Path(__file__).parents[2] / "plugins" / "fixtures" / "journal" / "ready.jsonl"
COLLECTIONS = str(Path(play.__file__).parents[5])
QUICK = {"boot": 0.0, "load": 0.0, "device_pool": 0.0, "capture": 0.0, "register": 0.0, "warm_up": 0.0}
POOL = {"bytes": 8_388_608, "tokens": 4096, "gb_per_second": 1.0}
READY = "fired up"


# Nothing is asserted about it: what hangs shall not hang the whole run, however busy the machine is.
GUARD_SECONDS = 300


def reserved_port() -> socket.socket:
    """A port that nobody else is given, bound and not listened on; a server that reuses addresses may take it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class Running:
    """A scripted server whose lines are read as they come."""

    def __init__(self, folder: Path, **scenario: Any) -> None:
        self.reserved = reserved_port()
        self.port = scenario.setdefault("port", self.reserved.getsockname()[1])
        given = {"release": "0.5.23", "ranks": 2, "host_pools": [POOL], "seconds": QUICK, **scenario}
        file = folder / "scenario.json"
        file.write_text(json.dumps(given), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-m", play.__spec__.name if play.__spec__ else play.__name__, str(file)],
            env={**os.environ, "PYTHONPATH": COLLECTIONS},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def until(self, words: str) -> str:
        assert self.process.stderr
        for line in self.process.stderr:
            text = line.decode("utf-8", "replace").rstrip("\n")
            self.lines.append(text)
            if words in text:
                return text
        pytest.fail(f"it ended without '{words}':\n" + "\n".join(self.lines))

    def finish(self) -> int:
        """Its exit status, negative for a signal, when every process of it is gone."""
        assert self.process.stderr
        self.lines += self.process.stderr.read().decode("utf-8", "replace").splitlines()
        return self.process.wait()

    def ranks(self) -> dict[str, int]:
        """Process ids by the name that the watch reads out of the titles."""
        found: dict[str, int] = {}
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text(encoding="ascii").split():
            rank = rank_from_title(title_of(Path(f"/proc/{pid}/cmdline").read_bytes()))
            if rank is not None:
                found[rank] = int(pid)
        return found

    def get(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=GUARD_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code)


@pytest.fixture(name="servers")
def fixture_servers() -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for server in started:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
        server.reserved.close()
        if server.process.stderr:
            server.process.stderr.close()


def test_a_start_says_what_the_real_server_said(tmp_path: Path, servers: list[Running]) -> None:
    recorded = [parse_record(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    real: dict[str | None, list[tuple[Any, ...]]] = {}
    for record in recorded:
        event = parse_line(record.message, "0.5.23") if record is not None else None
        if event is not None:
            real.setdefault(event.rank, []).append((event.kind, event.stage, event.label, event.tokens))
    server = Running(tmp_path, device="cpu", capacity_tokens=8192, host_pools=[{**POOL, "tokens": 262_145}])
    servers.append(server)
    server.until(READY)
    scripted: dict[str | None, list[tuple[Any, ...]]] = {}
    for line in server.lines:
        event = parse_line(line, "0.5.23")
        # The recording has lost this line, which is longer than a record may be.
        if event is not None and event.kind != "settings":
            scripted.setdefault(event.rank, []).append((event.kind, event.stage, event.label, event.tokens))
    assert scripted == real


def test_ranks_have_sglang_s_titles_and_hold_their_pools(tmp_path: Path, servers: list[Running]) -> None:
    server = Running(tmp_path, ranks=["DP0 TP0", "DP1 TP0"])
    servers.append(server)
    server.until(READY)
    ranks = server.ranks()
    assert sorted(ranks) == ["DP0 TP0", "DP1 TP0"]
    for pid in ranks.values():
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        found = re.search(r"^RssShmem:\s+(\d+) kB$", status, re.MULTILINE)
        assert found
        assert int(found[1]) * 1024 == POOL["bytes"]
        assert status.startswith("Name:\tsglang::schedul\n")


def test_health_follows_the_start(tmp_path: Path, servers: list[Running]) -> None:
    server = Running(
        tmp_path,
        # It is not to get any further than this, however slow the test is.
        faults=[{"before": "warm_up", "do": [{"say": "waiting for requests"}, {"hang": True}]}],
    )
    servers.append(server)
    server.until("waiting for requests")
    assert (server.get("/health"), server.get("/v1/models")) == (503, 200)
    server.until("GET /v1/models HTTP/1.1")


def test_a_rank_that_was_killed_while_it_pinned(tmp_path: Path, servers: list[Running]) -> None:
    fault = {"within": "host_pool", "share": 0.5, "rank": "TP0", "do": [{"signal": "SIGKILL"}]}
    server = Running(tmp_path, faults=[fault])
    servers.append(server)
    assert server.finish() == 1
    assert any("Rank 0 scheduler died during initialization (exit code: -9)" in line for line in server.lines)
    assert not any(READY in line for line in server.lines)


def test_an_exception_in_a_rank_ends_it_all_by_sigkill(tmp_path: Path, servers: list[Running]) -> None:
    crash = {"crash": "Traceback (most recent call last):\nRuntimeError: Not enough memory. Please try {rank}"}
    server = Running(tmp_path, faults=[{"before": "load", "rank": "TP1", "do": [crash]}])
    servers.append(server)
    assert server.finish() == -signal.SIGKILL
    assert any(
        line.endswith("TP1] Scheduler hit an exception: Traceback (most recent call last):") for line in server.lines
    )
    assert "RuntimeError: Not enough memory. Please try TP1" in server.lines
    assert any("Received sigquit from a child process" in line for line in server.lines)


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ([{"raw": "usage: launch_server.py"}, {"exit": 2}], 2),
        ([{"signal": "SIGABRT"}], -signal.SIGABRT),
        ([{"signal": "SIGSEGV"}], -signal.SIGSEGV),
        ([{"bus_error": True}], -signal.SIGBUS),
        ([{"crash": "RuntimeError: boom"}], 1),
    ],
)
def test_ends_of_the_main_process(
    tmp_path: Path, servers: list[Running], steps: list[dict[str, Any]], status: int
) -> None:
    server = Running(tmp_path, steps={"main": steps})
    servers.append(server)
    assert server.finish() == status


@pytest.mark.parametrize(("release", "status"), [("0.5.23", 0), ("0.5.9", -signal.SIGKILL)])
def test_a_stop_while_it_serves(tmp_path: Path, servers: list[Running], release: str, status: int) -> None:
    server = Running(tmp_path, release=release)
    servers.append(server)
    server.until(READY)
    server.process.send_signal(signal.SIGTERM)
    assert server.finish() == status
    assert any("SIGTERM received." in line for line in server.lines)


def test_a_stop_while_it_boots_is_a_death_by_sigterm(tmp_path: Path, servers: list[Running]) -> None:
    server = Running(tmp_path, faults=[{"before": "load", "rank": "TP0", "do": [{"hang": True}]}])
    servers.append(server)
    server.until("TP0] Memory baseline taken")
    server.process.send_signal(signal.SIGTERM)
    assert server.finish() == -signal.SIGTERM


def test_a_port_that_is_taken(tmp_path: Path, servers: list[Running]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        server = Running(tmp_path, port=stranger.getsockname()[1])
        servers.append(server)
        assert server.finish() == 1
    assert any("address already in use" in line for line in server.lines)


def test_noise_comes_from_a_process_that_is_no_rank(tmp_path: Path, servers: list[Running]) -> None:
    kinds = ("json", "bracketed", "multi_line", "binary", "long")
    server = Running(tmp_path, noise=[{"kind": kind, "lines_per_second": 1000, "seconds": 60} for kind in kinds])
    servers.append(server)
    for kind, words in zip(kinds, ('{"level"', "(EngineCore", "UserWarning", "Loading:", "x" * 60_000)):
        assert words in server.until(words), kind
    assert sorted(server.ranks()) in ([], ["TP0"], ["TP1"], ["TP0", "TP1"])


def test_a_scenario_that_cannot_be_played(tmp_path: Path, servers: list[Running]) -> None:
    server = Running(tmp_path, colour="red")
    servers.append(server)
    assert server.finish() == 2
    assert "the scenario has colour" in server.lines[-1]
