# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import (
    name_iommu,
    name_virtualization,
    parse_cpuinfo,
    read_driver_version,
    read_host,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import GIB, NODES, node, write

CPUS = "sys/devices/system/cpu"
CPUSET = "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("text", "model", "guest"),
    [
        ("model name\t: AMD  EPYC 9575F\nflags\t\t: fpu sse\n", "AMD EPYC 9575F", False),
        ("model name\t: Xeon\nflags\t\t: fpu hypervisor\n", "Xeon", True),
        ("processor : 0\ncpu : POWER9, altivec supported\n", "POWER9, altivec supported", None),
        ("processor\t: 0\nFeatures\t: fp asimd\n", None, None),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\nCPU implementer\t: 0x41\n", "Neoverse-V2", None),
        ("CPU implementer\t: 0x4e\nCPU part\t: 0xd4f\n", None, None),
        ("model name\t: \x1b[31mXeon\x07\nflags\t: fpu\n", "[31mXeon", False),
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
        # On ARM the CPU does not tell.
        (None, "Microsoft Corporation", "Virtual Machine", "hyperv"),
        (None, "Microsoft Corporation", "Surface Pro", None),
        (None, "Google", "Google Compute Engine", "kvm"),
        (None, "Amazon EC2", "p6e-gb200.36xlarge", "kvm"),
        (None, "Amazon EC2", "c7g.metal", None),
        (None, "Amazon EC2", "c8g.metal-24xl", None),
        (None, "Amazon EC2", None, None),
        (True, "Amazon EC2", "m7i.metal-24xl", "kvm"),
        (None, None, None, None),
    ],
)
def test_virtualization(guest: bool | None, vendor: str | None, product: str | None, name: str | None) -> None:
    assert name_virtualization(guest, vendor, product) == name


def test_the_domain_that_controls_a_xen_host_is_no_guest(tmp_path: Path) -> None:
    assert name_virtualization(True, "Dell Inc.", "PowerEdge R750xa", "control_d") == "none"
    assert name_virtualization(True, "Xen", "HVM domU", "") == "xen"
    write(tmp_path, {"proc/cpuinfo": "flags : fpu hypervisor", "proc/xen/capabilities": "control_d"})
    assert read_host(tmp_path).virtualization == "none"


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
        ("ro amd_iommu=off", None, "off"),
        ("ro", None, None),
        (None, None, None),
    ],
)
def test_iommu_by_the_command_line(cmdline: str | None, groups: int | None, name: str | None) -> None:
    assert name_iommu(cmdline, groups) == name


@pytest.mark.parametrize(
    ("types", "name"),
    [
        (["identity", "identity"], "passthrough"),
        (["DMA"], "on"),
        (["DMA-FQ", "identity"], "on"),
        (["blocked"], "on"),
        ([None, ""], "on"),
    ],
)
def test_the_mode_of_the_groups_outweighs_the_command_line(types: list[str | None], name: str) -> None:
    assert name_iommu("ro intel_iommu=on", 40, types) == name
    told = [kind for kind in types if kind]
    assert name_iommu("ro iommu=pt", 40, types) == (name if told else "passthrough")


def test_nothing_below_the_root_gives_nothing(tmp_path: Path) -> None:
    host = read_host(tmp_path)
    assert host == Host()
    assert read_numa_nodes(tmp_path, host) == ()
    assert read_pci_gpus(tmp_path) == ()
    assert read_driver_version(tmp_path) is None


def test_cpus_that_were_never_plugged_in_are_not_offline(tmp_path: Path) -> None:
    root = write(tmp_path, {f"{CPUS}/present": "0-15", f"{CPUS}/online": "0-6,8-15", f"{CPUS}/offline": "7,16-127"})
    assert read_host(root).cpus_offline == "7"


def test_nodes_that_are_there_and_not_online_are_offline(tmp_path: Path) -> None:
    files = {f"{NODES}/online": "1", f"{NODES}/possible": "0-7", **node(0, ""), **node(1, "0-3"), **node(3, "")}
    assert read_host(write(tmp_path, files)).numa_nodes_offline == "0,3"


def test_no_node_is_offline_where_the_kernel_does_not_tell(tmp_path: Path) -> None:
    assert read_host(write(tmp_path, {**node(0, "0"), **node(1, "1")})).numa_nodes_offline is None


def test_what_a_cpuset_leaves_is_told_only_where_it_leaves_something_out(tmp_path: Path) -> None:
    files = {
        f"{CPUS}/online": "0-7",
        # Node 2 has no memory, so no cpuset names it.
        **{name: text for number in range(3) for name, text in node(number, "").items()},
        f"{NODES}/online": "0-2",
        f"{NODES}/has_memory": "0-1",
        f"{CPUSET}/cgroup.controllers": "cpuset",
        f"{CPUSET}/cpuset.cpus.effective": "0-7",
        f"{CPUSET}/cpuset.mems.effective": "0-1",
    }
    host = read_host(write(tmp_path, files))
    assert (host.cpus_usable, host.memory_nodes_usable) == (None, None)
    files.update({f"{CPUSET}/cpuset.cpus.effective": "4-7", f"{CPUSET}/cpuset.mems.effective": "1"})
    host = read_host(write(tmp_path, files))
    assert (host.cpus_usable, host.memory_nodes_usable) == ("4-7", "1")


def test_the_memory_of_a_node_that_is_offline_is_not_what_a_cpuset_leaves_out(tmp_path: Path) -> None:
    files = {
        **node(1, "0-3"),
        f"{NODES}/online": "1",
        f"{NODES}/has_memory": "0-1",
        f"{CPUSET}/cgroup.controllers": "cpuset",
        f"{CPUSET}/cpuset.mems.effective": "1",
    }
    assert read_host(write(tmp_path, files)).memory_nodes_usable is None


def test_a_cpuset_of_cpus_that_are_not_there_is_not_believed(tmp_path: Path) -> None:
    files = {f"{CPUS}/online": "0-7", f"{CPUSET}/cgroup.controllers": "cpuset"}
    host = read_host(write(tmp_path, {**files, f"{CPUSET}/cpuset.cpus.effective": "64-71"}))
    assert host.cpus_usable is None


def test_huge_pages_of_every_size_count(tmp_path: Path) -> None:
    base = "sys/kernel/mm/hugepages"
    root = write(
        tmp_path, {f"{base}/hugepages-2048kB/nr_hugepages": "3", f"{base}/hugepages-1048576kB/nr_hugepages": "2"}
    )
    assert read_host(root).hugepages_total_bytes == 3 * (2 << 20) + 2 * GIB


def test_huge_pages_from_meminfo_where_sysfs_has_none(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/meminfo": "HugePages_Total:       5\nHugepagesize:       2048 kB"})
    assert read_host(root).hugepages_total_bytes == 5 * (2 << 20)


@pytest.mark.parametrize(("text", "listed"), [("2-31", "2-31"), ("2,3", "2-3"), ("", None), ("0-\x1b", None)])
def test_isolated_cpus(tmp_path: Path, text: str, listed: str | None) -> None:
    assert read_host(write(tmp_path, {f"{CPUS}/online": "0-63", f"{CPUS}/isolated": text})).cpus_isolated == listed


def test_without_the_file_no_cpu_is_isolated(tmp_path: Path) -> None:
    assert read_host(tmp_path).cpus_isolated is None


def test_firmwares_names_reach_no_terminal_as_commands(tmp_path: Path) -> None:
    host = read_host(write(tmp_path, {"sys/class/dmi/id/product_name": "\x1b]0;owned\x07R750\0"}))
    assert host.product == "]0;owned R750"
