#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build a machine out of a profile: sys/, proc/, machine.nvml and lib/libnvidia-ml.so.1 below one folder.

    python rehearsal/machine_tree.py rehearsal/machines/founding.yml .build/rehearsal/machine

The profile's format is described in machines/README.md. The same profile always gives the same tree; a file is
written only when its content changes, and the folder itself is never replaced, so that it can stay mounted in a
container meanwhile. What the folder holds beyond the profile is removed; a folder which was not made by this
program is refused.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import yaml

MARKER = ".machine-tree"
LIBRARY = "lib/libnvidia-ml.so.1"
# sysfs has these folders even where they are empty.
FOLDERS = ("sys/bus/pci/devices", "sys/kernel/iommu_groups")
STANDIN_FOLDER = Path(__file__).resolve().parent / "nvml"
STANDIN_FLAGS = ("-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1")
STANDIN_WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror")
FORMAT = 1
MIB = 1 << 20


@dataclass(frozen=True)
class Link:
    """A symbolic link, by the path below the tree that it shall lead to."""

    target: str


Entry = Union[str, Link]


class ProfileError(Exception):
    """The profile cannot be built; the message names the place."""


# Lists of numbers -------------------------------------------------------------------------------------------------


def numbers_of(text: str) -> list[int]:
    """The kernel's list format to numbers: C(0-2,5) -> C([0, 1, 2, 5])."""
    found: list[int] = []
    for part in filter(None, str(text).strip().split(",")):
        first, _dash, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def list_of(numbers: list[int]) -> str:
    """Numbers to the kernel's list format: C([0, 1, 2, 5]) -> C(0-2,5)."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


# The parts of a tree: each yields (path below the tree, entry) ------------------------------------------------------


def _processors(profile: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    host = profile["host"]
    present = numbers_of(host["cpus_present"])
    offline = numbers_of(host["cpus_offline"])
    online = [cpu for cpu in present if cpu not in offline]
    base = "sys/devices/system/cpu"
    yield f"{base}/online", list_of(online)
    yield f"{base}/offline", list_of(offline)
    yield f"{base}/present", list_of(present)
    yield f"{base}/possible", list_of(present)
    flags = "fpu vme de pse msr pae cx8 apic sse sse2 ht lm avx avx2"
    if host["hypervisor"]:
        flags += " hypervisor"
    stanza = "processor\t: {cpu}\nvendor_id\t: {vendor}\nmodel name\t: {model}\nflags\t\t: {flags}\n"
    yield (
        "proc/cpuinfo",
        "\n".join(
            stanza.format(cpu=cpu, vendor=host["cpu_vendor"], model=host["cpu_model"], flags=flags) for cpu in online
        ),
    )


def _host(profile: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    host = profile["host"]
    yield "sys/devices/virtual/dmi/id/sys_vendor", host["vendor"]
    yield "sys/devices/virtual/dmi/id/product_name", host["product"]
    yield "sys/class/dmi/id", Link("sys/devices/virtual/dmi/id")
    yield "proc/cmdline", host["cmdline"]
    yield "proc/sys/kernel/osrelease", host["kernel"]
    if host["iommu"] != "off":
        for group, device in enumerate(profile["devices"]):
            address = device["path"].split("/")[-1]
            yield f"sys/kernel/iommu_groups/{group}/devices/{address}", Link(f"sys/devices/{device['path']}")
    if "cgroup_memory_max_bytes" in host:
        yield "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids"
        yield "sys/fs/cgroup/system.slice/memory.max", str(host["cgroup_memory_max_bytes"])
        yield "sys/fs/cgroup/system.slice/memory.high", "max"
    driver = profile["driver"]
    if driver:
        yield "sys/module/nvidia/version", driver["version"]
        yield (
            "proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver['version']}  Release Build",
        )


def _memory(profile: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    nodes = profile["numa_nodes"]
    ids = [node["id"] for node in nodes]
    base = "sys/devices/system/node"
    for name in ("online", "possible", "has_memory", "has_normal_memory"):
        yield f"{base}/{name}", list_of(ids)
    yield f"{base}/has_cpu", list_of([node["id"] for node in nodes if numbers_of(node["cpus"])])
    reserved: dict[int, int] = {}
    for node in nodes:
        here = f"{base}/node{node['id']}"
        yield f"{here}/cpulist", str(node["cpus"])
        yield f"{here}/distance", " ".join(str(distance) for distance in node["distances"])
        yield f"{here}/meminfo", _node_meminfo(node)
        for size_kib, count in node["hugepages"].items():
            reserved[size_kib] = reserved.get(size_kib, 0) + count
            pages = f"{here}/hugepages/hugepages-{size_kib}kB"
            yield f"{pages}/nr_hugepages", str(count)
            yield f"{pages}/free_hugepages", str(count)
            yield f"{pages}/surplus_hugepages", "0"
    for size_kib, count in reserved.items():
        pages = f"sys/kernel/mm/hugepages/hugepages-{size_kib}kB"
        yield f"{pages}/nr_hugepages", str(count)
        yield f"{pages}/free_hugepages", str(count)
    yield "proc/meminfo", _host_meminfo(nodes, profile["host"]["memory_available_kib"], reserved.get(2048, 0))


def _node_meminfo(node: dict[str, Any]) -> str:
    pages = node["hugepages"].get(2048, 0)
    file_kib = node["memory_file_kib"]
    rows = {
        "MemTotal": node["memory_total_kib"],
        "MemFree": node["memory_free_kib"],
        "MemUsed": node["memory_total_kib"] - node["memory_free_kib"],
        "Active(file)": file_kib // 2,
        "Inactive(file)": file_kib - file_kib // 2,
        "FilePages": file_kib,
        "Shmem": 0,
        "KReclaimable": node["memory_slab_reclaimable_kib"],
        "SReclaimable": node["memory_slab_reclaimable_kib"],
    }
    lines = [f"Node {node['id']} {name + ':':15s}{value:8d} kB" for name, value in rows.items()]
    lines += [f"Node {node['id']} {name + ':':15s}{pages:6d}" for name in ("HugePages_Total", "HugePages_Free")]
    return "\n".join(lines)


def _host_meminfo(nodes: list[dict[str, Any]], available_kib: int, pages: int) -> str:
    def total(key: str) -> int:
        return sum(node[key] for node in nodes)

    rows = {
        "MemTotal": total("memory_total_kib"),
        "MemFree": total("memory_free_kib"),
        "MemAvailable": available_kib,
        "Buffers": 0,
        "Cached": total("memory_file_kib"),
        "SwapTotal": 0,
        "SwapFree": 0,
        "Shmem": 0,
        "KReclaimable": total("memory_slab_reclaimable_kib"),
        "SReclaimable": total("memory_slab_reclaimable_kib"),
    }
    lines = [f"{name + ':':16s}{value:8d} kB" for name, value in rows.items()]
    lines += [f"{name + ':':16s}{pages:6d}" for name in ("HugePages_Total", "HugePages_Free")]
    lines += [f"{'Hugepagesize:':16s}{2048:8d} kB", f"{'Hugetlb:':16s}{pages * 2048:8d} kB"]
    return "\n".join(lines)


def _local_cpus(profile: dict[str, Any], numa_node: int) -> str:
    """What local_cpulist shows: the node's CPUs that are online, or all of them where the node is not known."""
    online = set(numbers_of(profile["host"]["cpus_present"])) - set(numbers_of(profile["host"]["cpus_offline"]))
    for node in profile["numa_nodes"]:
        if node["id"] == numa_node:
            return list_of([cpu for cpu in numbers_of(node["cpus"]) if cpu in online])
    return list_of(sorted(online))


