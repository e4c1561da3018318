# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What is said of the driver's failures, and of what only kernel or driver knows or says otherwise."""

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Driver, Gpu, Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure, NvmlGpu, NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.readings import (
    GUEST,
    HOST,
    NODES,
    one,
    pci,
    problems,
    reading,
    told,
)

FOREIGN = "gpu_foreign_driver"
LOST = ("gpu_is_lost", "GPU is lost")
BUSES = [pci(6 + index, index % 2) for index in range(4)]
TOLD = [told(index, 6 + index) for index in range(4)]


def joined(*failures: Failure) -> Machine:
    """Four GPUs and what failed with them."""
    return survey(HOST, NODES, BUSES, reading(*TOLD, failures=failures))


def of_pair(one: int, two: int, error: str = "gpu_is_lost", text: str = "GPU is lost") -> Failure:
    return Failure("nvmlDeviceGetP2PStatus", one, error, text, peer=two)


def not_started(error: str, text: str, loaded: str | None, **driver: str) -> str:
    nvml = NvmlReading(replace(Driver(), **driver), (), (), (), (Failure("nvmlInit", None, error, text),))
    return survey(HOST, NODES, [pci(6)], nvml, driver_version=loaded).problems[0].message


def test_failures_are_grouped_by_function_and_functions_by_failure() -> None:
    failures = [Failure(function, gpu, "unknown", "Unknown Error") for gpu in (0, 1) for function in ("nvmlA", "nvmlB")]
    timeout = Failure("nvmlB", 2, "timeout", "Timeout")
    assert [problem.message for problem in joined(*failures, timeout).problems] == [
        "nvmlA, nvmlB for GPU 0, 1: Unknown Error.",
        "nvmlB for GPU 2: Timeout.",
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("not_supported", "nvml_not_supported"),
        ("function_not_found", "nvml_function_missing"),
        ("implausible", "nvml_answer_implausible"),
        ("gpu_is_lost", "gpu_lost"),
        ("no_permission", "nvml_call_failed"),
        ("error_1234", "nvml_call_failed"),
        ("UnicodeDecodeError", "nvml_call_failed"),
    ],
)
def test_a_failure_has_its_code(error: str, code: str) -> None:
    assert problems(joined(Failure("nvmlDeviceGetName", 1, error, "No."))) == {
        code: "GPU 1: No (first said by nvmlDeviceGetName)."
        if code == "gpu_lost"
        else "nvmlDeviceGetName for GPU 1: No."
    }


def test_a_lost_gpu_needs_one_line_only() -> None:
    failures = (
        Failure("nvmlDeviceGetName", 1, *LOST),
        Failure("nvmlDeviceGetUUID", 1, *LOST),
        Failure("nvmlDeviceGetEccMode", 1, "timeout", "Timeout"),
        of_pair(0, 1),
        of_pair(1, 2, "unknown", "Unknown Error"),
    )
    assert problems(joined(*failures)) == {"gpu_lost": "GPU 1: GPU is lost (first said by nvmlDeviceGetName)."}


def test_a_gpu_that_needs_a_reset_still_has_other_errors() -> None:
    failures = (
        Failure("nvmlDeviceGetName", 1, "reset_required", "GPU requires reset"),
        Failure("nvmlDeviceGetUUID", 1, "timeout", "Timeout"),
    )
    assert set(problems(joined(*failures))) == {"gpu_reset_required", "nvml_call_failed"}


def test_of_pairs_the_gpu_that_all_have_in_common_is_lost() -> None:
    found = problems(joined(of_pair(0, 2), of_pair(1, 2)))
    assert found == {"gpu_lost": "GPU 2: GPU is lost (first said by nvmlDeviceGetP2PStatus)."}


def test_one_pair_does_not_tell_which_gpu_is_lost() -> None:
    assert problems(joined(of_pair(0, 2))) == {"gpu_lost": "nvmlDeviceGetP2PStatus for GPUs 0 and 2: GPU is lost."}


