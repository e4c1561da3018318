# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host itself: its memory, CPUs, firmware's names and IOMMU, and the driver module that is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.cgroups import read_limits
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import (
    LINE_BYTES,
    is_folder,
    names_in,
    read_line,
    read_text,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import (
    NODES,
    read_hugepages,
    read_node_ids,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import (
    NvidiaFunction,
    count_nvswitches,
    nvidia_functions,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    format_cpu_list,
    normal_cpu_list,
    parse_cpu_list,
    parse_meminfo,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host

# Guests by what their firmware says about its maker (DMI). The first are hypervisors by name; the others also make
# bare metal, so they count only where the CPU reports a hypervisor.
_HYPERVISORS = (
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("xen", "xen"),
)
_CLOUDS = (("google", "kvm"), ("amazon", "kvm"), ("openstack", "kvm"), ("microsoft", "hyperv"))
# Products that are guests whatever the CPU tells: on ARM it tells nothing.
_GUESTS = {
    ("microsoft corporation", "virtual machine"): "hyperv",
    ("google", "google compute engine"): "kvm",
}
_EC2 = "amazon ec2"

CPUS = "sys/devices/system/cpu"
_IOMMU_GROUPS = "sys/kernel/iommu_groups"
# Cores by (implementer, part), for Arm's processors write no names (Linux: arch/arm64/include/asm/cputype.h).
_ARM_CORES = {
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x4e", "0x010"): "Olympus",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}
# The first CPUs tell enough of a file that has a page for each of hundreds.
CPUINFO_BYTES = 1 << 16


def parse_cpuinfo(text: str | None) -> tuple[str | None, bool | None]:
    """Model of the processor, on Arm that of its cores, and whether it runs under a hypervisor (None where the
    architecture does not tell)."""
    model: str | None = None
    arm: dict[str, str] = {}
    guest: bool | None = None
    for line in (text or "").splitlines():
        key, _colon, value = (part.strip() for part in line.partition(":"))
        if key == "model name" or (key in ("cpu", "Model") and model is None):
            model = one_line(value, LINE_BYTES) or None
        elif key in ("CPU implementer", "CPU part"):
            arm.setdefault(key, value)
        elif key == "flags":
            guest = "hypervisor" in value.split()
        if model is not None and guest is not None:
            break
    return model or _ARM_CORES.get((arm.get("CPU implementer", ""), arm.get("CPU part", ""))), guest


def name_virtualization(
    guest: bool | None, vendor: str | None, product: str | None, capabilities: str | None = None
) -> str | None:
    """Which hypervisor a guest runs under; none on bare metal, other where the maker is not known.

    C(capabilities) are Xen's: the domain that controls the host has its real devices, though its CPUs report a
    hypervisor.
    """
    if guest is False or "control_d" in (capabilities or ""):
        return "none"
    made_by, model = (vendor or "").strip().lower(), (product or "").strip().lower()
    if (made_by, model) in _GUESTS:
        return _GUESTS[made_by, model]
    # Instances on bare metal have it in their type: c7g.metal, m7i.metal-24xl.
    if made_by == _EC2 and model and ".metal" not in model:
        return "kvm"
    maker = f"{made_by} {model}"
    for mark, name in _HYPERVISORS + (_CLOUDS if guest else ()):
        if mark in maker:
            return name
    return "other" if guest else None


def name_iommu(cmdline: str | None, groups: int | None, types: Iterable[str | None] = ()) -> str | None:
    """off, passthrough (identity mapping for the host's own drivers) or on (addresses are translated).

    C(types) are the modes of the GPUs' own groups, which outweigh what the command line asks for: the kernel can be
    built for either mode and drivers may need another. C(groups) is the number of IOMMU groups, None where the kernel
    shows none of that.
    """
    told = {kind for kind in types if kind}
    if told:
        return "passthrough" if told == {"identity"} else "on"
    words = (cmdline or "").split()
    if groups:
        return "passthrough" if "iommu=pt" in words or "iommu.passthrough=1" in words else "on"
    if groups == 0 or not {"iommu=off", "intel_iommu=off", "amd_iommu=off"}.isdisjoint(words):
        return "off"
    return None


def _limit(allowed: Sequence[int] | None, there: Sequence[int]) -> str | None:
    """What may be used of what is there, None where that is all of it, or none of it: such groups are not ours."""
    if allowed is None:
        return None
    left = frozenset(allowed).intersection(there) if there else allowed
    return format_cpu_list(left) or None if len(left) < len(there) or not there else None


def _memory_nodes(root: Path, online: Sequence[int]) -> tuple[int, ...]:
    """Nodes with memory: cpusets never name the others."""
    for name in ("has_memory", "has_normal_memory"):
        nodes = frozenset(parse_cpu_list(read_text(root, f"{NODES}/{name}"))).intersection(online)
        if nodes:
            return tuple(sorted(nodes))
    return tuple(online)


def _offline_cpus(present: Sequence[int], online: Sequence[int]) -> str | None:
    """CPUs that are there and not online. The kernel's own list also holds numbers that no CPU is plugged in for."""
    return format_cpu_list(frozenset(present).difference(online)) or None if online else None


def read_host(root: Path, functions: Sequence[NvidiaFunction] | None = None) -> Host:
    """C(functions) spares the search of the bus where that was done before."""
    memory = parse_meminfo(read_text(root, "proc/meminfo"))
    model, guest = parse_cpuinfo(read_text(root, "proc/cpuinfo", CPUINFO_BYTES))
    dmi = {}
    for name in ("sys_vendor", "product_name"):
        # Recordings often hold only one end of the link class/dmi/id.
        dmi[name] = read_line(root, f"sys/class/dmi/id/{name}") or read_line(root, f"sys/devices/virtual/dmi/id/{name}")
    groups = len(names_in(root, _IOMMU_GROUPS)) if is_folder(root, _IOMMU_GROUPS) else None
    huge = read_hugepages(root, "sys/kernel/mm/hugepages")
    huge_bytes = sum(pages.size_bytes * pages.total for pages in huge)
    if not huge:
        huge_bytes = memory.get("HugePages_Total", 0) * memory.get("Hugepagesize", 0)
    limits = read_limits(root)
    online, present = (parse_cpu_list(read_text(root, f"{CPUS}/{name}")) for name in ("online", "present"))
    online_nodes, offline_nodes = read_node_ids(root)
    return Host(
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        memory_free_bytes=memory.get("MemFree"),
        hugepages_total_bytes=huge_bytes,
        cgroup_version=limits.version,
        cgroup_limit_bytes=limits.memory_limit_bytes,
        cgroup_available_bytes=limits.memory_available_bytes,
        cpus=format_cpu_list(online) or None,
        cpus_offline=_offline_cpus(present, online),
        cpus_isolated=normal_cpu_list(read_text(root, f"{CPUS}/isolated")),
        cpus_usable=_limit(limits.cpus, online),
        cpu_quota=limits.cpu_quota,
        memory_nodes_usable=_limit(limits.memory_nodes, _memory_nodes(root, online_nodes)),
        numa_nodes_offline=format_cpu_list(offline_nodes) or None,
        cpu_model=model,
        kernel=read_line(root, "proc/sys/kernel/osrelease"),
        product=dmi["product_name"],
        virtualization=name_virtualization(
            guest, dmi["sys_vendor"], dmi["product_name"], read_line(root, "proc/xen/capabilities")
        ),
        iommu=name_iommu(read_text(root, "proc/cmdline"), groups),
        nvswitches=count_nvswitches(nvidia_functions(root) if functions is None else functions),
    )


def read_driver_version(root: Path) -> str | None:
    """Version of the loaded kernel module, which is there to read even where NVML is not."""
    return read_line(root, "sys/module/nvidia/version")
