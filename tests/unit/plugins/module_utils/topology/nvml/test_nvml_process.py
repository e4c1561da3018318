# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Asking NVML in a process of its own: hangs, crashes and nonsense end at the deadline or before."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml import process as nvml_process
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import IMPORT, LOAD
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import nvml_process as process


def read_for_ever(*_arguments: Any) -> None:
    reader, _writer = os.pipe()
    os.read(reader, 1)


def crash(*_arguments: Any) -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


def talk(*_arguments: Any) -> None:
    """A library that writes to what it takes for its output."""
    os.write(1, b"noise")
    os.write(2, b"noise")


def garble(*_arguments: Any) -> None:
    """A library that writes where it has no business."""
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        # How high the pipes lie depends on what the parent has open.
        if number > 2:
            with contextlib.suppress(OSError):
                os.write(number, b"]\n")


@pytest.fixture(name="binding", autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the child imports instead of nvidia-ml-py."""
    double = SimpleNamespace(
        nvmlAdd=lambda one, two: one + two,
        nvmlHang=read_for_ever,
        nvmlCrash=crash,
        nvmlExit=lambda: os._exit(3),
        nvmlTalk=talk,
        nvmlPid=os.getpid,
        nvmlOpened=lambda: sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir()),
        nvmlMany=lambda: bytearray(3 << 30),
        nvmlGarble=garble,
        nvmlEndless=lambda: iter(int, 1),
        nvmlSession=os.getsid,
    )
    monkeypatch.setitem(sys.modules, "pynvml", double)


@pytest.fixture(name="unkillable")
def _unkillable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Processes that hang in the kernel do not end when they are killed."""
    killed: list[int] = []
    real = os.kill
    monkeypatch.setattr(nvml_process, "_END_SECONDS", 0.05)
    monkeypatch.setattr(os, "kill", lambda pid, _signal: killed.append(pid))
    yield killed
    for pid in killed:
        real(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_calls_are_answered_one_by_one() -> None:
    with process(30) as call:
        assert call(IMPORT, []) == {"value": True}
        assert [call("nvmlAdd", [number, 1]) for number in range(3)] == [{"value": number + 1} for number in range(3)]
        assert call("nvmlNone", [])["error"] == "function_not_found"


def test_the_child_is_gone_afterwards() -> None:
    with process(30) as call:
        call(IMPORT, [])
        pid = call("nvmlPid", [])["value"]
    assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_child_is_gone_after_an_exception_as_well() -> None:
    with pytest.raises(SystemExit), process(30) as call:
        call(IMPORT, [])
        pid = call("nvmlPid", [])["value"]
        raise SystemExit
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_child_holds_nothing_of_its_parent(capfd: pytest.CaptureFixture[str]) -> None:
    """Who waits for the end of the module's output must not wait for a child that hangs in the kernel."""
    with process(30) as call:
        call(IMPORT, [])
        # Its standard files, two pipes and the folder that is being listed.
        assert len(call("nvmlOpened", [])["value"]) == 6
        assert call("nvmlSession", [0])["value"] == call("nvmlPid", [])["value"]
        assert call("nvmlTalk", []) == {"value": None}
    assert capfd.readouterr() == ("", "")


def test_a_parent_without_standard_files() -> None:
    kept = os.dup(0)
    os.close(0)
    try:
        with process(30) as call:
            assert call(IMPORT, []) == {"value": True}
            assert call("nvmlAdd", [1, 2]) == {"value": 3}
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def test_a_hang_ends_at_the_deadline_and_only_once() -> None:
    started = time.monotonic()
    with process(1) as call:
        call(IMPORT, [])
        assert call("nvmlAdd", [1, 2]) == {"value": 3}
        assert call("nvmlHang", []) == {"error": "no_answer", "text": "NVML gave no answer within 1 seconds"}
        assert call("nvmlAdd", [1, 2]) == {"error": "gone"}
    assert time.monotonic() - started < 5


def test_the_deadline_is_for_all_calls_together() -> None:
    with process(1) as call:
        call(IMPORT, [])
        reply = call("nvmlAdd", [1, 2])
        while "error" not in reply:
            reply = call("nvmlAdd", [1, 2])
    assert reply["error"] == "no_answer"


def test_a_child_that_hangs_in_the_kernel_is_not_waited_for(unkillable: list[int]) -> None:
    started = time.monotonic()
    with process(1) as call:
        call(IMPORT, [])
        assert call("nvmlHang", [])["error"] == "no_answer"
    assert len(unkillable) == 1
    assert time.monotonic() - started < 5


def test_a_crash_is_told_with_its_signal() -> None:
    with process(30) as call:
        call(IMPORT, [])
        assert call("nvmlCrash", []) == {
            "error": "crashed",
            "text": "The process that asked NVML was ended by SIGSEGV",
        }
        assert call("nvmlAdd", [1, 2]) == {"error": "gone"}


def test_a_library_that_ends_the_process() -> None:
    with process(30) as call:
        call(IMPORT, [])
        assert call("nvmlExit", [])["text"] == "The process that asked NVML ended with status 3"


def test_an_answer_that_is_none_ends_the_asking() -> None:
    with process(30) as call:
        call(IMPORT, [])
        call("nvmlGarble", [])
        assert call("nvmlAdd", [1, 2])["error"] in ("crashed", "gone")
        assert call("nvmlAdd", [1, 2]) == {"error": "gone"}


def test_a_child_that_died_between_two_calls() -> None:
    with process(30) as call:
        call(IMPORT, [])
        os.kill(call("nvmlPid", [])["value"], signal.SIGKILL)
        assert call("nvmlAdd", [1, 2])["error"] == "crashed"


def test_more_memory_than_any_answer_needs_is_refused() -> None:
    with process(30) as call:
        call(IMPORT, [])
        assert call("nvmlMany", [])["error"] == "MemoryError"
        assert call("nvmlAdd", [1, 2]) == {"value": 3}


def test_what_json_cannot_hold_is_null() -> None:
    with process(30) as call:
        call(IMPORT, [])
        assert call("nvmlEndless", []) == {"value": None}


def test_a_library_that_is_not_there() -> None:
    with process(30) as call:
        reply = call(LOAD, ["/nowhere/libnvidia-ml.so.1"])
    assert reply["error"] == "library_not_found"
    assert "/nowhere/libnvidia-ml.so.1" in reply["text"]


def test_a_binding_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with process(30) as call:
        assert call(IMPORT, [])["error"] == "binding_missing"


def test_a_process_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    with process(30) as call:
        reply = call(LOAD, [None])
    assert reply["error"] == "crashed"
    assert "Resource temporarily unavailable" in reply["text"]
