# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""nvidia-ml-py made plain, with doubles that have the faults of its releases, and against the real one."""

import ctypes
import json
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.binding import (
    ERRORS,
    MAX_ITEMS,
    MAX_TEXT,
    STRUCTURES,
    answer,
    error_name,
    plain,
    plain_text,
)


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class NVMLLibraryMismatchError(Exception):
    """As in releases from 12.550 on, which do not derive it from NVMLError."""


class Pair(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 8), ("count", ctypes.c_uint)]


def ask(function: Any, *arguments: Any) -> dict[str, Any]:
    return answer(SimpleNamespace(nvmlAsked=function), [], "nvmlAsked", arguments)


def raising(error: BaseException) -> Any:
    def call(*_arguments: Any) -> None:
        raise error

    return call


def test_every_error_of_nvml_has_its_name() -> None:
    prefix = "NVML_ERROR_"
    named = {getattr(pynvml, name): name[len(prefix) :].lower() for name in dir(pynvml) if name.startswith(prefix)}
    assert named == ERRORS


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (NVMLError(15), "gpu_is_lost"),
        (NVMLError(1234), "error_1234"),
        (AttributeError("nvmlDeviceGetNumaNodeId"), "function_not_found"),
        (NVMLLibraryMismatchError("Unversioned function called"), "function_not_found"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_errors_have_names(error: Exception, name: str) -> None:
    assert error_name(error) == name
    reply = ask(raising(error))
    assert reply["error"] == name
    assert reply["text"]


def test_an_error_whose_words_fail_as_well() -> None:
    class Wordless(Exception):
        value = 4

        def __str__(self) -> str:
            raise OSError("no library")

    assert ask(raising(Wordless())) == {"error": "no_permission", "text": "no_permission"}


def test_what_a_release_lacks_is_a_missing_function() -> None:
    reply = answer(SimpleNamespace(), [], "nvmlDeviceGetNumaNodeId", [])
    assert reply == {"error": "function_not_found", "text": "this release of nvidia-ml-py lacks it"}


def test_a_parameter_that_a_release_does_not_know() -> None:
    assert ask(lambda handle: handle, "handle", 2)["error"] == "TypeError"


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (None, None),
        (True, True),
        (7, 7),
        ("Tesla T4", "Tesla T4"),
        (b"Tesla T4", "Tesla T4"),
        (b"Tesla\0T4", "Tesla"),
        (b"Tesla \xff\xfe", "Tesla \ufffd\ufffd"),
        ("a\x1b[31m\tb\n", "a [31m b"),
        ("x" * 10_000, "x" * MAX_TEXT),
        (float("nan"), None),
        (float("inf"), None),
        (0.5, 0.5),
        ([1, 2], [1, 2]),
        ((1, 2), [1, 2]),
        (range(10**9), None),
        ([0] * 10_000, [0] * MAX_ITEMS),
        (ctypes.c_uint(5), 5),
        ((ctypes.c_ulonglong * 2)(1, 2**63), [1, 2**63]),
        (Pair(b"abc", 3), {"name": "abc", "count": 3}),
        (SimpleNamespace(pid=7, usedGpuMemory=None), {"pid": 7, "usedGpuMemory": None}),
        ([[[[[[1]]]]]], [[[[[None]]]]]),
        (object(), None),
    ],
)
def test_answers_become_plain(value: Any, known: Any) -> None:
    found = plain(value, [])
    assert found == known
    json.dumps(found, allow_nan=False)


def test_a_list_that_holds_itself_comes_to_an_end() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert json.dumps(plain(endless, []))


def test_a_handle_goes_out_and_comes_back() -> None:
    pair = Pair(b"one", 1)
    binding = SimpleNamespace(
        nvmlDeviceGetHandleByIndex=lambda _index: ctypes.pointer(pair),
        nvmlDeviceGetName=lambda handle: handle.contents.name,
    )
    handles: list[Any] = []
    reply = answer(binding, handles, "nvmlDeviceGetHandleByIndex", [0])
    assert reply == {"value": {"handle": 0}}
    assert answer(binding, handles, "nvmlDeviceGetName", [reply["value"]]) == {"value": "one"}
    assert answer(binding, handles, "nvmlDeviceGetName", [{"handle": 9}])["error"] == "IndexError"


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_structures_have_the_size_that_their_version_says(name: str) -> None:
    kind, version = STRUCTURES[name]
    assert version is None or version & 0xFFFFFF == ctypes.sizeof(kind)


def test_structures_are_those_of_nvidia_ml_py() -> None:
    """Its names and offsets, and its version words; its state is four bytes where NVML has one."""
    theirs = {"fabric_v3": pynvml.c_nvmlGpuFabricInfo_v3_t, "fabric_v2": pynvml.c_nvmlGpuFabricInfo_v2_t}
    for name, kind in theirs.items():
        ours, version = STRUCTURES[name]
        assert [(field[0], getattr(ours, field[0]).offset) for field in ours._fields_] == [
            (field[0], getattr(kind, field[0]).offset) for field in kind._fields_
        ]
        assert kind().version == version


def test_a_structure_is_filled_and_is_the_answer() -> None:
    def fill(_handle: Any, reference: Any) -> int:
        info = reference._obj
        assert info.version == 0x03000028
        info.state, info.cliqueId, info.clusterUuid[0] = 3, 7, 0xAA
        return 0

    reply = answer(SimpleNamespace(nvmlFill=fill), [], "nvmlFill", ["handle", {"structure": "fabric_v3"}])
    assert (reply["value"]["state"], reply["value"]["cliqueId"], reply["value"]["clusterUuid"][:2]) == (3, 7, [0xAA, 0])


def test_a_release_with_wrong_entries_for_processes_is_not_asked_for_them() -> None:
    """12.535.77 has 32 bytes where drivers fill in 24: every entry but the first would be nonsense."""

    class Entry(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ("pid", "used", "instances", "protected")]

    def listed(_handle: Any) -> list[Any]:
        return [SimpleNamespace(pid=1, usedGpuMemory=2), SimpleNamespace(pid=0xFFFFFFFF, usedGpuMemory=3)]

    binding = SimpleNamespace(c_nvmlProcessInfo_v3_t=Entry, nvmlDeviceGetComputeRunningProcesses=listed)
    reply = answer(binding, [], "nvmlDeviceGetComputeRunningProcesses", ["handle"])
    assert reply["error"] == "function_not_found"
    assert "wrong idea" in reply["text"]


def test_plain_text_of_nothing() -> None:
    assert (plain_text(""), plain_text(b"\0\0")) == ("", "")
