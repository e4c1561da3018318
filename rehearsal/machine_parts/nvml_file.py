# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machine file that drives the NVML stand-in; its format is described at the top of nvml/machine_file.h."""

from __future__ import annotations

import uuid
from typing import Any

from .entries import Profile
from .pci import local_cpus, numa_node_of
from .pci_config import SPEED_CODES

MIB = 1 << 20
# What the firmware says that does not know where a device is.
NO_NODE = -1


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


def machine_file(profile: Profile) -> str:
    gpus = [gpu for gpu in profile["all_gpus"] if gpu.get("nvml") and gpu.get("driver") == "nvidia"]
    lines = [f"# Made by machine_tree.py from the profile {profile['name']}.", "[system]"]
    driver = profile["driver"]
    if driver:
        major, minor = (int(part) for part in driver["cuda"].split("."))
        lines += [f"driver_version = {driver['version']}", f"nvml_version = {driver['nvml']}"]
        lines += [f"cuda_version = {major * 1000 + minor * 10}"]
    named = {entry["pid"]: entry["name"] for gpu in gpus for entry in _processes(gpu) if entry.get("name")}
    lines += [f"process.{pid} = {name}" for pid, name in named.items()]
    for index, gpu in enumerate(gpus):
        lines += ["", f"[gpu {index}]"] + [f"{key} = {value}" for key, value in _gpu_facts(profile, index, gpu).items()]
    for one, gpu in enumerate(gpus):
        for two in range(one + 1, len(gpus)):
            nodes = [numa_node_of(profile, end) for end in (gpu, gpus[two])]
            level = common_ancestor(gpu["path"], gpus[two]["path"], nodes[0] == nodes[1] != NO_NODE)
            lines += ["", f"[pair {one} {two}]", f"level = {level}", f"p2p = {profile['p2p']}"]
    faults = list(profile.get("faults") or ())
    if not driver:
        faults.append("Init = DRIVER_NOT_LOADED")
    if faults:
        lines += ["", "[faults]", *faults]
    return "\n".join(lines)


def _processes(gpu: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = gpu["nvml"].get("processes") or []
    return found


def _uuid(kind: str, name: str) -> str:
    return f"{kind}-{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"


def _bits(values: list[bool] | list[int]) -> str:
    return " ".join(str(int(value)) for value in values)


def _gpu_facts(profile: Profile, index: int, gpu: dict[str, Any]) -> dict[str, object]:
    nvml = gpu["nvml"]
    vendor, device = gpu["id"].split(":")
    sub_vendor, sub_device = gpu["subsystem"].split(":")
    name = f"{profile['name']}.{index}"
    facts: dict[str, object] = {
        "name": nvml["name"],
        "uuid": _uuid("GPU", name),
        "address": gpu["path"].split("/")[-1],
        "pci_device_id": f"0x{device}{vendor}",
        "pci_subsystem_id": f"0x{sub_device}{sub_vendor}",
        "minor": gpu["minor"],
        "memory_total": nvml["memory_total_mib"] * MIB,
        "memory_reserved": nvml["memory_reserved_mib"] * MIB,
        "memory_used": nvml.get("memory_used_mib", 0) * MIB,
        "compute_capability": nvml["compute_capability"],
        "architecture": nvml["architecture"],
        "persistence": int(nvml.get("persistence", True)),
        "compute_mode": nvml.get("compute_mode", 0),
        "power_limit_milliwatts": nvml["power_limit_watts"] * 1000,
        "pcie_generation": SPEED_CODES[gpu.get("speed_now", gpu["speed"])],
        "pcie_generation_max": min(SPEED_CODES[gpu["speed"]], _slot_generation(profile, gpu)),
        "pcie_generation_gpu_max": SPEED_CODES[gpu["speed"]],
        "pcie_width": gpu.get("width_now", gpu["width"]),
        "pcie_width_max": gpu["width"],
        "virtualization": nvml.get("virtualization", "PASSTHROUGH" if profile["host"]["hypervisor"] else "NONE"),
    }
    facts.update({key: nvml[key] for key in ("serial", "memory_node", "performance_state") if key in nvml})
    for key in ("ecc", "mig", "utilization", "ecc_volatile", "ecc_aggregate", "remapped_rows", "retired_pages"):
        if key in nvml:
            facts[key] = _bits(nvml[key])
    if "fabric" in nvml:
        fabric = nvml["fabric"]
        facts["fabric"] = f"{fabric['state']} {fabric['status']} {fabric['clique']}"
        if "cluster" in fabric:
            facts["fabric"] = f"{facts['fabric']} 0 1 {fabric['cluster']}"
    if profile["nvml_affinity"]:
        node = numa_node_of(profile, gpu)
        facts["cpus"] = local_cpus(profile, node)
        if node >= 0:
            facts["numa"] = nvml.get("memory_affinity", node)
    facts.update(_links(nvml.get("nvlink", profile.get("nvlink") or [])))
    for key, kind in (("processes", "compute"), ("graphics_processes", "graphics")):
        held = [entry for entry in _processes(gpu) if entry.get("kind", "compute") == kind]
        if held:
            facts[key] = ",".join(_held(entry) for entry in held)
    if nvml.get("mig_devices"):
        facts["mig_devices_max"] = nvml.get("mig_devices_max", 7)
        for number, entry in enumerate(nvml["mig_devices"]):
            place = f"{entry['gpu_instance']} {entry.get('compute_instance', 0)}"
            facts[f"mig.{number}"] = (
                f"{_uuid('MIG', f'{name}.{number}')} {place} {entry['memory_mib'] * MIB} {entry['name']}"
            )
    return facts


def _slot_generation(profile: Profile, gpu: dict[str, Any]) -> int:
    """What the port above the GPU can; NVML's "maximum" heeds it, "GPU maximum" does not."""
    parts = gpu["path"].split("/")
    if len(parts) < 3 or profile["host"]["hypervisor"]:
        return SPEED_CODES[gpu["speed"]]
    port = profile["bridges"]["root_port" if len(parts) == 3 else "switch_port"]
    own = (profile.get("bridge_overrides") or {}).get(parts[-2], {})
    return SPEED_CODES[{**port, **own}["speed"]]


def _held(entry: dict[str, Any]) -> str:
    used = entry.get("used_mib")
    return str(entry["pid"]) if used is None else f"{entry['pid']}:{used * MIB}"


def _links(bundles: list[dict[str, Any]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for bundle in bundles:
        for link in range(bundle["links"]):
            state = "down" if link >= bundle["links"] - bundle.get("down", 0) else "up"
            found[f"nvlink.{len(found)}"] = f"{state} {bundle['to']} {bundle['remote']}"
    return found
