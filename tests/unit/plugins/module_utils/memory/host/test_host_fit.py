# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The remedy of a refused host pool, fed back to the planner: it passes there, and the next step beyond does not."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_fit import (
    HostFit,
    available_from_check,
    host_fit,
    needed_available,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    GLM_5,
    LLAMA_8B,
    QWEN3_NEXT,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    changed,
    founding,
    planned,
    rehearsal,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.test_plan_layouts import (
    EAGLE3_HEAD,
    request,
)

PLENTY = {"numa_nodes": [{"id": 0}, {"id": 1}], "host": {"memory_available_bytes": 4000 * GB}}
HICACHE = {"enabled": True, "ratio": 4.0}
CASES: dict[str, dict[str, Any]] = {
    "latent, guard A": founding(),
    "latent, guard B": founding(sglang_version="0.5.20"),
    "latent, guard D": founding(sglang_version="0.5.23"),
    "pinned by torch in powers of two": request(LLAMA_8B, sglang_version="0.5.4", hicache=HICACHE),
    "heads": request(LLAMA_8B, hicache=HICACHE),
    "heads by size": request(LLAMA_8B, hicache={"enabled": True, "size_gb": 200}),
    "indexer": request(GLM_5, 8, hicache=HICACHE),
    "states": request(QWEN3_NEXT, hicache=HICACHE),
    "pipeline stages": request(
        LLAMA_8B, 6, hicache=HICACHE, server={"tensor_parallel_size": 2, "pipeline_parallel_size": 3}
    ),
    "draft": request(
        LLAMA_8B,
        hicache=HICACHE,
        speculative={
            "algorithm": "EAGLE3",
            "model": EAGLE3_HEAD,
            "num_steps": 3,
            "eagle_topk": 1,
            "num_draft_tokens": 4,
        },
    ),
    "two ranks on a CPU": rehearsal(),
}


def on(arguments: dict[str, Any], available_bytes: int, **hicache: Any) -> dict[str, Any]:
    """The same server on a machine that has so much host memory available."""
    asked = {name: value for name, value in arguments["hicache"].items() if name not in ("ratio", "size_gb")}
    # What a CPU's own pools hold is no longer available when the host pools are checked.
    held = plan_before(arguments)["host"]["held_by_device_bytes"]
    host = {**arguments["topology"]["host"], "memory_available_bytes": available_bytes + held}
    topology = {**arguments["topology"], "host": host}
    return {**changed(arguments, {"topology": topology}), "hicache": {**asked, **hicache}}


def refused(arguments: dict[str, Any]) -> str | None:
    try:
        planned(arguments)
    except Refusal as refusal:
        return refusal.code
    return None


def plan_before(arguments: dict[str, Any]) -> dict[str, Any]:
    """The plan that was made while there was plenty of memory."""
    topology = {**arguments["topology"], "host": PLENTY["host"]}
    return planned({**arguments, "topology": topology})


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [0.9, 0.55, 0.3])
def test_largest_ratio_and_size_pass_the_planner_and_the_next_step_does_not(name: str, share: float) -> None:
    arguments = CASES[name]
    plan = plan_before(arguments)
    needed = needed_available(plan)
    assert needed is not None
    available = int(needed * share)
    fit = host_fit(plan, available)
    assert fit.largest_ratio is not None or fit.largest_size_gb is not None or available < 30 * GB
    if fit.largest_ratio is not None:
        assert refused(on(arguments, available, ratio=fit.largest_ratio)) is None
        assert refused(on(arguments, available, ratio=round(fit.largest_ratio + 0.01, 2))) is not None
    if fit.largest_size_gb is not None:
        assert refused(on(arguments, available, size_gb=fit.largest_size_gb)) is None
        assert refused(on(arguments, available, size_gb=fit.largest_size_gb + 1)) is not None


@pytest.mark.parametrize("name", CASES)
def test_what_fits_is_never_more_than_what_the_plan_found(name: str) -> None:
    plan = plan_before(CASES[name])
    fit = host_fit(plan, 10**15)
    assert (fit.largest_ratio, fit.largest_size_gb) == (plan["host"]["largest_ratio"], plan["host"]["largest_size_gb"])
    assert host_fit(plan, None) == fit


def test_size_is_of_each_rank_and_pool_in_whole_gb() -> None:
    plan = plan_before(CASES["indexer"])
    fit = host_fit(plan, 1000 * GB)
    kv, index = plan["host"]["pools"]
    assert fit.largest_size_gb is not None and fit.largest_ratio is not None
    # The size is of the first pool alone; the indexer's comes beside it.
    assert index["kind"] == "indexer"
    ratio_of_size = fit.largest_size_gb * GB / (kv["bytes_per_rank"] / 4.0)
    assert ratio_of_size <= fit.largest_ratio


def test_nothing_fits_where_the_release_wants_more_than_the_device_holds() -> None:
    # To 0.5.14 a host pool has to be larger than its device pool.
    arguments = founding()
    plan = plan_before(arguments)
    needed = needed_available({**plan, "host": {**plan["host"], "guard": {}}})
    assert needed is not None
    fit = host_fit(plan, needed // 8)
    assert fit == HostFit(None, None)


def test_limit_on_all_pools_together() -> None:
    plan = plan_before(request(LLAMA_8B, sglang_version="0.5.15", hicache=HICACHE))
    # Half of the pools at ratio 4, less the page that every pool has more.
    half = plan["host"]["pinned_bytes_total"] // 2
    assert host_fit(plan, None, half, reserve_bytes=0).largest_ratio == 1.99
    # By default what the plan keeps free of any limit stays free of this one.
    assert host_fit(plan, None, half + plan["host"]["reserve_bytes"]).largest_ratio == 1.99


def test_available_memory_behind_what_the_check_said() -> None:
    plan_a, plan_d = plan_before(CASES["latent, guard A"]), plan_before(CASES["latent, guard D"])
    reserve = 10 * (1 << 30)
    # Half of the last decimal less, as the line is rounded; one rank's share of it in the newer releases.
    assert available_from_check(plan_a, 50 * GB) == 50 * GB - 5_000_000 + reserve
    assert available_from_check(plan_d, 50 * GB) == (50 * GB - 5_000_000) * 8 + reserve
    assert available_from_check({}, 50 * GB) is None


@pytest.mark.parametrize("plan", [{}, {"sglang_version": "0.5.23"}, {"sglang_version": "x", "host": {"ranks": 2}}])
def test_without_a_plan_nothing_is_computed(plan: dict[str, Any]) -> None:
    assert host_fit(plan, 100 * GB) == HostFit(None, None)
