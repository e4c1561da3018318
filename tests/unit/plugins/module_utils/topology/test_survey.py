# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Joining what kernel and driver say."""

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Driver, Gpu, NumaNode, Pcie
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import (
    Failure,
    LinkEnds,
    NvmlGpu,
    NvmlReading,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.readings import (
    GIB,
    HOST,
    NODES,
    pci,
    problems,
    reading,
    told,
)


def test_the_kernel_is_believed_about_places_and_the_driver_about_boards() -> None:
    machine = survey(HOST, NODES, [pci(6, node=1)], reading(told(0, 6, uuid="GPU-1", pcie=Pcie(5, 16, 5, 16))))
    gpu = machine.gpus[0]
    assert (gpu.uuid, gpu.memory_total_bytes, gpu.memory_source) == ("GPU-1", 80 * GIB, "nvml")
    assert (gpu.numa_node, gpu.cpu_list, gpu.kernel_driver, gpu.pcie.generation) == (1, "0-7", "nvidia", 5)
    assert [node.gpus for node in machine.numa_nodes] == [(), (0,)]
    assert machine.problems == ()


def test_order_is_nvmls_not_the_buses() -> None:
    machine = survey(HOST, NODES, [pci(6, 0), pci(7, 1)], reading(told(0, 7), told(1, 6)))
    assert [gpu.numa_node for gpu in machine.gpus] == [1, 0]


def test_a_gpu_that_the_kernel_hides_takes_its_node_from_the_driver() -> None:
    hidden = told(0, 6, around={"numa_nodes": (1,)})
    machine = survey(HOST, NODES, [], reading(hidden, told(1, 7, around={"numa_nodes": (0, 1)})))
    assert [gpu.numa_node for gpu in machine.gpus] == [1, None]


def test_a_lost_gpu_gets_its_address_by_elimination() -> None:
    lost = NvmlGpu(Gpu(index=1, state="lost"))
    failure = Failure("nvmlDeviceGetHandleByIndex", 1, "gpu_is_lost", "GPU is lost")
    machine = survey(HOST, NODES, [pci(6), pci(7, 1)], reading(told(0, 6), lost, failures=(failure,)))
    assert machine.gpus[1].pci_address == "0000:07:00.0"
    assert machine.gpus[1].name == "NVIDIA H100 80GB HBM3"
    # The size of a lost GPU is not made up: nothing can be planned on it.
    assert (machine.gpus[1].memory_total_bytes, machine.gpus[1].usable) == (None, False)
    assert list(problems(machine)) == ["gpu_lost"]


def test_two_nameless_gpus_stay_unknown() -> None:
    nameless = [NvmlGpu(Gpu(index=index, state="unreadable")) for index in range(2)]
    machine = survey(HOST, NODES, [pci(6), pci(7)], reading(*nameless))
    assert [gpu.pci_address for gpu in machine.gpus] == [None, None]
    # That they are among those on the bus is not said twice, nor denied.
    message = "GPU 0, 1: the driver does not say which of 0000:06:00.0, 0000:07:00.0."
    assert problems(machine)["gpu_address_unknown"] == message
    assert not {"gpu_not_in_nvml", "gpu_not_on_pci"} & set(problems(machine))


@pytest.mark.parametrize(
    ("error", "code", "severity"),
    [
        ("driver_not_loaded", "nvml_driver_not_loaded", "error"),
        ("lib_rm_version_mismatch", "nvml_version_mismatch", "error"),
        ("no_permission", "nvml_no_permission", "error"),
        ("library_not_found", "nvml_library_not_found", "warning"),
        ("unknown", "nvml_unusable", "error"),
        ("no_answer", "nvml_no_answer", "error"),
        ("crashed", "nvml_crashed", "error"),
    ],
)
def test_a_driver_that_does_not_start_leaves_the_bus_and_the_catalogue(error: str, code: str, severity: str) -> None:
    nvml = NvmlReading(Driver(), (), (), (), (Failure("nvmlInit", None, error, "No"),))
    machine = survey(HOST, NODES, [pci(6)], nvml, driver_version="550.90.07")
    assert machine.driver == Driver(version="550.90.07", source="pci")
    assert (machine.gpus[0].memory_total_bytes, machine.gpus[0].memory_source) == (81559 << 20, "catalogue")
    assert (machine.gpus[0].state, machine.gpus[0].usable) == (None, True)
    assert (machine.problems[0].code, machine.problems[0].severity) == (code, severity)
    assert [problem.code for problem in machine.problems[1:]] == ["gpu_memory_from_catalogue"]


def test_a_driver_that_cannot_count_leaves_the_bus_and_the_catalogue_as_well() -> None:
    failure = Failure("nvmlDeviceGetCount", None, "unknown", "Unknown Error")
    nvml = replace(reading(failures=(failure,), nvml_version="13.595.58.03"), counted=False)
    machine = survey(HOST, NODES, [pci(6)], nvml)
    assert machine.driver == Driver(version="595.58.03", nvml_version="13.595.58.03", source="pci")
    assert machine.gpus[0].memory_source == "catalogue"
    assert problems(machine)["nvml_call_failed"] == "nvmlDeviceGetCount: Unknown Error."


def test_an_unknown_board_without_a_driver_has_no_size() -> None:
    machine = survey(HOST, NODES, [pci(6, pci_id="10de:ffff")], None)
    assert (machine.gpus[0].name, machine.gpus[0].memory_total_bytes) == (None, None)
    assert problems(machine) == {
        "gpu_board_unknown": "GPU 0: the catalogue does not hold 10de:ffff; the driver may leave out a board that is "
        "not known here, and would number the GPUs otherwise."
    }


def test_nvlinks_outrank_the_pci_level() -> None:
    through_switches = [told(index, 6 + index, LinkEnds((), 18)) for index in range(2)]
    straight = [told(0, 6, LinkEnds(("0000:07:00.0",) * 4, 0)), told(1, 7, LinkEnds(("0000:06:00.0",) * 4, 0))]
    buses = [pci(6), pci(7)]
    assert survey(HOST, NODES, buses, reading(*through_switches)).gpu_links[0][1].level == "NV18"
    assert survey(HOST, NODES, buses, reading(*straight)).gpu_links[1][0].level == "NV4"
    assert survey(HOST, NODES, buses, reading(told(0, 6), told(1, 7))).gpu_links[0][1].level == "PHB"


def test_unknown_places_matter_only_with_several_nodes() -> None:
    assert "gpu_numa_unknown" not in problems(survey(HOST, NODES[:1], [pci(6, None)], reading(told(0, 6))))


def test_what_gpu_and_slot_reach_together_tells_a_slower_slot_only() -> None:
    def slot(reached: int | None) -> int | None:
        around = {"slot_generation_max": reached}
        nvml = reading(told(0, 6, pcie=Pcie(5, 16, 1, 16), around=around))
        return survey(HOST, NODES, [], nvml).gpus[0].pcie.slot_generation_max

    assert [slot(reached) for reached in (4, 5, None)] == [4, None, None]


def test_a_node_that_the_driver_calls_a_gpus_memory_is_no_home() -> None:
    nodes = (*NODES, NumaNode(2, "", False, kind="memory", memory_total_bytes=96 * GIB))
    machine = survey(HOST, nodes, [pci(6)], reading(told(0, 6, gpu_numa_id=2)))
    assert [node.kind for node in machine.numa_nodes] == ["general", "general", "gpu_memory"]
    assert list(problems(machine)) == ["gpu_memory_as_numa_node"]


def test_a_node_that_is_not_there_is_not_reported() -> None:
    lone = replace(pci(6, node=7), cpu_list=None)
    machine = survey(HOST, NODES, [lone], reading(told(0, 6)))
    assert machine.gpus[0].numa_node is None
    assert list(problems(machine)) == ["gpu_numa_absent"]


def test_what_the_gpus_ways_tell_is_the_hosts() -> None:
    switch = ("pci0000:00", "0000:00:01.0", "0000:01:00.0")
    ways = [
        replace(pci(bus), bridges=(*switch, f"0000:02:{bus:02x}.0"), acs=(False, False, False, True), iommu_type="DMA")
        for bus in (6, 7)
    ]
    machine = survey(HOST, NODES, ways, reading(told(0, 6), told(1, 7)))
    assert (machine.host.iommu, machine.host.acs_redirecting) == ("on", ("0000:02:06.0", "0000:02:07.0"))
    assert (machine.gpu_links[0][1].level, machine.gpu_links[0][1].route) == ("PIX", "redirected")
    assert {"acs_redirects_peers", "iommu_translates"} <= set(problems(machine))


def test_as_dict_is_plain() -> None:
    plain = survey(HOST, NODES, [pci(6)], reading(told(0, 6))).as_dict()
    assert list(plain) == ["gpus", "numa_nodes", "gpu_links", "host", "driver", "problems"]
    assert plain["gpus"][0]["pcie"] == {
        "generation_max": 5,
        "width_max": 16,
        "generation": 1,
        "width": 16,
        "slot_generation_max": None,
        "slot_width_max": None,
        "state": None,
    }
    assert (plain["gpus"][0]["processes"], plain["gpus"][0]["mig_devices"]) == ([], [])
    assert plain["gpu_links"] == [[{"level": "SELF", "p2p": None, "nvlinks": 0, "route": None}]]
    assert plain["numa_nodes"][0]["gpus"] == [0]
