# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host as the kernel shows it below /sys and /proc: memory, NUMA nodes, CPUs and the GPUs on the PCI bus.

The parse functions work on texts and hold all knowledge of the formats. The read functions fetch those texts below a
root which the caller gives, so that a recording of another machine is read in the same way. A file that is absent or
not as expected gives None or nothing, never an exception.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host, Hugepages, NumaNode, Pcie

NVIDIA_VENDOR = "10de"
# PCI classes (PCI Code and ID Assignment): VGA and 3D controllers are GPUs, "other bridge" is what NVSwitches show.
GPU_CLASSES = ("0300", "0302")
NVSWITCH_CLASS = "0680"
# A link speed in GT/s and the PCIe generation that brought it.
GENERATION_OF_SPEED = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
LINK_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
# The domain has four digits or more: hypervisors and Intel VMD number beyond 16 bits.
_PCI_ADDRESS = re.compile(r"^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$", re.IGNORECASE)
_MEMINFO_LINE = re.compile(r"^(?:Node\s+\d+\s+)?([^:\s]+):\s+(\d+)(\s+kB)?\s*$")
_HUGEPAGES_FOLDER = re.compile(r"^hugepages-(\d+)kB$")
# Control group v1 writes "no limit" as the largest multiple of a page; all above is meant as none.
_V1_NO_LIMIT = 1 << 62
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


@dataclass(frozen=True)
class PciGpu:
    """A GPU as the bus shows it. C(bridges) leads from the host bridge down to the port it hangs on."""

    address: str
    pci_id: str
    bridges: tuple[str, ...]
    numa_node: int | None
    cpu_list: str | None
    kernel_driver: str | None
    pcie: Pcie
    slot_generation_max: int | None


# Texts ------------------------------------------------------------------------------------------------------------


def parse_int(text: str | None) -> int | None:
    """A decimal number, or None for anything else."""
    stripped = (text or "").strip()
    return int(stripped) if re.match(r"^-?\d+$", stripped) else None


def parse_cpu_list(text: str | None) -> tuple[int, ...]:
    """The kernel's list format to numbers: C(0-2,5) -> C((0, 1, 2, 5)); what is no number is left out."""
    found: set[int] = set()
    for part in (text or "").strip().split(","):
        match = re.match(r"^(\d+)(?:-(\d+))?$", part.strip())
        if match:
            first = int(match.group(1))
            found.update(range(first, int(match.group(2) or first) + 1))
    return tuple(sorted(found))


def format_cpu_list(numbers: Sequence[int]) -> str:
    """Numbers to the kernel's list format: C((0, 1, 2, 5)) -> C(0-2,5)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_meminfo(text: str | None) -> dict[str, int]:
    """/proc/meminfo or a node's meminfo: bytes by name, and counts for the lines without a unit (HugePages_*)."""
    found = {}
    for line in (text or "").splitlines():
        match = _MEMINFO_LINE.match(line.strip())
        if match:
            found[match.group(1)] = int(match.group(2)) * (KIB if match.group(3) else 1)
    return found


