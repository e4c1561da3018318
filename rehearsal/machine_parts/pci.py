# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The PCI tree: every function of sys/devices, its link below sys/bus/pci, its IOMMU group, the driver's folder."""

from __future__ import annotations

from typing import Any

from .entries import Entries, Link, Profile, ProfileError
from .lists import list_of, numbers_of
from .pci_config import DOWNSTREAM_PORT, ENDPOINT, PCI_BRIDGE, ROOT_PORT, UPSTREAM_PORT, config_space

UNKNOWN_SPEED, UNKNOWN_WIDTH = "Unknown", 63


def numa_node_of(profile: Profile, device: dict[str, Any]) -> int:
    """What the device's numa_node says: its own word, else that of its host bridge."""
    node: int = device.get("numa_node", profile["host_bridges"][device["path"].split("/")[0]])
    return node


def local_cpus(profile: Profile, numa_node: int) -> str:
    """What local_cpulist shows: the node's CPUs that are online, or all of them where the node is not known."""
    online = set(numbers_of(profile["host"]["cpus_present"])) - set(numbers_of(profile["host"]["cpus_offline"]))
    for node in profile["numa_nodes"]:
        if node["id"] == numa_node:
            return list_of(cpu for cpu in numbers_of(node["cpus"]) if cpu in online)
    return list_of(online)


def pci(profile: Profile) -> Entries:
    groups = _groups(profile)
    parents = {device["path"].split("/")[-2] for device in profile["all_devices"]}
    for device in profile["all_devices"]:
        parts = device["path"].split("/")
        if parts[0] not in profile["host_bridges"]:
            raise ProfileError(f"{profile['name']}: {device['path']} begins at a host bridge that host_bridges lacks.")
        for depth in range(2, len(parts)):
            bridge = _bridge(profile, parts, depth, parents)
            yield from _function(profile, "/".join(parts[:depth]), bridge, profile["host_bridges"][parts[0]], groups)
        device = {**device, "port": ENDPOINT, "buses": None}
        yield from _function(profile, device["path"], device, numa_node_of(profile, device), groups)
        if profile["driver"] and device["kind"] == "gpu" and device.get("driver") == "nvidia":
            yield from _driver_folder(profile, device)


def _bus(address: str) -> int:
    return int(address.split(":")[1], 16)


def _bridge(profile: Profile, parts: list[str], depth: int, parents: set[str]) -> dict[str, Any]:
    """A bridge by its place on the way down: root port, then the ports of switches in turn, up and down."""
    address = parts[depth - 1]
    if depth == 2:
        port = ROOT_PORT
    elif depth % 2 == 0:
        port = DOWNSTREAM_PORT
    else:
        port = PCI_BRIDGE if address in parents else UPSTREAM_PORT
    facts = profile["bridges"]["root_port" if depth == 2 else "switch_port"]
    own = (profile.get("bridge_overrides") or {}).get(address, {})
    buses = (_bus(address), _bus(parts[depth]))
    return {**facts, **own, "class": "060400", "driver": "pcieport", "port": port, "buses": buses}


def _groups(profile: Profile) -> dict[str, int]:
    """IOMMU group of every function: a device's own number, else one for each in the order of the list."""
    if profile["host"]["iommu"] == "off":
        return {}
    groups: dict[str, int] = {}
    for number, device in enumerate(profile["all_devices"]):
        groups[device["path"].split("/")[-1]] = device.get("iommu_group", number)
    bridges = {address for device in profile["all_devices"] for address in device["path"].split("/")[1:-1]}
    after = max(groups.values(), default=-1) + 1
    groups.update({address: number for number, address in enumerate(sorted(bridges), after)})
    return groups


def _function(profile: Profile, path: str, facts: dict[str, Any], numa_node: int, groups: dict[str, int]) -> Entries:
    """The files of one PCI function and the links to it. C(facts) is a device's or a bridge's entry."""
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
        "local_cpulist": local_cpus(profile, numa_node),
    }
    if "speed" in facts:
        dead = facts.get("off_bus", False)
        speeds = {"max": facts["speed"], "current": facts.get("speed_now", facts["speed"])}
        widths = {"max": facts["width"], "current": facts.get("width_now", facts["width"])}
        for when in ("max", "current"):
            files[f"{when}_link_speed"] = UNKNOWN_SPEED if dead else f"{float(speeds[when])} GT/s PCIe"
            files[f"{when}_link_width"] = str(UNKNOWN_WIDTH if dead else widths[when])
    for name, content in files.items():
        yield f"{here}/{name}", content
    yield f"{here}/config", config_space(facts, facts["port"], facts["buses"])
    yield f"sys/bus/pci/devices/{address}", Link(here)
    if facts.get("driver"):
        yield f"{here}/driver", Link(f"sys/bus/pci/drivers/{facts['driver']}")
        yield f"sys/bus/pci/drivers/{facts['driver']}/{address}", Link(here)
    if facts.get("physical_function"):
        yield f"{here}/physfn", Link(f"sys/bus/pci/devices/{facts['physical_function']}")
    if address in groups:
        group = f"sys/kernel/iommu_groups/{groups[address]}"
        yield f"{here}/iommu_group", Link(group)
        yield f"{group}/devices/{address}", Link(here)
        yield f"{group}/type", "identity" if profile["host"]["iommu"] == "passthrough" else "DMA-FQ"


def _driver_folder(profile: Profile, gpu: dict[str, Any]) -> Entries:
    """/proc/driver/nvidia/gpus/ADDRESS; numa_status where the GPU's memory is a NUMA node of the host."""
    here = f"proc/driver/nvidia/gpus/{gpu['path'].split('/')[-1]}"
    yield (
        f"{here}/information",
        f"Model: \t\t {gpu['nvml']['name']}\nBus Type: \t PCIe\nDevice Minor: \t {gpu['minor']}",
    )
    node = gpu["nvml"].get("memory_node")
    if node is not None:
        size = next((entry["memory_total_kib"] for entry in profile["numa_nodes"] if entry["id"] == node), 0) * 1024
        yield (
            f"{here}/numa_status",
            f"Node:      {node}\nStatus:    online\nAddress:   40000000000\nSize:      {size:x}",
        )
