# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""hwloc's lstopo on the same tree (HWLOC_FSROOT), its XML as plain facts."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_cpu_mask

LSTOPO = "lstopo-no-graphics"


@dataclass(frozen=True)
class Node:
    cpus: tuple[int, ...]
    memory_bytes: int
    pages: dict[int, int]
    gpu: str | None


@dataclass(frozen=True)
class Device:
    """C(bridges) leads from the top down without the host bridge; C(cpus) are those of the object that the device's
    host bridge hangs on."""

    bridges: tuple[str, ...]
    cpus: tuple[int, ...]


@dataclass
class Seen:
    cpus: tuple[int, ...] = ()
    cpus_allowed: tuple[int, ...] = ()
    nodes_allowed: tuple[int, ...] = ()
    nodes: dict[int, Node] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    distances: dict[tuple[int, int], int] = field(default_factory=dict)


def mask(text: str | None) -> tuple[int, ...]:
    """hwloc's masks have 0x before each word and leave words out that are empty."""
    words = (text or "").split(",")
    return parse_cpu_mask(",".join((word[2:] if word.startswith("0x") else word) or "0" for word in words))


def _run(root: Path) -> str:
    assert shutil.which(LSTOPO), f"{LSTOPO} is not installed; tools/system-packages installs it (package hwloc-nox)."
    environment = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "HWLOC_FSROOT": str(root),
        # Else what is not in the tree would come from the machine that runs this: the linux component alone.
        "HWLOC_THISSYSTEM": "0",
        "HWLOC_COMPONENTS": "linux,stop",
        # Nodes that are the memory of GPUs are hidden by default.
        "HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES": "1",
    }
    # All PCI devices instead of the ones that hwloc finds interesting, and what control groups do not allow as well.
    command = [LSTOPO, "--of", "xml", "--whole-io", "--disallowed"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _walk(one: ElementTree.Element, seen: Seen, bridges: tuple[str, ...], cpus: tuple[int, ...]) -> None:
    kind, place = one.get("type"), one.get("pci_busid")
    if one.get("cpuset") is not None and kind != "NUMANode":
        cpus = mask(one.get("cpuset"))
    if kind == "NUMANode":
        gpu = next((info.get("value") for info in one.findall("info") if info.get("name") == "PCIBusID"), None)
        pages = {int(page.get("size", "0")): int(page.get("count", "0")) for page in one.findall("page_type")}
        node = Node(mask(one.get("cpuset")), int(one.get("local_memory", "0")), pages, gpu)
        seen.nodes[int(one.get("os_index", "-1"))] = node
    if kind in ("PCIDev", "Bridge") and place is not None:
        seen.devices[place] = Device(bridges, cpus)
        bridges = (*bridges, place)
    for child in one.findall("object"):
        _walk(child, seen, bridges, cpus)


def read_lstopo(root: Path) -> Seen:
    tree = ElementTree.fromstring(_run(root))
    machine = tree.find("object")
    assert machine is not None
    seen = Seen(mask(machine.get("cpuset")), mask(machine.get("allowed_cpuset")), mask(machine.get("allowed_nodeset")))
    _walk(machine, seen, (), ())
    latencies = tree.find("distances2[@type='NUMANode']")
    if latencies is not None:
        rows = [int(number) for part in latencies.findall("indexes") for number in (part.text or "").split()]
        values = [int(number) for part in latencies.findall("u64values") for number in (part.text or "").split()]
        pairs = [(one, two) for one in rows for two in rows]
        seen.distances.update(zip(pairs, values))
    return seen


def _spelled(cpus: Sequence[int]) -> str:
    """A mask as the kernel writes it, in words of 32 bits."""
    digits = f"{sum(1 << cpu for cpu in cpus):x}"
    padded = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(padded[place : place + 8] for place in range(0, len(padded), 8))


def complete_for_lstopo(
    root: Path, cpus_of_nodes: dict[int, tuple[int, ...]], nodes_of_devices: dict[str, int]
) -> None:
    """Add the files that hwloc starts from to a tree without CPUs: a folder a CPU, and masks of nodes and devices.

    One thread a core and one package a node: what is compared does not go that deep.
    """
    masks = {node: _spelled(cpus) for node, cpus in cpus_of_nodes.items()}
    for node, cpus in cpus_of_nodes.items():
        for cpu in cpus:
            here = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
            here.mkdir(parents=True)
            (here / "physical_package_id").write_text(f"{node}\n", encoding="utf-8")
            (here / "core_id").write_text(f"{cpu}\n", encoding="utf-8")
            (here / "package_cpus").write_text(f"{masks[node]}\n", encoding="utf-8")
            (here / "core_cpus").write_text(f"{_spelled([cpu])}\n", encoding="utf-8")
        here = root / f"sys/devices/system/node/node{node}"
        here.mkdir(parents=True, exist_ok=True)
        (here / "cpumap").write_text(f"{masks[node]}\n", encoding="utf-8")
    for device, node in nodes_of_devices.items():
        (root / "sys/bus/pci/devices" / device / "local_cpus").write_text(f"{masks[node]}\n", encoding="utf-8")
