# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The parts of a machine's tree: what the files hold that a profile asks for."""

import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.rehearsal.machine_parts.entries import Entry, Folder

MACHINES = Path(machine_tree.__file__).parent / "machines"
PORT = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:00.0"


def entries(name: str, **changes: Any) -> dict[str, Entry]:
    return machine_tree.entries_of({**machine_tree.load_profile(MACHINES / f"{name}.yml"), **changes})


def capability(config: Entry, wanted: int) -> int:
    """Where an extended capability begins, by the chain that the PCI Express specification describes."""
    assert isinstance(config, bytes)
    place = 0x100
    while place:
        header = struct.unpack_from("<I", config, place)[0]
        if header & 0xFFFF == wanted:
            return place
        place = header >> 20
    return 0


def test_configuration_space_holds_acs_and_the_link() -> None:
    config = entries("l40s-one-socket")[f"{PORT}/config"]
    assert isinstance(config, bytes)
    assert (len(config), config[:4], config[0x0E]) == (4096, bytes.fromhex("b5109687"), 1)
    # Status bit 4: there is a list of capabilities; the first is PCI Express, of a downstream port.
    assert config[0x06] & 0x10
    assert (config[config[0x34]], config[config[0x34] + 2] >> 4) == (0x10, 6)
    able, enabled = struct.unpack_from("<HH", config, capability(config, 0x000D) + 4)
    assert (able, enabled) == (0b1011111, 0b0011101)
    # 16 GT/s and 16 lanes at most.
    assert struct.unpack_from("<H", config, config[0x34] + 0x0C)[0] == 4 | 16 << 4


def test_configuration_space_may_be_cut_and_a_bridge_may_lack_acs() -> None:
    told = {"0000:19:00.0": {"acs": None}, "0000:19:04.0": {"config_bytes": 256}}
    found = entries("l40s-one-socket", bridge_overrides=told)
    assert capability(found[f"{PORT}/config"], 0x000D) == 0
    cut = found[PORT.replace("0000:19:00.0", "0000:19:04.0") + "/config"]
    assert isinstance(cut, bytes)
    assert len(cut) == 256


def test_a_device_off_the_bus_reads_as_ones() -> None:
    base = "sys/devices/pci0000:59/0000:59:01.0/0000:5a:00.0/0000:5b:01.0/0000:5d:00.0"
    found = entries("lost-gpu")
    assert found[f"{base}/config"] == b"\xff" * 256
    assert (found[f"{base}/current_link_width"], found[f"{base}/max_link_speed"]) == ("63", "Unknown")
    # What the kernel remembers stays.
    assert found[f"{base}/vendor"] == "0x10de"


@pytest.mark.parametrize(("name", "kind"), [("hgx-h100-snc4", "identity"), ("l40s-one-socket", "DMA-FQ")])
def test_iommu_groups_have_a_type(name: str, kind: str) -> None:
    assert entries(name)["sys/kernel/iommu_groups/0/type"] == kind


def test_without_an_iommu_there_is_no_group() -> None:
    found = entries("founding")
    assert isinstance(found["sys/kernel/iommu_groups"], Folder)
    assert not any(path.startswith("sys/kernel/iommu_groups/") for path in found)


def test_limits_of_version_2() -> None:
    limits = {"/system.slice": {"memory_max_bytes": 1 << 30, "cpus": "0-3", "memory_nodes": "0", "cpu_quota": 1.5}}
    found = entries("founding", cgroup={"limits": limits})
    here = "sys/fs/cgroup/system.slice"
    told = [found[f"{here}/{name}"] for name in ("memory.max", "cpu.max", "cpuset.cpus.effective", "cpuset.mems")]
    assert told == [str(1 << 30), "150000 100000", "0-3", "0"]
    assert found["sys/fs/cgroup/cpuset.cpus.effective"] == "0-238,240-255"
    assert "sys/fs/cgroup/memory.max" not in found
    assert found["proc/self/cgroup"] == "0::/user.slice/user-0.slice/session-1.scope"
    assert "cgroup2" in str(found["proc/self/mountinfo"])


