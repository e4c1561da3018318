# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.both import both_generations

GIB, GB = 2**30, 10**9


def plan(
    host_gb: int = 100, pool_gib: int = 60, weights_gib: int = 10, gpus: tuple[int, ...] = (0, 1)
) -> dict[str, Any]:
    return {
        "host": {"bytes_total": host_gb * GB, "reserve_bytes": 10 * GB},
        "device": {
            "weights_bytes": weights_gib * GIB,
            "draft_weights_bytes": 0,
            "pools": [{"allocated_bytes": pool_gib * GIB}],
        },
        "placement": [{"rank": rank, "gpu": gpu, "numa_node": 0} for rank, gpu in enumerate(gpus)],
    }


def node(available_gb: int = 400, gpu_gib: int = 80) -> dict[str, Any]:
    gpus = [{"index": index, "memory_total_bytes": gpu_gib * GIB} for index in range(4)]
    return {"host": {"memory_available_bytes": available_gb * GB}, "gpus": gpus}


def test_both_are_counted_on_the_host_and_on_each_gpu() -> None:
    said = both_generations(plan(), plan(), node(), 100 * GB)
    assert "both generations would need 210.00 GB of 500.00 GB host memory" in said
    assert "at least 140.00 GiB of 80.00 GiB on each GPU that they share" in said
    assert "restart, or make the pools of both smaller" in said


def test_gpus_of_their_own_leave_the_host_to_decide() -> None:
    said = both_generations(plan(gpus=(2, 3)), plan(), node(available_gb=100), None)
    assert "would need 210.00 GB of 200.00 GB host memory." in said
    assert "GiB" not in said


def test_where_both_fit_the_way_by_hand_is_named() -> None:
    said = both_generations(plan(pool_gib=20), plan(pool_gib=20), node(), 100 * GB)
    assert "would take 210.00 GB of 500.00 GB host memory and at least 60.00 GiB of 80.00 GiB" in said
    assert "which fits" in said and "sglang_instances" in said


def test_the_first_server_has_none_beside_it() -> None:
    assert "no server runs" in both_generations(plan(), {}, node(), None)


def test_what_was_not_read_is_not_said_to_fit() -> None:
    small = plan(pool_gib=20)
    blind = {"host": {"memory_available_bytes": None}, "gpus": [{"index": 0, "memory_total_bytes": None}]}
    said = both_generations(small, small, blind, 100 * GB)
    assert "fits" not in said
    assert "the node's memory and the memory of GPUs that they share could not be read" in said
    # One of two GPUs is known, and the host.
    half = {**node(), "gpus": node()["gpus"][:1]}
    said = both_generations(small, small, half, 100 * GB)
    assert "at least 60.00 GiB of 80.00 GiB on each GPU" in said
    assert "the memory of GPUs that they share could not be read" in said
    # What is known decides where it is too little already.
    assert "restart, or make the pools" in both_generations(plan(), plan(), half, 100 * GB)
