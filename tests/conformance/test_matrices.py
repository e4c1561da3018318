# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The shapes of 210 real machines: each probed through the real nvidia-ml-py, placed and budgeted."""

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import Placement, place
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.conformance.matrices import Matrix, build, parsed
from ansible_collections.gpufleet.sglang.tests.conformance.probing import surveys_of
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import TOPOLOGY

pytestmark = needs_recorded_data

GB = 10**9
MATRICES = 210
ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
# As Kimi-K2.5, with heads that divide over any number of GPUs and weights that fit the smallest board.
MODEL: dict[str, Any] = {
    "name": "model",
    "architecture": "KimiK25ForConditionalGeneration",
    "dtype": "bfloat16",
    "attention": {
        "family": "mla",
        "num_layers": 61,
        "num_attention_heads": 120,
        "num_kv_heads": 120,
        "head_dim": 192,
        "v_head_dim": 128,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    },
    "weights": {"total_bytes": 2 * GB},
}

Machines = list[tuple[Matrix, dict[str, Any]]]


@pytest.fixture(name="machines", scope="module")
def _machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    """Every matrix with the survey of its machine, in the order of the collection."""
    entries = json.loads((TOPOLOGY / "smi-topo-matrices.json").read_text(encoding="utf-8"))
    assert len(entries) == MATRICES
    matrices = [parsed(entry) for entry in entries]
    base = tmp_path_factory.mktemp("matrices")
    for number, matrix in enumerate(matrices):
        build(matrix, base / "machines" / f"{number:03d}")
    surveys = surveys_of(base)
    assert list(surveys) == [f"{number:03d}" for number in range(MATRICES)]
    return list(zip(matrices, surveys.values()))


def test_each_is_probed_as_the_matrix_gives_it(machines: Machines) -> None:
    for matrix, survey in machines:
        assert survey["driver"]["source"] == "nvml", matrix.source
        assert [gpu["name"] for gpu in survey["gpus"]] == [board.name for board in matrix.boards], matrix.source
        assert [gpu["numa_node"] for gpu in survey["gpus"]] == list(matrix.nodes), matrix.source
        assert all(gpu["usable"] for gpu in survey["gpus"]), matrix.source
        assert {node["id"] for node in survey["numa_nodes"]} >= matrix.homes, matrix.source
        for one, row in enumerate(survey["gpu_links"]):
            levels = ["X" if link["level"] == "SELF" else link["level"] for link in row]
            assert levels == list(matrix.levels[one]), matrix.source
        errors = [problem["code"] for problem in survey["problems"] if problem["severity"] == "error"]
        assert errors == [], matrix.source


