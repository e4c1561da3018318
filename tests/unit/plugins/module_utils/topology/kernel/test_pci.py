# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel import files
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import (
    nvidia_functions,
    parse_numa_status,
    read_pci_gpus,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host, Pcie
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import (
    acs_space,
    gpu,
    pci_device,
    write,
)

PORT = "pci0000:00/0000:00:01.1"
SWITCH = f"{PORT}/0000:01:00.0"


def test_gpu_in_a_wide_pci_domain(tmp_path: Path) -> None:
    gpu(tmp_path, "pci9d7e8:00/9d7e8:00:02.0", numa_node="-1", local_cpulist="0-7", max_link_speed="Unknown")
    (one,) = read_pci_gpus(tmp_path)
    assert (one.address, one.pci_id, one.bridges) == ("9d7e8:00:02.0", "10de:2330", ("pci9d7e8:00",))
    assert (one.numa_node, one.cpu_list, one.pcie.generation_max) == (None, "0-7", None)
    assert (one.iommu_group, one.iommu_type, one.memory_node, one.acs) == (None, None, None, (False,))


def test_only_nvidias_own_display_and_3d_functions_are_gpus(tmp_path: Path) -> None:
    gpu(tmp_path, "pci0000:00/0000:00:02.0", **{"class": "0x030000"})
    gpu(tmp_path, "pci0000:00/0000:00:02.1", **{"class": "0x040300"})
    pci_device(tmp_path, "pci0000:00/0000:00:03.0", vendor="0x1a03", device="0x2000", **{"class": "0x030000"})
    gpu(tmp_path, "pci0000:00/0000:00:04.0", device="0x22a3", **{"class": "0x068000"})
    (gpu(tmp_path, "pci0000:00/0000:00:05.0") / "physfn").symlink_to("../0000:00:02.0")
    assert [one.address for one in read_pci_gpus(tmp_path)] == ["0000:00:02.0"]
    assert read_host(tmp_path).nvswitches == 1


def test_gpus_come_in_the_order_of_the_bus(tmp_path: Path) -> None:
    for address in ("10000:01:00.0", "0001:01:00.0", "0000:a0:00.0", "0000:0b:00.0"):
        domain, bus = address.split(":")[:2]
        gpu(tmp_path, f"pci{domain}:{bus}/{address}")
    assert [one.address for one in read_pci_gpus(tmp_path)] == [
        "0000:0b:00.0",
        "0000:a0:00.0",
        "0001:01:00.0",
        "10000:01:00.0",
    ]


def test_the_slot_is_the_port_above(tmp_path: Path) -> None:
    pci_device(tmp_path, PORT, max_link_speed="16.0 GT/s PCIe", max_link_width="16")
    speeds = {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"}
    gpu(tmp_path, f"{PORT}/0000:01:00.0", current_link_speed="2.5 GT/s PCIe", current_link_width="8", **speeds)
    (one,) = read_pci_gpus(tmp_path)
    assert one.pcie == Pcie(5, 16, 1, 8, slot_generation_max=4, slot_width_max=16)


def test_a_gpu_right_at_the_host_bridge_has_no_slot(tmp_path: Path) -> None:
    gpu(tmp_path, "pci0000:00/0000:00:05.0", max_link_speed="16.0 GT/s PCIe")
    (one,) = read_pci_gpus(tmp_path)
    assert (one.pcie.slot_generation_max, one.pcie.slot_width_max) == (None, None)


def test_the_iommu_group_and_its_mode(tmp_path: Path) -> None:
    for bus, group in ((1, "17"), (2, "18"), (3, "nonsense")):
        here = gpu(tmp_path, f"pci0000:00/0000:00:0{bus}.0")
        (here / "iommu_group").symlink_to(f"../../../kernel/iommu_groups/{group}")
    write(tmp_path, {"sys/kernel/iommu_groups/17/type": "DMA-FQ"})
    assert [(one.iommu_group, one.iommu_type) for one in read_pci_gpus(tmp_path)] == [
        (17, "DMA-FQ"),
        (18, None),
        (None, None),
    ]


def test_garbage_in_a_device_does_not_reach_the_result(tmp_path: Path) -> None:
    gpu(tmp_path, "pci0000:00/0000:00:01.0", device="0x2330" + "f" * 9000, local_cpulist="garbage", numa_node="x" * 99)
    (one,) = read_pci_gpus(tmp_path)
    assert (one.pci_id, one.cpu_list, one.numa_node) == ("10de:2330", None, None)


def test_cpus_nearby_from_a_mask_where_there_is_no_list(tmp_path: Path) -> None:
    gpu(tmp_path, "pci0000:00/0000:00:01.0", local_cpus="00000001,000000f0")
    assert read_pci_gpus(tmp_path)[0].cpu_list == "4-7,32"


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("Node:      255\nStatus:    online\nAddress:   40000000000\nSize:      3f0000000", 255),
        ("Node: -1\nStatus: offline", None),
        ("Status: online", None),
        ("Node: 99999999999999999999999", None),
        (None, None),
    ],
)
def test_numa_status(text: str | None, node: int | None) -> None:
    assert parse_numa_status(text) == node