def parse_pci_address(text: str | None) -> str | None:
    """One spelling for one device: lower case, the domain without needless zeros but with four digits at least."""
    match = _PCI_ADDRESS.match((text or "").strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def parse_link_speed(text: str | None) -> int | None:
    """C(32.0 GT/s PCIe) -> C(5), the PCIe generation; None for C(Unknown)."""
    match = re.match(r"^\s*(\d+(?:\.\d+)?)\s*GT/s", text or "")
    return GENERATION_OF_SPEED.get(float(match.group(1))) if match else None


def parse_link_width(text: str | None) -> int | None:
    """Lanes; None for what no link can have (0, 63 and 255 stand for unknown)."""
    width = parse_int(text)
    return width if width in LINK_WIDTHS else None


def parse_numa_node(text: str | None) -> int | None:
    """The kernel's -1 is "not known", so it becomes None."""
    node = parse_int(text)
    return node if node is not None and node >= 0 else None


def parse_cpuinfo(text: str | None) -> tuple[str | None, bool | None]:
    """Model of the processor and whether it runs under a hypervisor (None where the architecture does not tell)."""
    model: str | None = None
    guest: bool | None = None
    for line in (text or "").splitlines():
        key, _colon, value = (part.strip() for part in line.partition(":"))
        if key == "model name" or (key in ("cpu", "Model") and model is None):
            model = " ".join(value.split()) or None
        elif key == "flags":
            guest = "hypervisor" in value.split()
        if model is not None and guest is not None:
            break
    return model, guest


def name_virtualization(guest: bool | None, vendor: str | None, product: str | None) -> str | None:
    """Which hypervisor a guest runs under; none on bare metal, other where the maker is not known."""
    if guest is False:
        return "none"
    maker = f"{vendor or ''} {product or ''}".lower()
    for mark, name in _HYPERVISORS + (_CLOUDS if guest else ()):
        if mark in maker:
            return name
    return "other" if guest else None


def name_iommu(cmdline: str | None, groups: int | None) -> str | None:
    """off, passthrough (identity mapping for the host's own drivers) or on (addresses are translated).

    C(groups) is the number of IOMMU groups, None where the kernel shows none of that.
    """
    words = (cmdline or "").split()
    if groups:
        return "passthrough" if "iommu=pt" in words or "iommu.passthrough=1" in words else "on"
    if groups == 0 or "iommu=off" in words:
        return "off"
    return None


def parse_cgroup_paths(text: str | None) -> tuple[str | None, str | None]:
    """/proc/self/cgroup: the path in the unified hierarchy and the path of v1's memory controller."""
    unified: str | None = None
    memory: str | None = None
    for line in (text or "").splitlines():
        number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if number == "0" and not controllers:
            unified = path
        elif "memory" in controllers.split(","):
            memory = path
    return unified, memory


def parse_cgroup_limit(text: str | None) -> int | None:
    """memory.max, memory.high or memory.limit_in_bytes: bytes, None where there is no limit."""
    limit = parse_int(text)
    return limit if limit is not None and limit < _V1_NO_LIMIT else None


def share_available(available_bytes: int | None, reclaimable_bytes: Sequence[int | None]) -> list[int | None]:
    """Divide the host's MemAvailable among its NUMA nodes by what each has free or could free.

    The kernel computes MemAvailable for the whole host only. A node's part is taken as proportional to its free
    memory, page cache and reclaimable slabs, so that the parts add up to no more than the whole.
    """
    total = sum(part for part in reclaimable_bytes if part is not None)
    if available_bytes is None or total == 0:
        return [None for _part in reclaimable_bytes]
    return [None if part is None else available_bytes * part // total for part in reclaimable_bytes]


# Files ------------------------------------------------------------------------------------------------------------


def read_text(root: Path, relative: str) -> str | None:
    try:
        return (root / relative).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _names(root: Path, relative: str) -> list[str]:
    try:
        return sorted(path.name for path in (root / relative).iterdir())
    except OSError:
        return []


def _link_name(root: Path, relative: str) -> str | None:
    """The last part of where a symbolic link leads; the link's end need not exist."""
    try:
        return (root / relative).readlink().name
    except OSError:
        return None


def _hugepages(root: Path, relative: str) -> tuple[Hugepages, ...]:
    found = []
    for name in _names(root, relative):
        match = _HUGEPAGES_FOLDER.match(name)
        total = parse_int(read_text(root, f"{relative}/{name}/nr_hugepages"))
        if match and total is not None:
            free = parse_int(read_text(root, f"{relative}/{name}/free_hugepages"))
            found.append(Hugepages(int(match.group(1)) * KIB, total, total if free is None else free))
    return tuple(sorted(found, key=lambda pages: pages.size_bytes))


def _reclaimable(memory: dict[str, int]) -> int | None:
    if "MemFree" not in memory:
        return None
    slabs = memory.get("KReclaimable", memory.get("SReclaimable", 0))
    return memory["MemFree"] + memory.get("Active(file)", 0) + memory.get("Inactive(file)", 0) + slabs


def read_numa_nodes(root: Path, host: Host) -> tuple[NumaNode, ...]:
    """The nodes that are online, by id; ids may have gaps and need not begin at 0.

    A node that is the only one holds all of the host's memory, so the host's numbers are given for it: in guests whose
    memory was added after the boot the kernel's account of the node lags behind.
    """
    base = "sys/devices/system/node"
    ids = sorted(int(match.group(1)) for match in map(re.compile(r"^node(\d+)$").match, _names(root, base)) if match)
    online = parse_cpu_list(read_text(root, f"{base}/online"))
    ids = [node for node in ids if not online or node in online]
    memories = [parse_meminfo(read_text(root, f"{base}/node{node}/meminfo")) for node in ids]
    shares = share_available(host.memory_available_bytes, [_reclaimable(memory) for memory in memories])
    nodes = []
    for node, memory, share in zip(ids, memories, shares):
        cpus = parse_cpu_list(read_text(root, f"{base}/node{node}/cpulist"))
        distances = (read_text(root, f"{base}/node{node}/distance") or "").split()
        nodes.append(
            NumaNode(
                id=node,
                cpus=format_cpu_list(cpus),
                has_cpus=bool(cpus),
                memory_total_bytes=memory.get("MemTotal"),
                memory_free_bytes=memory.get("MemFree"),
                memory_available_bytes=share,
                hugepages=_hugepages(root, f"{base}/node{node}/hugepages"),
                distances=tuple(int(distance) for distance in distances if distance.isdigit()),
            )
        )
    if len(nodes) == 1 and host.memory_total_bytes is not None:
        nodes[0] = replace(
            nodes[0],
            memory_total_bytes=host.memory_total_bytes,
            memory_free_bytes=host.memory_free_bytes,
            memory_available_bytes=host.memory_available_bytes,
        )
    return tuple(nodes)


def _cgroup_folders(path: str) -> list[str]:
    """A path and all above it: C(/a/b) -> C(['a/b', 'a', ''])."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]


def read_cgroup_limit(root: Path) -> int | None:
    """The smallest memory limit that a system service would live under, None without one.

    Looked at are the system slice, where services start, and the groups above this process, as in a container that
    sees the host's hierarchy; but not a user's session, whose limits do not hold for services.
    """
    unified, memory = parse_cgroup_paths(read_text(root, "proc/self/cgroup"))
    limits = []
    for base, own, files in (
        ("sys/fs/cgroup", unified, ("memory.max", "memory.high")),
        ("sys/fs/cgroup/memory", memory, ("memory.limit_in_bytes",)),
    ):
        paths = ["/system.slice"] + ([own] if own and not own.startswith("/user.slice") else [])
        for folder in {folder for path in paths for folder in _cgroup_folders(path)}:
            limits += [parse_cgroup_limit(read_text(root, f"{base}/{folder}/{file}")) for file in files]
    return min((limit for limit in limits if limit is not None), default=None)


def _offline_cpus(root: Path) -> str | None:
    """CPUs that are there and not online. The kernel's own list also holds numbers that no CPU is plugged in for."""
    present = parse_cpu_list(read_text(root, "sys/devices/system/cpu/present"))
    online = parse_cpu_list(read_text(root, "sys/devices/system/cpu/online"))
    return format_cpu_list([cpu for cpu in present if cpu not in online]) or None if online else None


def read_host(root: Path) -> Host:
    memory = parse_meminfo(read_text(root, "proc/meminfo"))
    model, guest = parse_cpuinfo(read_text(root, "proc/cpuinfo"))
    dmi = {}
    for name in ("sys_vendor", "product_name"):
        # Recordings often hold only one end of the link class/dmi/id.
        dmi[name] = read_text(root, f"sys/class/dmi/id/{name}") or read_text(root, f"sys/devices/virtual/dmi/id/{name}")
    groups = len(_names(root, "sys/kernel/iommu_groups")) if (root / "sys/kernel/iommu_groups").is_dir() else None
    huge = _hugepages(root, "sys/kernel/mm/hugepages")
    huge_bytes = sum(pages.size_bytes * pages.total for pages in huge)
    if not huge:
        huge_bytes = memory.get("HugePages_Total", 0) * memory.get("Hugepagesize", 0)
    return Host(
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        memory_free_bytes=memory.get("MemFree"),
        hugepages_total_bytes=huge_bytes,
        cgroup_limit_bytes=read_cgroup_limit(root),
        cpus=read_text(root, "sys/devices/system/cpu/online") or None,
        cpus_offline=_offline_cpus(root),
        cpu_model=model,
        kernel=read_text(root, "proc/sys/kernel/osrelease") or None,
        product=dmi["product_name"] or None,
        virtualization=name_virtualization(guest, dmi["sys_vendor"], dmi["product_name"]),
        iommu=name_iommu(read_text(root, "proc/cmdline"), groups),
        nvswitches=sum(1 for _address in _nvidia_functions(root, (NVSWITCH_CLASS,))),
    )


def _nvidia_functions(root: Path, classes: tuple[str, ...]) -> list[str]:
    """PCI addresses of NVIDIA's functions of these classes, in the order of the bus."""
    found = []
    for name in _names(root, "sys/bus/pci/devices"):
        here = f"sys/bus/pci/devices/{name}"
        if parse_pci_address(name) is None or (read_text(root, f"{here}/vendor") or "")[2:] != NVIDIA_VENDOR:
            continue
        # A virtual function is a slice of a GPU for a guest, not a GPU of this host.
        virtual = os.path.lexists(root / here / "physfn")
        if (read_text(root, f"{here}/class") or "")[2:6] in classes and not virtual:
            found.append(name)
    return sorted(found, key=lambda name: [int(part, 16) for part in re.split(r"[:.]", name)])


def _bridges(root: Path, name: str) -> tuple[str, ...]:
    """The way from the host bridge to the device, from where its link below sys/bus/pci leads."""
    try:
        target = (root / "sys/bus/pci/devices" / name).readlink()
    except OSError:
        return ()
    parts = target.parts
    starts = [place for place, part in enumerate(parts) if re.match(r"^pci[0-9a-f]{4,8}:[0-9a-f]{2}$", part)]
    return parts[starts[-1] : -1] if starts else ()


def read_pci_gpus(root: Path) -> tuple[PciGpu, ...]:
    gpus = []
    for name in _nvidia_functions(root, GPU_CLASSES):
        here = f"sys/bus/pci/devices/{name}"
        bridges = _bridges(root, name)
        slot = f"sys/bus/pci/devices/{bridges[-1]}" if len(bridges) > 1 else None
        gpus.append(
            PciGpu(
                address=parse_pci_address(name) or name,
                pci_id=f"{NVIDIA_VENDOR}:{(read_text(root, f'{here}/device') or '')[2:]}",
                bridges=bridges,
                numa_node=parse_numa_node(read_text(root, f"{here}/numa_node")),
                cpu_list=read_text(root, f"{here}/local_cpulist") or None,
                kernel_driver=_link_name(root, f"{here}/driver"),
                pcie=Pcie(
                    generation_max=parse_link_speed(read_text(root, f"{here}/max_link_speed")),
                    width_max=parse_link_width(read_text(root, f"{here}/max_link_width")),
                    generation=parse_link_speed(read_text(root, f"{here}/current_link_speed")),
                    width=parse_link_width(read_text(root, f"{here}/current_link_width")),
                ),
                slot_generation_max=parse_link_speed(read_text(root, f"{slot}/max_link_speed")) if slot else None,
            )
        )
    return tuple(gpus)


def read_driver_version(root: Path) -> str | None:
    """Version of the loaded kernel module, which is there to read even where NVML is not."""
    return read_text(root, "sys/module/nvidia/version") or None
