# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.cgroups import read_cgroup_limit
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.host import (
    name_iommu,
    name_virtualization,
    parse_cpuinfo,
    read_driver_version,
    read_host,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.numa import read_numa_nodes, share_available
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.texts import (
    format_cpu_list,
    parse_cpu_list,
    parse_link_speed,
    parse_link_width,
    parse_meminfo,
    parse_numa_node,
    parse_pci_address,
)

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for relative, content in files.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n", encoding="utf-8")
    return root


def pci_device(root: Path, path: str, **files: str) -> None:
    """One function below sys/devices with its link below sys/bus/pci, as the kernel lays them out."""
    address = path.split("/")[-1]
    write(root, {f"sys/devices/{path}/{name}": content for name, content in files.items()})
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / address).symlink_to(f"../../../devices/{path}")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("0-1,8,10-11", (0, 1, 8, 10, 11)),
        ("5", (5,)),
        ("", ()),
        (None, ()),
        ("0-63,128-191", tuple(range(64)) + tuple(range(128, 192))),
        ("nonsense,3", (3,)),
        ("-1", ()),
    ],
)
def test_cpu_list_is_parsed(text: str | None, numbers: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == numbers


@pytest.mark.parametrize("text", ["0-238,240-255", "0,2,4", "7", ""])
def test_cpu_list_comes_back_as_it_was(text: str) -> None:
    assert format_cpu_list(parse_cpu_list(text)) == text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:06:00.0", "0000:06:00.0"),
        ("00000000:F4:00.0", "0000:f4:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0009d7e8:00:02.0", "9d7e8:00:02.0"),
        ("00:1f.3", None),
        ("", None),
        (None, None),
    ],
)
def test_pci_address_has_one_spelling(text: str | None, address: str | None) -> None:
    assert parse_pci_address(text) == address


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("8.0 GT/s PCIe", 3),
        ("16.0 GT/s PCIe", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("8 GT/s", 3),
        ("Unknown", None),
        ("Unknown speed", None),
        ("12.0 GT/s", None),
        (None, None),
    ],
)
def test_link_speed_names_its_generation(text: str | None, generation: int | None) -> None:
    assert parse_link_speed(text) == generation


@pytest.mark.parametrize(
    ("text", "width"), [("16", 16), ("1", 1), ("0", None), ("63", None), ("255", None), ("x", None)]
)
def test_link_width_is_one_that_links_have(text: str, width: int | None) -> None:
    assert parse_link_width(text) == width


@pytest.mark.parametrize(("text", "node"), [("-1", None), ("0", 0), ("72", 72), ("", None), (None, None)])
def test_numa_node_minus_one_is_unknown(text: str | None, node: int | None) -> None:
    assert parse_numa_node(text) == node


def test_meminfo_gives_bytes_and_counts() -> None:
    text = "MemTotal:       1584850944 kB\nActive(file):      12 kB\nHugePages_Total:    3\nrubbish\n"
    assert parse_meminfo(text) == {"MemTotal": 1622887366656, "Active(file)": 12288, "HugePages_Total": 3}


def test_node_meminfo_is_the_same_with_a_prefix() -> None:
    assert parse_meminfo("Node 12 MemFree:   100 kB\nNode 12 HugePages_Free:  7\n") == {
        "MemFree": 102400,
        "HugePages_Free": 7,
    }


@pytest.mark.parametrize(
    ("text", "model", "guest"),
    [
        ("model name\t: AMD  EPYC 9575F\nflags\t\t: fpu sse\n", "AMD EPYC 9575F", False),
        ("model name\t: Xeon\nflags\t\t: fpu hypervisor\n", "Xeon", True),
        ("processor : 0\ncpu : POWER9, altivec supported\n", "POWER9, altivec supported", None),
        ("processor\t: 0\nFeatures\t: fp asimd\n", None, None),
        (None, None, None),
    ],
)
def test_cpuinfo(text: str | None, model: str | None, guest: bool | None) -> None:
    assert parse_cpuinfo(text) == (model, guest)