def test_the_node_of_a_gpus_memory_goes_with_its_address(tmp_path: Path) -> None:
    gpu(tmp_path, "pci0004:05/0004:05:00.0")
    gpu(tmp_path, "pci0004:06/0004:06:00.0")
    write(tmp_path, {"proc/driver/nvidia/gpus/0004:06:00.0/numa_status": "Node: 254"})
    assert [one.memory_node for one in read_pci_gpus(tmp_path)] == [None, 254]


def test_access_control_of_each_switch_port_above(tmp_path: Path) -> None:
    controls = {PORT: 0x1D, SWITCH: 0, f"{SWITCH}/0000:02:01.0": 0x1D, f"{SWITCH}/0000:02:02.0": 0x11}
    for path, control in controls.items():
        (pci_device(tmp_path, path) / "config").write_bytes(acs_space(control))
    (pci_device(tmp_path, f"{SWITCH}/0000:02:03.0") / "config").write_bytes(acs_space(0x1D)[:64])
    for port in (1, 2, 3):
        gpu(tmp_path, f"{SWITCH}/0000:02:0{port}.0/0000:0{port + 2}:00.0")
    # The root port is no switch port: what leaves it is in the host already.
    assert [one.acs for one in read_pci_gpus(tmp_path)] == [
        (False, False, False, True),
        (False, False, False, False),
        (False, False, False, None),
    ]


def test_of_other_devices_only_the_vendor_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        pci_device(tmp_path, f"pci0000:00/0000:{number:02x}:00.0", vendor="0x8086", **{"class": "0x020000"})
    gpu(tmp_path, "pci0000:00/0000:f0:00.0")
    read: list[str] = []

    def noted(root: Path, relative: str, limit: int = files.MAX_BYTES) -> str | None:
        read.append(relative)
        return files.read_text(root, relative, limit)

    monkeypatch.setattr("ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci.read_text", noted)
    functions = nvidia_functions(tmp_path)
    assert len(read) == 42
    read.clear()
    read_pci_gpus(tmp_path, functions)
    assert read and all("0000:f0:00.0" in path for path in read)


def test_devices_that_are_folders_instead_of_links_have_no_way_down(tmp_path: Path) -> None:
    here = "sys/bus/pci/devices/0004:05:00.0"
    write(tmp_path, {f"{here}/vendor": "0x10de", f"{here}/class": "0x030200"})
    (one,) = read_pci_gpus(tmp_path)
    assert (one.address, one.bridges, one.acs) == ("0004:05:00.0", (), ())


def test_ports_whose_configuration_is_cut_off_are_told(tmp_path: Path) -> None:
    """As it is for all but root: 64 bytes."""
    for path in (SWITCH, f"{SWITCH}/0000:02:01.0", f"{SWITCH}/0000:02:02.0"):
        (pci_device(tmp_path, path) / "config").write_bytes(acs_space(0x1D)[:64])
    for port, bus in ((1, 3), (2, 4)):
        gpu(tmp_path, f"{SWITCH}/0000:02:0{port}.0/0000:0{bus}:00.0", device="0x26b9")
    machine = survey(Host(memory_total_bytes=1), (), read_pci_gpus(tmp_path), None)
    assert machine.host.acs_redirecting is None
    assert [one.message for one in machine.problems if one.code == "acs_unknown"] == [
        "The configuration of 3 switch ports above GPUs could not be read, so the way between GPU 0-1 is unknown."
    ]
