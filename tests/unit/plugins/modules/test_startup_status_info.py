# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.modules.startup_status_info import (
    MOST_RECORDS,
    Node,
    look,
)

UNIT = "sglang-main.service"
GROUP = "/system.slice/sglang-main.service"
SHOW = f"""Id={UNIT}
LoadState=loaded
ActiveState=active
SubState=running
Result=success
InvocationID=5f1c0a6a
MainPID=100
NRestarts=0
ExecMainCode=0
ExecMainStatus=0
ExecMainStartTimestampMonotonic=1000000
ControlGroup={GROUP}
NeedDaemonReload=no
"""
PIN = "[2026-11-29 14:20:16 TP1] Allocating kv hierarchical KV host pool: 1600001 tokens, 0.41 GB host memory."


class FakeNode:
    """A root of /proc and /sys in a folder, a journal in a list, and a clock that only sleeping moves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shows = [SHOW]
        self.journal: list[str] = []
        self.read_from: list[list[str]] = []
        self.journal_code = 0
        self.at = 0.0
        self.on_sleep: Callable[[], None] = lambda: None
        self.run: Callable[[list[str]], tuple[int, str, str]] = self._systemctl
        self.write("proc/meminfo", "MemTotal:       20470312 kB\nMemAvailable:   18500000 kB\n")
        self.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())

    def process(
        self, pid: int, title: str, shmem: int = 0, state: str = "S", status: int = 0, started: int = 22
    ) -> None:
        fields = [str(number) for number in range(4, 51)]
        fields[18] = str(started)
        self.write(f"proc/{pid}/stat", f"{pid} (sglang::schedul) {state} {' '.join(fields)} 51 {status}\n")
        self.write(f"proc/{pid}/cmdline", title + "\0" * 9)
        self.write(f"proc/{pid}/status", f"VmRSS:\t{shmem + 700} kB\nRssAnon:\t700 kB\nRssShmem:\t{shmem} kB\n")
        self.write(f"proc/{pid}/io", "rchar: 4096\n")

    def ranks(self, first: int = 0, second: int = 0) -> None:
        self.process(201, "sglang::scheduler_TP0", first)
        self.process(202, "sglang::scheduler_TP1", second)
        self.process(203, "sglang::detokenizer", 5)
        self.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n201\n202\n203\n")

    def vanish(self, pid: int) -> None:
        for path in (self.root / f"proc/{pid}").iterdir():
            path.unlink()
        procs = self.root / f"sys/fs/cgroup{GROUP}/cgroup.procs"
        procs.write_text(procs.read_text().replace(f"{pid}\n", ""))

    def say(self, *messages: Any, invocation: str = "5f1c0a6a") -> None:
        for message in messages:
            number = len(self.journal)
            fields = {
                "__CURSOR": f"s=1;i={number};t={number:x}",
                "__REALTIME_TIMESTAMP": str(1_795_962_016_000_000 + number),
                "_PID": "202",
                "_SYSTEMD_INVOCATION_ID": invocation,
                "MESSAGE": message,
            }
            self.journal.append(json.dumps(fields))

    def _systemctl(self, command: list[str]) -> tuple[int, str, str]:
        assert command[0] == "systemctl"
        return 0, self.shows[0] if len(self.shows) == 1 else self.shows.pop(0), ""

    def _stream(self, command: list[str], take: Callable[[str], bool]) -> tuple[int, str]:
        self.read_from.append(command)
        if self.journal_code:
            return self.journal_code, "No journal files were opened due to insufficient permissions."
        after = next((word.split("=", 1)[1] for word in command if word.startswith("--after-cursor=")), None)
        wanted = next(word.split("=", 1)[1] for word in command if word.startswith("_SYSTEMD_INVOCATION_ID="))
        past = after is None
        for line in list(self.journal):
            record = json.loads(line)
            if past and record["_SYSTEMD_INVOCATION_ID"] == wanted and not take(line):
                break
            past = past or record["__CURSOR"] == after
        return 0, ""

    def _sleep(self, seconds: float) -> None:
        self.at += seconds
        self.on_sleep()

    def look(self, **params: Any) -> dict[str, Any]:
        node = Node(
            run=self.run,
            stream=self._stream,
            probe=lambda url: url == "http://127.0.0.1:30000",
            root=self.root,
            clock=lambda: self.at,
            wall=lambda: 1_795_962_000.0,
            sleep=self._sleep,
        )
        defaults: dict[str, Any] = {
            "unit": UNIT,
            "invocation_id": None,
            "cursor": None,
            "sglang_version": "0.5.23",
            "meter": None,
            "known_ranks": [],
            "ready_url": None,
            "wait_seconds": 0,
            "max_lines": 20,
        }
        return look(node, {**defaults, **params})


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def test_one_look_at_two_ranks_that_pin(node: FakeNode) -> None:
    node.ranks(400_004, 100_000)
    node.write("proc/100/environ", "HOME=/var/lib/sglang\0GPUFLEET_GENERATION=abc\0")
    node.say("hello", PIN)
    found = node.look()
    assert json.loads(json.dumps(found)) == found
    assert [(rank["rank"], rank["pinned_bytes"], rank["alive"]) for rank in found["ranks"]] == [
        ("TP0", 409_604_096, True),
        ("TP1", 102_400_000, True),
    ]
    assert found["pinned_bytes"] == 512_004_096
    assert found["host"]["memory_available_bytes"] == 18_944_000_000
    # Two ranks and the detokenizer; of the main process nothing can be read here.
    assert found["activity"] == {"resident_bytes": (400_704 + 100_700 + 705) * 1024, "read_bytes": 3 * 4096}
    assert (found["unit"]["generation"], found["unit"]["main_pid"]) == ("abc", 100)
    assert [(event["stage"], event["rank"], event["pid"]) for event in found["events"]] == [("host_pool", "TP1", 202)]
    assert found["events"][0]["timestamp"] == 1_795_962_016.000001
    assert (found["lines"], found["tail"], found["cursor"]) == (2, ["hello", PIN], "s=1;i=1;t=1")
    assert (found["meter"], found["serves"], found["problems"]) == ("shmem", None, [])


def test_unknown_unit_is_a_state_and_no_failure(node: FakeNode) -> None:
    node.shows = ["LoadState=not-found\nActiveState=inactive\nSubState=dead\n"]
    found = node.look()
    assert (found["unit"]["load_state"], found["unit"]["generation"], found["events"]) == ("not-found", None, [])
    assert node.read_from == []


def test_lines_of_another_start_are_not_read(node: FakeNode) -> None:
    node.say("[2026-11-29 14:00:00] The server is fired up and ready to roll!", invocation="old")
    assert node.look()["events"] == []


def test_reading_goes_on_after_the_cursor(node: FakeNode) -> None:
    node.say("one", PIN)
    first = node.look()
    node.say("two")
    second = node.look(cursor=first["cursor"])
    assert (second["tail"], second["events"]) == (["two"], [])
    assert node.look(cursor=second["cursor"])["cursor"] == second["cursor"]


def test_without_lines_the_journal_is_left_alone(node: FakeNode) -> None:
    found = node.look(max_lines=0)
    assert node.read_from == []
    assert (found["tail"], found["cursor"], found["lines"]) == ([], None, 0)


def test_binary_and_long_messages(node: FakeNode) -> None:
    node.say(list(b"Loading:  50%\rLoading: 100%"), "x" * 5000)
    found = node.look()
    assert found["tail"][0] == "Loading: 100%"
    assert len(found["tail"][1]) == 2000


def test_arguments_of_the_server_stay_on_the_node(node: FakeNode) -> None:
    node.say("[2026-11-29 14:19:46] server_args={'api_key': 'sk-1'}", "launched with api_key='sk-1' somehow")
    assert node.look()["tail"] == ["launched with api_key='***' somehow"]


def test_access_log_is_no_sign_of_life(node: FakeNode) -> None:
    node.say('[2026-11-29 14:48:22] INFO:     127.0.0.1:46850 - "GET /health HTTP/1.1" 503 Service Unavailable')
    found = node.look()
    assert (found["lines"], found["tail"], found["cursor"]) == (0, [], "s=1;i=0;t=0")


def test_reading_stops_at_the_line_that_says_ready(node: FakeNode) -> None:
    node.say("[2026-11-29 14:20:47] The server is fired up and ready to roll!", "served for days")
    found = node.look()
    assert found["more"]
    assert found["tail"] == ["[2026-11-29 14:20:47] The server is fired up and ready to roll!"]


def test_one_call_reads_a_bounded_part(node: FakeNode) -> None:
    node.say(*["x"] * (MOST_RECORDS + 1))
    found = node.look()
    assert (found["more"], found["lines"]) == (True, MOST_RECORDS)
    rest = node.look(cursor=found["cursor"])
    assert (rest["more"], rest["lines"]) == (False, 1)


def test_journal_that_cannot_be_read_is_a_problem_and_no_failure(node: FakeNode) -> None:
    node.journal_code = 1
    found = node.look()
    assert [problem["code"] for problem in found["problems"]] == ["journal_unreadable"]


def test_cursor_that_was_rotated_away_is_replaced_by_its_time(node: FakeNode) -> None:
    node.journal_code = 1
    node.look(cursor="s=1;i=2;t=f4240")
    assert [word for word in node.read_from[1] if "since" in word] == ["--since=@1.000001"]


def test_dead_rank_is_told_with_its_signal_while_it_is_a_zombie(node: FakeNode) -> None:
    node.ranks(100, 100)
    known = node.look()["ranks"]
    node.process(202, "", state="Z", status=9)
    node.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n201\n203\n")
    found = node.look(known_ranks=known)
    assert [(rank["rank"], rank["alive"], rank["exit_code"]) for rank in found["ranks"]] == [
        ("TP0", True, None),
        ("TP1", False, -9),
    ]
    assert found["pinned_bytes"] == 100 * 1024


def test_rank_that_vanished_is_told_without_its_end(node: FakeNode) -> None:
    node.ranks()
    known = node.look()["ranks"]
    node.vanish(202)
    found = node.look(known_ranks=known)
    assert [(rank["rank"], rank["alive"], rank["exit_code"]) for rank in found["ranks"]] == [
        ("TP0", True, None),
        ("TP1", False, None),
    ]
    later = node.look(known_ranks=[{**rank, "exit_code": -9} if not rank["alive"] else rank for rank in found["ranks"]])
    assert later["ranks"][1]["exit_code"] == -9


def test_number_of_a_dead_rank_may_belong_to_another_process_now(node: FakeNode) -> None:
    node.ranks()
    known = node.look()["ranks"]
    node.process(202, "sh", started=999)
    found = node.look(known_ranks=known)
    assert [rank["alive"] for rank in found["ranks"]] == [True, False]


def test_process_that_vanishes_between_two_reads_is_left_out(node: FakeNode) -> None:
    node.ranks()
    (node.root / "proc/202/stat").unlink()
    assert [rank["rank"] for rank in node.look()["ranks"]] == ["TP0"]
    node.process(202, "sglang::scheduler_TP1")
    (node.root / "proc/202/status").unlink()
    (node.root / "proc/202/io").unlink()
    assert [rank["pinned_bytes"] for rank in node.look()["ranks"]] == [0, None]


def test_older_releases_are_metered_where_their_memory_shows(node: FakeNode) -> None:
    node.ranks(100, 100)
    found = node.look(sglang_version="0.5.9")
    assert (found["meter"], found["ranks"][0]["pinned_bytes"]) == ("anon", 700 * 1024)
    found = node.look(sglang_version="0.5.4")
    assert (found["meter"], found["pinned_bytes"]) == ("available", None)


def test_server_is_asked_only_with_a_url(node: FakeNode) -> None:
    assert node.look(ready_url="http://127.0.0.1:30000")["serves"] is True
    assert node.look(ready_url="http://127.0.0.1:1")["serves"] is False


# Waiting


def test_wait_ends_after_its_time_if_there_is_no_news(node: FakeNode) -> None:
    node.say("old news")
    node.look(wait_seconds=2)
    assert node.at == 2.0


def test_wait_ends_with_an_event(node: FakeNode) -> None:
    node.on_sleep = lambda: node.say(PIN)
    found = node.look(wait_seconds=10)
    assert (node.at, len(found["events"])) == (0.5, 1)


def test_wait_does_not_end_with_a_line_that_means_nothing(node: FakeNode) -> None:
    node.on_sleep = lambda: node.say("chatter")
    found = node.look(wait_seconds=2)
    assert (node.at, found["lines"]) == (2.0, 4)


def test_wait_ends_when_the_unit_changes(node: FakeNode) -> None:
    node.shows = [SHOW, SHOW.replace("SubState=running", "SubState=stop-sigterm")]
    found = node.look(wait_seconds=10)
    assert (node.at, found["unit"]["sub_state"]) == (0.5, "stop-sigterm")


def test_wait_ends_when_a_rank_is_lost(node: FakeNode) -> None:
    node.ranks()
    known = node.look()["ranks"]
    node.on_sleep = lambda: node.vanish(202)
    found = node.look(wait_seconds=10, known_ranks=known)
    assert (node.at, found["ranks"][1]["alive"]) == (0.5, False)
    node.on_sleep = lambda: None
    node.look(wait_seconds=2, known_ranks=found["ranks"])
    assert node.at == 2.5


def test_wait_does_not_begin_for_a_unit_that_ended(node: FakeNode) -> None:
    node.shows = [SHOW.replace("ActiveState=active", "ActiveState=failed")]
    node.look(wait_seconds=10)
    assert node.at == 0.0


@pytest.mark.parametrize("seconds", [-1, 11])
def test_wait_is_bounded(node: FakeNode, seconds: float) -> None:
    with pytest.raises(Refusal, match="Expected 0 to 10"):
        node.look(wait_seconds=seconds)


def test_node_without_systemd(node: FakeNode) -> None:
    node.run = lambda command: (1, "", "System has not been booted with systemd")
    with pytest.raises(Refusal, match="has not been booted with systemd"):
        node.look()


def test_version_that_is_none(node: FakeNode) -> None:
    with pytest.raises(Refusal, match="not a version number"):
        node.look(sglang_version="newest")


@pytest.mark.parametrize(("invocation", "in_force"), [("5f1c0a6a", True), ("another", False)])
def test_the_ledger_comes_with_the_look(node: FakeNode, invocation: str, in_force: bool) -> None:
    ledger = {"schema": 2, "plan": {"host": {}}, "invocation_id": invocation}
    node.write("var/lib/sglang/main/ledger.json", json.dumps(ledger))
    result = node.look(ledger_path="/var/lib/sglang/main/ledger.json")
    assert (result["ledger"], result["ledger_in_force"]) == (ledger, in_force)


def test_a_ledger_that_is_not_there_or_not_asked_for_is_empty(node: FakeNode) -> None:
    for params in ({}, {"ledger_path": None}, {"ledger_path": "/var/lib/sglang/main/ledger.json"}):
        result = node.look(**params)
        assert (result["ledger"], result["ledger_in_force"]) == ({}, False)