@pytest.mark.parametrize(
    ("guest", "vendor", "product", "name"),
    [
        (False, "Amazon EC2", "p5.48xlarge", "none"),
        (True, "QEMU", "Standard PC (Q35 + ICH9, 2009)", "kvm"),
        (True, "Amazon EC2", "p5.48xlarge", "kvm"),
        (True, "Apache Software Foundation", "CloudStack KVM Hypervisor", "kvm"),
        (True, "Microsoft Corporation", "Virtual Machine", "hyperv"),
        (True, "VMware, Inc.", "VMware7,1", "vmware"),
        (True, None, None, "other"),
        (None, "QEMU", "KVM Virtual Machine", "kvm"),
        (None, "Amazon EC2", "c7g.metal", None),
        (None, None, None, None),
    ],
)
def test_virtualization(guest: bool | None, vendor: str | None, product: str | None, name: str | None) -> None:
    assert name_virtualization(guest, vendor, product) == name


@pytest.mark.parametrize(
    ("cmdline", "groups", "name"),
    [
        ("ro amd_iommu=off iommu=off", 0, "off"),
        ("ro", 0, "off"),
        ("ro intel_iommu=on", 40, "on"),
        ("ro intel_iommu=on iommu=pt", 40, "passthrough"),
        ("ro iommu.passthrough=1", 40, "passthrough"),
        ("ro iommu=pt", 0, "off"),
        ("ro iommu=off", None, "off"),
        ("ro", None, None),
        (None, None, None),
    ],
)
def test_iommu(cmdline: str | None, groups: int | None, name: str | None) -> None:
    assert name_iommu(cmdline, groups) == name


def test_available_memory_is_shared_by_what_nodes_can_free() -> None:
    assert share_available(396_000_000_000, [198, 198]) == [198_000_000_000, 198_000_000_000]
    assert share_available(90, [10, None, 20]) == [30, None, 60]
    assert share_available(None, [1, 2]) == [None, None]
    assert share_available(5, [0, 0]) == [None, None]
    assert share_available(5, []) == []


