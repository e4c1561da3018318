# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import refuse_unknown_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding, planned

H200 = {"board": "NVIDIA H200", "count": 8, "numa_nodes": 2, "memory_gb": 2048}


def test_memory_plan_knows_every_key() -> None:
    refuse_unknown_facts({}, machine_on_paper(H200))


def test_eight_boards_on_two_nodes() -> None:
    machine = machine_facts(machine_on_paper(H200))
    assert [gpu.numa_node for gpu in machine.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu.memory_total_bytes for gpu in machine.gpus} == {143771 * 2**20}
    assert {gpu.compute_capability for gpu in machine.gpus} == {(9, 0)}
    assert [node.id for node in machine.nodes] == [0, 1]
    assert [node.memory_total_bytes for node in machine.nodes] == [1_024_000_000_000] * 2
    assert (machine.memory_total_bytes, machine.memory_available_bytes) == (2_048_000_000_000,) * 2
    assert machine.links[0, 7].nvlinks == 18
    assert machine.links[0, 0].nvlinks == 0


def test_what_the_driver_keeps_is_said_where_it_is_known() -> None:
    assert machine_on_paper(H200)["gpus"][0]["memory_reserved_bytes"] == (143771 - 143155) * 2**20
    assert machine_on_paper({"board": "NVIDIA H800"})["gpus"][0]["memory_reserved_bytes"] is None


def test_nothing_is_known_of_memory_that_is_not_said() -> None:
    topology = machine_on_paper({"board": "NVIDIA L40S"})
    assert topology["host"] == {"memory_total_bytes": None, "memory_available_bytes": None}
    assert topology["numa_nodes"] == [{"id": 0, "memory_total_bytes": None, "gpus": [0]}]
    assert topology["assumptions"] == []
    assert "gpu_links" not in topology


def test_what_is_assumed_is_said() -> None:
    assert machine_on_paper(H200)["assumptions"] == [
        "All 2,048 GB of the host's memory are available, as available_gb is not said.",
        "The 8 GPUs are divided evenly over the 2 NUMA nodes, in their order.",
        "NVSwitch joins the 8 GPUs, as it does on boards of this form.",
    ]
    said = {**H200, "available_gb": 1900, "gpu_nodes": [0, 1] * 4, "nvlink": False, "assumptions": ["One."]}
    topology = machine_on_paper(said)
    assert topology["assumptions"] == ["One."]
    assert [gpu["numa_node"] for gpu in topology["gpus"]] == [0, 1] * 4
    assert topology["host"]["memory_available_bytes"] == 1_900_000_000_000
    assert "gpu_links" not in topology


@pytest.mark.parametrize(("count", "nodes"), [(1, 8), (3, 2), (8, 3), (16, 8), (8, 1)])
def test_gpus_are_divided_evenly(count: int, nodes: int) -> None:
    topology = machine_on_paper({"board": "NVIDIA L40S", "count": count, "numa_nodes": nodes})
    homes = [gpu["numa_node"] for gpu in topology["gpus"]]
    shares = [homes.count(node) for node in range(nodes)]
    assert homes == sorted(homes)
    assert sum(shares) == count and max(shares) - min(shares) <= 1
    assert [node["gpus"] for node in topology["numa_nodes"]] == [
        [index for index, home in enumerate(homes) if home == node] for node in range(nodes)
    ]


def test_a_bridge_joins_two_boards_where_that_is_said() -> None:
    pair = {"board": "NVIDIA RTX A6000", "count": 2}
    assert "gpu_links" not in machine_on_paper(pair)
    links = machine_on_paper({**pair, "nvlink": True})["gpu_links"]
    assert (links[0][1]["level"], links[1][0]["nvlinks"], links[0][0]["level"]) == ("NV4", 4, None)


def test_the_founding_case_on_paper_has_its_exact_figures() -> None:
    paper = {"board": "rtx-pro-6000-server", "count": 8, "numa_nodes": 2, "available_gb": 396}
    stated, short = planned(founding()), planned(founding(topology=machine_on_paper(paper)))
    for part in ("device", "host", "placement", "timing", "unit", "arguments", "warnings"):
        assert short[part] == stated[part], part
    assert short["device"]["max_total_num_tokens"] == 159_277
    assert short["host"]["bytes_total"] == 358_167_389_184


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ({"bord": "NVIDIA H200"}, "option_unknown", "The closest is board."),
        ({"zzz": 1}, "option_unknown", "Expected some of board"),
        ({}, "board_missing", "NVIDIA H200"),
        ({"board": 7}, "board_missing", "board is 7."),
        ({"board": "H300"}, "board_unknown", "H200"),
        ({**H200, "count": 0}, "value_malformed", "count is 0."),
        ({**H200, "count": "many"}, "value_malformed", "count is 'many'."),
        ({**H200, "numa_nodes": -1}, "value_malformed", "numa_nodes is -1."),
        ({**H200, "memory_gb": 0}, "value_malformed", "above 0"),
        ({**H200, "memory_gb": True}, "value_malformed", "memory_gb"),
        ({**H200, "memory_gb": float("nan")}, "value_malformed", "memory_gb"),
        ({**H200, "available_gb": 3000}, "value_malformed", "more than memory_gb"),
        ({**H200, "gpu_nodes": [0]}, "value_malformed", "for each of 8 GPUs"),
        ({**H200, "gpu_nodes": [2] * 8}, "value_malformed", "gpu_nodes[0] is 2."),
        ({**H200, "nvlink": "yes"}, "value_malformed", "nvlink is 'yes'."),
        ({**H200, "assumptions": "one"}, "value_malformed", "list of sentences"),
        ({"board": "NVIDIA L40S", "count": 2, "nvlink": True}, "nvlink_not_had", "NVIDIA L40S"),
        ({"board": "Tesla V100-SXM2-32GB", "count": 8, "nvlink": True}, "nvlink_not_had", "every pair"),
        ({"board": "NVIDIA RTX A6000", "count": 4, "nvlink": True}, "nvlink_not_had", "joins two"),
    ],
)
def test_what_is_wrong_is_refused_by_name(said: dict[str, Any], code: str, told: str) -> None:
    with pytest.raises(Refusal) as caught:
        machine_on_paper(said)
    assert caught.value.code == code
    assert told in str(caught.value)
