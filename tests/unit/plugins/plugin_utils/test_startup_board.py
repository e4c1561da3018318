# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.board import Entry
from ansible_collections.gpufleet.sglang.plugins.plugin_utils import startup_board
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.startup_board import (
    Board,
    entries,
    is_crowded,
    join,
    open_board,
    post,
    speak,
)

# The folder that holds ansible_collections, for the processes that are started here.
COLLECTIONS = next(
    folder.parent for folder in Path(str(startup_board.__file__)).parents if folder.name == "ansible_collections"
)


def node(number: int, **others: Any) -> Entry:
    fields: dict[str, Any] = {"stage": "load", "pid": os.getpid(), "began_at": 0.0, "at": 10.0, **others}
    return Entry(host=f"node-{number:02d}", instance="main", **fields)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return open_board(str(tmp_path), "task")


class Worker:
    """A process that does with the board what it is told, a line at a time, and answers each with a line."""

    def __init__(self, tmp_path: Path) -> None:
        program = """
            import sys
            from ansible_collections.gpufleet.sglang.plugins.plugin_utils import startup_board
            from ansible_collections.gpufleet.sglang.tests.unit.plugins.plugin_utils.test_startup_board import node
            board = startup_board.open_board(sys.argv[1], "task")
            shown = []
            for line in sys.stdin:
                word, _sep, number = line.strip().partition(" ")
                if word == "post":
                    startup_board.post(board, node(int(number)))
                elif word == "speak":
                    shown.clear()
                    startup_board.speak(board, float(number), shown.append)
                elif word == "hold":
                    with startup_board._alone(board) as alone:
                        print(alone, flush=True)
                        sys.stdin.readline()
                print(shown[0] if shown else "silent", flush=True)
        """
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
        )

    def do(self, command: str) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    started = [Worker(tmp_path) for _number in range(3)]
    yield started
    for worker in started:
        worker.kill()
        for stream in (worker.process.stdin, worker.process.stdout):
            assert stream
            try:
                stream.close()
            except BrokenPipeError:
                pass


def test_one_of_many_workers_speaks_for_all(workers: list[Worker]) -> None:
    for number, worker in enumerate(workers):
        worker.do(f"post {number}")
    spoken = [worker.do("speak 5") for worker in workers]
    assert spoken == ["3 nodes: 3 loading weights", "silent", "silent"]
    # Nothing changed: the next sign of life is due half a minute later, whoever comes by then.
    assert [worker.do("speak 20") for worker in workers] == ["silent"] * 3
    assert workers[1].do("speak 35.5") == "3 nodes: 3 loading weights, 36 s so far"
    assert workers[2].do("speak 36") == "silent"


def test_the_others_go_on_without_a_worker_that_was_killed(workers: list[Worker]) -> None:
    for number, worker in enumerate(workers):
        worker.do(f"post {number}")
    workers[0].do("speak 5")
    workers[0].kill()
    assert workers[1].do("speak 9") == "2 nodes: 2 loading weights"


def test_a_worker_that_is_killed_while_it_holds_the_lock_does_not_keep_it(workers: list[Worker]) -> None:
    for number, worker in enumerate(workers):
        worker.do(f"post {number}")
    assert workers[0].do("hold") == "True"
    assert workers[1].do("speak 5") == "silent"
    workers[0].kill()
    assert workers[1].do("speak 5") == "2 nodes: 2 loading weights"


def test_who_finds_the_lock_taken_does_not_wait(workers: list[Worker]) -> None:
    for number, worker in enumerate(workers):
        worker.do(f"post {number}")
    assert workers[0].do("hold") == "True"
    assert [worker.do("speak 5") for worker in workers[1:]] == ["silent"] * 2
    assert workers[0].do("go on") == "silent"
    assert workers[2].do("speak 5") == "3 nodes: 3 loading weights"


def test_an_entry_takes_the_place_of_the_one_before(board: Board) -> None:
    post(board, node(1))
    post(board, node(1, stage="capture"))
    assert [one.stage for one in entries(board)] == ["capture"]


def test_instances_of_one_host_have_an_entry_each(board: Board) -> None:
    post(board, node(1))
    post(board, replace(node(1), instance="second"))
    assert [one.instance for one in entries(board)] == ["main", "second"]


def test_half_a_file_and_one_of_another_version_are_left_out(board: Board) -> None:
    post(board, node(1))
    (board.folder / "torn.entry").write_text('{"host": "no', encoding="utf-8")
    (board.folder / "other.entry").write_text('{"node": "node-9"}', encoding="utf-8")
    (board.folder / "list.entry").write_text("[]", encoding="utf-8")
    assert [one.host for one in entries(board)] == ["node-01"]


def test_up_to_four_nodes_have_a_line_each(board: Board) -> None:
    for number in range(4):
        post(board, node(number))
    assert not is_crowded(entries(board))
    post(board, node(4, end="ready"))
    assert is_crowded(entries(board))


def test_a_task_does_not_see_the_nodes_of_another(tmp_path: Path) -> None:
    post(open_board(str(tmp_path), "one"), node(1))
    assert entries(open_board(str(tmp_path), "another")) == []


def test_the_next_batch_of_a_rolling_play_begins_with_an_empty_board(board: Board) -> None:
    for number in range(5):
        post(board, node(number, end="ready"))
    join(board, ["node-01", "node-07"])
    assert len(entries(board)) == 5, "node-01 belongs to this batch, of which others come later"
    join(board, ["node-07", "node-08"])
    assert entries(board) == []


def test_nobody_speaks_when_all_have_ended(board: Board) -> None:
    for number in range(5):
        post(board, node(number, end="ready"))
    shown: list[str] = []
    speak(board, 5.0, shown.append)
    assert shown == []


def test_a_process_of_another_user_counts_as_running(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    post(board, node(1, pid=1))

    def refuse(pid: int, number: int) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "kill", refuse)
    assert [one.host for one in entries(board)] == ["node-01"]