def _pci_function(path: str, facts: dict[str, Any], numa_node: int, cpus: str) -> Iterator[tuple[str, Entry]]:
    """The files of one PCI function and the link below sys/bus/pci. C(facts) is a board's or a bridge's entry."""
    here = f"sys/devices/{path}"
    address = path.split("/")[-1]
    vendor, device = facts["id"].split(":")
    sub_vendor, sub_device = facts.get("subsystem", "0000:0000").split(":")
    files = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "subsystem_vendor": f"0x{sub_vendor}",
        "subsystem_device": f"0x{sub_device}",
        "class": f"0x{facts['class']}",
        "revision": "0xa1",
        "numa_node": str(numa_node),
        "local_cpulist": cpus,
    }
    if "speed" in facts:
        files["max_link_speed"] = f"{float(facts['speed'])} GT/s PCIe"
        files["current_link_speed"] = f"{float(facts.get('speed_now', facts['speed']))} GT/s PCIe"
        files["max_link_width"] = str(facts["width"])
        files["current_link_width"] = str(facts.get("width_now", facts["width"]))
    for name, content in files.items():
        yield f"{here}/{name}", content
    yield f"sys/bus/pci/devices/{address}", Link(here)
    if facts.get("driver"):
        yield f"{here}/driver", Link(f"sys/bus/pci/drivers/{facts['driver']}")
        yield f"sys/bus/pci/drivers/{facts['driver']}/{address}", Link(here)