def test_of_many_pairs_some_are_named() -> None:
    pairs = [of_pair(0, peer, "timeout", "Timeout") for peer in range(1, 13)]
    message = problems(joined(*pairs))["nvml_call_failed"]
    assert message.startswith("nvmlDeviceGetP2PStatus for GPUs 0 and 1, ")
    assert message.endswith("0 and 8 and 4 more pairs: Timeout.")


@pytest.mark.parametrize(("error", "code"), [("no_answer", "nvml_no_answer"), ("crashed", "nvml_crashed")])
def test_the_call_that_did_not_come_back_is_named(error: str, code: str) -> None:
    found = problems(joined(Failure("nvmlDeviceGetName", 3, error, "It did not end well")))
    assert found[code] == (
        "It did not end well; the question was nvmlDeviceGetName for GPU 3, and what came before it is kept."
    )


def test_a_mismatch_names_both_versions() -> None:
    assert not_started("lib_rm_version_mismatch", "Mismatch.", "550.90.07", nvml_version="12.570.124.06") == (
        "NVML did not start: Mismatch; the kernel module is 550.90.07 and NVML is 12.570.124.06."
    )
    assert not_started("lib_rm_version_mismatch", "Mismatch.", None).endswith(
        "the kernel module is of unknown version and NVML is of unknown version."
    )


def test_a_driver_that_is_loaded_and_says_it_is_not() -> None:
    assert not_started("driver_not_loaded", "Driver Not Loaded", None) == "NVML did not start: Driver Not Loaded."
    assert "although the kernel shows its module 550.90.07" in not_started(
        "driver_not_loaded", "Driver Not Loaded", "550.90.07"
    )


@pytest.mark.parametrize(
    ("nvml", "loaded", "said"),
    [
        ("13.595.58.03", "595.58.03", None),
        ("13.595.58.03", None, None),
        (None, "595.58.03", None),
        ("12.550.90.07", "595.58.03", "The kernel module is 595.58.03, NVML is of 550.90.07."),
    ],
)
def test_versions_are_compared_where_the_driver_answers(nvml: str | None, loaded: str | None, said: str | None) -> None:
    machine = survey(HOST, NODES, [pci(6)], reading(told(0, 6), nvml_version=nvml), driver_version=loaded)
    assert problems(machine).get("nvml_version_differs") == said


# Who knows which GPU --------------------------------------------------------------------------------------------------


def test_a_gpu_that_only_the_bus_shows_is_named_with_its_holder() -> None:
    machine = survey(HOST, NODES, [pci(6), pci(7)], reading(told(0, 6)))
    assert len(machine.gpus) == 1
    assert problems(machine) == {
        "gpu_not_in_nvml": "0000:07:00.0 (10de:2330, kernel driver nvidia) is not among NVML's GPUs."
    }
    unbound = survey(HOST, NODES, [pci(6), pci(7, driver=None)], reading(told(0, 6)))
    assert problems(unbound) == {
        "gpu_not_in_nvml": "0000:07:00.0 (10de:2330, no kernel driver) is not among NVML's GPUs."
    }


@pytest.mark.parametrize("driver", ["vfio-pci", "nouveau", "snd_hda_intel"])
def test_a_board_of_another_driver_is_not_missed_in_nvml(driver: str) -> None:
    machine = survey(HOST, NODES, [pci(6), pci(7, driver=driver)], reading(told(0, 6)))
    assert problems(machine) == {"gpu_foreign_driver": f"Kernel driver {driver} holds 0000:07:00.0."}


@pytest.mark.parametrize(
    ("pci_id", "pci_class", "driver", "code"),
    [
        ("10de:128b", "0300", None, "display_board_not_in_nvml"),
        ("10de:128b", "0302", None, "gpu_not_in_nvml"),
        # One that nvidia holds is meant to serve, and so is one that the catalogue knows.
        ("10de:128b", "0300", "nvidia", "gpu_not_in_nvml"),
        ("10de:2684", "0300", None, "gpu_not_in_nvml"),
    ],
)
def test_a_board_for_a_screen_is_not_missed_in_nvml(pci_id: str, pci_class: str, driver: str | None, code: str) -> None:
    display = replace(pci(7, driver=driver, pci_id=pci_id), pci_class=pci_class)
    assert list(problems(survey(HOST, NODES, [pci(6), display], reading(told(0, 6))))) == [code]


