# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The reader against doubles of nvidia-ml-py: what releases of it do differently, and what no driver should say."""

import ctypes
import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    EccErrors,
    Fabric,
    GpuProcess,
    MigDevice,
    Mode,
    NvLinks,
    RemappedRows,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.asking import read_nvml
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import in_process
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import (
    LinkEnds,
    NvmlGpu,
    NvmlReading,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.use import process_name

NOT_SUPPORTED, NOT_FOUND, LOST = 3, 6, 15


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


def fails(code: int) -> Any:
    def call(*_arguments: Any) -> Any:
        raise NVMLError(code)

    return call


def says(value: Any) -> Any:
    return lambda *_arguments: value


def read(root: Path = Path("/nowhere"), **functions: Any) -> NvmlReading:
    """A machine with one GPU that answers what is given and lacks everything else."""
    always = {"nvmlInit": says(None), "nvmlDeviceGetCount": says(1), "nvmlDeviceGetNvLinkState": fails(NOT_SUPPORTED)}
    always["nvmlDeviceGetHandleByIndex"] = lambda index: f"handle {index}"
    reading = read_nvml(in_process(SimpleNamespace(**{**always, **functions})), root)
    json.dumps(asdict(reading), allow_nan=False)
    return reading


def gpu(root: Path = Path("/nowhere"), **functions: Any) -> NvmlGpu:
    (found,) = read(root, **functions).gpus
    return found


def failed(reading: NvmlReading, name: str) -> list[str]:
    return [failure.error for failure in reading.failures if failure.function == f"nvmlDeviceGet{name}"]


# Releases of nvidia-ml-py ---------------------------------------------------------------------------------------------


def test_a_binding_that_lacks_nearly_everything_still_counts_its_gpus() -> None:
    reading = read()
    assert (len(reading.gpus), reading.counted, reading.driver.source) == (1, True, "nvml")
    assert {failure.error for failure in reading.failures} == {"function_not_found"}
    # Too old to be asked for the memory is no fault of the board.
    assert reading.gpus[0].gpu.state == "ok"


def test_old_bindings_give_bytes() -> None:
    reading = read(
        nvmlSystemGetDriverVersion=says(b"470.256.02"),
        nvmlDeviceGetName=says(b"Tesla T4"),
        nvmlDeviceGetUUID=says(b"GPU-1"),
        nvmlDeviceGetPciInfo=says(SimpleNamespace(busId=b"00000000:3B:00.0", pciDeviceId=0x1EB810DE)),
    )
    found = reading.gpus[0].gpu
    assert (reading.driver.version, found.name, found.uuid) == ("470.256.02", "Tesla T4", "GPU-1")
    assert (found.pci_address, found.pci_device_id) == ("0000:3b:00.0", "10de:1eb8")


def test_memory_falls_back_to_the_first_version() -> None:
    """Release 11.450 knows no parameter for the version."""

    def memory(_handle: Any) -> Any:
        return SimpleNamespace(total=100, used=10, free=90)

    found = gpu(nvmlDeviceGetMemoryInfo=memory).gpu
    assert (found.memory_total_bytes, found.memory_used_bytes, found.memory_free_bytes) == (100, 10, 90)
    assert found.memory_reserved_bytes is None


def test_a_driver_that_does_not_know_the_second_version_of_memory() -> None:
    def memory(_handle: Any, version: int | None = None) -> Any:
        if version is not None:
            raise NVMLError(25)
        return SimpleNamespace(total=100, used=10, free=90)

    assert gpu(nvmlDeviceGetMemoryInfo=memory).gpu.memory_total_bytes == 100


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"used": 10, "free": 200}, (100, None, 10, None)),
        ({"used": 101, "free": 90}, (100, None, None, 90)),
        ({"used": 10, "free": 90, "reserved": 5}, (100, 5, 10, 90)),
    ],
)
def test_a_part_of_memory_that_is_more_than_the_whole(parts: dict[str, int], told: tuple[int | None, ...]) -> None:
    reading = read(nvmlDeviceGetMemoryInfo=says(SimpleNamespace(total=100, **parts)))
    found = reading.gpus[0].gpu
    memory = (found.memory_total_bytes, found.memory_reserved_bytes, found.memory_used_bytes, found.memory_free_bytes)
    assert (memory, found.state) == (told, "ok")
    assert failed(reading, "MemoryInfo") == ([] if None not in told else ["implausible"])


