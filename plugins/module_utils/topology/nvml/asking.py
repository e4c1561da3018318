# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that the driver says, asked through nvidia-ml-py, one tolerated call at a time.

Each subject has a file of its own: binding.py (nvidia-ml-py made plain), process.py (asking where a hang or
a crash does no harm), calls.py (one call), gpu.py, health.py, use.py and links.py. What the
failures mean is decided in findings/driver.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import LEVELS, P2P_STATES
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Driver, Gpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import (
    Ask,
    anything,
    asker,
    lost_gpus,
    text,
    whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.gpu import (
    read_identity,
    read_reached_generation,
    read_settings,
    read_surroundings,
    read_utilization,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.health import read_health
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.links import (
    P2P_READ,
    read_fabric,
    read_matrix,
    read_nvlinks,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import Call
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure, NvmlGpu, NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.use import read_mig_devices, read_processes

# No host has more; a driver that counts more is broken.
MAX_GPUS = 256
# A board that does not tell its memory because it has none of its own, or a library too old to ask, can be used.
_NO_MEMORY_OF_ITS_OWN = ("not_supported", "function_not_found")


def _cuda_version(value: Any) -> str | None:
    """C(13020) -> C(13.2)."""
    number = whole(1000, 999_999, unknown=(0,))(value)
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _read_gpus(ask: Ask, handles: Sequence[Any], root: Path, failures: Sequence[Failure]) -> list[NvmlGpu]:
    known = [
        Gpu(index=index) if handle is None else read_identity(ask, handle, index)
        for index, handle in enumerate(handles)
    ]
    addresses = {gpu.pci_address for gpu in known if gpu.pci_address is not None}
    found = []
    for gpu, handle in zip(known, handles):
        if handle is None:
            found.append(NvmlGpu(gpu))
            continue
        gpu = read_health(ask, handle, read_settings(ask, handle, gpu))
        nvlinks, ends = read_nvlinks(ask, handle, gpu.index, addresses, failures)
        gpu = replace(
            gpu,
            nvlinks=nvlinks,
            fabric=read_fabric(ask, handle, gpu),
            mig_devices=read_mig_devices(ask, handle, gpu.index) if gpu.mig and gpu.mig.enabled else (),
            processes=read_processes(ask, handle, gpu.index, root),
        )
        reached = read_reached_generation(ask, handle, gpu.index)
        nodes, cpus = read_surroundings(ask, handle, gpu.index)
        found.append(NvmlGpu(gpu, ends, reached, nodes, cpus, read_utilization(ask, handle, gpu.index)))
    return found


def state_of(gpu: Gpu, handle: Any, lost: dict[int, Failure], failures: Sequence[Failure]) -> str:
    """ok, lost, reset_required or unreadable: a GPU that the driver lists and has nothing to say about."""
    if gpu.index in lost:
        return "reset_required" if lost[gpu.index].error == "reset_required" else "lost"
    excused = any(
        failure.function == "nvmlDeviceGetMemoryInfo" and failure.error in _NO_MEMORY_OF_ITS_OWN
        for failure in failures
        if failure.gpu == gpu.index
    )
    return "ok" if handle is not None and (gpu.memory_total_bytes is not None or excused) else "unreadable"


def read_nvml(call: Call, root: Path = Path("/")) -> NvmlReading:
    """Ask the driver for everything. Where it cannot be started the reading holds little but that failure.

    C(root) is where the names of processes are looked up.
    """
    failures: list[Failure] = []
    ask = asker(call, failures)
    ask(anything, "nvmlInit")
    # The library knows its own version whether it was started or not.
    nvml_version = ask(text, "nvmlSystemGetNVMLVersion", quiet=("uninitialized",) if failures else ())
    if failures and failures[0].function == "nvmlInit":
        return NvmlReading(Driver(nvml_version=nvml_version), (), (), (), tuple(failures))
    driver = Driver(
        version=ask(text, "nvmlSystemGetDriverVersion"),
        nvml_version=nvml_version,
        cuda_version=ask(_cuda_version, "nvmlSystemGetCudaDriverVersion"),
        source="nvml",
    )
    count = ask(whole(0, MAX_GPUS), "nvmlDeviceGetCount")
    handles = [ask(anything, "nvmlDeviceGetHandleByIndex", index, gpu=index) for index in range(count or 0)]
    gpus = _read_gpus(ask, handles, root, failures)
    levels = read_matrix(ask, "nvmlDeviceGetTopologyCommonAncestor", handles, LEVELS)
    p2p = read_matrix(ask, "nvmlDeviceGetP2PStatus", handles, P2P_STATES, P2P_READ)
    ask(anything, "nvmlShutdown")
    lost = lost_gpus(failures)
    judged = tuple(
        replace(one, gpu=replace(one.gpu, state=state_of(one.gpu, handle, lost, failures)))
        for one, handle in zip(gpus, handles)
    )
    return NvmlReading(driver, judged, levels, p2p, tuple(failures), counted=count is not None)
