# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Joining what kernel and driver say, from readings made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    Fabric,
    Gpu,
    GpuProcess,
    Host,
    Machine,
    Mode,
    NumaNode,
    NvLinks,
    Pcie,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml import (
    Failure,
    LinkEnds,
    NvmlGpu,
    NvmlReading,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey

HOST = Host(memory_total_bytes=1 << 40, virtualization="none", iommu="off")
NODES = (NumaNode(0, "0-7", True), NumaNode(1, "8-15", True))
GIB = 1 << 30


def pci(bus: int, node: int | None = 0, driver: str | None = "nvidia", pci_id: str = "10de:2330") -> PciGpu:
    return PciGpu(
        address=f"0000:{bus:02x}:00.0",
        pci_id=pci_id,
        bridges=("pci0000:00", f"0000:00:{bus:02x}.0"),
        numa_node=node,
        cpu_list="0-7",
        kernel_driver=driver,
        pcie=Pcie(5, 16, 1, 16),
        slot_generation_max=5,
    )


def told(index: int, bus: int | None, ends: LinkEnds | None = None, **facts: Any) -> NvmlGpu:
    address = None if bus is None else f"0000:{bus:02x}:00.0"
    gpu = Gpu(index=index, name="NVIDIA H100 80GB HBM3", memory_total_bytes=80 * GIB, pci_address=address)
    return NvmlGpu(replace(gpu, **facts), ends or LinkEnds(), 5, ())


def reading(*gpus: NvmlGpu, failures: tuple[Failure, ...] = ()) -> NvmlReading:
    unknown = tuple((None,) * len(gpus) for _gpu in gpus)
    return NvmlReading(Driver(version="595.58.03", source="nvml"), gpus, unknown, unknown, failures)


def problems(machine: Machine) -> dict[str, str]:
    return {problem.code: problem.message for problem in machine.problems}


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


def test_a_gpu_that_only_the_bus_shows_is_named_with_its_holder() -> None:
    machine = survey(HOST, NODES, [pci(6), pci(7, driver="vfio-pci")], reading(told(0, 6)))
    assert len(machine.gpus) == 1
    assert problems(machine) == {
        "gpu_not_in_nvml": "0000:07:00.0 (10de:2330, kernel driver vfio-pci) is not among NVML's GPUs."
    }


def test_a_gpu_that_the_kernel_hides_takes_its_node_from_the_driver() -> None:
    hidden = replace(told(0, 6), numa_nodes=(1,))
    machine = survey(HOST, NODES, [], reading(hidden, replace(told(1, 7), numa_nodes=(0, 1))))
    assert [gpu.numa_node for gpu in machine.gpus] == [1, None]


def test_a_lost_gpu_gets_its_address_by_elimination() -> None:
    lost = NvmlGpu(Gpu(index=1), LinkEnds(), None, ())
    failure = Failure("nvmlDeviceGetHandleByIndex", 1, "gpu_is_lost", "GPU is lost")
    machine = survey(HOST, NODES, [pci(6), pci(7, 1)], reading(told(0, 6), lost, failures=(failure,)))
    assert machine.gpus[1].pci_address == "0000:07:00.0"
    assert machine.gpus[1].name == "NVIDIA H100 80GB HBM3"
    # The size of a lost GPU is not made up: nothing can be planned on it.
    assert machine.gpus[1].memory_total_bytes is None
    assert list(problems(machine)) == ["gpu_lost"]


def test_two_nameless_gpus_stay_unknown() -> None:
    lost = [NvmlGpu(Gpu(index=index), LinkEnds(), None, ()) for index in range(2)]
    machine = survey(HOST, NODES, [pci(6), pci(7)], reading(*lost))
    assert [gpu.pci_address for gpu in machine.gpus] == [None, None]


@pytest.mark.parametrize(
    ("error", "code", "severity"),
    [
        ("driver_not_loaded", "nvml_driver_not_loaded", "error"),
        ("version_mismatch", "nvml_version_mismatch", "error"),
        ("no_permission", "nvml_no_permission", "error"),
        ("library_not_found", "nvml_library_not_found", "warning"),
        ("error_999", "nvml_unusable", "error"),
    ],
)
def test_a_driver_that_does_not_start_leaves_the_bus_and_the_catalogue(error: str, code: str, severity: str) -> None:
    nvml = NvmlReading(Driver(), (), (), (), (Failure("nvmlInit", None, error, "No"),))
    machine = survey(HOST, NODES, [pci(6)], nvml, driver_version="550.90.07")
    assert machine.driver == Driver(version="550.90.07", source="pci")
    assert (machine.gpus[0].memory_total_bytes, machine.gpus[0].memory_source) == (81559 << 20, "catalogue")
    assert (machine.problems[0].code, machine.problems[0].severity) == (code, severity)
    assert [problem.code for problem in machine.problems[1:]] == ["gpu_memory_from_catalogue"]


def test_an_unknown_board_without_a_driver_has_no_size() -> None:
    machine = survey(HOST, NODES, [pci(6, pci_id="10de:ffff")], None)
    assert (machine.gpus[0].name, machine.gpus[0].memory_total_bytes) == (None, None)
    assert problems(machine) == {"gpu_board_unknown": "GPU 0: the catalogue does not hold 10de:ffff."}


def test_failures_are_grouped_by_function() -> None:
    failures = tuple(Failure("nvmlDeviceGetMinorNumber", gpu, "error_999", "Unknown Error") for gpu in (0, 1))
    machine = survey(HOST, NODES, [pci(6), pci(7)], reading(told(0, 6), told(1, 7), failures=failures))
    assert problems(machine)["nvml_call_failed"] == "nvmlDeviceGetMinorNumber for GPU 0, 1: Unknown Error."


def test_nvlinks_outrank_the_pci_level() -> None:
    through_switches = [told(index, 6 + index, LinkEnds((), 18)) for index in range(2)]
    straight = [told(0, 6, LinkEnds(("0000:07:00.0",) * 4, 0)), told(1, 7, LinkEnds(("0000:06:00.0",) * 4, 0))]
    buses = [pci(6), pci(7)]
    assert survey(HOST, NODES, buses, reading(*through_switches)).gpu_links[0][1].level == "NV18"
    assert survey(HOST, NODES, buses, reading(*straight)).gpu_links[1][0].level == "NV4"
    assert survey(HOST, NODES, buses, reading(told(0, 6), told(1, 7))).gpu_links[0][1].level == "PHB"


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"mig": Mode(True, True)}, "gpu_mig_enabled"),
        ({"ecc": Mode(True, False)}, "gpu_mode_pending"),
        ({"compute_mode": "prohibited"}, "gpu_compute_mode"),
        ({"persistence": False}, "gpu_persistence_off"),
        ({"processes": (GpuProcess(4711, 2 * GIB),)}, "gpu_busy"),
        ({"pcie": Pcie(5, 16, 5, 8)}, "pcie_width_reduced"),
        ({"pcie": Pcie(6, 16, 1, 16)}, "pcie_slot_slower"),
        ({"nvlinks": NvLinks(17, 18)}, "nvlink_down"),
        ({"fabric": Fabric("in_progress", 0, 0, None)}, "fabric_not_ready"),
        ({"fabric": Fabric("completed", 3, 0, None)}, "fabric_not_ready"),
    ],
)
def test_the_state_of_a_gpu_is_judged(facts: dict[str, Any], code: str) -> None:
    assert list(problems(survey(HOST, NODES, [pci(6)], reading(told(0, 6, **facts))))) == [code]