def test_nodes_may_have_gaps_and_some_be_offline(tmp_path: Path) -> None:
    files = {"sys/devices/system/node/online": "1,33,72"}
    for node, cpus in ((1, "0-5"), (33, "6-11"), (72, ""), (99, "12-17")):
        files[f"sys/devices/system/node/node{node}/cpulist"] = cpus
        files[f"sys/devices/system/node/node{node}/meminfo"] = (
            f"Node {node} MemTotal: 1048576 kB\nNode {node} MemFree: 524288 kB"
        )
        files[f"sys/devices/system/node/node{node}/distance"] = "10 20 20"
    nodes = read_numa_nodes(write(tmp_path, files), Host(memory_available_bytes=3 * GIB // 2))
    assert [(node.id, node.cpus, node.has_cpus) for node in nodes] == [
        (1, "0-5", True),
        (33, "6-11", True),
        (72, "", False),
    ]
    assert {node.memory_total_bytes for node in nodes} == {GIB}
    assert [node.memory_available_bytes for node in nodes] == [GIB // 2] * 3
    assert nodes[0].distances == (10, 20, 20)


def test_the_only_node_holds_the_hosts_memory(tmp_path: Path) -> None:
    files = {"sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 1 kB"}
    host = Host(memory_total_bytes=8 * GIB, memory_available_bytes=6 * GIB, memory_free_bytes=5 * GIB)
    (node,) = read_numa_nodes(write(tmp_path, files), host)
    assert (node.memory_total_bytes, node.memory_available_bytes, node.memory_free_bytes) == (
        8 * GIB,
        6 * GIB,
        5 * GIB,
    )


def test_a_node_whose_memory_cannot_be_read_has_unknown_memory(tmp_path: Path) -> None:
    files = {
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1048576 kB\nNode 0 MemFree: 524288 kB",
        "sys/devices/system/node/node1/cpulist": "4-7",
    }
    nodes = read_numa_nodes(write(tmp_path, files), Host(memory_available_bytes=1000))
    assert (nodes[1].memory_total_bytes, nodes[1].memory_available_bytes) == (None, None)
    assert nodes[0].memory_available_bytes == 1000


def test_nothing_below_the_root_gives_nothing(tmp_path: Path) -> None:
    host = read_host(tmp_path)
    assert host == Host()
    assert read_numa_nodes(tmp_path, host) == ()
    assert read_pci_gpus(tmp_path) == ()
    assert read_driver_version(tmp_path) is None


def test_cpus_that_were_never_plugged_in_are_not_offline(tmp_path: Path) -> None:
    base = "sys/devices/system/cpu"
    root = write(tmp_path, {f"{base}/present": "0-15", f"{base}/online": "0-6,8-15", f"{base}/offline": "7,16-127"})
    assert read_host(root).cpus_offline == "7"


def test_huge_pages_of_every_size_count(tmp_path: Path) -> None:
    base = "sys/kernel/mm/hugepages"
    root = write(
        tmp_path, {f"{base}/hugepages-2048kB/nr_hugepages": "3", f"{base}/hugepages-1048576kB/nr_hugepages": "2"}
    )
    assert read_host(root).hugepages_total_bytes == 3 * (2 << 20) + 2 * GIB


def test_huge_pages_from_meminfo_where_sysfs_has_none(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/meminfo": "HugePages_Total:       5\nHugepagesize:       2048 kB"})
    assert read_host(root).hugepages_total_bytes == 5 * (2 << 20)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"sys/fs/cgroup/memory.max": "8589934592"}, 8 * GIB),
        ({"sys/fs/cgroup/memory.max": "max"}, None),
        ({"sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/system.slice/memory.high": "4294967296"}, 4 * GIB),
        (
            {
                "proc/self/cgroup": "0::/machine.slice/box.scope",
                "sys/fs/cgroup/machine.slice/memory.max": "2147483648",
                "sys/fs/cgroup/machine.slice/box.scope/memory.max": "3221225472",
            },
            2 * GIB,
        ),
        # A session's limit is not a service's.
        (
            {
                "proc/self/cgroup": "0::/user.slice/user-0.slice/session-1.scope",
                "sys/fs/cgroup/user.slice/memory.max": "1073741824",
            },
            None,
        ),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        (
            {
                "proc/self/cgroup": "5:cpuset:/x\n4:memory:/docker/abc\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "1073741824",
            },
            GIB,
        ),
        ({}, None),
    ],
)
def test_memory_limit_of_control_groups(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    assert read_cgroup_limit(write(tmp_path, files)) == limit


def test_gpu_in_a_wide_pci_domain(tmp_path: Path) -> None:
    pci_device(
        tmp_path,
        "pci9d7e8:00/9d7e8:00:02.0",
        vendor="0x10de",
        device="0x2330",
        **{"class": "0x030200", "numa_node": "-1", "local_cpulist": "0-7", "max_link_speed": "Unknown"},
    )
    (gpu,) = read_pci_gpus(tmp_path)
    assert (gpu.address, gpu.pci_id, gpu.bridges) == ("9d7e8:00:02.0", "10de:2330", ("pci9d7e8:00",))
    assert (gpu.numa_node, gpu.cpu_list, gpu.pcie.generation_max) == (None, "0-7", None)


def test_only_nvidias_own_display_and_3d_functions_are_gpus(tmp_path: Path) -> None:
    nvidia = {"vendor": "0x10de", "device": "0x2235"}
    pci_device(tmp_path, "pci0000:00/0000:00:02.0", **nvidia, **{"class": "0x030000"})
    pci_device(tmp_path, "pci0000:00/0000:00:02.1", **nvidia, **{"class": "0x040300"})
    pci_device(tmp_path, "pci0000:00/0000:00:03.0", vendor="0x1a03", device="0x2000", **{"class": "0x030000"})
    pci_device(tmp_path, "pci0000:00/0000:00:04.0", vendor="0x10de", device="0x22a3", **{"class": "0x068000"})
    pci_device(tmp_path, "pci0000:00/0000:00:05.0", **nvidia, **{"class": "0x030200"})
    (tmp_path / "sys/devices/pci0000:00/0000:00:05.0/physfn").symlink_to("../0000:00:02.0")
    assert [gpu.address for gpu in read_pci_gpus(tmp_path)] == ["0000:00:02.0"]
    assert read_host(tmp_path).nvswitches == 1


def test_gpus_come_in_the_order_of_the_bus(tmp_path: Path) -> None:
    for address in ("10000:01:00.0", "0001:01:00.0", "0000:a0:00.0", "0000:0b:00.0"):
        domain, bus = address.split(":")[:2]
        pci_device(tmp_path, f"pci{domain}:{bus}/{address}", vendor="0x10de", device="0x2330", **{"class": "0x030200"})
    assert [gpu.address for gpu in read_pci_gpus(tmp_path)] == [
        "0000:0b:00.0",
        "0000:a0:00.0",
        "0001:01:00.0",
        "10000:01:00.0",
    ]
