# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue against what was recorded in the field: clean starts have no hit, faults get the right code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CAUSES,
    FATAL,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.xids import is_hardware
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.stalls import suspects
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import HostReading
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    MIB,
    PLAN,
    after,
    both,
    pinning,
    seen,
)

pytestmark = needs_recorded_data

OLDEST_READ = "0.4.7"
CLEAN_LOGS = ("tp2-pinned.log", "tp2.log", "host-hit.log", "inflight.log", "sigterm_idle.log")
READY = "ready to roll"


def release_of(start: dict[str, Any]) -> str:
    """The release of a recorded start; some say more than a number, and some nothing."""
    found = re.search(r"\d+\.\d+\.\d+", str(start["sglang_version"]))
    return found.group() if found else OLDEST_READ


def hits(lines: list[str], version: str) -> Iterator[tuple[str, str]]:
    for line in lines:
        event = parse_line(line, version)
        if event is not None and (event.kind in ("failure", "exception") or event.label in FATAL):
            yield str(event.label), line


def starts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / "sglang" / "startup-logs.json").read_text(encoding="utf-8"))
    return found


def test_no_hit_in_any_recorded_start_that_went_well() -> None:
    clean = [one for one in starts() if one["outcome"] == "ok"]
    found = {one["id"]: list(hits(one["raw"], release_of(one))) for one in clean}
    lines = sum(len(one["raw"]) for one in clean)
    print(f"\n{len(clean)} clean starts, {lines} lines, {sum(map(len, found.values()))} hits")
    assert len(clean) > 10
    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.parametrize("name", CLEAN_LOGS)
def test_no_hit_in_the_whole_log_of_a_server_that_got_ready(name: str) -> None:
    lines = (DATA / "sglang" / "real-logs" / name).read_text(encoding="utf-8", errors="replace").splitlines()
    ready = next(number for number, line in enumerate(lines) if READY in line)
    assert list(hits(lines[: ready + 1], "0.5.23")) == []


# What the cases of the field say, as the line that a server, a library or the kernel prints, and its code.
SYMPTOMS: dict[str, tuple[str, str]] = {
    "H02": (
        "ValueError: Not enough host memory available. Requesting 40.00 GB but only have 44.87 GB free. Please reduce "
        "the size of the hierarchical cache.",
        "host_memory_guard",
    ),
    "H05": (
        "ValueError: Not enough host memory available. Requesting 7.05 GB but only have 2.04 GB free. Please reduce "
        "the size of the hierarchical cache.",
        "host_memory_guard",
    ),
    "H10": (
        "RuntimeError: cudaHostRegister failed (rc=1, invalid argument) at offset=0 size=68719476736 "
        "(total=68719476736, chunk_limit=274877906944); host buffer is not pinned",
        "registration_failed",
    ),
    "H30": ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "watchdog_timeout"),
    "M02": (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "mem_fraction_static=0.7",
        "kv_pool_too_small",
    ),
    "M11": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.15 "
        "GiB of which 0.50 GiB is free.",
        "gpu_out_of_memory",
    ),
    "D02": (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
        "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
        "driver_not_ready",
    ),
    "D16": (
        "Error while creating shared memory segment /dev/shm/nccl-a1 (size 9637888), error: No space left on device "
        "(28)",
        "shared_memory_full",
    ),
    "D18": ("RuntimeError: The NVIDIA driver on your system is too old (found version 12080).", "driver_too_old"),
    "D20": (
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        "no_kernel_image",
    ),
    "D21": (
        "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist",
        "missing_compiler",
    ),
    "D04": (
        "torch.distributed.DistBackendError: NCCL error in: /x/NCCLUtils.cpp:94, unhandled cuda error (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.27.5",
        "nccl_error",
    ),
    "H16": ("set_mempolicy: Operation not permitted", "numactl_denied"),
    "H26": ("OSError: [Errno 28] No space left on device: '/var/lib/sglang/hicache/x'", "disk_full"),
    "S08": (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "port_in_use",
    ),
    "S09": (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8998): address already in use",
        "port_in_use",
    ),
    "S14": (
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully "
        "covered",
        "weights_damaged",
    ),
    "S20": (
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the "
        "cached files.",
        "hub_unreachable",
    ),
    "S21": ("Watchdog timeout (self.watchdog_timeout=300)", "watchdog_timeout"),
    "H03": ("sglang-main.service: A process of this unit has been killed by the OOM killer.", "oom_killer"),
}
# Diagnosed by what was measured.
MEASURED = frozenset(("H34", "D22"))
# Of a server that is ready; the canary of serving_check tells it.
AFTER_READY = frozenset(("H12",))


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / "cases" / "field-cases.json").read_text(encoding="utf-8"))
    return found


def version_of(name: str) -> str:
    # The forms of watchdog and guard that the case's release printed.
    return "0.5.6" if name == "S21" else "0.5.23"


@pytest.mark.parametrize("name", SYMPTOMS)
def test_symptom_of_a_case_gets_its_code(name: str) -> None:
    line, code = SYMPTOMS[name]
    assert name in {case["id"] for case in cases()}
    event = parse_line(line, version_of(name))
    assert event is not None
    assert (event.kind, event.label) == ("failure", code)


def test_every_case_of_diagnosis_is_covered() -> None:
    wanted = {case["id"] for case in cases() if "diagnosis" in case["kind"]}
    covered = wanted & (SYMPTOMS.keys() | MEASURED)
    print(
        f"\n{len(covered)} of {len(wanted)} cases of diagnosis, {len(SYMPTOMS)} symptoms of {len(cases())} cases in all"
    )
    assert wanted - covered == AFTER_READY


def test_cases_that_no_line_tells_are_found_by_what_was_measured() -> None:
    # H34: pinning more than there is, without an error for ever.
    look = seen(400.0, ranks=both(MIB, MIB), host=HostReading(memory_available_bytes=100_000_000))
    state = after(pinning(3.0), look)
    assert state.verdict == "stalled"
    assert suspects(state, PLAN)[0].code == "host_memory_short"
    # D22: not every Xid is the hardware's.
    assert is_hardware(64) and not is_hardware(45)


def test_what_is_fatal_by_its_line_names_a_cause_or_follows_from_one() -> None:
    assert {"host_memory_guard", "kv_pool_too_small"} <= FATAL & CAUSES
    assert not {"gpu_out_of_memory", "port_in_use", "nccl_warning"} & FATAL
