# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Log files: rotation of every kind, lines of older starts, partial and endless lines."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.file_log import CHUNK_BYTES
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    INVOCATION,
    SHOW,
    STARTED_AT,
    FakeNode,
)

LOG = {"type": "file", "path": "/var/log/sglang.log"}


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    found = FakeNode(tmp_path)
    found.write("var/log/sglang.log", "")
    return found


@pytest.fixture
def log(node: FakeNode) -> Path:
    return node.root / "var/log/sglang.log"


def line(seconds: float, text: str) -> str:
    """A line that the server printed so many seconds after its start, in the time zone of this process."""
    moment = datetime.fromtimestamp(STARTED_AT + seconds)
    return f"[{moment:%Y-%m-%d %H:%M:%S} TP0] {text}\n"


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def look(node: FakeNode, cursor: str | None = None, **params: Any) -> dict[str, Any]:
    return node.look(log=LOG, cursor=cursor, **params)


def begun(node: FakeNode, log: Path) -> dict[str, Any]:
    add(log, line(5, "Load weight begin. avail mem=90.00 GB"))
    found = look(node)
    assert [event["stage"] for event in found["events"]] == ["load"]
    return found


def test_event_has_the_time_of_its_line(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    assert found["events"][0]["timestamp"] == STARTED_AT + 5
    assert found["log"] == {"source": "file", "readable": True, "suppressed": 0, "gap": False}


def test_lines_of_an_older_start_do_not_count(node: FakeNode, log: Path) -> None:
    ready = "The server is fired up and ready to roll!"
    add(log, line(-500, ready) + "Traceback (most recent call last):\n" + line(-0.0001 - 1, "SIGTERM received."))
    found = look(node)
    assert (found["events"], found["lines"]) == ([], 0)
    add(log, "RuntimeError: of the older start still\n" + line(4, ready) + "a line without a time\n")
    found = look(node, found["cursor"])
    assert [event["kind"] for event in found["events"]] == ["ready"]
    assert found["lines"] == 1
    assert look(node, found["cursor"])["tail"] == ["a line without a time"]


def test_file_that_the_start_made_counts_whole(node: FakeNode, log: Path) -> None:
    add(log, "python: error: unrecognized arguments: --foo\n")
    assert look(node)["lines"] == 0
    node.born = f"{datetime.fromtimestamp(STARTED_AT + 0.2).astimezone():%Y-%m-%d %H:%M:%S.%f000 %z}"
    assert [event["kind"] for event in look(node)["events"]] == ["failure"]
    node.born = f"{datetime.fromtimestamp(STARTED_AT - 90).astimezone():%Y-%m-%d %H:%M:%S.%f000 %z}"
    assert look(node)["lines"] == 0


def test_pipe_is_no_log_file_and_is_never_opened(node: FakeNode, log: Path) -> None:
    # Whoever opens a pipe for reading waits for a writer, and this test would never end.
    log.unlink()
    os.mkfifo(log)
    found = look(node)
    assert found["log"]["readable"] is False
    assert [problem["code"] for problem in found["problems"]] == ["log_file_missing"]


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process in a time zone nine hours before UTC."""
    monkeypatch.setenv("TZ", "XYZ-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_time_zone_is_that_of_the_server(node: FakeNode, log: Path) -> None:
    in_utc = datetime.fromtimestamp(STARTED_AT + 5, timezone.utc)
    add(log, f"[{in_utc:%Y-%m-%d %H:%M:%S}] Load weight begin. avail mem=90.00 GB\n")
    # Taken for local time it was said nine hours before the start.
    assert look(node)["events"] == []
    node.write("proc/100/environ", "TZ=UTC\0")
    assert [event["timestamp"] for event in look(node)["events"]] == [STARTED_AT + 5]


def test_log_of_a_start_that_is_over_is_not_taken_for_that_of_the_next(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    node.shows = [SHOW.replace(INVOCATION, "next")]
    add(log, line(6, "The server is fired up and ready to roll!"))
    later = look(node, found["cursor"], invocation_id=INVOCATION)
    assert (later["events"], later["unit"]["invocation_id"]) == ([], "next")


def test_line_that_is_not_finished_waits_for_its_end(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    add(log, line(6, "The server is fired up and ready to roll!")[:40])
    half = look(node, found["cursor"])
    assert (half["events"], half["lines"], half["more"]) == ([], 0, False)
    add(log, line(6, "The server is fired up and ready to roll!")[40:])
    assert [event["kind"] for event in look(node, half["cursor"])["events"]] == ["ready"]


def test_endless_line_is_cut_and_what_follows_is_read(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    add(log, "x" * (3 * CHUNK_BYTES))
    half = look(node, found["cursor"])
    assert (half["lines"], half["more"]) == (1, False)
    add(log, "y" * 10 + "\n" + line(6, "Load weight end. avail mem=50.00 GB"))
    rest = look(node, half["cursor"])
    assert ([event["kind"] for event in rest["events"]], rest["lines"]) == (["stage_end"], 1)


def test_renamed_file_is_read_to_its_end_and_then_the_new_one(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    add(log, line(6, "Load weight end. avail mem=50.00 GB"))
    log.rename(log.with_name("sglang.log.1"))
    log.write_text(line(7, "Capture cuda graph begin. This can take up to several minutes. avail mem=40.00 GB"))
    later = look(node, found["cursor"])
    assert [event["stage"] for event in later["events"]] == ["load", "capture"]
    assert later["log"]["gap"] is False


def test_writer_that_was_not_told_of_the_rotation_is_still_heard(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    old = log.rename(log.with_name("sglang.log.1"))
    for empty in (False, True):
        if empty:
            log.touch()
        add(old, line(6, "Load weight end. avail mem=50.00 GB"))
        found = look(node, found["cursor"])
        assert ([event["kind"] for event in found["events"]], found["log"]["gap"]) == (["stage_end"], False)


def test_copied_and_truncated_file_is_read_on(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    add(log, line(6, "Load weight end. avail mem=50.00 GB"))
    shutil.copy(log, log.with_name("sglang.log-20261129"))
    os.truncate(log, 0)
    later = look(node, found["cursor"])
    assert ([event["kind"] for event in later["events"]], later["log"]["gap"]) == (["stage_end"], False)
    add(log, line(7, "The server is fired up and ready to roll!"))
    assert [event["kind"] for event in look(node, later["cursor"])["events"]] == ["ready"]


@pytest.mark.parametrize("more", [0, 40])
def test_truncated_file_whose_copy_is_gone_is_a_gap(node: FakeNode, log: Path, more: int) -> None:
    found = begun(node, log)
    # Longer again than it was, or shorter: the bytes before the position are others.
    log.write_text(line(7, "The server is fired up and ready to roll!") + "served\n" * more)
    later = look(node, found["cursor"])
    assert ([event["kind"] for event in later["events"]], later["log"]["gap"]) == (["ready"], True)


def test_another_file_of_the_same_inode_is_noticed(node: FakeNode, log: Path) -> None:
    found = begun(node, log)
    text = log.read_text()
    with log.open("r+") as file:
        file.write("z" * len(text) + "\n" + line(7, "The server is fired up and ready to roll!"))
    later = look(node, found["cursor"])
    assert ([event["kind"] for event in later["events"]], later["log"]["gap"]) == (["ready"], True)


def test_wait_ends_with_an_event(node: FakeNode, log: Path) -> None:
    found = begun(node, log)

    def write() -> None:
        node.on_wait = lambda: None
        add(log, "chatter\n" + line(6, "The server is fired up and ready to roll!"))

    node.on_wait = write
    later = look(node, found["cursor"], wait_seconds=30)
    assert ([event["kind"] for event in later["events"]], node.at < 1) == (["ready"], True)


def test_file_that_is_not_there_is_a_problem_and_no_failure(node: FakeNode, log: Path) -> None:
    log.unlink()
    found = look(node)
    assert [problem["code"] for problem in found["problems"]] == ["log_file_missing"]
    assert found["log"]["readable"] is False


def test_file_is_found_without_being_named_and_still_known_when_the_server_has_died(node: FakeNode, log: Path) -> None:
    (node.root / "proc/100/fd").mkdir()
    stderr = node.root / "proc/100/fd/2"
    stderr.symlink_to("/var/log/sglang.log")
    add(log, line(5, "Load weight begin. avail mem=90.00 GB"))
    found = node.look()
    assert ([event["stage"] for event in found["events"]], found["log"]["source"]) == (["load"], "file")
    stderr.unlink()
    node.shows = [SHOW.replace("ActiveState=active", "ActiveState=failed").replace("MainPID=100", "MainPID=0")]
    add(log, "ValueError: the last words\n")
    later = node.look(cursor=found["cursor"])
    assert [event["kind"] for event in later["events"]] == ["exception"]


@pytest.mark.parametrize("link", ["socket:[4711]", "/dev/null", "/var/log/sglang.log (deleted)"])
def test_what_is_no_log_file_leaves_the_journal(node: FakeNode, link: str) -> None:
    (node.root / "proc/100/fd").mkdir()
    (node.root / "proc/100/fd/2").symlink_to(link)
    node.say("a line")
    found = node.look()
    assert (found["tail"], found["log"]["source"]) == (["a line"], "journal")


def test_file_of_a_rank_whose_launcher_logs_to_the_journal(node: FakeNode, log: Path) -> None:
    node.ranks()
    (node.root / "proc/202/fd").mkdir()
    (node.root / "proc/202/fd/2").symlink_to("/var/log/sglang.log")
    node.say("a line of the launcher")
    first = node.look()
    add(log, line(5, "Load weight begin. avail mem=90.00 GB"))
    second = node.look(cursor=first["cursor"], known_ranks=first["ranks"])
    assert [event["stage"] for event in second["events"]] == ["load"]


def test_kernel_is_heard_beside_a_file(node: FakeNode, log: Path) -> None:
    begun(node, log)
    node.kernel("NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    found = look(node)
    assert [event["label"] for event in found["events"]] == [None, "gpu_error"]
    assert look(node, found["cursor"])["events"] == []
