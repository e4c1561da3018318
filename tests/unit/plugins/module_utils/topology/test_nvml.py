# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The reader against doubles of nvidia-ml-py, for what releases of it do differently."""

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml import error_name, read_nvml, set_bits


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


def fails(code: int) -> Any:
    def call(*_arguments: Any) -> Any:
        raise NVMLError(code)

    return call


def binding(**functions: Any) -> Any:
    """A binding for a machine with one GPU that answers what is given and lacks everything else."""
    always = {"NVMLError": NVMLError, "nvmlInit": lambda: None, "nvmlDeviceGetCount": lambda: 1}
    always["nvmlDeviceGetHandleByIndex"] = lambda index: f"handle {index}"
    always["nvmlDeviceGetNvLinkState"] = fails(3)
    return SimpleNamespace(**{**always, **functions})


@pytest.mark.parametrize(
    ("words", "numbers"), [([0], ()), ([5], (0, 2)), ([0, 1], (64,)), ([1 << 63, 1 << 63], (63, 127))]
)
def test_bits_of_a_mask(words: list[int], numbers: tuple[int, ...]) -> None:
    assert set_bits(words) == numbers


def test_errors_have_names() -> None:
    assert error_name(NVMLError(15)) == "gpu_is_lost"
    assert error_name(NVMLError(999)) == "error_999"
    assert error_name(AttributeError("nvmlDeviceGetNumaNodeId")) == "function_not_found"
    assert error_name(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")) == "UnicodeDecodeError"


def test_a_binding_that_lacks_nearly_everything_still_counts_its_gpus() -> None:
    reading = read_nvml(binding())
    assert len(reading.gpus) == 1
    assert reading.driver.source == "nvml"
    assert {failure.error for failure in reading.failures} == {"function_not_found"}


def test_old_bindings_give_bytes() -> None:
    reading = read_nvml(
        binding(
            nvmlSystemGetDriverVersion=lambda: b"470.256.02",
            nvmlDeviceGetName=lambda _handle: b"Tesla T4",
            nvmlDeviceGetUUID=lambda _handle: b"GPU-1",
            nvmlDeviceGetPciInfo=lambda _handle: SimpleNamespace(busId=b"00000000:3B:00.0", pciDeviceId=0x1EB810DE),
        )
    )
    gpu = reading.gpus[0].gpu
    assert (reading.driver.version, gpu.name, gpu.uuid) == ("470.256.02", "Tesla T4", "GPU-1")
    assert (gpu.pci_address, gpu.pci_device_id) == ("0000:3b:00.0", "10de:1eb8")


def test_memory_falls_back_to_the_first_version() -> None:
    def memory(_handle: Any) -> Any:
        return SimpleNamespace(total=100, used=10, free=90)

    gpu = read_nvml(binding(nvmlDeviceGetMemoryInfo=memory)).gpus[0].gpu
    assert (gpu.memory_total_bytes, gpu.memory_used_bytes, gpu.memory_free_bytes) == (100, 10, 90)
    assert gpu.memory_reserved_bytes is None


def test_what_a_board_may_lack_is_no_failure() -> None:
    optional = ("MigMode", "EccMode", "PersistenceMode", "ComputeMode", "NumaNodeId", "ComputeRunningProcesses")
    reading = read_nvml(binding(**{f"nvmlDeviceGet{name}": fails(3) for name in optional}))
    assert not {f"nvmlDeviceGet{name}" for name in optional} & {failure.function for failure in reading.failures}


@pytest.mark.parametrize("code", [1, 4, 9, 12, 18, 999])
def test_a_driver_that_does_not_start_is_one_failure(code: int) -> None:
    reading = read_nvml(binding(nvmlInit=fails(code)))
    assert (reading.gpus, reading.driver.source, len(reading.failures)) == ((), "none", 1)


def test_a_process_whose_memory_is_not_told() -> None:
    processes = [SimpleNamespace(pid=7, usedGpuMemory=None)]
    reading = read_nvml(binding(nvmlDeviceGetComputeRunningProcesses=lambda _handle: processes))
    (process,) = reading.gpus[0].gpu.processes
    assert (process.pid, process.memory_used_bytes) == (7, None)
