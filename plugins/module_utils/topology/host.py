# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host itself: its memory, CPUs, firmware's names and IOMMU, and the driver module that is loaded."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.cgroups import read_cgroup_limit
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.files import names_in, read_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.numa import read_hugepages
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.pci import NVSWITCH_CLASS, nvidia_functions
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.texts import (
    format_cpu_list,
    parse_cpu_list,
    parse_meminfo,
)

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
    groups = len(names_in(root, "sys/kernel/iommu_groups")) if (root / "sys/kernel/iommu_groups").is_dir() else None
    huge = read_hugepages(root, "sys/kernel/mm/hugepages")
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
        nvswitches=sum(1 for _address in nvidia_functions(root, (NVSWITCH_CLASS,))),
    )


def read_driver_version(root: Path) -> str | None:
    """Version of the loaded kernel module, which is there to read even where NVML is not."""
    return read_text(root, "sys/module/nvidia/version") or None
