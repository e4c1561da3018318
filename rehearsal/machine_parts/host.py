# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host itself: processors, firmware's names, kernel, IOMMU groups, the driver's files below /proc."""

from __future__ import annotations

from .entries import Entries, Folder, Link, Profile
from .lists import list_of, numbers_of


def processors(profile: Profile) -> Entries:
    host = profile["host"]
    present = numbers_of(host["cpus_present"])
    offline = set(numbers_of(host["cpus_offline"]))
    online = [cpu for cpu in present if cpu not in offline]
    base = "sys/devices/system/cpu"
    yield f"{base}/online", list_of(online)
    yield f"{base}/offline", list_of(offline)
    yield f"{base}/present", list_of(present)
    yield f"{base}/possible", list_of(present)
    yield "proc/cpuinfo", _cpuinfo(profile, online)


def _cpuinfo(profile: Profile, online: list[int]) -> str:
    host = profile["host"]
    if host["architecture"] == "ppc64le":
        stanzas = [f"processor\t: {cpu}\ncpu\t\t: {host['cpu_model']}\nrevision\t: 2.1\n" for cpu in online]
        return "\n".join(stanzas) + f"\nplatform\t: PowerNV\nmodel\t\t: {host['product']}\nMMU\t\t: Radix"
    if host["architecture"] == "aarch64":
        # The kernel names no model here; tools know it by implementer and part.
        implementer, part = host["cpu_vendor"].split(":")
        stanza = "processor\t: {cpu}\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd sve sve2\nCPU implementer\t: {one}\n"
        stanza += "CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {two}\nCPU revision\t: 0\n"
        return "\n".join(stanza.format(cpu=cpu, one=implementer, two=part) for cpu in online)
    flags = "fpu vme de pse msr pae cx8 apic sse sse2 ht lm avx avx2"
    if host["hypervisor"]:
        flags += " hypervisor"
    stanza = "processor\t: {cpu}\nvendor_id\t: {vendor}\nmodel name\t: {model}\nflags\t\t: {flags}\n"
    return "\n".join(
        stanza.format(cpu=cpu, vendor=host["cpu_vendor"], model=host["cpu_model"], flags=flags) for cpu in online
    )


def host(profile: Profile) -> Entries:
    facts = profile["host"]
    if facts["architecture"] == "ppc64le":
        # No DMI on POWER: the device tree names the machine, ended by a zero byte.
        yield "sys/firmware/devicetree/base/model", f"{facts['product']}\0".encode()
    else:
        yield "sys/devices/virtual/dmi/id/sys_vendor", facts["vendor"]
        yield "sys/devices/virtual/dmi/id/product_name", facts["product"]
        yield "sys/class/dmi/id", Link("sys/devices/virtual/dmi/id")
    yield "proc/cmdline", facts["cmdline"]
    yield "proc/sys/kernel/osrelease", facts["kernel"]
    # sysfs has these folders even where they are empty.
    yield "sys/bus/pci/devices", Folder()
    yield "sys/kernel/iommu_groups", Folder()


def driver(profile: Profile) -> Entries:
    """What the loaded kernel module shows of itself."""
    facts = profile["driver"]
    if not facts:
        return
    machine = profile["host"]["architecture"]
    open_module = facts.get("flavour", "open") == "open"
    kind = f"Open Kernel Module for {machine}" if open_module else f"{machine} Kernel Module"
    version = facts["version"]
    yield "sys/module/nvidia/version", version
    yield "sys/module/nvidia/initstate", "live"
    held = sum(len((gpu.get("nvml") or {}).get("processes") or ()) for gpu in profile["all_gpus"])
    yield "sys/module/nvidia/refcnt", str(2 + held)
    for holder in ("nvidia_modeset", "nvidia_uvm"):
        yield f"sys/module/nvidia/holders/{holder}", Link(f"sys/module/{holder}")
        yield f"sys/module/{holder}/initstate", "live"
    yield (
        "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build  (builder@host)\nGCC version:  gcc version 12.2.0",
    )


def processes(profile: Profile) -> Entries:
    """/proc/PID of the processes that are named; one without a name runs where this /proc does not show it."""
    known = {entry["pid"]: entry for entry in profile.get("processes") or ()}
    for gpu in profile["all_gpus"]:
        for entry in (gpu.get("nvml") or {}).get("processes") or ():
            if entry.get("name") is not None:
                known.setdefault(entry["pid"], entry)
    for pid, entry in known.items():
        name = entry["name"]
        # The kernel cuts the command's name at 15 characters; the command line is whole.
        yield f"proc/{pid}/comm", name.rsplit("/", 1)[-1][:15]
        yield f"proc/{pid}/cmdline", "\0".join([*(entry.get("command") or [name]), ""]).encode()
        yield f"proc/{pid}/status", f"Name:\t{name.rsplit('/', 1)[-1][:15]}\nState:\tS (sleeping)\nPid:\t{pid}"
