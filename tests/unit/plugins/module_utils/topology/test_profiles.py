# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Every machine profile, built and read back without a driver."""

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

MACHINES = Path(machine_tree.__file__).parent / "machines"
PROFILES = sorted(path.stem for path in MACHINES.glob("*.yml"))


def profile(name: str) -> dict[str, Any]:
    return machine_tree.load_profile(MACHINES / f"{name}.yml")


def read(root: Path) -> Machine:
    host = read_host(root)
    return survey(host, read_numa_nodes(root, host), read_pci_gpus(root), None, read_driver_version(root))


@pytest.fixture(name="built")
def _built(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    machine_tree.build_tree(profile(request.param), tmp_path / "machine")
    return read(tmp_path / "machine")


def levels(machine: Machine, row: int) -> list[str | None]:
    return [link.level for link in machine.gpu_links[row]]


def codes(machine: Machine) -> set[str]:
    return {problem.code for problem in machine.problems}


@pytest.mark.parametrize(
    ("built", "nodes", "node_count"),
    [
        ("founding", [0, 0, 0, 0, 1, 1, 1, 1], 2),
        ("hgx-h100-snc4", [0, 2, 3, 1, 4, 6, 7, 5], 8),
        ("dgx-a100-nps4", [3, 3, 1, 1, 7, 7, 5, 5], 8),
        ("kvm-guest", [None, None], 1),
        ("l40s-one-socket", [0] * 8, 2),
        ("no-gpu", [], 1),
    ],
    indirect=["built"],
)
def test_gpus_and_nodes(built: Machine, nodes: list[int | None], node_count: int) -> None:
    assert [gpu.numa_node for gpu in built.gpus] == nodes
    assert len(built.numa_nodes) == node_count
    assert [gpu for node in built.numa_nodes for gpu in node.gpus] == sorted(
        (index for index, node in enumerate(nodes) if node is not None), key=lambda index: (nodes[index], index)
    )
    assert built.driver.source == ("pci" if nodes else "none")
    assert all(gpu.memory_source == "catalogue" for gpu in built.gpus)


@pytest.mark.parametrize("built", ["founding"], indirect=True)
def test_the_founding_box(built: Machine) -> None:
    assert {gpu.memory_total_bytes for gpu in built.gpus} == {97887 << 20}
    assert built.gpus[4].pci_address == "0000:84:00.0"
    assert built.gpus[4].cpu_list == "64-127,192-238,240-255"
    assert built.gpus[0].pcie.generation == 1
    assert built.host.memory_available_bytes == 396_000_000_000
    assert [node.memory_available_bytes for node in built.numa_nodes] == [198_000_000_000] * 2
    assert (built.host.iommu, built.host.virtualization) == ("off", "none")
    assert built.driver.version == "595.58.03"
    assert levels(built, 0) == ["SELF", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    assert levels(built, 5) == ["SYS", "SYS", "SYS", "SYS", "PIX", "SELF", "NODE", "NODE"]
    # Idle links at PCIe 1 are no fault.
    assert codes(built) == {"cpus_offline", "gpu_memory_from_catalogue"}


@pytest.mark.parametrize("built", ["dgx-a100-nps4"], indirect=True)
def test_nodes_without_a_gpu(built: Machine) -> None:
    assert {node.id: node.gpus for node in built.numa_nodes if node.gpus} == {
        1: (2, 3),
        3: (0, 1),
        5: (6, 7),
        7: (4, 5),
    }
    assert levels(built, 0)[:3] == ["SELF", "PXB", "SYS"]
    assert built.host.nvswitches == 6


@pytest.mark.parametrize("built", ["kvm-guest"], indirect=True)
def test_a_guest(built: Machine) -> None:
    assert built.host.virtualization == "kvm"
    assert levels(built, 0) == ["SELF", "PHB"]
    # With one node there is nothing to be unsure about.
    assert "gpu_numa_unknown" not in codes(built)


@pytest.mark.parametrize("built", ["l40s-one-socket"], indirect=True)
def test_all_on_one_socket(built: Machine) -> None:
    assert {"gpus_on_one_numa_node", "iommu_translates", "hugepages_reserved"} <= codes(built)
    narrow = [problem.message for problem in built.problems if problem.code == "pcie_width_reduced"]
    assert narrow == ["GPU 5: 8 of 16 PCIe lanes."]
    assert built.host.hugepages_total_bytes == 1024 * (2 << 20)


@pytest.mark.parametrize("built", ["no-gpu"], indirect=True)
def test_no_gpu(built: Machine) -> None:
    assert built.gpu_links == ()
    assert codes(built) == {"no_gpu"}


@pytest.mark.parametrize("name", PROFILES)
def test_building_again_changes_nothing_and_keeps_the_folder(tmp_path: Path, name: str) -> None:
    dest = tmp_path / "machine"
    assert machine_tree.build_tree(profile(name), dest) > 0
    before = dest.stat().st_ino
    times = {path: path.lstat().st_mtime_ns for path in dest.rglob("*")}
    assert machine_tree.build_tree(profile(name), dest) == 0
    assert dest.stat().st_ino == before
    assert {path: path.lstat().st_mtime_ns for path in dest.rglob("*")} == times


def test_another_profile_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    dest, fresh = tmp_path / "machine", tmp_path / "fresh"
    machine_tree.build_tree(profile("founding"), dest)
    machine_tree.build_tree(profile("no-gpu"), dest)
    machine_tree.build_tree(profile("no-gpu"), fresh)
    assert {str(path.relative_to(dest)) for path in dest.rglob("*")} == {
        str(path.relative_to(fresh)) for path in fresh.rglob("*")
    }
    assert codes(read(dest)) == {"no_gpu"}


def test_every_link_of_a_tree_leads_somewhere_inside(tmp_path: Path) -> None:
    machine_tree.build_tree(profile("hgx-h100-snc4"), tmp_path)
    for path in (tmp_path / "sys/bus/pci/devices").iterdir():
        assert path.resolve().is_dir()
        assert tmp_path.resolve() in path.resolve().parents


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x", encoding="utf-8")
    with pytest.raises(machine_tree.ProfileError, match="was not made by machine_tree.py"):
        machine_tree.build_tree(profile("no-gpu"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_profile_must_be_of_this_format_and_bear_its_files_name(tmp_path: Path) -> None:
    path = tmp_path / "box.yml"
    path.write_text("format: 2\nname: box\n", encoding="utf-8")
    with pytest.raises(machine_tree.ProfileError, match="format 1"):
        machine_tree.load_profile(path)
    path.write_text("format: 1\nname: other\n", encoding="utf-8")
    with pytest.raises(machine_tree.ProfileError, match="expected box"):
        machine_tree.load_profile(path)


def test_two_devices_at_one_address_are_refused() -> None:
    broken = profile("kvm-guest")
    broken["devices"][1]["path"] = broken["devices"][0]["path"]
    with pytest.raises(machine_tree.ProfileError, match="two different things"):
        machine_tree.entries_of(broken)


def test_a_memory_limit_of_the_profile_is_seen(tmp_path: Path) -> None:
    limited = profile("no-gpu")
    limited["host"]["cgroup_memory_max_bytes"] = 64 << 30
    machine_tree.build_tree(limited, tmp_path)
    assert read(tmp_path).host.cgroup_limit_bytes == 64 << 30
