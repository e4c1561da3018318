# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What is said of the state of GPUs."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    EccErrors,
    Fabric,
    GpuProcess,
    MigDevice,
    Mode,
    NvLinks,
    Pcie,
    RemappedRows,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.readings import (
    GIB,
    GUEST,
    HOST,
    NODES,
    one,
    pci,
    problems,
    reading,
    told,
)

READY = Fabric("completed", 0, 0, None)
WORKING = {"utilization": 90}


@pytest.mark.parametrize(
    ("facts", "code", "message"),
    [
        ({"mig": Mode(True, True)}, "gpu_mig_enabled", "MIG is enabled, with no MIG devices"),
        (
            {"mig": Mode(True, True), "mig_devices": (MigDevice(),)},
            "gpu_mig_enabled",
            "MIG is enabled, with 1 MIG device",
        ),
        ({"ecc": Mode(True, False)}, "gpu_mode_pending", "ECC or MIG will change at the next reset"),
        ({"compute_mode": "prohibited"}, "gpu_compute_mode", "compute mode prohibited"),
        ({"persistence": False}, "gpu_persistence_off", "persistence mode is off"),
        ({"virtualization": "vgpu"}, "gpu_is_vgpu", "this is a vGPU"),
        ({"virtualization": "host_vgpu"}, "gpu_given_to_guests", "the driver hands it out to guests as vGPU"),
        (
            {"ecc_errors": EccErrors(5, 1, 90, None)},
            "gpu_ecc_uncorrected",
            "1 uncorrected memory error since the driver was loaded",
        ),
        (
            {"ecc_errors": EccErrors(5, 2, 90, 3)},
            "gpu_ecc_uncorrected",
            "2 uncorrected memory errors since the driver was loaded, 3 in its life",
        ),
        (
            {"remapped_rows": RemappedRows(0, 1, True, False)},
            "gpu_remap_pending",
            "rows of memory wait to be remapped at the next reset",
        ),
        (
            {"remapped_rows": RemappedRows(0, 1, True, False, "page")},
            "gpu_remap_pending",
            "pages of memory wait to be retired at the next reset",
        ),
        (
            {"remapped_rows": RemappedRows(0, 1, False, True)},
            "gpu_remap_failed",
            "a row of memory could not be replaced, as no spare row was left",
        ),
        ({"pcie": Pcie(5, 16, 5, 8)}, "pcie_width_reduced", "8 of 16 PCIe lanes"),
        ({"pcie": Pcie(6, 16, 1, 16)}, "pcie_slot_slower", "PCIe 6 board in a slot of PCIe 5"),
        (
            {"pcie": Pcie(5, 16, 1, 16), "processes": (GpuProcess(1, 0),), "around": WORKING},
            "pcie_speed_reduced",
            "PCIe 1 of 5 under load",
        ),
        ({"nvlinks": NvLinks(17, 18)}, "nvlink_down", "1 of 18 NVLinks are down"),
        ({"nvlinks": NvLinks(0, 4)}, "nvlink_unused", "none of 4 NVLinks is up"),
        ({"fabric": Fabric("in_progress", 3, 0, None)}, "fabric_not_ready", "fabric state in_progress"),
        (
            {"fabric": Fabric("completed", 3, 0, None)},
            "fabric_not_ready",
            "fabric state completed with status 3",
        ),
        ({"fabric": replace(READY, health="unhealthy")}, "fabric_unhealthy", "fabric health unhealthy"),
    ],
)
def test_the_state_of_a_gpu_is_judged(facts: dict[str, Any], code: str, message: str) -> None:
    found = problems(one(**facts))
    assert found.pop(code) == f"GPU 0: {message}."
    assert set(found) <= {"gpu_busy"}


def test_a_healthy_idle_gpu_has_no_problem() -> None:
    machine = one(
        pcie=Pcie(5, 16, 1, 16),
        performance_state=8,
        fabric=replace(READY, health="healthy"),
        nvlinks=NvLinks(18, 18),
        mig=Mode(False, False),
        ecc=Mode(True, True),
        ecc_errors=EccErrors(7, 0, 7, 1),
        remapped_rows=RemappedRows(1, 0, False, False),
        persistence=True,
        compute_mode="default",
        virtualization="none",
    )
    assert machine.problems == ()
    assert (machine.gpus[0].pcie.state, machine.gpus[0].usable) == ("idle", True)


def test_a_process_is_named_with_what_it_holds() -> None:
    busy = one(processes=(GpuProcess(4711, 2 * GIB, "sglang::scheduler_TP0"), GpuProcess(4712, None)))
    assert problems(busy) == {"gpu_busy": "GPU 0: 2.00 GiB held by sglang::scheduler_TP0 (4711), process 4712."}


