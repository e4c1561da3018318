# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver says, asked through nvidia-ml-py, one tolerated call at a time.

The module pynvml is an argument, so that nothing here needs it to be installed. A call that fails gives None and one
L(Failure); the rest goes on. What the failures mean is decided in survey.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import LEVELS, P2P_STATES
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Fabric,
    Gpu,
    GpuProcess,
    Mode,
    NvLinks,
    Pcie,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.texts import parse_pci_address

# NVML API reference, nvmlReturn_t: the errors that something follows from.
ERRORS = {
    1: "uninitialized",
    2: "invalid_argument",
    3: "not_supported",
    4: "no_permission",
    9: "driver_not_loaded",
    12: "library_not_found",
    13: "function_not_found",
    15: "gpu_is_lost",
    16: "reset_required",
    18: "version_mismatch",
}
# NVML API reference, nvmlDeviceArchitecture_t.
ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
FABRIC_STATES = {1: "not_started", 2: "in_progress", 3: "completed"}
NVLINK_REMOTE_SWITCH = 2
# Version word of nvmlMemory_v2_t: 40 bytes, version 2. Older releases of nvidia-ml-py lack the constant.
MEMORY_V2 = 0x02000028
# NVML's index for reading; in nvidia-ml-py 13.615.71 the constant NVML_P2P_CAPS_INDEX_READ is a tuple by mistake.
P2P_READ = 0
NVLINK_MAX_LINKS = 36
# Words of the node mask that is asked for: 64 nodes each; the kernel allows 1024.
NODE_WORDS = 16


@dataclass(frozen=True)
class Failure:
    """A call that failed. C(gpu) is None for calls about the whole system."""

    function: str
    gpu: int | None
    error: str
    text: str


@dataclass(frozen=True)
class LinkEnds:
    """Where the NVLinks of one GPU that are up lead to."""

    to_gpus: tuple[str, ...] = ()
    to_switches: int = 0


@dataclass(frozen=True)
class NvmlGpu:
    """A GPU with all the driver told; C(slot_generation_max) is what GPU and slot reach together."""

    gpu: Gpu
    link_ends: LinkEnds
    slot_generation_max: int | None
    numa_nodes: tuple[int, ...]


@dataclass(frozen=True)
class NvmlReading:
    driver: Driver
    gpus: tuple[NvmlGpu, ...]
    levels: tuple[tuple[str | None, ...], ...]
    p2p: tuple[tuple[str | None, ...], ...]
    failures: tuple[Failure, ...]


def error_name(error: BaseException) -> str:
    """C(gpu_is_lost) and the like; missing in nvidia-ml-py itself counts as a missing function."""
    if isinstance(error, AttributeError):
        return "function_not_found"
    code = getattr(error, "value", None)
    return ERRORS.get(code, f"error_{code}") if isinstance(code, int) else type(error).__name__


def set_bits(words: Sequence[int], width: int = 64) -> tuple[int, ...]:
    """Positions of the ones in a mask of 64-bit words."""
    return tuple(place * width + bit for place, word in enumerate(words) for bit in range(width) if word >> bit & 1)


def _text(value: Any) -> str | None:
    """nvidia-ml-py gives str, some functions and older releases bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _cuda_version(number: int | None) -> str | None:
    """C(13020) -> C(13.2)."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _mode(pair: Sequence[int] | None) -> Mode | None:
    return Mode(bool(pair[0]), bool(pair[1])) if pair else None


Ask = Callable[..., Any]


def _asker(pynvml: Any, failures: list[Failure]) -> Ask:
    """A function that calls one function of NVML and notes its failure.

    C(quiet) names errors that say nothing is wrong, such as not_supported for a feature that boards may lack.
    """
    # What nvidia-ml-py raises beside its own error: an attribute that a release lacks, a parameter it does not know,
    # text which is no UTF-8, a library that cannot be loaded.
    tolerated = (pynvml.NVMLError, AttributeError, TypeError, ValueError, OSError, ctypes.ArgumentError)

    def ask(name: str, *arguments: Any, gpu: int | None = None, quiet: tuple[str, ...] = ()) -> Any:
        try:
            return getattr(pynvml, name)(*arguments)
        except tolerated as error:
            if error_name(error) not in quiet:
                failures.append(Failure(name, gpu, error_name(error), str(error)))
            return None

    return ask


