# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every entry of the catalogue: its example is found, as itself, by the releases that print it and by no other."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
    CAUSES,
    FAILURES,
    FATAL,
    standing_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    STANDINGS,
    Failure,
    Pattern,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.xids import (
    is_hardware,
    xid_meaning,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line

PATTERNS = [(failure, pattern) for failure in FAILURES for pattern in failure.patterns]
NAMES = [f"{failure.code} {number}" for number, (failure, _pattern) in enumerate(PATTERNS)]
PREFIX = "[2026-11-29 14:20:12 TP1] "


def holding(pattern: Pattern) -> list[str]:
    since, until = parse_version(pattern.since), parse_version(pattern.until) if pattern.until else None
    return [str(one) for one in sorted(EXAMINED) if since <= one and (until is None or one < until)]


@pytest.mark.parametrize(("failure", "pattern"), PATTERNS, ids=NAMES)
def test_example_is_found_as_itself(failure: Failure, pattern: Pattern) -> None:
    releases = holding(pattern)
    assert releases
    for release in (releases[0], releases[-1]):
        for line in (pattern.example, PREFIX + pattern.example):
            event = parse_line(line, release)
            assert event is not None, line
            assert (event.kind, event.label) == ("failure", failure.code)


@pytest.mark.parametrize(("failure", "pattern"), PATTERNS, ids=NAMES)
def test_example_is_found_at_the_end_of_a_traceback_in_one_record(failure: Failure, pattern: Pattern) -> None:
    record = (
        f"{PREFIX}Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/sglang/scheduler.py", line 1, in run_scheduler_process\n'
        f"{pattern.example}\n"
    )
    event = parse_line(record, holding(pattern)[-1])
    assert event is not None
    assert (event.label, event.rank) == (failure.code, "TP1")


@pytest.mark.parametrize(("failure", "pattern"), PATTERNS, ids=NAMES)
def test_entry_says_where_it_is_written(failure: Failure, pattern: Pattern) -> None:
    assert len(pattern.source) > 10
    assert failure.cause.endswith(".") and failure.remedy.endswith(".")


@pytest.mark.parametrize(
    ("failure", "pattern"), [(f, p) for f, p in PATTERNS if p.until is not None or p.since != "0.4.0"]
)
def test_form_of_other_releases_is_not_looked_for(failure: Failure, pattern: Pattern) -> None:
    outside = [str(one) for one in EXAMINED if str(one) not in holding(pattern)]
    if not outside:
        return
    others = [one for one in failure.patterns if one is not pattern]
    for release in outside:
        found = parse_line(pattern.example, release)
        covered = any(release in holding(one) and re.search(one.regex, pattern.example) for one in others)
        assert covered or found is None or found.label != failure.code


def test_codes_stand_once() -> None:
    codes = [failure.code for failure in FAILURES]
    assert len(codes) == len(set(codes))
    assert {failure.standing for failure in CATALOGUE.values()} <= set(STANDINGS)


def test_what_ends_a_start_at_once_is_no_hint() -> None:
    # Whatever the server may survive must not end the watch by its line alone.
    assert all(CATALOGUE[code].standing != "hint" for code in FATAL)
    for code in (
        "gpu_out_of_memory",
        "port_in_use",
        "missing_module",
        "permission_denied",
        "nccl_warning",
        "gpu_error",
    ):
        assert code not in FATAL
    assert {"host_memory_guard", "kv_pool_too_small", "scheduler_died", "sigquit"} <= FATAL
    assert "host_memory_guard" in CAUSES and "scheduler_died" not in CAUSES


def test_line_that_says_more_speaks_for_a_record() -> None:
    record = (
        "torch.distributed.DistBackendError: NCCL error in: /x/NCCLUtils.cpp:94, unhandled system error, NCCL\n"
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
        "Last error:\n"
        "Error while creating shared memory segment /dev/shm/nccl-cjY8K5 (size 10617216), error: No space left on "
        "device (28)\n"
    )
    event = parse_line(record, "0.5.23")
    assert event is not None and event.label == "shared_memory_full"
    assert event.value("needed_bytes") == 10_617_216
    assert standing_of("shared_memory_full") < standing_of("nccl_error") < standing_of("nccl_warning")
    assert standing_of("no such code") == len(STANDINGS)


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError was caught; retrying with a smaller batch",
        "WARNING: CUDA out of memory, falling back to a chunked copy",
        "Not enough host memory for request 4711",
        "Ignore import error when loading sglang.srt.models.x: No module named 'x'",
        "Fail to import ModuleNotFoundError: No module named 'deep_ep', skip",
        "port 30000 is in use. Waiting for 15 seconds for port_base to be available.",
        "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=61.2, "
        "local_gpu_memory=78.9, local_gpu_memory * 0.9=71.0",
        "[W1130 04:12:31.104 socket.cpp:200] [c10d] The client socket has failed to connect to [localhost]:29500 "
        "(errno: 97 - Address family not supported by protocol).",
        "Warning: User-specified context_length (262144) is greater than the derived context_length (131072).",
        "Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
        "node1:1:1 [0] NCCL WARN Call to bind failed: Address already in use",
    ],
)
def test_warnings_of_servers_that_come_up_do_not_end_a_start(line: str) -> None:
    for text in (line, PREFIX + line):
        event = parse_line(text, "0.5.23")
        assert event is None or (event.label not in FATAL and event.label not in CAUSES)


def test_xid_of_a_program_is_not_the_hardware_s() -> None:
    assert [is_hardware(number) for number in (13, 45, 79, 64, None, 9999)] == [False, False, True, True, False, False]
    meaning = xid_meaning(79)
    assert meaning is not None and "off the bus" in meaning.words