def _pci(profile: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    for device in profile["devices"]:
        parts = device["path"].split("/")
        if parts[0] not in profile["host_bridges"]:
            raise ProfileError(f"{profile['name']}: {device['path']} begins at a host bridge that host_bridges lacks.")
        numa_node = profile["host_bridges"][parts[0]]
        cpus = _local_cpus(profile, numa_node)
        for depth in range(2, len(parts)):
            role = "root_port" if depth == 2 else "switch_port"
            bridge = {**profile["bridges"][role], "class": "060400", "driver": "pcieport"}
            yield from _pci_function("/".join(parts[:depth]), bridge, numa_node, cpus)
        yield from _pci_function(device["path"], {**profile["boards"][device["board"]], **device}, numa_node, cpus)


# The machine file of the NVML stand-in ------------------------------------------------------------------------------


def _gpus(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """Devices that NVML counts, in its order: the order of the profile, each with its board's facts."""
    boards = profile["boards"]
    return [
        {**boards[device["board"]], **device}
        for device in profile["devices"]
        if boards[device["board"]]["kind"] == "gpu"
    ]


def common_ancestor(path: str, other: str, same_node: bool) -> str:
    """Level of NVML's topology between two PCI paths (NVIDIA: nvmlGpuTopologyLevel_t).

    PIX: one switch between them; PXB: more than one; PHB: they meet at the host bridge; NODE: host bridges of one
    NUMA node; SYS: more than one NUMA node.
    """
    one, two = path.split("/")[:-1], other.split("/")[:-1]
    shared = 0
    while shared < min(len(one), len(two)) and one[shared] == two[shared]:
        shared += 1
    if shared == 0:
        return "NODE" if same_node else "SYS"
    if shared == 1:
        return "PHB"
    return "PIX" if max(len(one), len(two)) - shared <= 1 else "PXB"


def _on_or_off(pair: list[bool]) -> str:
    return " ".join(str(int(value)) for value in pair)


def machine_file(profile: dict[str, Any]) -> str:
    """Text that drives the NVML stand-in; its format is described at the top of nvml/machine_file.h."""
    driver = profile["driver"] or {"version": "0", "nvml": "0", "cuda": "0.0"}
    major, minor = (int(part) for part in driver["cuda"].split("."))
    lines = [f"# Made by machine_tree.py from the profile {profile['name']}.", "[system]"]
    lines += [f"driver_version = {driver['version']}", f"nvml_version = {driver['nvml']}"]
    lines += [f"cuda_version = {major * 1000 + minor * 10}"]
    gpus = _gpus(profile)
    for index, gpu in enumerate(gpus):
        lines += ["", f"[gpu {index}]"] + [f"{key} = {value}" for key, value in _gpu_facts(profile, index, gpu).items()]
    for one, gpu in enumerate(gpus):
        for two in range(one + 1, len(gpus)):
            bridges = [profile["host_bridges"][g["path"].split("/")[0]] for g in (gpu, gpus[two])]
            level = common_ancestor(gpu["path"], gpus[two]["path"], bridges[0] == bridges[1])
            lines += ["", f"[pair {one} {two}]", f"level = {level}", f"p2p = {profile['p2p']}"]
    if not profile["driver"]:
        lines += ["", "[faults]", "Init = DRIVER_NOT_LOADED"]
    return "\n".join(lines)


def _gpu_facts(profile: dict[str, Any], index: int, gpu: dict[str, Any]) -> dict[str, object]:
    nvml = gpu["nvml"]
    vendor, device = gpu["id"].split(":")
    sub_vendor, sub_device = gpu["subsystem"].split(":")
    generation = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}
    numa_node = profile["host_bridges"][gpu["path"].split("/")[0]]
    gpu_name = f"{profile['name']}.{index}"
    facts: dict[str, object] = {
        "name": nvml["name"],
        "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, gpu_name)}",
        "address": gpu["path"].split("/")[-1],
        "pci_device_id": f"0x{device}{vendor}",
        "pci_subsystem_id": f"0x{sub_device}{sub_vendor}",
        "minor": gpu["minor"],
        "memory_total": nvml["memory_total_mib"] * MIB,
        "memory_reserved": nvml["memory_reserved_mib"] * MIB,
        "memory_used": nvml["memory_used_mib"] * MIB,
        "compute_capability": nvml["compute_capability"],
        "architecture": nvml["architecture"],
        "persistence": int(nvml["persistence"]),
        "compute_mode": nvml["compute_mode"],
        "power_limit_milliwatts": nvml["power_limit_watts"] * 1000,
        "pcie_generation": generation[gpu["speed_now"]],
        "pcie_generation_max": generation[gpu["speed"]],
        "pcie_generation_gpu_max": generation[gpu["speed"]],
        "pcie_width": gpu["width_now"],
        "pcie_width_max": gpu["width"],
    }
    if "ecc" in nvml:
        facts["ecc"] = _on_or_off(nvml["ecc"])
    if "mig" in nvml:
        facts["mig"] = _on_or_off(nvml["mig"])
    if "fabric" in nvml:
        facts["fabric"] = "{state} {status} {clique}".format(**nvml["fabric"])
    if profile["nvml_affinity"]:
        facts["cpus"] = _local_cpus(profile, numa_node)
        facts["numa"] = numa_node
    number = 0
    for bundle in profile.get("nvlink", []):
        for _link in range(bundle["links"]):
            facts[f"nvlink.{number}"] = f"up {bundle['to']} {bundle['remote']}"
            number += 1
    if gpu.get("processes"):
        facts["processes"] = ",".join(f"{entry['pid']}:{entry['used_mib'] * MIB}" for entry in gpu["processes"])
    return facts


# Putting it together ------------------------------------------------------------------------------------------------


def load_profile(path: Path) -> dict[str, Any]:
    """Read a profile; the file's name is the profile's name."""
    profile = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(profile, dict) or profile.get("format") != FORMAT:
        raise ProfileError(f"{path} is no machine profile of format {FORMAT}.")
    if profile.get("name") != path.stem:
        raise ProfileError(f"{path} says name: {profile.get('name')}; expected {path.stem}, as the file is called.")
    return profile


def entries_of(profile: dict[str, Any]) -> dict[str, Entry]:
    """Every file and link of the tree by its path below the tree; contents without the closing newline."""
    entries: dict[str, Entry] = {MARKER: f"format {FORMAT}, profile {profile['name']}"}
    for part in (_host, _processors, _memory, _pci):
        for path, entry in part(profile):
            if entries.setdefault(path, entry) != entry:
                raise ProfileError(f"{profile['name']}: two different things at {path}; check the PCI paths.")
    entries["machine.nvml"] = machine_file(profile)
    return entries


def _write(path: Path, content: str) -> None:
    """Replace a file in one step: whoever reads meanwhile sees the old or the new one."""
    fresh = path.with_name(path.name + ".fresh")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(path)


def _sync_entry(dest: Path, relative: str, entry: Entry) -> bool:
    path = dest / relative
    if isinstance(entry, Link):
        target = os.path.relpath(entry.target, str(Path(relative).parent))
        if path.is_symlink() and str(path.readlink()) == target:
            return False
        _clear(path)
        path.symlink_to(target)
        return True
    content = entry + "\n"
    if path.is_file() and not path.is_symlink() and path.read_text(encoding="utf-8") == content:
        return False
    if path.is_symlink() or path.is_dir():
        _clear(path)
    _write(path, content)
    return True


def _clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def _remove_leftovers(dest: Path, entries: dict[str, Entry]) -> int:
    wanted = set(entries) | {LIBRARY}
    folders = {str(parent) for relative in wanted for parent in Path(relative).parents} | set(FOLDERS)
    removed = 0
    for folder, subfolders, files in os.walk(dest, topdown=True):
        for name in list(subfolders) + files:
            path = Path(folder) / name
            relative = str(path.relative_to(dest))
            if relative in wanted or (relative in folders and not path.is_symlink()):
                continue
            _clear(path)
            removed += 1
            if name in subfolders:
                subfolders.remove(name)
    return removed


def _refuse_foreign_folder(dest: Path) -> None:
    if dest.is_dir() and any(dest.iterdir()) and not (dest / MARKER).is_file():
        raise ProfileError(f"{dest} was not made by machine_tree.py (it has no {MARKER}); choose another folder.")


def build_tree(profile: dict[str, Any], dest: Path) -> int:
    """Bring C(dest) to what the profile says; the number of things that had to be changed."""
    _refuse_foreign_folder(dest)
    entries = entries_of(profile)
    dest.mkdir(parents=True, exist_ok=True)
    changed = _remove_leftovers(dest, entries)
    (dest / LIBRARY).parent.mkdir(exist_ok=True)
    for relative, entry in sorted(entries.items()):
        (dest / relative).parent.mkdir(parents=True, exist_ok=True)
        changed += _sync_entry(dest, relative, entry)
    for folder in FOLDERS:
        (dest / folder).mkdir(parents=True, exist_ok=True)
    return changed


def compiler() -> str | None:
    """The C compiler: what CC names, else cc, else gcc; none where there is none."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


def build_library(dest: Path, cc: str) -> bool:
    """Compile the NVML stand-in into the tree unless it is there and newer than its sources."""
    library = dest / LIBRARY
    sources = sorted(STANDIN_FOLDER.glob("*.[ch]"))
    newest = max(source.stat().st_mtime for source in sources)
    if library.is_file() and library.stat().st_mtime >= newest:
        return False
    library.parent.mkdir(parents=True, exist_ok=True)
    fresh = library.with_name(library.name + ".fresh")
    units = [str(source) for source in sources if source.suffix == ".c"]
    command = [cc, *STANDIN_FLAGS, *STANDIN_WARNINGS, "-o", str(fresh), *units, "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProfileError(f"{' '.join(command)} failed:\n{done.stderr}")
    fresh.replace(library)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a machine (sys/, proc/, NVML) out of a profile.")
    parser.add_argument("profile", type=Path, help="a file of rehearsal/machines")
    parser.add_argument("dest", type=Path, help="the folder to build or to bring up to date")
    parser.add_argument(
        "--library",
        choices=("auto", "yes", "no"),
        default="auto",
        help="compile the NVML stand-in: auto = where a C compiler is found",
    )
    arguments = parser.parse_args()
    try:
        changed = build_tree(load_profile(arguments.profile), arguments.dest)
        cc = compiler()
        compiled = False
        if arguments.library == "yes" and cc is None:
            raise ProfileError("No C compiler found (cc, gcc or what CC names); install one or use --library no.")
        if arguments.library != "no" and cc is not None:
            compiled = build_library(arguments.dest, cc)
    except (ProfileError, OSError) as error:
        sys.stderr.write(f"machine_tree.py: {error}\n")
        return 1
    library = "compiled" if compiled else "kept" if (arguments.dest / LIBRARY).is_file() else "absent"
    sys.stdout.write(f"{arguments.dest}: {arguments.profile.stem}, {changed} changes, NVML stand-in {library}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