def _memory(ask: Ask, handle: Any, gpu: int) -> tuple[int | None, ...]:
    """Total, reserved, used and free bytes.

    The first version of NVML's call, all that old drivers have, counts reserved memory as used and does not tell it.
    """
    old = ("function_not_found", "TypeError", "error_25")
    memory = ask("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2, gpu=gpu, quiet=old)
    reserved = getattr(memory, "reserved", None)
    if memory is None:
        memory = ask("nvmlDeviceGetMemoryInfo", handle, gpu=gpu)
    total, used, free = (getattr(memory, name, None) for name in ("total", "used", "free"))
    return total, reserved, used, free


def _links(ask: Ask, handle: Any, gpu: int) -> tuple[NvLinks | None, LinkEnds]:
    active, total, switched = 0, 0, 0
    ends: list[str] = []
    absent = ("not_supported", "invalid_argument")
    for link in range(NVLINK_MAX_LINKS):
        state = ask("nvmlDeviceGetNvLinkState", handle, link, gpu=gpu, quiet=absent)
        if state is None:
            break
        total += 1
        if not state:
            continue
        active += 1
        kind = ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, gpu=gpu, quiet=absent)
        remote = ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link, gpu=gpu, quiet=absent)
        if kind == NVLINK_REMOTE_SWITCH:
            switched += 1
        elif remote is not None:
            ends.append(parse_pci_address(_text(remote.busId)) or "")
    return (NvLinks(active, total) if total else None), LinkEnds(tuple(ends), switched)


def _fabric(pynvml: Any, ask: Ask, handle: Any, gpu: int) -> Fabric | None:
    """Asked in the form with a version word; releases of nvidia-ml-py name its structure differently."""
    structure = getattr(pynvml, "c_nvmlGpuFabricInfoV_t", None) or getattr(pynvml, "c_nvmlGpuFabricInfo_v2_t", None)
    if structure is None:
        return None
    info = structure()
    quiet = ("not_supported", "function_not_found")
    if ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info), gpu=gpu, quiet=quiet) is None:
        return None
    state = FABRIC_STATES.get(int(info.state))
    if state is None:
        return None
    raw = bytes(info.clusterUuid)
    digits = raw.hex()
    cluster = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) if any(raw) else None
    return Fabric(state, int(info.status), int(info.cliqueId), cluster)


def _processes(ask: Ask, handle: Any, gpu: int) -> tuple[GpuProcess, ...]:
    found = ask("nvmlDeviceGetComputeRunningProcesses", handle, gpu=gpu, quiet=("not_supported",)) or []
    return tuple(GpuProcess(int(entry.pid), entry.usedGpuMemory) for entry in found)