def divisions(count: int) -> list[list[int]]:
    """All GPUs for one instance, halves, pairs, single ones, and a large one with small ones beside it."""
    found = [[count], [1] * count]
    if count > 1:
        found += [[count // 2], [count // 2] * 2, [2] * (count // 2)]
    if count > 3:
        found.append([count // 2, count // 4, count // 4])
    return found


def worst_of(levels: list[str]) -> tuple[int, int]:
    """How slow a set is by its slowest link; lower is better."""
    return max((1 + ORDER.index(level), 0) if level in ORDER else (0, -int(level[2:])) for level in levels)


def check(matrix: Matrix, placement: Placement, ranks: list[int]) -> None:
    taken = [gpu.index for one in placement.instances for gpu in one.gpus]
    assert len(taken) == len(set(taken)) == sum(ranks), matrix.source
    assert sorted([*taken, *placement.free_gpus]) == list(range(matrix.count)), matrix.source
    for one in placement.instances:
        named = {seat.numa_node for seat in one.seats} - {None}
        # Nodes below the highest that the matrix names are there too, and have CPUs and memory; no GPU is on them.
        assert named <= matrix.homes, (matrix.source, named)
        for seat in one.seats:
            assert seat.gpu is not None
            own = matrix.nodes[seat.gpu]
            assert own is None or seat.numa_node == own, matrix.source
        levels = [matrix.levels[a.index][b.index] for a in one.gpus for b in one.gpus if a is not b]
        assert (one.link is None) == (not levels), matrix.source
        if levels:
            assert worst_of([str(one.link)]) == worst_of(levels), matrix.source


def test_each_is_placed(machines: Machines) -> None:
    placements = 0
    for matrix, survey in machines:
        facts = machine_facts(survey)
        for ranks in divisions(matrix.count):
            wanted = [Instance(f"i{number}", count, pool_bytes_per_rank=GB) for number, count in enumerate(ranks)]
            check(matrix, place(facts, wanted, version_facts("0.5.23"), reserve_bytes=10 * GB), ranks)
            placements += 1
        # Explicit ones keep their order, whatever that is good for.
        backwards = Instance("i0", matrix.count, tuple(range(matrix.count))[::-1])
        (one,) = place(facts, [backwards]).instances
        assert [gpu.index for gpu in one.gpus] == list(backwards.gpus), matrix.source
    assert placements > 4 * MATRICES


def test_a_pair_is_as_well_joined_as_any_pair_of_the_matrix(machines: Machines) -> None:
    for matrix, survey in machines:
        if matrix.count < 2:
            continue
        (one,) = place(machine_facts(survey), [Instance("a", 2)]).instances
        alike = [
            worst_of([level])
            for first, row in enumerate(matrix.levels)
            for second, level in enumerate(row)
            if first != second and matrix.boards[first] == matrix.boards[second]
        ]
        if alike:
            assert worst_of([str(one.link)]) == min(alike), matrix.source


def test_where_nodes_are_known_halves_share_none_more_than_they_must(machines: Machines) -> None:
    """On the common shape, as many GPUs on either node and links no better across, each half gets a node."""
    split = 0
    for matrix, survey in machines:
        counts = sorted(matrix.nodes.count(node) for node in matrix.named)
        whole = None not in matrix.nodes and counts == [matrix.count // 2] * 2 and matrix.count % 2 == 0
        crossing = [
            (level, matrix.nodes[one] == matrix.nodes[two])
            for one, row in enumerate(matrix.levels)
            for two, level in enumerate(row)
            if one != two
        ]
        within = [worst_of([level]) for level, same in crossing if same]
        across = [worst_of([level]) for level, same in crossing if not same]
        if not whole or not within or max(within) > min(across) or len({*matrix.boards}) > 1:
            continue
        split += 1
        placement = place(machine_facts(survey), [Instance(name, matrix.count // 2) for name in "ab"])
        assert [len(one.numa_nodes) for one in placement.instances] == [1, 1], matrix.source
    assert split > 60


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23"])
def test_each_is_budgeted(machines: Machines, release: str) -> None:
    for matrix, survey in machines:
        for ranks in sorted({1, max(1, matrix.count // 2), matrix.count}):
            arguments = {
                "sglang_version": release,
                "model": MODEL,
                "topology": survey,
                "server": {"tensor_parallel_size": ranks, "mem_fraction_static": 0.85},
                "hicache": {"ratio": 1.2},
            }
            planned = plan_as_dict(plan(plan_request(arguments)))
            host = planned["host"]
            seats = planned["placement"]
            assert len(seats) == ranks, matrix.source
            assert {seat["numa_node"] for seat in seats} - {None} <= matrix.homes, matrix.source
            if host["numa"]:
                assert sum(node["pinned_bytes"] for node in host["numa"]) == host["bytes_total"], matrix.source
                assert {node["node"] for node in host["numa"] if node["pinned_bytes"]} <= matrix.homes, matrix.source
            else:
                assert None in {seat["numa_node"] for seat in seats}, matrix.source
            several = len(survey["numa_nodes"]) > 1 and None not in {seat["numa_node"] for seat in seats}
            expected = {"0.5.9": "preferred", "0.5.23": "strict"}[release] if several else "none"
            assert host["numa_binding"] == expected, matrix.source