def test_text_that_is_no_utf_8() -> None:
    def name(_handle: Any) -> str:
        return b"NVIDIA \xff".decode()

    reading = read(nvmlDeviceGetName=name)
    assert (reading.gpus[0].gpu.name, failed(reading, "Name")) == (None, ["implausible"])
    (failure,) = [failure for failure in reading.failures if failure.function == "nvmlDeviceGetName"]
    assert failure.text == "The answer is a text that cannot be decoded"


def test_processes_of_a_library_that_is_older_than_the_binding() -> None:
    class NVMLLibraryMismatchError(Exception):
        pass

    def newest(_handle: Any) -> Any:
        raise NVMLLibraryMismatchError("Unversioned function called")

    entry = SimpleNamespace(pid=7, usedGpuMemory=9)
    found = gpu(
        nvmlDeviceGetComputeRunningProcesses=newest,
        nvmlDeviceGetComputeRunningProcesses_v2=says([entry]),
    )
    assert found.gpu.processes == (GpuProcess(7, 9),)


def test_links_of_a_binding_that_cannot_tell_where_they_lead() -> None:
    """Release 11.450: an address that no GPU has is a switch's."""
    addresses = ["00000000:3B:00.0", "00000000:3C:00.0"]

    def state(_handle: Any, link: int) -> int:
        if link > 2:
            raise NVMLError(NOT_SUPPORTED)
        return 1

    reading = read(
        nvmlDeviceGetCount=says(2),
        nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(busId=addresses[int(handle[-1])], pciDeviceId=0),
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetNvLinkRemotePciInfo=lambda handle, link: SimpleNamespace(
            busId=addresses[1 - int(handle[-1])] if link else "00000000:86:00.0"
        ),
    )
    assert reading.gpus[0].link_ends == LinkEnds(("0000:3c:00.0",) * 2, 1)
    assert reading.gpus[1].link_ends == LinkEnds(("0000:3b:00.0",) * 2, 1)


def fabric(**fields: Any) -> Any:
    def fill(_handle: Any, reference: Any) -> int:
        for name, value in fields.items():
            setattr(reference._obj, name, value)
        return 0

    return fill


def test_the_fabric_by_each_form_of_the_question() -> None:
    fills = fabric(state=3, cliqueId=7)
    told = Fabric("completed", 0, 7, None)
    assert gpu(nvmlDeviceGetGpuFabricInfoV=fills).gpu.fabric == told
    assert gpu(nvmlDeviceGetGpuFabricInfo=fills).gpu.fabric == told

    def only_second(handle: Any, reference: Any) -> int:
        if reference._obj.version >> 24 != 2:
            raise NVMLError(25)
        return int(fills(handle, reference))

    assert gpu(nvmlDeviceGetGpuFabricInfoV=only_second).gpu.fabric == told


def test_fabric_states() -> None:
    def found(**fields: Any) -> Fabric | None:
        return gpu(nvmlDeviceGetGpuFabricInfoV=fabric(**fields)).gpu.fabric

    assert found(state=0) is None
    assert found(state=200) is None
    assert found(state=2, status=999) == Fabric("in_progress", 999, 0, None)
    healthy = found(state=3, healthSummary=1, clusterUuid=(ctypes.c_ubyte * 16)(*range(16)))
    assert healthy == Fabric("completed", 0, 0, "00010203-0405-0607-0809-0a0b0c0d0e0f", "healthy")


@pytest.mark.parametrize(("architecture", "failures"), [(9, ["function_not_found"]), (8, []), (7, [])])
def test_a_board_with_a_fabric_and_a_library_that_cannot_be_asked(architecture: int, failures: list[str]) -> None:
    reading = read(nvmlDeviceGetArchitecture=says(architecture))
    assert failed(reading, "GpuFabricInfoV") == failures


# What boards may lack -------------------------------------------------------------------------------------------------