def test_limits_of_a_container_on_a_hybrid_host() -> None:
    found = entries("hybrid-cgroup-container")
    assert found["sys/fs/cgroup/memory/memory.limit_in_bytes"] == str(200 << 30)
    assert found["sys/fs/cgroup/cpuset/cpuset.effective_cpus"] == "64-127"
    assert found["sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"] == "1600000"
    assert found["sys/fs/cgroup/unified/cgroup.controllers"] == ""
    assert "0::/docker/4f2a9c" in str(found["proc/self/cgroup"]).splitlines()
    # What lies above the container cannot be seen from inside.
    assert not any("system.slice" in path for path in found if path.startswith("sys/fs/cgroup"))


def test_memory_of_a_gpu_as_a_node_is_told_by_the_driver() -> None:
    status = str(entries("gh200")["proc/driver/nvidia/gpus/0009:01:00.0/numa_status"]).splitlines()
    assert status[:2] == ["Node:      1", "Status:    online"]
    assert int(status[3].split()[1], 16) == 99614720 << 10


def test_named_processes_are_in_proc_and_nameless_ones_elsewhere() -> None:
    found = entries("h100-mig", gpus={1: {"nvml": {"processes": [{"pid": 77, "used_mib": 1}]}}})
    assert not any(path.startswith("proc/77/") for path in found)
    found = entries("h100-mig")
    assert (found["proc/4711/comm"], found["proc/4711/cmdline"]) == ("python3", b"/usr/bin/python3\0")
    assert "process.4711 = /usr/bin/python3" in str(found["machine.nvml"])


def test_the_machine_file_tells_slices_errors_and_faults() -> None:
    mig = str(entries("h100-mig")["machine.nvml"])
    assert "mig_devices_max = 7" in mig
    assert "NVIDIA H100 80GB HBM3 MIG 3g.40gb" in mig
    lost = str(entries("lost-gpu")["machine.nvml"])
    assert "remapped_rows = 0 1 1 0" in lost
    assert lost.splitlines()[-2:] == [
        "DeviceGetHandleByIndex = GPU_IS_LOST gpu=3",
        "DeviceGetMemoryInfo = RESET_REQUIRED gpu=6",
    ]
    assert str(entries("no-driver-nouveau")["machine.nvml"]).splitlines()[-1] == "Init = DRIVER_NOT_LOADED"


def test_links_that_are_down_are_the_last_of_their_bundle() -> None:
    told = [{"to": "0000:83:00.0", "remote": "switch", "links": 3, "down": 1}]
    lines = str(entries("hgx-h100-snc4", nvlink=told)["machine.nvml"]).splitlines()
    assert [line for line in lines if line.startswith("nvlink.")][:3] == [
        "nvlink.0 = up 0000:83:00.0 switch",
        "nvlink.1 = up 0000:83:00.0 switch",
        "nvlink.2 = down 0000:83:00.0 switch",
    ]


def test_the_slot_limits_what_the_driver_calls_the_maximum() -> None:
    lines = str(entries("mixed-models")["machine.nvml"]).splitlines()
    told = [line for line in lines if line.startswith("pcie_generation_max")]
    assert [line.split()[-1] for line in told] == ["4", "4", "4", "3"]


@pytest.mark.parametrize(
    ("one", "two", "same_node", "level"),
    [
        ("pci0:00/a/b/c/x", "pci0:00/a/b/d/y", True, "PIX"),
        ("pci0:00/a/b/c/e/x", "pci0:00/a/b/d/f/y", True, "PXB"),
        ("pci0:00/a/x", "pci0:00/b/y", True, "PHB"),
        ("pci0:00/a/x", "pci1:00/b/y", True, "NODE"),
        ("pci0:00/a/x", "pci1:00/b/y", False, "SYS"),
    ],
)
def test_levels_between_two_gpus(one: str, two: str, same_node: bool, level: str) -> None:
    assert machine_tree.common_ancestor(one, two, same_node) == level