def test_a_board_of_another_driver_is_not_the_nameless_one() -> None:
    nameless = NvmlGpu(Gpu(index=1, state="unreadable"))
    boards = [pci(6), pci(7, driver="vfio-pci"), pci(8)]
    machine = survey(HOST, NODES, boards, reading(told(0, 6), nameless))
    assert machine.gpus[1].pci_address == "0000:08:00.0"
    boards.append(pci(9))
    found = problems(survey(HOST, NODES, boards, reading(told(0, 6), nameless)))
    assert found["gpu_address_unknown"].endswith("which of 0000:08:00.0, 0000:09:00.0.")


def test_a_gpu_that_only_the_driver_shows_is_named() -> None:
    machine = survey(HOST, NODES, [pci(6)], reading(told(0, 6), told(1, 9)))
    assert problems(machine)["gpu_not_on_pci"] == "GPU 1 is not among the PCI devices of the kernel."
    machine = survey(HOST, NODES, [pci(6)], reading(told(0, 6), told(1, 9), told(2, 10)))
    assert problems(machine)["gpu_not_on_pci"] == "GPU 1, 2 are not among the PCI devices of the kernel."


def test_a_nameless_gpu_where_the_kernel_shows_no_other() -> None:
    nameless = NvmlGpu(Gpu(index=1, state="unreadable"))
    found = problems(survey(HOST, NODES, [pci(6)], reading(told(0, 6), nameless)))
    assert found["gpu_address_unknown"] == "GPU 1: the driver does not say which of none that the kernel shows."


def test_a_board_that_another_driver_holds() -> None:
    machine = survey(HOST, NODES, [pci(6, driver="nouveau")], None)
    assert problems(machine)["gpu_foreign_driver"] == "Kernel driver nouveau holds GPU 0 (0000:06:00.0)."
    assert machine.gpus[0].usable is False


def test_boards_of_other_drivers_are_told_by_driver() -> None:
    boards = [pci(6, driver="nouveau"), pci(7), pci(8, driver="vfio-pci"), pci(9, driver="nouveau")]
    found = [problem.message for problem in survey(HOST, NODES, boards, None).problems if problem.code == FOREIGN]
    assert found == [
        "Kernel driver nouveau holds GPU 0, 3 (0000:06:00.0, 0000:09:00.0).",
        "Kernel driver vfio-pci holds GPU 2 (0000:08:00.0).",
    ]
    answered = survey(HOST, NODES, boards, reading(told(0, 6), told(1, 7)))
    assert [problem.message for problem in answered.problems if problem.code == FOREIGN] == [
        "Kernel driver nouveau holds GPU 0 (0000:06:00.0) and 0000:09:00.0.",
        "Kernel driver vfio-pci holds 0000:08:00.0.",
    ]


# Where a GPU is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "cpus", "said"),
    [
        ((0,), "0-7", None),
        ((), None, None),
        # Where it does not know, the driver names all nodes.
        ((0, 1), None, None),
        ((1,), None, "node 1 where the kernel has 0"),
        ((0,), "0-5", "CPUs 0-5 where the kernel has 0-7"),
        ((1,), "8-15", "node 1 where the kernel has 0 and CPUs 8-15 where the kernel has 0-7"),
    ],
)
def test_the_kernel_is_believed_and_a_disagreement_told(
    nodes: tuple[int, ...], cpus: str | None, said: str | None
) -> None:
    machine = one(around={"numa_nodes": nodes, "cpus": cpus})
    text = f"GPU 0: the driver says {said}; the kernel is believed." if said else None
    assert problems(machine).get("affinity_disagrees") == text
    assert (machine.gpus[0].numa_node, machine.gpus[0].cpu_list) == (0, "0-7")


def test_where_the_kernel_knows_no_node_there_is_nothing_to_disagree_with() -> None:
    around = {"numa_nodes": (1,), "cpus": "8-15"}
    assert "affinity_disagrees" not in problems(one(GUEST, pci(6, node=None), around=around))