def _read_gpu(pynvml: Any, ask: Ask, index: int, handle: Any) -> NvmlGpu:
    def get(name: str, *arguments: Any, optional: bool = False) -> Any:
        quiet = ("not_supported",) if optional else ()
        return ask(name, handle, *arguments, gpu=index, quiet=quiet)

    pci = get("nvmlDeviceGetPciInfo")
    # In the words of NVML the device comes before the vendor: 0x2BB510DE.
    pci_id = f"{pci.pciDeviceId & 0xFFFF:04x}:{pci.pciDeviceId >> 16:04x}" if pci is not None else None
    capability = get("nvmlDeviceGetCudaComputeCapability")
    persistence = get("nvmlDeviceGetPersistenceMode", optional=True)
    total, reserved, used, free = _memory(ask, handle, index)
    nvlinks, ends = _links(ask, handle, index)
    gpu = Gpu(
        index=index,
        uuid=_text(get("nvmlDeviceGetUUID")),
        name=_text(get("nvmlDeviceGetName")),
        pci_address=parse_pci_address(_text(pci.busId)) if pci is not None else None,
        pci_device_id=pci_id,
        minor=get("nvmlDeviceGetMinorNumber"),
        memory_total_bytes=total,
        memory_reserved_bytes=reserved,
        memory_used_bytes=used,
        memory_free_bytes=free,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        architecture=ARCHITECTURES.get(get("nvmlDeviceGetArchitecture")),
        gpu_numa_id=get("nvmlDeviceGetNumaNodeId", optional=True),
        pcie=Pcie(
            generation_max=get("nvmlDeviceGetGpuMaxPcieLinkGeneration", optional=True),
            width_max=get("nvmlDeviceGetMaxPcieLinkWidth"),
            generation=get("nvmlDeviceGetCurrPcieLinkGeneration"),
            width=get("nvmlDeviceGetCurrPcieLinkWidth"),
        ),
        mig=_mode(get("nvmlDeviceGetMigMode", optional=True)),
        ecc=_mode(get("nvmlDeviceGetEccMode", optional=True)),
        persistence=None if persistence is None else bool(persistence),
        compute_mode=COMPUTE_MODES.get(get("nvmlDeviceGetComputeMode", optional=True)),
        nvlinks=nvlinks,
        fabric=_fabric(pynvml, ask, handle, index),
        processes=_processes(ask, handle, index),
    )
    node_mask = get("nvmlDeviceGetMemoryAffinity", NODE_WORDS, 0)
    return NvmlGpu(
        gpu=gpu,
        link_ends=ends,
        slot_generation_max=get("nvmlDeviceGetMaxPcieLinkGeneration"),
        numa_nodes=set_bits(node_mask) if node_mask is not None else (),
    )


def _matrix(
    ask: Ask, name: str, handles: Sequence[Any], names: dict[int, str], *more: int
) -> tuple[tuple[Any, ...], ...]:
    """Ask about every pair once; the answers hold in both directions."""
    rows: list[list[str | None]] = [[None] * len(handles) for _handle in handles]
    for one, handle in enumerate(handles):
        for two in range(one + 1, len(handles)):
            if handle is not None and handles[two] is not None:
                answer = names.get(ask(name, handle, handles[two], *more, gpu=one))
                rows[one][two] = rows[two][one] = answer
    return tuple(tuple(row) for row in rows)


def read_nvml(pynvml: Any) -> NvmlReading:
    """Ask the driver for everything. Where it cannot be started the reading holds nothing but that failure."""
    failures: list[Failure] = []
    ask = _asker(pynvml, failures)
    ask("nvmlInit")
    if failures:
        return NvmlReading(Driver(), (), (), (), tuple(failures))
    driver = Driver(
        version=_text(ask("nvmlSystemGetDriverVersion")),
        nvml_version=_text(ask("nvmlSystemGetNVMLVersion")),
        cuda_version=_cuda_version(ask("nvmlSystemGetCudaDriverVersion")),
        source="nvml",
    )
    count = ask("nvmlDeviceGetCount") or 0
    handles = [ask("nvmlDeviceGetHandleByIndex", index, gpu=index) for index in range(count)]
    gpus = tuple(
        NvmlGpu(Gpu(index=index), LinkEnds(), None, ()) if handle is None else _read_gpu(pynvml, ask, index, handle)
        for index, handle in enumerate(handles)
    )
    levels = _matrix(ask, "nvmlDeviceGetTopologyCommonAncestor", handles, LEVELS)
    p2p = _matrix(ask, "nvmlDeviceGetP2PStatus", handles, P2P_STATES, P2P_READ)
    ask("nvmlShutdown")
    return NvmlReading(driver, gpus, levels, p2p, tuple(failures))
