# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import multiprocessing
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import constants
from ansible.errors import AnsibleUndefinedConfigEntry

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.live_lines import (
    LiveLines,
    Voice,
    audience_of,
    uninterrupted,
    write_lines_at_once,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    HALF,
    MIB,
    READY,
    after,
    both,
    pinning,
    seen,
    start,
)


class Listener:
    def __init__(self, root: Path, detail: bool = False) -> None:
        self.root = root
        self.lines: list[str] = []
        self.details: list[str] = []
        self._detail = self.details.append if detail else None

    def watch(self, host: str, instance: str = "main", state: StartupState | None = None) -> LiveLines:
        voice = Voice(self.lines.append, self._detail)
        hosts = [f"gpu-{number}" for number in range(1, 13)]
        return LiveLines(voice, str(self.root), "task", hosts, host, instance, state or start())


def loading(at: float) -> StartupState:
    return replace(start(), stage="load", now=at)


def test_up_to_four_nodes_have_a_line_each_with_names_in_columns(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    for number, name in ((1, "main"), (2, "second"), (10, "main")):
        listener.watch(f"gpu-{number}", name).update(loading(3.0), 3.0)
    assert listener.lines == [
        "gpu-1  main  loading weights",
        "gpu-2  second  loading weights",
        "gpu-10  main    loading weights",
    ]


def test_more_share_one_line_from_the_first_on(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    watches = [listener.watch(f"gpu-{number}") for number in range(1, 7)]
    assert all(watch.watched >= 1 for watch in watches)
    for watch in watches:
        watch.update(loading(3.0), 3.0)
    watches[2].update(loading(7.0), 7.0)
    assert listener.lines == [
        "6 nodes: 1 loading weights, 5 starting; slowest gpu-2 starting",
        "6 nodes: 6 loading weights",
    ]
    assert watches[2].watched == 6


def test_ends_are_told_one_by_one_even_then(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    watches = [listener.watch(f"gpu-{number}") for number in range(1, 7)]
    watches[0].end(after(pinning(3.0), seen(5.0, READY)), "ready after 5.0 s")
    watches[1].update(loading(6.0), 6.0)
    assert listener.lines == [
        "gpu-1  main  ready after 5.0 s",
        "6 nodes: 1 ready, 1 loading weights, 4 starting; slowest gpu-3 starting",
    ]
    assert watches[1].watched == 5


def test_detail_shows_every_node_and_rank_of_many(tmp_path: Path) -> None:
    listener = Listener(tmp_path, detail=True)
    watches = [listener.watch(f"gpu-{number}") for number in range(1, 7)]
    watches[5].update(after(pinning(3.0), seen(5.0, ranks=both(MIB + HALF, MIB))), 5.0)
    assert [line for line in listener.details if line.startswith("gpu-6")] == [
        "gpu-6  main  pinning 0.20 of 0.82 GB (TP0 0.20/0.41, TP1 0.00/0.41) 0.10 GB/s ETA 4 s",
        "gpu-6  main    TP0: pinning 0.20 of 0.41 GB pinned, process 200",
        "gpu-6  main    TP1: pinning, process 201",
    ]
    assert [line for line in listener.lines if line.startswith("gpu-")] == []


def test_silence_tells_nothing_and_still_counts_the_nodes(tmp_path: Path) -> None:
    watches = [
        LiveLines(Voice(None), str(tmp_path), "task", ["gpu-1", "gpu-2"], host, "main", start())
        for host in ("gpu-1", "gpu-2")
    ]
    watches[0].update(loading(5.0), 5.0)
    watches[0].end(loading(6.0), "given up after 6.0 s", lost=True)
    assert watches[0].due_in_seconds(loading(5.0)) is None
    watches[1].update(loading(7.0), 7.0)
    assert watches[1].watched == 1


def test_a_full_disk_of_the_controller_stops_no_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(tmp_path / "file")
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    watch = listener.watch("gpu-1")
    watch.update(loading(3.0), 3.0)
    assert (listener.lines, watch.watched) == (["gpu-1  main  loading weights"], 1)
    later = Listener(tmp_path)
    watch = later.watch("gpu-1")

    def full(path: Path, *_args: Any, **_others: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    watch.update(loading(3.0), 3.0)
    assert later.lines == ["gpu-1  main  loading weights"]


def test_what_waits_to_be_shown_says_when(tmp_path: Path) -> None:
    watch = Listener(tmp_path).watch("gpu-1")
    assert watch.due_in_seconds(start()) is None
    watch.update(loading(0.5), 0.5)
    assert watch.due_in_seconds(loading(0.5)) == pytest.approx(1.5)
    watch.update(loading(2.0), 2.0)
    assert watch.due_in_seconds(loading(2.0)) is None
    watch.update(replace(loading(3.0), stage="capture"), 3.0)
    assert watch.due_in_seconds(loading(3.0)) == pytest.approx(2.0)


def test_node_out_of_reach_is_shown_with_the_reason(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    watch = listener.watch("gpu-1")
    watch.update(loading(3.0), 3.0)
    watch.update(loading(3.0), 9.0, "for 6.0 s (No route to host)")
    assert listener.lines[-1] == "gpu-1  main  out of reach for 6.0 s (No route to host); the start goes on"


@pytest.mark.parametrize(
    ("cliargs", "callback", "expected"),
    [({}, "default", "default"), ({"one_line": True}, "default", "oneline"), ({}, "a.b.json", "a.b.json")],
)
def test_audience_is_read_from_the_run(
    cliargs: dict[str, Any], callback: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", callback)
    audience = audience_of(SimpleNamespace(no_log=False), cliargs)
    assert (audience.callback, audience.censored) == (expected, False)
    assert audience_of(SimpleNamespace(no_log=True), cliargs).censored


def test_setting_of_the_callback_is_asked_where_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def setting(name: str, plugin_type: str, plugin_name: str) -> bool:
        assert (name, plugin_type) == ("display_ok_hosts", "callback")
        if plugin_name != "debug":
            raise AnsibleUndefinedConfigEntry("no such plugin")
        return False

    monkeypatch.setattr(constants, "config", SimpleNamespace(get_config_value=setting))
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", "ansible.posix.debug")
    assert not audience_of(SimpleNamespace(no_log=False), {}).shows_ok
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", "ansible.builtin.minimal")
    assert audience_of(SimpleNamespace(no_log=False), {}).shows_ok


def test_lines_are_written_at_once_by_the_main_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    block = io.BytesIO()
    output = io.TextIOWrapper(block, encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    write_lines_at_once()
    output.write("a line\n")
    assert block.getvalue() == b""
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    write_lines_at_once()
    output.write("another\n")
    assert block.getvalue() == b"a line\nanother\n"


def test_output_that_cannot_be_told_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    write_lines_at_once()
    assert text.getvalue() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_line_is_shown_whole_before_an_interruption(number: signal.Signals) -> None:
    told: list[str] = []

    def show(text: str) -> None:
        told.append(text)
        # A worker has one thread, which gets what its process is sent; a process of tests may have others.
        signal.pthread_kill(threading.get_ident(), number)
        told.append("whole")

    before = signal.signal(number, lambda _number, _frame: told.append("interrupted"))
    try:
        uninterrupted(show)("pinning")
    finally:
        signal.signal(number, before)
    assert told == ["pinning", "whole", "interrupted"]


def test_a_line_that_fails_leaves_the_signals_as_they_were() -> None:
    def show(_text: str) -> None:
        raise BrokenPipeError

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(BrokenPipeError):
        uninterrupted(show)("pinning")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
