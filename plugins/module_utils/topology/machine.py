# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a GPU host is made of, as measured: GPUs, NUMA nodes, the links between GPUs, the host and its driver.

Sizes are bytes, link speeds PCIe generations, unknown is None. Everything is frozen: a measurement does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem


@dataclass(frozen=True)
class Pcie:
    """C(generation) and C(width) are of now: an idle GPU lowers its generation, never its width."""

    generation_max: int | None = None
    width_max: int | None = None
    generation: int | None = None
    width: int | None = None


@dataclass(frozen=True)
class Mode:
    """A setting of the board that takes effect at its next reset: what holds now and what will hold then."""

    enabled: bool
    pending: bool


@dataclass(frozen=True)
class NvLinks:
    """Links of one GPU that are up, of all it has wired."""

    active: int
    total: int


@dataclass(frozen=True)
class Fabric:
    """Membership of an NVSwitch fabric; C(state) completed and C(status) 0 is a GPU that is ready to use."""

    state: str
    status: int
    clique_id: int
    cluster_uuid: str | None


@dataclass(frozen=True)
class GpuProcess:
    pid: int
    memory_used_bytes: int | None


@dataclass(frozen=True)
class Gpu:
    """One GPU; C(index) is NVML's, or the place in PCI order where NVML was not to be had.

    C(memory_source) says whether the driver told the size (nvml) or it is the board's usual one (catalogue).
    C(gpu_numa_id) is the NUMA node that the GPU's own memory forms on coherent systems, never the host's node.
    """

    index: int
    uuid: str | None = None
    name: str | None = None
    pci_address: str | None = None
    pci_device_id: str | None = None
    minor: int | None = None
    kernel_driver: str | None = None
    memory_total_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_source: str | None = None
    compute_capability: str | None = None
    architecture: str | None = None
    numa_node: int | None = None
    cpu_list: str | None = None
    gpu_numa_id: int | None = None
    pcie: Pcie = Pcie()
    mig: Mode | None = None
    ecc: Mode | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    nvlinks: NvLinks | None = None
    fabric: Fabric | None = None
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True)
class Hugepages:
    """Pages of one size that were taken out of the node's memory."""

    size_bytes: int
    total: int
    free: int


@dataclass(frozen=True)
class NumaNode:
    """C(distances) follows the order of the machine's list of nodes. C(memory_available_bytes) is this node's share
    of the host's MemAvailable (the kernel keeps that number for the whole host only)."""

    id: int
    cpus: str
    has_cpus: bool
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_available_bytes: int | None = None
    hugepages: tuple[Hugepages, ...] = ()
    distances: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class GpuLink:
    """How one GPU reaches another: the closest path and whether the driver lets them access each other's memory."""

    level: str | None
    p2p: str | None


@dataclass(frozen=True)
class Host:
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_free_bytes: int | None = None
    hugepages_total_bytes: int = 0
    cgroup_limit_bytes: int | None = None
    cpus: str | None = None
    cpus_offline: str | None = None
    cpu_model: str | None = None
    kernel: str | None = None
    product: str | None = None
    virtualization: str | None = None
    iommu: str | None = None
    nvswitches: int = 0


@dataclass(frozen=True)
class Driver:
    """C(source): nvml = the driver answered; pci = GPUs were found on the bus only; none = no GPU was found."""

    version: str | None = None
    nvml_version: str | None = None
    cuda_version: str | None = None
    source: str = "none"


@dataclass(frozen=True)
class Machine:
    gpus: tuple[Gpu, ...]
    numa_nodes: tuple[NumaNode, ...]
    gpu_links: tuple[tuple[GpuLink, ...], ...]
    host: Host
    driver: Driver
    problems: tuple[Problem, ...]

    def as_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = _plain(self)
        return plain


def _plain(value: Any) -> Any:
    """Dataclasses to dicts and tuples to lists, all the way down: what JSON can hold."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
