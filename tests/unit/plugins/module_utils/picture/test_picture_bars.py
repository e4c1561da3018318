# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.bars import (
    NAMES,
    Bar,
    Segment,
    device_bars,
    node_bars,
    whole_bars,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet.fleets import (
    CPU_PLAN,
    KIMI_PLAN,
    OFF_PLAN,
    OVER_PLAN,
)

CARD = 97887 * 2**20


def sizes(strip: Bar) -> dict[str, int]:
    found: dict[str, int] = {}
    for segment in strip.segments:
        found[segment.kind] = found.get(segment.kind, 0) + segment.size_bytes
    return found


def host_bars(plan: dict[str, Any]) -> tuple[Bar, ...]:
    return (*node_bars(plan), *whole_bars(plan))


def device(**changes: Any) -> dict[str, Any]:
    """The founding plan with one stage, whose weights and pools are those of the device."""
    return {**KIMI_PLAN, "device": {**KIMI_PLAN["device"], "stages": None, **changes}}


def test_a_gpu_of_the_founding_case_byte_by_byte() -> None:
    bars = device_bars(KIMI_PLAN)
    assert [strip.label for strip in bars] == [f"GPU {index}" for index in range(8)]
    assert [strip.place for strip in bars][3:5] == ["rank 3, node 0", "rank 4, node 1"]
    figures = KIMI_PLAN["device"]
    assert sizes(bars[0]) == {
        "weights": figures["weights_bytes"],
        "kv": 11_192_783_616,
        "rest": figures["available_before_load_bytes"]
        - figures["weights_bytes"]
        - 11_192_783_616
        - figures["reserved_bytes"],
        # 7 GB of the reserve were seen idle.
        "reserve": figures["reserved_bytes"] - 7_000_000_000,
        "idle": 7_000_000_000,
    }
    assert bars[0].size_bytes == figures["available_before_load_bytes"]
    assert {strip.limit_bytes for strip in bars} == {CARD}


def test_what_the_driver_holds_is_the_card_without_what_is_there_before_loading() -> None:
    [strip, *_others] = device_bars(device(available_before_load_bytes=CARD - 3 * 2**30))
    assert sizes(strip)["driver"] == 3 * 2**30
    assert strip.size_bytes == CARD


def test_what_goes_beyond_the_fraction_comes_out_of_the_reserve() -> None:
    before = KIMI_PLAN["device"]["available_before_load_bytes"]
    [strip, *_others] = device_bars(device(weights_bytes=85_000_000_000, headroom_bytes=None))
    assert sizes(strip)["reserve"] == before - 85_000_000_000 - 11_192_783_616
    assert "rest" not in sizes(strip) and strip.short_bytes == 0
    [full, *_others] = device_bars(device(weights_bytes=110_000_000_000, headroom_bytes=None))
    assert set(sizes(full)) == {"weights", "kv"}
    assert full.short_bytes == 110_000_000_000 + 11_192_783_616 - CARD


def test_idle_beyond_the_reserve_comes_out_of_what_no_figure_accounts_for() -> None:
    figures = KIMI_PLAN["device"]
    [strip, *_others] = device_bars(device(headroom_bytes=figures["reserved_bytes"] + 1_000_000_000))
    assert "reserve" not in sizes(strip)
    assert sizes(strip)["idle"] == figures["reserved_bytes"] + 1_000_000_000
    assert strip.size_bytes == figures["available_before_load_bytes"]


def test_a_draft_has_weights_and_a_pool_of_its_own() -> None:
    pools = [*KIMI_PLAN["device"]["pools"], {"kind": "draft", "allocated_bytes": 500_000_000}]
    [strip, *_others] = device_bars(device(pools=pools, draft_weights_bytes=2_000_000_000))
    assert (sizes(strip)["draft_weights"], sizes(strip)["draft"]) == (2_000_000_000, 500_000_000)
    assert strip.size_bytes == KIMI_PLAN["device"]["available_before_load_bytes"]


def test_what_a_cap_on_tokens_leaves_of_the_budget_is_over() -> None:
    used = KIMI_PLAN["device"]["kv_pool_bytes"]
    [strip, *_others] = device_bars(device(budget_bytes=used + 4_000_000_000, headroom_bytes=None))
    assert sizes(strip)["spare"] == 4_000_000_000
    assert strip.size_bytes == KIMI_PLAN["device"]["available_before_load_bytes"]
    [idle, *_others] = device_bars(device(budget_bytes=used + 4_000_000_000, headroom_bytes=5_000_000_000))
    assert "spare" not in sizes(idle)
    assert sizes(idle)["reserve"] == KIMI_PLAN["device"]["reserved_bytes"] - 1_000_000_000


def test_ranks_of_pipeline_stages_have_what_their_stage_has() -> None:
    stages = [
        {"stage": stage, "weights_bytes": size, "pools": KIMI_PLAN["device"]["pools"]}
        for stage, size in enumerate((60_000_000_000, 50_000_000_000))
    ]
    bars = device_bars(device(stages=stages))
    assert [sizes(strip)["weights"] for strip in bars] == [60_000_000_000] * 4 + [50_000_000_000] * 4