def test_what_a_board_may_lack_is_no_failure() -> None:
    optional = (
        "MigMode",
        "EccMode",
        "PersistenceMode",
        "ComputeMode",
        "NumaNodeId",
        "ComputeRunningProcesses",
        "GraphicsRunningProcesses",
        "VirtualizationMode",
        "PerformanceState",
        "UtilizationRates",
        "RemappedRows",
        "RetiredPages",
        "RetiredPagesPendingStatus",
        "GpuFabricInfoV",
        "CpuAffinity",
        "GpuMaxPcieLinkGeneration",
    )
    reading = read(**{f"nvmlDeviceGet{name}": fails(NOT_SUPPORTED) for name in optional})
    assert not {f"nvmlDeviceGet{name}" for name in optional} & {failure.function for failure in reading.failures}


@pytest.mark.parametrize("code", [1, 4, 9, 12, 18, 999])
def test_a_driver_that_does_not_start_is_one_failure(code: int) -> None:
    reading = read(nvmlInit=fails(code), nvmlSystemGetNVMLVersion=says("13.595.58.03"))
    assert (reading.gpus, reading.driver.source, len(reading.failures)) == ((), "none", 1)
    # A mismatch is told with both versions, so the library's is asked all the same.
    assert reading.driver.nvml_version == "13.595.58.03"


def test_a_board_without_memory_of_its_own_is_whole() -> None:
    assert gpu(nvmlDeviceGetMemoryInfo=fails(NOT_SUPPORTED)).gpu.state == "ok"


@pytest.mark.parametrize(
    ("functions", "state"),
    [
        ({}, "ok"),
        ({"nvmlDeviceGetHandleByIndex": fails(LOST)}, "lost"),
        ({"nvmlDeviceGetMinorNumber": fails(LOST)}, "lost"),
        ({"nvmlDeviceGetMinorNumber": fails(16)}, "reset_required"),
        ({"nvmlDeviceGetHandleByIndex": fails(4)}, "unreadable"),
        ({"nvmlDeviceGetMemoryInfo": fails(999)}, "unreadable"),
        ({"nvmlDeviceGetMinorNumber": fails(999)}, "ok"),
    ],
)
def test_the_state_of_a_board(functions: dict[str, Any], state: str) -> None:
    memory = {"nvmlDeviceGetMemoryInfo": says(SimpleNamespace(total=100, used=10, free=90))}
    assert gpu(**{**memory, **functions}).gpu.state == state


# Health and use -------------------------------------------------------------------------------------------------------


def test_errors_are_counted_where_ecc_is_on() -> None:
    def count(_handle: Any, kind: int, since: int) -> int:
        return 10 * since + kind

    counted = gpu(nvmlDeviceGetEccMode=says([1, 1]), nvmlDeviceGetTotalEccErrors=count).gpu
    assert counted.ecc_errors == EccErrors(0, 1, 10, 11)
    assert gpu(nvmlDeviceGetEccMode=says([0, 1]), nvmlDeviceGetTotalEccErrors=count).gpu.ecc_errors is None
    uncounted = gpu(nvmlDeviceGetEccMode=says([1, 1]), nvmlDeviceGetTotalEccErrors=fails(NOT_SUPPORTED)).gpu
    assert (uncounted.ecc, uncounted.ecc_errors) == (Mode(True, True), None)


def test_remapped_rows_and_what_older_boards_have_instead() -> None:
    assert gpu(nvmlDeviceGetRemappedRows=says((3, 1, 0, 1))).gpu.remapped_rows == RemappedRows(3, 1, False, True)
    pages = {
        "nvmlDeviceGetRemappedRows": fails(NOT_SUPPORTED),
        "nvmlDeviceGetRetiredPages": lambda _handle, cause: [0] * (2 - cause),
        "nvmlDeviceGetRetiredPagesPendingStatus": says(1),
    }
    volta, ampere = ({**pages, "nvmlDeviceGetArchitecture": says(number)} for number in (5, 7))
    assert gpu(**volta).gpu.remapped_rows == RemappedRows(2, 1, True, False, "page")
    assert gpu(**ampere).gpu.remapped_rows is None


