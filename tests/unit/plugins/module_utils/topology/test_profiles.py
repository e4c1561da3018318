# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Every machine profile, built and read back: from the kernel's files alone, and with the driver's word as well."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import format_cpu_list
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.unit.conftest import Once
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.expected_machines import (
    BOARDS_UNASKED,
    EXPECTED,
)

REPOSITORY = Path(machine_tree.__file__).resolve().parents[1]
MACHINES = REPOSITORY / "rehearsal" / "machines"
PROFILES = sorted(path.stem for path in MACHINES.glob("*.yml"))
GIB = 1 << 30

# A loaded NVML cannot be unloaded, so all machines are surveyed in one process of its own: the stand-in heeds the
# environment at each call.
SURVEY = """
import contextlib, io, json, os, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufleet.sglang.plugins.modules import gpu_topology_info
for root in sys.argv[2:]:
    os.environ["GPUFLEET_NVML_MACHINE"] = f"{root}/machine.nvml"
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        with patch_module_args({"root": root, "nvml_library": sys.argv[1]}):
            gpu_topology_info.main()
    print(json.dumps(json.loads(out.getvalue())))
"""


def profile(name: str) -> machine_tree.Profile:
    return machine_tree.load_profile(MACHINES / f"{name}.yml")


def read(root: Path) -> Machine:
    host = read_host(root)
    return survey(host, read_numa_nodes(root, host), read_pci_gpus(root), None, read_driver_version(root))