def test_gpus_that_the_instance_does_not_use_are_there() -> None:
    bars = device_bars({**KIMI_PLAN, "placement": KIMI_PLAN["placement"][:6]})
    assert [strip.label for strip in bars][-2:] == ["GPU 5", "2 more GPUs"]
    assert sizes(bars[-1]) == {"unused": CARD}


def test_a_card_of_unknown_size_has_no_limit() -> None:
    plan = copy.deepcopy(device())
    plan["machine"]["gpus"][0]["memory_total_bytes"] = None
    assert {strip.limit_bytes for strip in device_bars(plan)} == {None}
    plan["device"].update(available_before_load_bytes=None, weights_bytes=None, reserved_bytes=None)
    assert sizes(device_bars(plan)[0]) == {"kv": 11_192_783_616}


def test_ranks_on_cpus_have_no_gpu() -> None:
    assert device_bars(CPU_PLAN) == ()


def test_nodes_and_host_of_the_founding_case_byte_by_byte() -> None:
    first, second, whole = host_bars(KIMI_PLAN)
    rank = 44_770_923_648
    assert [segment.detail for segment in first.segments] == ["rank 0", "rank 1", "rank 2", "rank 3", "", ""]
    assert (
        sizes(first)
        == sizes(second)
        == {
            "kv": 4 * rank,
            "reserve": 5_368_709_120,
            "free": 198_000_000_000 - 4 * rank - 5_368_709_120,
        }
    )
    assert sizes(whole) == {
        "kv": 8 * rank,
        "reserve": 10_737_418_240,
        "free": 396_000_000_000 - 8 * rank - 10_737_418_240,
    }
    assert (first.limit_bytes, whole.limit_bytes, whole.place) == (198_000_000_000, 396_000_000_000, "")
    assert (first.place, second.place) == ("ranks 0 to 3", "ranks 4 to 7")
    assert whole.limit_bytes is not None
    assert whole.limit_bytes - whole.taken_bytes == KIMI_PLAN["host"]["left_bytes"]


def test_memory_that_others_use_shows_where_the_whole_is_known() -> None:
    plan = copy.deepcopy(KIMI_PLAN)
    plan["machine"].update(memory_total_bytes=500_000_000_000, numa_memory_bytes=[250_000_000_000, None])
    first, second, whole = host_bars(plan)
    assert sizes(first)["other"] == 52_000_000_000
    assert "other" not in sizes(second)
    assert sizes(whole)["other"] == 104_000_000_000
    assert whole.size_bytes == 500_000_000_000


def test_what_does_not_fit_is_short() -> None:
    *nodes, whole = host_bars(OVER_PLAN)
    assert whole.short_bytes == OVER_PLAN["host"]["bytes_total"] - 396_000_000_000
    assert {node.short_bytes for node in nodes} == {OVER_PLAN["host"]["bytes_total"] // 2 - 198_000_000_000}
    assert set(sizes(whole)) == {"kv"}


def test_without_hicache_the_host_is_free_but_for_the_reserve() -> None:
    [whole] = host_bars(OFF_PLAN)
    assert sizes(whole) == {"reserve": 10_737_418_240, "free": 396_000_000_000 - 10_737_418_240}


def test_on_cpus_the_host_holds_weights_and_cache() -> None:
    *_nodes, whole = host_bars(CPU_PLAN)
    assert sizes(whole)["held"] == CPU_PLAN["host"]["held_by_device_bytes"] > 0
    assert whole.size_bytes == 30_000_000_000


def test_pools_that_differ_between_ranks_are_drawn_as_what_the_node_pins() -> None:
    plan = copy.deepcopy(KIMI_PLAN)
    plan["host"]["numa"][0]["pinned_bytes"] += 1
    plan["host"]["pinned_bytes_total"] = plan["host"]["bytes_total"] + 1
    first, second, whole = host_bars(plan)
    assert sizes(first)["pinned"] == plan["host"]["numa"][0]["pinned_bytes"]
    assert "pinned" not in sizes(second)
    assert sizes(whole)["pinned"] == plan["host"]["pinned_bytes_total"]


def test_unknown_memory_leaves_what_is_pinned() -> None:
    plan = copy.deepcopy(KIMI_PLAN)
    plan["host"].update(available_bytes=None)
    for node in plan["host"]["numa"]:
        node.update(available_bytes=None, left_bytes=None)
    for strip in host_bars(plan):
        assert set(sizes(strip)) == {"kv"}
        assert (strip.limit_bytes, strip.short_bytes) == (None, 0)


@pytest.mark.parametrize(
    ("ranks", "told"),
    [([], "no rank"), ([2], "rank 2"), ([0, 2, 5], "ranks 0, 2, 5"), (list(range(0, 16, 2)), "8 ranks")],
)
def test_ranks_of_a_node(ranks: list[int], told: str) -> None:
    plan = copy.deepcopy(KIMI_PLAN)
    plan["host"]["numa"][0]["ranks"] = ranks
    assert host_bars(plan)[0].place == told


def test_every_kind_has_a_name() -> None:
    plans = (KIMI_PLAN, OVER_PLAN, OFF_PLAN, CPU_PLAN)
    bars = [strip for plan in plans for strip in (*device_bars(plan), *host_bars(plan))]
    assert {segment.kind for strip in bars for segment in strip.segments} <= set(NAMES)
    assert Bar("", "", (Segment("kv", 3), Segment("free", 4)), 2).short_bytes == 1