def test_processes_of_both_kinds_are_one_list() -> None:
    def entry(pid: int, used: int | None) -> Any:
        return SimpleNamespace(pid=pid, usedGpuMemory=used)

    found = gpu(
        # One on two parts of a divided GPU, one that computes and draws, one whose memory is not told.
        nvmlDeviceGetComputeRunningProcesses=says([entry(7, 1), entry(7, 2), entry(8, 4), entry(9, None)]),
        nvmlDeviceGetGraphicsRunningProcesses=says([entry(8, 4), entry(10, 5)]),
    ).gpu.processes
    assert found == (
        GpuProcess(7, 3),
        GpuProcess(8, 4),
        GpuProcess(9, None),
        GpuProcess(10, 5, kind="graphics"),
    )


def test_names_come_from_proc_and_else_from_the_driver(tmp_path: Path) -> None:
    for pid, cmdline in ((7, b"/opt/sglang/bin/python\0-m\0sglang.launch_server\0--api-key\0secret\0"), (8, b"")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/cmdline").write_bytes(cmdline)
        (tmp_path / f"proc/{pid}/comm").write_bytes(b"nv_queue\n")
    entries = [SimpleNamespace(pid=pid, usedGpuMemory=0) for pid in (7, 8, 9, 10)]

    def name(pid: int) -> str:
        if pid == 9:
            return "/usr/bin/Xorg"
        raise NVMLError(NOT_FOUND)

    reading = read(tmp_path, nvmlDeviceGetComputeRunningProcesses=says(entries), nvmlSystemGetProcessName=name)
    names = [process.name for process in reading.gpus[0].gpu.processes]
    assert names == ["python -m sglang.launch_server", "nv_queue", "Xorg", None]
    assert "nvmlSystemGetProcessName" not in {failure.function for failure in reading.failures}


@pytest.mark.parametrize(
    ("cmdline", "comm", "name"),
    [
        (None, None, None),
        (b"", b"kworker\n", "kworker"),
        (b"sglang::scheduler_TP0\0\0\0", b"sglang::schedul\n", "sglang::scheduler_TP0"),
        (b"/usr/lib/xorg/Xorg\0-core\0", b"Xorg\n", "Xorg"),
        (b"/usr/bin/python3.11\0/srv/serve.py\0--token=secret\0", None, "python3.11 /srv/serve.py"),
        (b"python3\0-c\0secret\0", None, "python3"),
        (b"python3\0-m\0", None, "python3"),
        (b"python3\0", None, "python3"),
        (b"/bin/server\0--key=secret\0", None, "server"),
        (b"/bin/server --key=secret\0", None, "server"),
        (b"nginx: worker process\0", None, "nginx: worker process"),
        (b"\xff\x1b[31m\n\0", None, "\ufffd [31m"),
        (b"x" * 5000, None, "x" * 64),
    ],
)
def test_the_name_of_a_process_tells_no_secrets(cmdline: bytes | None, comm: bytes | None, name: str | None) -> None:
    assert process_name(cmdline, comm) == name


def test_the_parts_of_a_divided_gpu() -> None:
    def part(_handle: Any, place: int) -> str:
        if place == 1:
            raise NVMLError(NOT_FOUND)
        return f"part {place}"

    found = gpu(
        nvmlDeviceGetMigMode=says([1, 1]),
        nvmlDeviceGetMaxMigDeviceCount=says(3),
        nvmlDeviceGetMigDeviceHandleByIndex=part,
        nvmlDeviceGetUUID=lambda handle: f"MIG-{handle}" if handle.startswith("part") else "GPU-1",
        nvmlDeviceGetName=lambda handle: handle,
        nvmlDeviceGetMemoryInfo=lambda _handle, _version: SimpleNamespace(total=9, reserved=0, used=0, free=9),
        nvmlDeviceGetGpuInstanceId=lambda handle: int(handle[-1]),
        nvmlDeviceGetComputeInstanceId=says(0),
    ).gpu
    assert found.mig_devices == (
        MigDevice("MIG-part 0", "part 0", 9, 0, 0),
        MigDevice("MIG-part 2", "part 2", 9, 2, 0),
    )


def test_a_link_that_cannot_be_read_makes_the_count_unknown() -> None:
    def state(_handle: Any, link: int) -> int:
        if link == 5:
            raise NVMLError(999)
        return 1

    reading = read(nvmlDeviceGetNvLinkState=state)
    assert (reading.gpus[0].gpu.nvlinks, reading.gpus[0].link_ends) == (None, None)
    assert failed(reading, "NvLinkState") == ["unknown"]


def test_links_that_are_down_are_counted_as_wired() -> None:
    def state(_handle: Any, link: int) -> int:
        if link == 4:
            raise NVMLError(2)
        return int(link != 1)

    reading = read(nvmlDeviceGetNvLinkState=state, nvmlDeviceGetNvLinkRemoteDeviceType=says(2))
    assert (reading.gpus[0].gpu.nvlinks, reading.gpus[0].link_ends) == (NvLinks(3, 4), LinkEnds((), 3))


# What no driver should say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2**31, 2**32 - 1, -1, 257, None, "8", 1.5, True])
def test_a_count_that_cannot_be_true_is_none(count: Any) -> None:
    reading = read(nvmlDeviceGetCount=says(count))
    assert (reading.gpus, reading.counted) == ((), False)
    assert failed(reading, "Count") == ["implausible"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MinorNumber", -5),
        ("MinorNumber", 2**31),
        ("PciInfo", SimpleNamespace(busId="nonsense", pciDeviceId=0)),
        ("PciInfo", SimpleNamespace(pciDeviceId=0)),
        ("CudaComputeCapability", (-1, 0)),
        ("CudaComputeCapability", (9,)),
        ("CudaComputeCapability", None),
        ("MemoryInfo", SimpleNamespace(total=2**64 - 1, reserved=0, used=0, free=0)),
        ("MemoryInfo", SimpleNamespace(total=-1, reserved=0, used=0, free=0)),
        ("MemoryInfo", SimpleNamespace(total=float("nan"), reserved=0, used=0, free=0)),
        ("CurrPcieLinkGeneration", 77),
        ("CurrPcieLinkWidth", 2**31),
        ("PersistenceMode", 7),
        ("MigMode", [2, 2]),
        ("EccMode", 1),
        ("UtilizationRates", SimpleNamespace(gpu=101, memory=0)),
        ("PerformanceState", 16),
        ("RemappedRows", (1, 2)),
        ("RemappedRows", (-1, 0, 0, 0)),
        ("ComputeRunningProcesses", [SimpleNamespace(pid=0, usedGpuMemory=0)]),
        ("ComputeRunningProcesses", [SimpleNamespace(pid=2**31, usedGpuMemory=0)]),
        ("ComputeRunningProcesses", 5),
        ("MemoryAffinity", [-1]),
        ("MemoryAffinity", "0-3"),
        ("CpuAffinity", [2**64]),
        ("NumaNodeId", 2**20),
    ],
)
def test_an_answer_that_cannot_be_true_is_null_and_a_failure(name: str, value: Any) -> None:
    reading = read(**{f"nvmlDeviceGet{name}": says(value)})
    assert failed(reading, name) == ["implausible"]
    blank = read(**{f"nvmlDeviceGet{name}": fails(NOT_SUPPORTED)}).gpus[0]
    found = reading.gpus[0]
    assert {**asdict(found.gpu), "state": None} == {**asdict(blank.gpu), "state": None}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PerformanceState", 32),
        ("NumaNodeId", -1),
        ("NumaNodeId", 2**32 - 1),
        ("Architecture", 2**32 - 1),
        ("Architecture", 99),
        ("ComputeMode", 9),
        ("VirtualizationMode", 9),
        ("CurrPcieLinkGeneration", 0),
        ("CurrPcieLinkWidth", 0),
        ("Name", ""),
    ],
)
def test_an_answer_that_means_unknown_is_null_and_no_failure(name: str, value: Any) -> None:
    reading = read(**{f"nvmlDeviceGet{name}": says(value)})
    assert failed(reading, name) == []


def test_texts_are_bounded_and_printable() -> None:
    found = gpu(nvmlDeviceGetName=says("\x00"), nvmlDeviceGetUUID=says(b"GPU\x07-1" + b"x" * 100_000)).gpu
    assert found.name is None
    assert found.uuid is not None
    assert found.uuid.startswith("GPU -1xxx")
    assert len(found.uuid) <= 1024