@pytest.fixture(name="built")
def _built(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    machine_tree.build_tree(profile(request.param), tmp_path / "machine")
    return read(tmp_path / "machine")


@pytest.fixture(name="surveys", scope="module")
def _surveys(once: Once, library: Path) -> dict[str, dict[str, Any]]:
    """What the module says of every machine when it can ask the stand-in."""
    lines = (once("surveys", lambda folder: survey_all(library, folder)) / "surveys.jsonl").read_text(encoding="utf-8")
    return dict(zip(PROFILES, map(json.loads, lines.splitlines())))


def survey_all(library: Path, base: Path) -> None:
    for name in PROFILES:
        machine_tree.build_tree(profile(name), base / name)
    place = base / "collections" / "ansible_collections" / "gpufleet"
    place.mkdir(parents=True)
    (place / "sglang").symlink_to(REPOSITORY)
    paths = [str(base / "collections"), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-c", SURVEY, str(library), *(str(base / name) for name in PROFILES)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (base / "surveys.jsonl").write_text(done.stdout, encoding="utf-8")


def levels(machine: Machine, row: int) -> list[str | None]:
    return [link.level for link in machine.gpu_links[row]]


def codes(machine: Machine) -> set[str]:
    return {problem.code for problem in machine.problems}


def messages(problems: Iterable[dict[str, Any]], code: str) -> list[str]:
    return [problem["message"] for problem in problems if problem["code"] == code]


def test_something_is_expected_of_every_profile() -> None:
    assert sorted(EXPECTED) == PROFILES


# The kernel alone -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROFILES)
def test_places_and_problems_as_the_kernel_shows_them(name: str, tmp_path: Path) -> None:
    machine_tree.build_tree(profile(name), tmp_path / "machine")
    machine = read(tmp_path / "machine")
    expected = EXPECTED[name]
    assert [gpu.numa_node for gpu in machine.gpus] == expected.gpus
    found: dict[str, list[int]] = {}
    for node in machine.numa_nodes:
        found.setdefault(node.kind, []).append(node.id)
        assert node.gpus == tuple(index for index, home in enumerate(expected.gpus) if home == node.id)
        assert node.distances[machine.numa_nodes.index(node)] == 10
    assert {kind: format_cpu_list(ids) for kind, ids in found.items()} == expected.kinds
    assert codes(machine) - BOARDS_UNASKED == expected.bus
    # Without the driver every board is known from the catalogue, or said to be unknown.
    assert bool(codes(machine) & BOARDS_UNASKED) == bool(expected.gpus)
    assert machine.driver.source == ("pci" if expected.gpus else "none")


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
    # ACS is on (source validation), but it redirects nothing.
    assert built.host.acs_redirecting == ()
    assert built.gpu_links[0][1].route == "switch"


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


@pytest.mark.parametrize("built", ["l40s-one-socket"], indirect=True)
def test_all_on_one_socket_behind_switches_that_redirect(built: Machine) -> None:
    narrow = [problem.message for problem in built.problems if problem.code == "pcie_width_reduced"]
    assert narrow == ["GPU 5: 8 of 16 PCIe lanes."]
    assert built.host.hugepages_total_bytes == 1024 * (2 << 20)
    assert {link.route for link in built.gpu_links[0][1:4]} == {"redirected"}
    assert built.host.acs_redirecting is not None
    assert len(built.host.acs_redirecting) == 8


@pytest.mark.parametrize("built", ["gb200-nvl4-node"], indirect=True)
def test_memory_of_gpus_is_told_by_their_driver_without_nvml(built: Machine) -> None:
    assert [gpu.gpu_numa_id for gpu in built.gpus] == [2, 10, 18, 26]
    assert [gpu.cpu_list for gpu in built.gpus] == ["0-71", "0-71", "72-143", "72-143"]
    assert sum(1 for node in built.numa_nodes if node.has_cpus) == 2


@pytest.mark.parametrize("built", ["power9-v100"], indirect=True)
def test_sparse_ids_and_another_architecture(built: Machine) -> None:
    assert [node.id for node in built.numa_nodes] == [0, 8, 250, 251, 252, 253, 254, 255]
    assert [gpu.gpu_numa_id for gpu in built.gpus] == [255, 254, 253, 252, 251, 250]
    assert built.host.cpu_model == "POWER9, altivec supported"
    assert levels(built, 0)[:4] == ["SELF", "PIX", "NODE", "SYS"]


@pytest.mark.parametrize("built", ["sparse-uneven"], indirect=True)
def test_nodes_and_cpus_that_are_offline(built: Machine) -> None:
    assert (built.host.cpus, built.host.cpus_offline) == ("12-46", "0-11,47")
    assert [node.cpus for node in built.numa_nodes] == ["12-23", "24-35", "36-46"]
    assert built.numa_nodes[1].memory_total_bytes == 0
    assert [pages.total for pages in built.numa_nodes[2].hugepages] == [512, 16]
    assert built.host.hugepages_total_bytes == 512 * (2 << 20) + 16 * GIB


@pytest.mark.parametrize("built", ["hybrid-cgroup-container"], indirect=True)
def test_what_a_container_leaves_to_a_service(built: Machine) -> None:
    host = built.host
    assert (host.cgroup_version, host.cgroup_limit_bytes, host.cpu_quota) == (1, 200 * GIB, 16.0)
    assert (host.cpus_usable, host.memory_nodes_usable) == ("64-127", "1")
    assert [(node.cpus_usable, node.usable) for node in built.numa_nodes] == [("", False), ("64-127", True)]
    # What the machine has is told all the same.
    assert built.numa_nodes[0].cpus == "0-63,128-191"


@pytest.mark.parametrize("built", ["pci-wide-domain-guest"], indirect=True)
def test_domains_beyond_16_bits(built: Machine) -> None:
    assert [gpu.pci_address for gpu in built.gpus] == ["10000:00:00.0", "10001:00:00.0"]
    assert built.host.virtualization == "hyperv"
    assert levels(built, 0) == ["SELF", None]


@pytest.mark.parametrize("built", ["lost-gpu"], indirect=True)
def test_a_gpu_off_the_bus_has_no_link_to_speak_of(built: Machine) -> None:
    assert (built.gpus[3].pcie.width, built.gpus[3].pcie.generation) == (None, None)
    assert built.gpus[3].numa_node == 1


@pytest.mark.parametrize("built", ["no-gpu"], indirect=True)
def test_no_gpu(built: Machine) -> None:
    assert built.gpu_links == ()


def test_a_memory_limit_of_the_system_slice_is_seen(tmp_path: Path) -> None:
    limited = profile("no-gpu")
    limited["cgroup"] = {"limits": {"/system.slice": {"memory_max_bytes": 64 << 30}}}
    machine_tree.build_tree(limited, tmp_path)
    assert read(tmp_path).host.cgroup_limit_bytes == 64 << 30


# With the driver ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROFILES)
def test_places_and_problems_with_the_driver(name: str, surveys: dict[str, dict[str, Any]]) -> None:
    told, expected = surveys[name], EXPECTED[name]
    assert told["changed"] is False
    assert [gpu["numa_node"] for gpu in told["gpus"]] == expected.gpus
    assert {problem["code"] for problem in told["problems"]} - BOARDS_UNASKED == expected.driver
    started = bool(expected.gpus) and not expected.driver & {"nvml_version_mismatch", "nvml_driver_not_loaded"}
    assert told["driver"]["source"] == ("nvml" if started else "pci" if expected.gpus else "none")


def test_nvlinks_of_every_kind(surveys: dict[str, dict[str, Any]]) -> None:
    def row(name: str, number: int = 0) -> list[str]:
        return [link["level"] for link in surveys[name]["gpu_links"][number]]

    assert row("hgx-h100-snc4") == ["SELF"] + ["NV18"] * 7
    assert row("dgx-a100-nps4") == ["SELF"] + ["NV12"] * 7
    assert row("gb200-nvl4-node") == ["SELF"] + ["NV18"] * 3
    assert row("power9-v100") == ["SELF", "NV2", "NV2", "SYS", "SYS", "SYS"]
    assert row("lost-gpu")[2:5] == ["NV18", "SYS", "NV18"]


def test_an_idle_link_is_told_apart_from_a_bad_one(surveys: dict[str, dict[str, Any]]) -> None:
    assert {gpu["pcie"]["state"] for gpu in surveys["founding"]["gpus"]} == {"idle"}
    states = [gpu["pcie"]["state"] for gpu in surveys["mixed-models"]["gpus"]]
    assert states == ["full", "idle", "degraded", "slot_limited"]


def test_divided_gpus(surveys: dict[str, dict[str, Any]]) -> None:
    gpus = surveys["h100-mig"]["gpus"]
    assert [gpu["index"] for gpu in gpus if not gpu["usable"]] == [0, 5]
    assert [(one["name"].split()[-1], one["gpu_instance_id"]) for one in gpus[0]["mig_devices"]] == [
        ("4g.40gb", 1),
        ("3g.40gb", 2),
    ]
    assert gpus[5]["mig_devices"] == []
    assert gpus[6]["mig"] == {"enabled": False, "pending": True}
    assert [(one["pid"], one["name"]) for one in gpus[0]["processes"]] == [(4711, "python3")]


def test_a_lost_gpu_and_one_to_be_reset(surveys: dict[str, dict[str, Any]]) -> None:
    gpus = surveys["lost-gpu"]["gpus"]
    assert [gpu["state"] for gpu in gpus] == ["ok"] * 3 + ["lost", "ok", "ok", "reset_required", "ok"]
    # By elimination: it cannot tell its own address.
    assert (gpus[3]["pci_address"], gpus[3]["usable"], gpus[3]["memory_total_bytes"]) == ("0000:5d:00.0", False, None)
    assert (gpus[6]["remapped_rows"]["uncorrected"], gpus[6]["remapped_rows"]["pending"]) == (1, True)
    assert gpus[6]["ecc_errors"]["uncorrected_aggregate"] == 1


def test_guests_know_what_they_were_given(surveys: dict[str, dict[str, Any]]) -> None:
    assert {gpu["virtualization"] for gpu in surveys["kvm-guest"]["gpus"]} == {"passthrough"}
    (slice_of_a_gpu,) = surveys["vgpu-guest"]["gpus"]
    assert (slice_of_a_gpu["virtualization"], slice_of_a_gpu["memory_total_bytes"]) == ("vgpu", 24 * GIB)


def test_processes_of_two_kinds(surveys: dict[str, dict[str, Any]]) -> None:
    held = [process for gpu in surveys["mixed-models"]["gpus"] for process in gpu["processes"]]
    assert [(one["pid"], one["name"], one["kind"], one["memory_used_bytes"]) for one in held] == [
        (2201, "Xorg", "graphics", 480 << 20)
    ]


def test_a_driver_of_two_releases(surveys: dict[str, dict[str, Any]]) -> None:
    told = surveys["driver-mismatch"]
    (message,) = messages(told["problems"], "nvml_version_mismatch")
    assert "570.124.06" in message
    assert told["driver"]["version"] == "570.124.06"
    assert {gpu["memory_source"] for gpu in told["gpus"]} == {"catalogue"}


def test_gpus_that_another_driver_holds_are_not_usable(surveys: dict[str, dict[str, Any]]) -> None:
    told = surveys["no-driver-nouveau"]
    assert {(gpu["kernel_driver"], gpu["usable"]) for gpu in told["gpus"]} == {("nouveau", False)}
    assert {gpu["memory_total_bytes"] for gpu in told["gpus"]} == {80 * GIB}
    assert told["host"]["nvswitches"] == 6
