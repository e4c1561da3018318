# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver says of one GPU: what it is, its settings and its PCIe link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    LINK_WIDTHS,
    format_cpu_list,
    parse_pci_address,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, Mode, Pcie
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import (
    LACKING,
    Ask,
    Shape,
    bit_mask,
    flag,
    named,
    required,
    text,
    whole,
)

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
VIRTUALIZATION_MODES = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
PERFORMANCE_UNKNOWN = 32
# Version word of nvmlMemory_v2_t: 40 bytes, version 2. Older releases of nvidia-ml-py lack the constant.
MEMORY_V2 = 0x02000028
# NVML_VALUE_NOT_AVAILABLE and what a signed -1 becomes where the other side counts without a sign.
NOT_AVAILABLE = (2**64 - 1, 2**32 - 1, -1)
MAX_BYTES = 1 << 50
# Words of the masks that are asked for, of 64 places each: more than the kernel allows nodes (1024) and CPUs (8192).
NODE_WORDS = 16
CPU_WORDS = 128
SCOPE_NODE = 0
_LINK_SPEED = whole(1, 8, unknown=(0, *NOT_AVAILABLE))
_LINK_WIDTH = whole(1, max(LINK_WIDTHS), unknown=(0, *NOT_AVAILABLE))


@dataclass(frozen=True)
class Memory:
    """C(reserved) is None where the driver counts that as used; a part that is more than the whole is None as well."""

    total: int
    reserved: int | None
    used: int | None
    free: int | None


def _strict_memory(value: Any) -> Memory:
    total = required(value["total"], 1, MAX_BYTES)
    reserved = value.get("reserved")
    return Memory(
        total=total,
        reserved=None if reserved is None else required(reserved, 0, total),
        used=required(value["used"], 0, total),
        free=required(value["free"], 0, total),
    )


def _memory(value: Any) -> Memory:
    total = required(value["total"], 1, MAX_BYTES)
    parts = {name: value[name] for name in ("reserved", "used", "free") if value.get(name) is not None}
    told = {name: required(part, 0, MAX_BYTES) for name, part in parts.items()}
    within = {name: part for name, part in told.items() if part <= total}
    return Memory(total, within.get("reserved"), within.get("used"), within.get("free"))


def read_memory(ask: Ask, handle: Any, gpu: int) -> Memory | None:
    """The first version of the call, all that old drivers have, does not tell what is reserved."""
    older = [("nvmlDeviceGetMemoryInfo", (handle,))]

    def get(shape: Shape[Memory]) -> Memory | None:
        return ask(shape, "nvmlDeviceGetMemoryInfo", handle, MEMORY_V2, gpu=gpu, older=older)

    memory = get(_memory)
    if memory is not None and (memory.used is None or memory.free is None):
        # Asked again, so that it is noted what is wrong; the whole is believed all the same.
        return get(_strict_memory) or memory
    return memory


def _pci(value: Any) -> tuple[str, str]:
    """Address and C(vendor:device). In the words of NVML the device comes before the vendor: 0x2BB510DE."""
    address = parse_pci_address(value["busId"])
    if address is None:
        raise ValueError
    number = required(value["pciDeviceId"], 0, 2**32 - 1)
    return address, f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _mode(value: Any) -> Mode:
    return Mode(flag(value[0]), flag(value[1]))


def _capability(value: Any) -> str:
    return f"{required(value[0], 1, 99)}.{required(value[1], 0, 99)}"


def _utilization(value: Any) -> int:
    return required(value["gpu"], 0, 100)


def read_identity(ask: Ask, handle: Any, gpu: int) -> Gpu:
    """What tells the GPU from others. Asked of all GPUs first, so that it is known of those which a hang cuts off."""
    pci = ask(_pci, "nvmlDeviceGetPciInfo", handle, gpu=gpu)
    uuid = ask(text, "nvmlDeviceGetUUID", handle, gpu=gpu)
    name = ask(text, "nvmlDeviceGetName", handle, gpu=gpu)
    memory = read_memory(ask, handle, gpu)
    return Gpu(
        index=gpu,
        uuid=uuid,
        name=name,
        pci_address=pci[0] if pci else None,
        pci_device_id=pci[1] if pci else None,
        minor=ask(whole(0, 2**20), "nvmlDeviceGetMinorNumber", handle, gpu=gpu),
        memory_total_bytes=memory.total if memory else None,
        memory_reserved_bytes=memory.reserved if memory else None,
        memory_used_bytes=memory.used if memory else None,
        memory_free_bytes=memory.free if memory else None,
    )


def _read_pcie(ask: Ask, handle: Any, gpu: int) -> Pcie:
    return Pcie(
        generation_max=ask(_LINK_SPEED, "nvmlDeviceGetGpuMaxPcieLinkGeneration", handle, gpu=gpu, quiet=LACKING),
        width_max=ask(_LINK_WIDTH, "nvmlDeviceGetMaxPcieLinkWidth", handle, gpu=gpu),
        generation=ask(_LINK_SPEED, "nvmlDeviceGetCurrPcieLinkGeneration", handle, gpu=gpu),
        width=ask(_LINK_WIDTH, "nvmlDeviceGetCurrPcieLinkWidth", handle, gpu=gpu),
    )


def read_settings(ask: Ask, handle: Any, gpu: Gpu) -> Gpu:
    """C(gpu) with what it is capable of, how it is set and how it is linked to the host."""
    index = gpu.index

    def get(shape: Any, name: str, optional: bool = True) -> Any:
        return ask(shape, name, handle, gpu=index, quiet=LACKING if optional else ())

    levels = whole(0, 15, unknown=(PERFORMANCE_UNKNOWN,))
    return replace(
        gpu,
        compute_capability=get(_capability, "nvmlDeviceGetCudaComputeCapability", optional=False),
        architecture=get(named(ARCHITECTURES), "nvmlDeviceGetArchitecture", optional=False),
        gpu_numa_id=get(whole(0, 2**16, unknown=NOT_AVAILABLE), "nvmlDeviceGetNumaNodeId"),
        pcie=_read_pcie(ask, handle, index),
        virtualization=get(named(VIRTUALIZATION_MODES), "nvmlDeviceGetVirtualizationMode"),
        performance_state=get(levels, "nvmlDeviceGetPerformanceState"),
        mig=get(_mode, "nvmlDeviceGetMigMode"),
        ecc=get(_mode, "nvmlDeviceGetEccMode"),
        persistence=get(flag, "nvmlDeviceGetPersistenceMode"),
        compute_mode=get(named(COMPUTE_MODES), "nvmlDeviceGetComputeMode"),
    )


def read_surroundings(ask: Ask, handle: Any, gpu: int) -> tuple[tuple[int, ...], str | None]:
    """NUMA nodes and CPUs that are near in the driver's eyes."""
    nodes = ask(bit_mask, "nvmlDeviceGetMemoryAffinity", handle, NODE_WORDS, SCOPE_NODE, gpu=gpu)
    cpus = ask(bit_mask, "nvmlDeviceGetCpuAffinity", handle, CPU_WORDS, gpu=gpu, quiet=LACKING)
    return nodes or (), format_cpu_list(cpus) if cpus else None


def read_utilization(ask: Ask, handle: Any, gpu: int) -> int | None:
    return ask(_utilization, "nvmlDeviceGetUtilizationRates", handle, gpu=gpu, quiet=LACKING)


def read_reached_generation(ask: Ask, handle: Any, gpu: int) -> int | None:
    """The PCIe generation that GPU and slot reach together."""
    return ask(_LINK_SPEED, "nvmlDeviceGetMaxPcieLinkGeneration", handle, gpu=gpu)