def test_of_many_processes_some_are_named() -> None:
    message = problems(one(processes=tuple(GpuProcess(pid, None) for pid in range(1, 12))))["gpu_busy"]
    assert message.startswith("GPU 0: memory of unknown size held by process 1, ")
    assert message.endswith("process 8 and 3 more.")


def test_all_links_down_beside_switches_is_a_fault() -> None:
    host = replace(HOST, nvswitches=4)
    assert problems(one(host, nvlinks=NvLinks(0, 18), fabric=READY)) == {
        "nvlink_down": "GPU 0: 18 of 18 NVLinks are down."
    }


@pytest.mark.parametrize(("capability", "said"), [("9.0", True), ("10.0", True), ("8.0", False), (None, False)])
def test_boards_that_have_a_fabric_should_tell_of_it(capability: str | None, said: bool) -> None:
    machine = one(replace(HOST, nvswitches=4), compute_capability=capability)
    assert ("fabric_unknown" in problems(machine)) is said


def test_a_slot_that_is_too_narrow() -> None:
    slot = pci(6, slot_width_max=8, slot_generation_max=5)
    machine = one(seen=slot, pcie=Pcie(5, 16, 5, 8))
    assert problems(machine) == {"pcie_slot_narrower": "GPU 0: 16 PCIe lanes in a slot of 8."}
    assert machine.gpus[0].pcie.state == "slot_limited"


def test_a_slot_means_nothing_in_a_guest() -> None:
    assert one(GUEST, pci(6, slot_width_max=1), pcie=Pcie(6, 16, 1, 16)).problems == ()


def test_what_several_gpus_have_alike_is_said_once() -> None:
    off = [told(index, 6 + index, persistence=False) for index in range(2)]
    machine = survey(HOST, NODES, [pci(6, 0), pci(7, 1)], reading(*off))
    assert [problem.message for problem in machine.problems] == ["GPU 0, 1: persistence mode is off."]


def test_gpus_that_differ_are_listed() -> None:
    mixed = reading(told(0, 6), told(1, 7, name="NVIDIA H200", memory_total_bytes=140 * GIB))
    message = problems(survey(HOST, NODES, [pci(6, 0), pci(7, 1)], mixed))["gpus_differ"]
    assert message == "The GPUs are of 2 kinds: NVIDIA H100 80GB HBM3 with 80.00 GiB, NVIDIA H200 with 140.00 GiB."


@pytest.mark.parametrize(
    ("boards", "kinds"),
    [
        (
            ("10de:128b", "10de:2330"),
            "NVIDIA H100 80GB HBM3 with 79.65 GiB, board 10de:128b with memory of unknown size",
        ),
        (
            ("10de:128b", "10de:fffe"),
            "board 10de:128b with memory of unknown size, board 10de:fffe with memory of unknown size",
        ),
        (("10de:128b", "10de:128b"), None),
        (("10de:2330", "10de:2330"), None),
    ],
)
def test_boards_of_which_nothing_is_known_count_as_kinds(boards: tuple[str, str], kinds: str | None) -> None:
    found = problems(survey(HOST, NODES, [pci(6 + place, pci_id=board) for place, board in enumerate(boards)], None))
    unsure = "the driver may leave out a board that is not known here, and would number the GPUs otherwise"
    assert found.get("gpus_differ") == (f"The GPUs are of 2 kinds: {kinds}; {unsure}." if kinds else None)
    assert (unsure in found.get("gpu_board_unknown", "")) == ("10de:128b" in boards)


def test_a_gpu_that_does_not_answer_is_of_the_kind_of_its_board() -> None:
    silent = told(1, 7, memory_total_bytes=None, state="lost")
    assert "gpus_differ" not in problems(survey(HOST, NODES, [pci(6), pci(7, 1)], reading(told(0, 6), silent)))
    other = problems(survey(HOST, NODES, [pci(6), pci(7, 1, pci_id="10de:26b9")], reading(told(0, 6), silent)))
    assert other["gpus_differ"] == (
        "The GPUs are of 2 kinds: NVIDIA H100 80GB HBM3 with 80.00 GiB, board 10de:26b9 with memory of unknown size."
    )


def test_two_gpus_that_the_driver_gives_one_identity_to() -> None:
    twins = reading(told(0, 6, uuid="GPU-1"), told(1, 6, uuid="GPU-1"), told(2, 7, uuid="GPU-2"))
    machine = survey(HOST, NODES, [pci(6), pci(7)], twins)
    assert [problem.message for problem in machine.problems if problem.code == "nvml_answer_implausible"] == [
        "GPU 0, 1 have the same PCI address, 0000:06:00.0.",
        "GPU 0, 1 have the same UUID, GPU-1.",
    ]


def test_gpus_without_an_identity_are_no_twins() -> None:
    nameless = reading(told(0, None), told(1, None))
    assert "nvml_answer_implausible" not in problems(survey(HOST, NODES, [], nameless))
