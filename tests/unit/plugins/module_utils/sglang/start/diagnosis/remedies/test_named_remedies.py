# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    BOOT,
    FAILED,
    LOAD,
    MIB,
    PLAN,
    after,
    both,
    died,
    pinning,
    raw_events,
    seen,
    start,
)

IN_USE = "ERROR: [Errno 98] error while attempting to bind on address ('0.0.0.0', {port}): address already in use"


def of(line: str, plan: dict[str, Any] | None = None) -> Diagnosis:
    return diagnose(died(line, unit=FAILED), PLAN if plan is None else plan)


def test_port_and_its_owner_as_the_line_names_them() -> None:
    line = (
        "ValueError: port_base at 30233 is not available in 30 seconds. port_base is used by a process already. "
        "process.name()='python3'' process.cmdline()=['python3', '-m', 'http.server'] pid=4711"
    )
    found = of(line)
    assert (found.code, found.rank) == ("port_in_use", None)
    assert (found.values["port"], found.values["pid"], found.values["command"]) == (30233, 4711, "python3")
    assert found.remedy.startswith("End process 4711, or choose another server.port: the ports beside it follow")


def test_owner_of_the_port_as_the_node_found_it() -> None:
    said = raw_events([IN_USE.format(port=30000)], 10.0)[0]
    owned = {**dict(said.values), "owner_pid": 12, "owner_command": "nginx", "owner_unit": "nginx.service"}
    event = LogEvent("failure", said.text, said.stage, label=said.label, values=tuple(owned.items()), timestamp=10.0)
    found = diagnose(after(pinning(), seen(10.0, events=[event], unit=FAILED)), PLAN)
    assert found.message == "Port 30000 is taken by process 12 (nginx) of nginx.service."
    assert found.remedy == "Stop nginx.service, or choose another port."


def test_port_whose_owner_is_not_known() -> None:
    found = of(IN_USE.format(port=30000))
    assert found.message == "Port 30000 is taken by another process."
    assert "ss -ltnp" in found.remedy


def test_port_that_no_line_names_is_the_plan_s() -> None:
    assert of("OSError: [Errno 98] Address already in use").values["port"] == 30000


@pytest.mark.parametrize(("number", "cuda"), [(12080, "12.8"), (13000, "13.0"), (11040, "11.4")])
def test_driver_s_cuda(number: int, cuda: str) -> None:
    found = of(f"RuntimeError: The NVIDIA driver on your system is too old (found version {number}). Please update")
    assert (found.code, found.values["driver_cuda"]) == ("driver_too_old", cuda)
    assert f"built for CUDA {cuda}" in found.remedy


def test_context_length_of_the_model() -> None:
    line = (
        "ValueError: Warning: User-specified context_length (262144) is greater than the derived context_length "
        "(131072)."
    )
    found = of(line)
    assert (found.code, found.values["context_length"]) == ("context_too_long", 131072)
    assert found.remedy == "Set context_length to 131072 or less."


def test_shared_memory_for_all_ranks() -> None:
    line = (
        "Error while creating shared memory segment /dev/shm/nccl-cjY8K5 (size 10617216), error: No space left on "
        "device (28)"
    )
    found = of(line)
    assert (found.values["needed_bytes"], found.values["shm_bytes"]) == (10_617_216, 2 * GIB)
    assert "Give /dev/shm 2.00 GiB" in found.remedy


@pytest.mark.parametrize(
    ("line", "library", "words"),
    [
        (
            "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
            "libnuma.so.1",
            "apt-file",
        ),
        ("ImportError: /x/common_ops.abi3.so: undefined symbol: _ZN3c10", "common_ops.abi3.so", "symbol _ZN3c10"),
        ("ImportError: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /x.so)", None, "GLIBC_2.38"),
    ],
)
def test_library_or_symbol(line: str, library: str | None, words: str) -> None:
    found = of(line)
    assert (found.code, found.values.get("library")) == ("missing_library", library)
    assert words in found.remedy


def test_file_system_that_is_full() -> None:
    found = of("OSError: [Errno 28] No space left on device: '/var/cache/sglang/x'")
    assert (found.code, found.values) == ("disk_full", {"path": "/var/cache/sglang/x"})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("set_mempolicy: Operation not permitted", "SystemCallFilter"),
        ("set_mempolicy: Invalid argument", "AllowedMemoryNodes"),
        ("libnuma: Warning: node argument 3 is out of range", "AllowedMemoryNodes"),
        ("mbind: Function not implemented", "set SGLANG_AUTO_NUMA_BIND to false"),
    ],
)
def test_binding_that_numactl_could_not_do(line: str, words: str) -> None:
    found = of(line)
    assert found.code == "numactl_denied"
    assert words in found.remedy


def test_ranks_that_did_not_answer_are_those_in_the_earliest_stage() -> None:
    line = (
        "[rank0]:[E1130 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds "
        "before timing out."
    )
    state = after(start(), seen(1.0, BOOT, ranks=both(MIB, MIB)), seen(2.0, LOAD[2:]))
    found = diagnose(after(state, seen(3.0, events=raw_events([line], 3.0, pid=200), unit=FAILED)), PLAN)
    assert (found.code, found.rank, found.values["operation"]) == ("ranks_timed_out", "TP0", "ALLREDUCE")
    assert found.remedy.startswith("TP1 did not get beyond boot")


def xid(number: int) -> LogEvent:
    values = (("pci_address", "0000:3b:00"), ("xid", number))
    return LogEvent("failure", f"NVRM: Xid (PCI:0000:3b:00): {number}", label="gpu_error", values=values, timestamp=9.0)


def test_xid_of_the_hardware_is_the_cause_and_one_of_a_program_is_not() -> None:
    line = "torch.AcceleratorError: CUDA error: unspecified launch failure"
    for number, code in ((79, "gpu_error"), (45, "gpu_fault")):
        said = [xid(number), *raw_events([line], 10.0, pid=201)]
        assert diagnose(after(pinning(), seen(10.0, events=said, unit=FAILED)), PLAN).code == code
    found = diagnose(after(pinning(), seen(10.0, events=[xid(79)], unit=FAILED)), PLAN)
    assert "fallen off the bus" in found.message and found.values["hardware"] is True
    unknown = diagnose(after(pinning(), seen(10.0, events=[xid(999)], unit=FAILED)), PLAN)
    assert unknown.code == "server_exited"
