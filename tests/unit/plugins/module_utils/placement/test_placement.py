# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import (
    Placement,
    place,
    placement_as_dict,
    runs_sglang,
    visible_devices,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.placement.paper import (
    machine,
    pairs_of,
    topology,
    two_sockets,
)


def placed(facts: dict[str, Any], *ranks: int, **more: Any) -> Placement:
    return place(machine_facts(facts), [Instance(f"i{place}", count) for place, count in enumerate(ranks)], **more)


def sets(placement: Placement) -> list[list[int]]:
    return [[gpu.index for gpu in one.gpus] for one in placement.instances]


def codes(placement: Placement, instance: int = 0) -> list[str]:
    return [entry.code for entry in placement.instances[instance].problems]


class TestChoice:
    @pytest.mark.parametrize(
        ("ranks", "chosen"),
        [
            ((8,), [[0, 1, 2, 3, 4, 5, 6, 7]]),
            ((4,), [[0, 1, 2, 3]]),
            ((4, 4), [[0, 1, 2, 3], [4, 5, 6, 7]]),
            ((2, 2, 2, 2), [[0, 1], [2, 3], [4, 5], [6, 7]]),
            ((4, 2, 2), [[0, 1, 2, 3], [4, 5], [6, 7]]),
            ((2, 2, 4), [[4, 5], [6, 7], [0, 1, 2, 3]]),
            ((1, 1, 2), [[2], [3], [0, 1]]),
        ],
    )
    def test_sets_stay_on_a_socket_and_behind_a_switch(self, ranks: tuple[int, ...], chosen: list[list[int]]) -> None:
        assert sets(placed(two_sockets(), *ranks)) == chosen

    def test_a_small_one_leaves_the_large_groups_whole(self) -> None:
        # Node 1 has two GPUs only, so they are taken, and the four of node 0 are still together.
        placement = placed(topology((0, 0, 0, 0, 1, 1)), 2)
        assert sets(placement) == [[4, 5]]
        assert placement.free_gpus == (0, 1, 2, 3)

    def test_a_single_one_does_not_break_a_pair(self) -> None:
        facts = machine_facts(two_sockets())
        explicit = Instance("there", 1, (2,))
        assert sets(place(facts, [explicit, Instance("here", 1)])) == [[2], [3]]

    def test_two_beside_an_explicit_four(self) -> None:
        facts = machine_facts(two_sockets())
        placement = place(facts, [Instance("two", 2), Instance("four", 4, (2, 3, 0, 1))])
        assert sets(placement) == [[4, 5], [2, 3, 0, 1]]
        assert placement.free_gpus == (6, 7)

    def test_more_nvlinks_win(self) -> None:
        # A hybrid cube mesh: 0 and 3 are joined by two links, the other pairs of the node by one.
        mesh = machine((0, 0, 0, 0), lambda one, two: "NV2" if (one, two) == (0, 3) else "NV1")
        assert sets(place(mesh, [Instance("a", 2)])) == [[0, 3]]

    def test_nvlink_between_sockets_beats_pcie_within_one(self) -> None:
        bridged = topology((0, 0, 1, 1), lambda one, two: "NV4" if two - one == 2 else "NODE")
        placement = placed(bridged, 2, 2)
        assert sets(placement) == [[0, 2], [1, 3]]
        assert [one.link for one in placement.instances] == ["NV4", "NV4"]

    def test_with_links_all_the_same_a_node_of_its_own_decides(self) -> None:
        snc4 = topology((0, 2, 3, 1, 0, 2, 3, 1), lambda _one, _two: "NV18")
        assert sets(placed(snc4, 2, 2, 2, 2)) == [[0, 4], [1, 5], [2, 6], [3, 7]]

    @pytest.mark.parametrize("better", ["PIX", "PXB", "PHB", "NODE"])
    def test_the_worst_link_of_a_set_decides(self, better: str) -> None:
        worse = {"PIX": "PXB", "PXB": "PHB", "PHB": "NODE", "NODE": "SYS"}[better]
        joined = machine((None,) * 4, lambda one, two: better if (one, two) == (1, 3) else worse, numa_nodes=[])
        (one,) = place(joined, [Instance("a", 2)]).instances
        assert ([gpu.index for gpu in one.gpus], one.link) == ([1, 3], better)

    def test_one_kind_of_gpu_comes_before_good_links(self) -> None:
        mixed = topology((0, 0, 0, 0), lambda one, two: "PIX" if (one, two) == (1, 2) else "NODE")
        for gpu in mixed["gpus"]:
            gpu["name"] = "H100" if gpu["index"] >= 2 else "L40S"
        placement = placed(mixed, 2)
        assert sets(placement) == [[0, 1]]
        assert codes(placement) == []
        assert codes(placed(mixed, 3)) == ["gpus_mixed"]

    def test_equal_instances_are_weighed_together(self) -> None:
        # The best pair (0, 1) would leave 2 and 3 with SYS between them.
        links = {(0, 1): "PIX", (2, 3): "SYS", (0, 2): "PXB", (1, 3): "PXB"}
        facts = topology((0, 0, 0, 0), lambda one, two: links.get((one, two), "SYS"))
        assert sets(placed(facts, 2, 2)) == [[0, 2], [1, 3]]
        assert sets(placed(facts, 2)) == [[0, 1]]

    def test_gpus_in_use_by_others_are_avoided_while_there_are_more(self) -> None:
        facts = two_sockets()
        facts["gpus"][1]["processes"] = [{"pid": 7, "name": "python3"}]
        assert sets(placed(facts, 4)) == [[4, 5, 6, 7]]
        assert sets(placed(facts, 4, avoid_in_use=False)) == [[0, 1, 2, 3]]
        everything = placed(facts, 8)
        assert codes(everything) == ["gpus_in_use"]
        assert "GPU 1 (python3)" in everything.instances[0].problems[0].message

    def test_the_instances_own_processes_move_nothing(self) -> None:
        facts = two_sockets()
        before = placed(facts, 4)
        for gpu in facts["gpus"][:4]:
            gpu["processes"] = [{"pid": 100 + gpu["index"], "name": f"sglang::scheduler_TP{gpu['index']}"}]
        after = placed(facts, 4)
        assert sets(after) == sets(before)
        assert codes(after) == []

    @pytest.mark.parametrize(
        ("command", "own"),
        [
            ("sglang::scheduler_TP0", True),
            ("sglang::schedul", True),
            ("sglang", True),
            ("sglang.launch_server", True),
            ("python3 -m sglang.launch_server", True),
            ("/opt/sglang/chat/bin/python3.12 -u -X dev -m sglang.launch_server --tp 4", True),
            ("python3 -msglang.launch_server", True),
            ("python3 /opt/chat/bin/sglang", True),
            ("python /usr/lib/python3/dist-packages/sglang/launch_server.py", True),
            ("numactl --membind 0 -N 0,1 env A=b python3 -m sglang.launch_server", True),
            ("python3", False),
            ("/opt/sglang/chat/bin/python3", False),
            ("python3 -m vllm.entrypoints.api_server --model sglang", False),
            ("python3 /opt/sglang/chat/bin/vllm serve", False),
            ("python3 -X sglang train.py", False),
            ("vllm serve sglang", False),
            ("sglangish", False),
            ("mysglang", False),
            ("process 12", False),
            ("", False),
        ],
    )
    def test_sglang_is_known_by_program_module_or_script(self, command: str, own: bool) -> None:
        assert runs_sglang(command) is own
        facts = two_sockets()
        facts["gpus"][0]["processes"] = [{"pid": 7, "name": command or None}]
        assert sets(placed(facts, 4)) == [[0, 1, 2, 3] if own else [4, 5, 6, 7]]

    def test_gpus_that_cannot_be_used_are_left_out(self) -> None:
        facts = two_sockets()
        facts["gpus"][0]["usable"] = False
        placement = placed(facts, 4)
        assert sets(placement) == [[4, 5, 6, 7]]
        assert placement.free_gpus == (1, 2, 3)

    def test_the_order_of_the_list_does_not_matter(self) -> None:
        facts = two_sockets()
        order = [5, 2, 7, 0, 3, 6, 1, 4]
        shuffled = {
            **facts,
            "gpus": [facts["gpus"][index] for index in order],
            "gpu_links": [[facts["gpu_links"][one][two] for two in order] for one in order],
            "numa_nodes": facts["numa_nodes"][::-1],
        }
        for ranks in ((3,), (2, 3), (4, 4), (1, 2, 5)):
            assert placed(shuffled, *ranks) == placed(facts, *ranks)

    def test_sixteen_gpus_are_divided_like_eight(self) -> None:
        nodes = tuple(index // 8 for index in range(16))
        hgx = topology(nodes, lambda _one, _two: "NV6")
        assert sets(placed(hgx, 8, 8)) == [list(range(8)), list(range(8, 16))]
        pcie = topology(nodes, pairs_of(nodes))
        assert sets(placed(pcie, *([2] * 8))) == [[index, index + 1] for index in range(0, 16, 2)]


class TestUnknownBoards:
    @pytest.mark.parametrize(
        "unknown", [{"memory_total_bytes": None}, {"name": None}, {"name": None, "memory_total_bytes": None}]
    )
    def test_they_are_taken_last_and_named(self, unknown: dict[str, Any]) -> None:
        facts = topology((0, 0, 0, 0), lambda one, two: "PIX" if (one, two) == (0, 1) else "NODE")
        for gpu in facts["gpus"]:
            gpu.update({"name": "H100", "memory_total_bytes": 80 * 2**30})
        facts["gpus"][1].update(unknown)
        facts["gpus"][3]["processes"] = [{"pid": 7, "name": "python3"}]
        assert sets(placed(facts, 2)) == [[0, 2]]
        # Even one that is in use comes first.
        three = placed(facts, 3)
        assert (sets(three), codes(three)) == ([[0, 2, 3]], ["gpus_in_use"])
        everything = placed(facts, 4)
        assert codes(everything) == ["gpus_unidentified", "gpus_mixed", "gpus_in_use"]
        assert (
            everything.instances[0].problems[0].message == "Instance i0: the name or the memory of GPU 1 is not known."
        )
        # The larger instance has the first say.
        assert sets(placed(facts, 1, 3)) == [[1], [0, 2, 3]]

    def test_where_no_board_is_known_none_stands_out(self) -> None:
        placement = placed(two_sockets(), 8)
        assert codes(placement) == []


class TestDistances:
    """Two sockets of four nodes each, the GPUs by turns on either socket."""

    NODES = (0, 4, 1, 5, 2, 6, 3, 7)

    def snc4(self, link: str) -> dict[str, Any]:
        rows = [[10 if one == two else 12 if one // 4 == two // 4 else 21 for two in range(8)] for one in range(8)]
        nodes = [{"id": node, "distances": row} for node, row in enumerate(rows)]
        return topology(self.NODES, lambda _one, _two: link, numa_nodes=nodes)

    @pytest.mark.parametrize("link", ["NV18", "SYS"])
    def test_sets_stay_on_a_socket(self, link: str) -> None:
        assert sets(placed(self.snc4(link), 4, 4)) == [[0, 2, 4, 6], [1, 3, 5, 7]]
        assert sets(placed(self.snc4(link), 2, 2, 2, 2)) == [[0, 2], [1, 3], [4, 6], [5, 7]]

    def test_what_stays_free_is_near_one_another(self) -> None:
        # One is taken of the second socket, so a single one is to come from there as well.
        explicit = Instance("there", 1, (1,))
        facts = machine_facts(self.snc4("NV18"))
        placement = place(facts, [explicit, Instance("here", 1)])
        assert sets(placement) == [[1], [3]]
        assert placement.free_gpus == (0, 2, 4, 5, 6, 7)


class TestSeats:
    def test_each_rank_lives_beside_its_gpu(self) -> None:
        facts = two_sockets()
        facts["numa_nodes"] = [{"id": 0, "cpus": "0-7"}, {"id": 1, "cpus": "8-15"}]
        (one,) = place(machine_facts(facts), [Instance("a", 2, (5, 2))]).instances
        assert [(seat.rank, seat.gpu, seat.numa_node, seat.cpus) for seat in one.seats] == [
            (0, 5, 1, "8-15"),
            (1, 2, 0, "0-7"),
        ]
        assert one.numa_nodes == (0, 1)
        assert one.link == "SYS"

    def test_without_a_word_of_the_kernel_the_only_node_is_meant(self) -> None:
        (one,) = placed(topology((None, None)), 2).instances
        assert [seat.numa_node for seat in one.seats] == [0, 0]
        assert one.problems == ()

    def test_memory_of_gpus_beside_it_raises_no_doubt(self) -> None:
        nodes: list[dict[str, Any]] = [
            {"id": 0},
            {"id": 1, "has_cpus": False, "kind": "gpu_memory"},
            {"id": 2, "kind": "memory"},
        ]
        (one,) = placed(topology((None,), numa_nodes=nodes), 1).instances
        assert one.seats[0].numa_node == 0

    def test_with_several_nodes_an_unknown_one_stays_unknown(self) -> None:
        (one,) = placed(topology((None, None, 1)), 3).instances
        assert [seat.numa_node for seat in one.seats] == [None, None, 1]
        assert [entry.code for entry in one.problems] == ["numa_affinity_unknown"]
        assert "GPUs 0 and 1 is not known, and the machine has 2 nodes" in one.problems[0].message
        assert one.binding.mode == "none"
        assert "not known" in one.binding.reason

    @pytest.mark.parametrize(
        ("closed", "why"),
        [
            ({"memory_total_bytes": 0}, "has no memory"),
            ({"usable": False}, "control group"),
            ({"has_cpus": False}, "has no CPUs"),
        ],
    )
    def test_a_node_that_takes_no_rank_is_stood_in_for_by_the_nearest(self, closed: dict[str, Any], why: str) -> None:
        distances = [[10, 21, 12], [21, 10, 31], [12, 31, 10]]
        nodes = [{"id": node, "distances": row} for node, row in enumerate(distances)]
        nodes[2].update(closed)
        (one,) = placed(topology((2, 2), numa_nodes=nodes), 2).instances
        assert [(seat.numa_node, seat.gpu_numa_node) for seat in one.seats] == [(0, 2), (0, 2)]
        assert [entry.code for entry in one.problems] == ["numa_home_elsewhere"]
        assert why in one.problems[0].message
        assert "node 0 (distance 12) stands in" in one.problems[0].message

    def test_what_is_not_known_of_a_node_is_not_claimed(self) -> None:
        nodes: list[dict[str, Any]] = [{"id": 0}, {"id": 1, "has_cpus": False, "kind": "memory"}]
        (one,) = placed(topology((1,), numa_nodes=nodes), 1).instances
        assert (
            "NUMA node 1 of GPU 0 has no CPUs that are known, and its memory is not known;" in one.problems[0].message
        )
        nodes[1]["memory_total_bytes"] = 5 << 30
        (one,) = placed(topology((1,), numa_nodes=nodes), 1).instances
        assert "has no CPUs that a service may use" in one.problems[0].message

    def test_where_no_node_takes_ranks_none_is_named(self) -> None:
        nodes = [{"id": 0, "usable": False}, {"id": 1, "has_cpus": False}]
        (one,) = placed(topology((0, 1), numa_nodes=nodes), 2).instances
        assert [seat.numa_node for seat in one.seats] == [None, None]
        assert "no NUMA node of the machine has both" in one.problems[0].message

    def test_without_a_list_of_nodes_the_gpus_word_counts(self) -> None:
        (one,) = placed(topology((1,), numa_nodes=[]), 1).instances
        assert one.seats[0].numa_node == 1

    def test_stated_nodes_win(self) -> None:
        (one,) = place(machine((0, 0, 1)), [Instance("a", 2, (0, 1), numa_nodes=(1, 0))]).instances
        assert [seat.numa_node for seat in one.seats] == [1, 0]
        assert [entry.code for entry in one.problems] == ["numa_node_remote"]
        assert "seats GPU 0 on NUMA node 1" in one.problems[0].message


class TestEnvironment:
    def test_alone_and_in_order_needs_none(self) -> None:
        (one,) = placed(two_sockets(), 4).instances
        assert one.environment == {}

    def test_beside_others_each_sees_its_own(self) -> None:
        one, two = placed(two_sockets(), 4, 4).instances
        assert one.environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
        assert two.environment["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"

    @pytest.mark.parametrize(
        "trouble", [{"state": "lost"}, {"mig": {"enabled": True, "pending": True}}, {"kernel_driver": "vfio-pci"}]
    )
    def test_beside_gpus_that_cannot_be_used_indexes_are_in_doubt(self, trouble: dict[str, Any]) -> None:
        facts = two_sockets()
        facts["gpus"][0].update(usable=False, **trouble)
        placement = placed(facts, 4)
        (one,) = placement.instances
        assert one.environment == {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": "GPU-4,GPU-5,GPU-6,GPU-7",
        }
        assert codes(placement) == ["gpus_named_by_uuid"]
        assert "GPU 0 cannot be used" in one.problems[0].message
        # A lone rank has nobody to reduce with, so it loses nothing.
        assert codes(placed(facts, 1)) == []
        # Without UUIDs indexes are all there is.
        facts["gpus"][5]["uuid"] = None
        assert placed(facts, 4).instances[0].environment["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"

    def test_cuda_would_put_the_faster_board_first(self) -> None:
        facts = topology((0, 0))
        facts["gpus"][1]["name"] = "H100"
        mixed = machine_facts(facts)
        assert visible_devices(mixed, mixed.gpus[:1]) == {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": "0",
        }


def test_the_documented_form_is_plain() -> None:
    plain = placement_as_dict(placed({**two_sockets(), "numa_nodes": [{"id": 0}, {"id": 1}]}, 4, 2))
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["instances"][0]["seats"][0] == {
        "rank": 0,
        "gpu": 0,
        "numa_node": 0,
        "gpu_numa_node": 0,
        "cpus": None,
    }
    assert plain["instances"][0]["link"] == "NODE"
    assert plain["free_gpus"] == [6, 7]
    assert [load["ranks"] for load in plain["nodes"]] == [4, 2]