def test_a_process_is_named_with_what_it_holds() -> None:
    busy = told(0, 6, processes=(GpuProcess(4711, 2 * GIB), GpuProcess(4712, None)))
    assert problems(survey(HOST, NODES, [pci(6)], reading(busy))) == {
        "gpu_busy": "GPU 0: 2.00 GiB held by process 4711, 4712."
    }


def test_a_healthy_idle_gpu_has_no_problem() -> None:
    healthy = told(
        0,
        6,
        pcie=Pcie(5, 16, 1, 16),
        fabric=Fabric("completed", 0, 0, None),
        nvlinks=NvLinks(18, 18),
        mig=Mode(False, False),
        ecc=Mode(True, True),
        persistence=True,
        compute_mode="default",
    )
    assert survey(HOST, NODES, [pci(6)], reading(healthy)).problems == ()


def test_a_slot_means_nothing_in_a_guest() -> None:
    guest = replace(HOST, virtualization="kvm")
    assert survey(guest, NODES, [pci(6)], reading(told(0, 6, pcie=Pcie(6, 16, 1, 16)))).problems == ()


def test_gpus_that_differ_are_listed() -> None:
    mixed = reading(told(0, 6), told(1, 7, name="NVIDIA H200", memory_total_bytes=140 * GIB))
    message = problems(survey(HOST, NODES, [pci(6, 0), pci(7, 1)], mixed))["gpus_differ"]
    assert message == "The GPUs are of 2 kinds: NVIDIA H100 80GB HBM3 with 80.00 GiB, NVIDIA H200 with 140.00 GiB."


@pytest.mark.parametrize(
    ("host", "nodes", "codes"),
    [
        (replace(HOST, memory_total_bytes=None), NODES, ["memory_not_reported"]),
        (HOST, (), ["numa_not_reported"]),
        (replace(HOST, hugepages_total_bytes=GIB), NODES, ["hugepages_reserved"]),
        (replace(HOST, cgroup_limit_bytes=GIB), NODES, ["cgroup_memory_limited"]),
        (replace(HOST, cgroup_limit_bytes=2 << 40), NODES, []),
        (replace(HOST, cpus_offline="9"), NODES, ["cpus_offline"]),
        (HOST, (*NODES, NumaNode(250, "", False)), ["gpu_memory_as_numa_node"]),
    ],
)
def test_the_host_is_judged(host: Host, nodes: tuple[NumaNode, ...], codes: list[str]) -> None:
    assert list(problems(survey(host, nodes, [pci(6)], reading(told(0, 6))))) == codes


def test_unknown_places_matter_only_with_several_nodes() -> None:
    lost = reading(told(0, 6))
    assert "gpu_numa_unknown" in problems(survey(HOST, NODES, [pci(6, None)], lost))
    assert survey(HOST, NODES[:1], [pci(6, None)], lost).problems == ()


def test_as_dict_is_plain() -> None:
    plain = survey(HOST, NODES, [pci(6)], reading(told(0, 6))).as_dict()
    assert list(plain) == ["gpus", "numa_nodes", "gpu_links", "host", "driver", "problems"]
    assert plain["gpus"][0]["pcie"] == {"generation_max": 5, "width_max": 16, "generation": 1, "width": 16}
    assert plain["gpus"][0]["processes"] == []
    assert plain["gpu_links"] == [[{"level": "SELF", "p2p": None}]]
    assert plain["numa_nodes"][0]["gpus"] == [0]
