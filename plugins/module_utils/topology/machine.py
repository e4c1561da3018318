# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a GPU host is made of, as measured: GPUs, NUMA nodes, the links between GPUs, the host and its driver.

Sizes are bytes, link speeds PCIe generations, unknown is None. Everything is frozen: a measurement does not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem


@dataclass(frozen=True)
class Pcie:
    """What the board can (C(_max)), what the slot above it can, and what holds now.

    C(state): full = all that board and slot can; idle = a lower generation on a GPU at rest, which is how it saves
    power; slot_limited = the slot is slower or narrower than the board; degraded = lanes are lost, or the generation
    stays low under load; None where the readings do not tell. The worse outranks the better.
    """

    generation_max: int | None = None
    width_max: int | None = None
    generation: int | None = None
    width: int | None = None
    slot_generation_max: int | None = None
    slot_width_max: int | None = None
    state: str | None = None


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
    """Membership of an NVSwitch fabric; C(state) completed and C(status) 0 is a GPU that is ready to use. C(health) is
    healthy, unhealthy or limited_capacity; None where the driver does not tell."""

    state: str
    status: int
    clique_id: int
    cluster_uuid: str | None
    health: str | None = None


@dataclass(frozen=True)
class GpuProcess:
    """C(kind) is compute or graphics; C(name) is the command, from /proc or else from the driver."""

    pid: int
    memory_used_bytes: int | None
    name: str | None = None
    kind: str = "compute"


@dataclass(frozen=True)
class MigDevice:
    """A slice of a GPU in MIG mode, which CUDA counts as a device of its own."""

    uuid: str | None = None
    name: str | None = None
    memory_total_bytes: int | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


@dataclass(frozen=True)
class EccErrors:
    """Errors since the driver was loaded (volatile) and in the board's life (aggregate)."""

    corrected_volatile: int | None = None
    uncorrected_volatile: int | None = None
    corrected_aggregate: int | None = None
    uncorrected_aggregate: int | None = None


@dataclass(frozen=True)
class RemappedRows:
    """Rows of memory that spare rows stand in for, by the kind of error. C(pending): takes effect at the next reset;
    C(failure): no spare row was left, so the board is to be replaced. Boards before Ampere give up whole pages instead
    (C(unit) page), and know no failure."""

    corrected: int
    uncorrected: int
    pending: bool
    failure: bool
    unit: str = "row"


@dataclass(frozen=True)
class Gpu:
    """One GPU; C(index) is NVML's, or the place in PCI order where NVML was not to be had.

    C(memory_source) says whether the driver told the size (nvml) or it is the board's usual one (catalogue).
    C(gpu_numa_id) is the NUMA node that the GPU's own memory forms on coherent systems, never the host's node.
    C(state) is what the driver says of the board: ok, lost, reset_required or unreadable; None without a driver.
    C(usable) tells whether a server can have the whole GPU: it is not lost, not divided, not barred, not held by
    another kernel driver and not given to guests. That processes use it already does not count here.
    C(virtualization): none, passthrough, vgpu (this is a slice), host_vgpu or host_vsga (it gives slices away).
    C(performance_state) is 0 (highest clocks) to 15 (at rest).
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
    state: str | None = None
    usable: bool = True
    virtualization: str | None = None
    performance_state: int | None = None
    iommu_group: int | None = None
    mig: Mode | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    ecc: Mode | None = None
    ecc_errors: EccErrors | None = None
    remapped_rows: RemappedRows | None = None
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
    of the host's MemAvailable (the kernel keeps that number for the whole host only).

    C(kind): general = CPUs and memory; cpus = CPUs without memory; memory = memory without CPUs (expanders, HBM);
    gpu_memory = the memory of a GPU; empty = neither. Memory whose size cannot be read counts as there.
    C(cpus_usable) and C(usable) say what the control groups leave to a system service: which of the CPUs, and whether
    it may have memory from here.
    """

    id: int
    cpus: str
    has_cpus: bool
    kind: str = "general"
    cpus_usable: str = ""
    usable: bool = True
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_available_bytes: int | None = None
    hugepages: tuple[Hugepages, ...] = ()
    distances: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class GpuLink:
    """How one GPU reaches another: the closest path and whether the driver lets them access each other's memory.

    C(nvlinks) is the number of NVLinks that join the two, None where the driver did not tell. C(route) is the way that
    traffic between them takes: nvlink; switch (it turns around at the PCIe switch they share); redirected (ACS on that
    switch sends it up to the host all the same); host (their ways meet in the host only); None where that is not known,
    as of boards that NVLink may join unsaid: then C(level) tells of the PCIe bus alone.
    """

    level: str | None
    p2p: str | None
    nvlinks: int | None = None
    route: str | None = None


@dataclass(frozen=True)
class Host:
    """C(cpus_usable), C(cpu_quota), C(memory_nodes_usable) and C(cgroup_limit_bytes) are what the control groups leave
    to a system service; None where they set no limit. C(cpu_quota) is CPU time per time, so 4.0 is that of four CPUs.
    C(cgroup_available_bytes) is what can still be had below the limit: a new service can have the smaller of this and
    C(memory_available_bytes). C(cgroup_version) is that of the hierarchy with the memory controller: 1 on hybrid hosts.

    C(cpus_isolated) are those that the kernel schedules nothing on by itself: what runs there was bound there.

    C(iommu): off, passthrough (the host's drivers use addresses as they are) or on (they are translated).
    C(acs_redirecting) lists the switch ports above GPUs that send traffic between their devices up to the host (PCIe
    Access Control Services); None where no such port's configuration could be read.
    """

    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_free_bytes: int | None = None
    hugepages_total_bytes: int = 0
    cgroup_version: int | None = None
    cgroup_limit_bytes: int | None = None
    cgroup_available_bytes: int | None = None
    cpus: str | None = None
    cpus_offline: str | None = None
    cpus_isolated: str | None = None
    cpus_usable: str | None = None
    cpu_quota: float | None = None
    memory_nodes_usable: str | None = None
    numa_nodes_offline: str | None = None
    cpu_model: str | None = None
    kernel: str | None = None
    product: str | None = None
    virtualization: str | None = None
    iommu: str | None = None
    acs_redirecting: tuple[str, ...] | None = None
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
        values: dict[str, Any] = plain(self)
        return values
