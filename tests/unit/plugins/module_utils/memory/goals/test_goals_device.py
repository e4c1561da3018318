# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import plan_device
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.idle_memory import idle_under, steps_leaving
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    GIB,
    MIB,
    changed,
    founding,
    planned,
    rehearsal,
)

QWEN: dict[str, Any] = {
    "name": "Qwen3-32B",
    "architecture": "Qwen3ForCausalLM",
    "dtype": "bfloat16",
    "attention": {"num_layers": 64, "num_attention_heads": 64, "num_kv_heads": 8, "head_dim": 128},
    "weights": {"total_bytes": 65_524_246_528},
}


def wanted(**server: Any) -> dict[str, Any]:
    """The founding case with a goal in the place of its fraction, and every gain worth a restart."""
    return given(mem_fraction_static=None, **server)


def given(**server: Any) -> dict[str, Any]:
    """The founding case without HiCache, whose pools would have to grow with the device's."""
    return founding(server=server, hicache={"ratio": None, "enabled": False}, change_threshold=0)


def unseen(**server: Any) -> dict[str, Any]:
    """Four H100 that nothing was observed on."""
    gpu = {"memory_total_bytes": 81559 * MIB, "numa_node": 0, "compute_capability": "9.0"}
    return {
        "sglang_version": "0.5.23",
        "model": QWEN,
        "topology": {
            "gpus": [{"index": index, **gpu} for index in range(4)],
            "numa_nodes": [{"id": 0}],
            "host": {"memory_available_bytes": 500 * 10**9},
        },
        "server": {"tensor_parallel_size": 4, **server},
        "hicache": {"enabled": False},
    }


def refused(arguments: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        planned(arguments)
    return caught.value


def said(plan: dict[str, Any], text: str) -> bool:
    return any(text in line for line in plan["explanation"])


def test_auto_applies_the_raise_that_was_a_proposal() -> None:
    proposed = planned(given())["device"]["raise"]
    plan = planned(wanted(mem_fraction_auto=True))
    device = plan["device"]
    assert (device["mem_fraction_static"], device["mem_fraction_source"]) == (0.927, "auto")
    assert device["mem_fraction_static"] == proposed["mem_fraction_static"]
    assert device["max_total_num_tokens"] == proposed["max_total_num_tokens"] == 227_932
    assert plan["arguments"]["mem-fraction-static"] == 0.927
    assert device["raise"] is None
    # What stays idle is the margin and less than a thousandth of the memory more.
    assert 2 * GIB <= device["headroom_bytes"] < 2 * GIB + 0.001 * 95.6 * GIB
    assert said(plan, "0.927 is the largest that leaves 2.00 GiB idle")
    assert any("under these settings" in text for text in plan["assumptions"])


def test_auto_lowers_a_fraction_that_leaves_less_than_the_margin() -> None:
    arguments = changed(wanted(mem_fraction_auto=True), {"observed": {"idle_bytes_per_gpu": 10**9}})
    device = planned(arguments)["device"]
    assert device["mem_fraction_static"] == 0.868
    assert device["headroom_bytes"] >= 2 * GIB


def test_leave_bytes_is_another_margin() -> None:
    plan = planned(wanted(leave_bytes=3 * GIB))
    assert plan["device"]["mem_fraction_static"] == 0.916
    assert plan["device"]["mem_fraction_source"] == "leave_bytes"
    assert 3 * GIB <= plan["device"]["headroom_bytes"] < 3.1 * GIB
    assert planned(wanted(leave_bytes=2 * GIB))["device"]["mem_fraction_static"] == 0.927


def test_what_was_seen_idle_is_that_of_the_observed_fraction() -> None:
    """A plan with another fraction must not count the idle bytes once more."""
    device = planned(given(mem_fraction_static=0.92))["device"]
    assert device["headroom_bytes"] == pytest.approx(7 * 10**9 - 0.04 * 95.6 * GIB, abs=2)
    assert device["raise"]["mem_fraction_static"] == 0.927
    assert planned(given(mem_fraction_static=0.927))["device"]["raise"] is None


@pytest.mark.parametrize(("tokens", "fraction"), [(1, 0.771), (159_277, 0.88), (159_278, 0.881), (227_932, 0.927)])
def test_target_takes_the_smallest_fraction(tokens: int, fraction: float) -> None:
    device = planned(wanted(target_tokens=tokens))["device"]
    assert device["mem_fraction_static"] == fraction
    assert device["max_total_num_tokens"] >= tokens


def test_target_beyond_the_largest_safe_fraction_names_what_passes() -> None:
    refusal = refused(wanted(target_tokens=227_933))
    assert refusal.code == "target_tokens_out_of_reach"
    assert refusal.evidence == {"largest_target_tokens": 227_932, "mem_fraction_static": 0.927}
    assert planned(wanted(target_tokens=227_932))["device"]["max_total_num_tokens"] == 227_932


def test_a_cap_below_the_target_is_named() -> None:
    assert "raise server.max_total_tokens" in refused(wanted(target_tokens=200_000, max_total_tokens=100_000)).remedy


def test_more_left_idle_than_there_is_names_the_most() -> None:
    refusal = refused(wanted(leave_bytes=30 * GIB))
    assert refusal.code == "leave_bytes_too_large"
    most = refusal.evidence["largest_leave_bytes"]
    assert isinstance(most, int)
    assert planned(wanted(leave_bytes=most))["device"]["max_total_num_tokens"] > 0
    assert refused(wanted(leave_bytes=most + 1)).code == "leave_bytes_too_large"


def test_a_margin_larger_than_the_memory_is_named_for_what_it_is() -> None:
    refusal = refused({**wanted(mem_fraction_auto=True), "margin_bytes": 30 * GIB})
    assert "margin_bytes" in refusal.remedy


def test_unseen_the_release_own_default_is_the_largest() -> None:
    default = planned(unseen())["device"]
    auto = planned(unseen(mem_fraction_auto=True))
    assert auto["device"]["mem_fraction_static"] == default["mem_fraction_static"]
    assert auto["arguments"]["mem-fraction-static"] == default["mem_fraction_static"]
    assert auto["device"]["max_total_num_tokens"] == default["max_total_num_tokens"]
    assert said(auto, "the default of this release keeps what SGLang itself needs")
    assert refused(unseen(target_tokens=default["max_total_num_tokens"] + 1)).code == "target_tokens_out_of_reach"


def test_unseen_bytes_to_leave_lie_beside_the_reserve_of_the_default() -> None:
    default, left = planned(unseen())["device"], planned(unseen(leave_bytes=10 * GIB))["device"]
    more = left["reserved_bytes"] - default["reserved_bytes"]
    assert 10 * GIB <= more < 10 * GIB + default["available_before_load_bytes"] // 1000 + 1


def test_a_fraction_that_served_stands_in_for_a_default_that_is_not_known() -> None:
    arguments = unseen(mem_fraction_auto=True)
    # The cards' size is not known, so the default is not either.
    arguments["topology"]["gpus"] = [{"index": index} for index in range(4)]
    arguments["observed"] = {"available_before_load_bytes": 75 * GIB, "available_after_load_bytes": 58 * GIB}
    assert refused(arguments).code == "mem_fraction_static_unknown"
    arguments["observed"]["mem_fraction_static"] = 0.8
    plan = planned(arguments)
    assert plan["device"]["mem_fraction_static"] == 0.8
    assert said(plan, "observed to serve")


@pytest.mark.parametrize("name", ["idle_bytes_per_gpu", "kv_pool_bytes"])
def test_a_measurement_without_its_fraction_is_no_ground_for_a_choice(name: str) -> None:
    arguments = wanted(mem_fraction_auto=True)
    arguments["observed"] = {name: 7 * 10**9}
    assert refused(arguments).code == "observed_fraction_missing"


def test_estimated_memory_is_never_taken_twice() -> None:
    """Unmeasured, the memory before loading may be as large as the card: a raise is a share of that."""
    arguments = unseen(mem_fraction_auto=True)
    arguments["observed"] = {"mem_fraction_static": 0.8, "idle_bytes_per_gpu": 10 * GIB}
    arguments["change_threshold"] = 0
    fraction = planned(arguments)["device"]["mem_fraction_static"]
    assert (fraction - 0.8) * 81559 * MIB <= 8 * GIB < (fraction + 0.001 - 0.8) * 81559 * MIB


def test_what_cannot_be_measured_lowers_nothing() -> None:
    """The log gives idle memory in hundredths of a GiB, so the one in force may seem short of the margin by some."""
    arguments = wanted(mem_fraction_auto=True)
    arguments["observed"]["idle_bytes_per_gpu"] = 2 * GIB - GIB // 50
    assert planned(arguments)["device"]["mem_fraction_static"] == 0.88
    arguments["observed"]["idle_bytes_per_gpu"] -= GIB // 100
    assert planned(arguments)["device"]["mem_fraction_static"] == 0.879


def test_a_small_gain_is_not_worth_a_restart() -> None:
    arguments = wanted(mem_fraction_auto=True)
    arguments["observed"]["idle_bytes_per_gpu"] = 2 * GIB + 200 * MIB
    assert planned(arguments)["device"]["mem_fraction_static"] == 0.882
    plan = planned({**arguments, "change_threshold": 0.05})
    assert plan["device"]["mem_fraction_static"] == 0.88
    assert said(plan, "mem_fraction_static 0.88 is in force and stays")


def test_a_target_keeps_the_fraction_in_force_within_the_threshold_only() -> None:
    near = {**wanted(target_tokens=159_000), "change_threshold": 0.02}
    assert planned(near)["device"]["mem_fraction_static"] == 0.88
    far = {**wanted(target_tokens=100_000), "change_threshold": 0.02}
    assert planned(far)["device"]["mem_fraction_static"] < 0.88


@pytest.mark.parametrize("other", [{"mem_fraction_auto": True}, {"leave_bytes": GIB}, {"target_tokens": 5}])
def test_a_goal_and_a_fraction_exclude_each_other(other: dict[str, Any]) -> None:
    assert refused(given(**other)).code == "mem_fraction_ambiguous"


def test_two_goals_exclude_each_other() -> None:
    refusal = refused(wanted(mem_fraction_auto=True, leave_bytes=0))
    assert refusal.code == "mem_fraction_ambiguous"
    assert "server.mem_fraction_auto and server.leave_bytes" in refusal.message


@pytest.mark.parametrize(
    ("goal", "code"), [({"leave_bytes": -1}, "value_negative"), ({"target_tokens": 0}, "value_not_positive")]
)
def test_amounts_have_a_sign(goal: dict[str, Any], code: str) -> None:
    assert refused(wanted(**goal)).code == code


@pytest.mark.parametrize("goal", [{"mem_fraction_auto": True}, {"leave_bytes": GIB}, {"target_tokens": 5}])
def test_a_cpu_has_no_fraction_to_choose(goal: dict[str, Any]) -> None:
    refusal = refused(rehearsal(server=goal))
    assert refusal.code == "goal_needs_gpu"
    assert next(iter(goal)) in refusal.message


def test_a_step_that_is_met_to_the_byte_counts() -> None:
    assert steps_leaving(0.88, 3000, 1000, 100_000, 100_000) == 900
    assert steps_leaving(0.88, 3000, 1001, 100_000, 100_000) == 899
    assert steps_leaving(0.88, 1000, 3000, 100_000, 100_000) == 860


def test_bounds_of_the_memory_err_on_the_side_that_fits() -> None:
    assert steps_leaving(0.88, 3000, 1000, 50_000, 100_000) == 900
    assert steps_leaving(0.88, 1000, 3000, 50_000, 100_000) == 840


def test_idle_follows_the_fraction() -> None:
    assert idle_under(1000, None, 0.9, 10_000) == 1000
    assert idle_under(1000, 0.9, 0.9, 10_000) == 1000
    assert idle_under(1000, 0.8, 0.85, 10_000) == 501


def test_a_release_that_lowers_the_fraction_gives_smaller_steps() -> None:
    """To 0.4.8 a vision tower takes a tenth of any fraction when the model is loaded."""
    model = model_facts(
        {
            "architecture": "Qwen2VLForConditionalGeneration",
            "attention": {"num_layers": 28, "num_attention_heads": 28, "num_kv_heads": 4, "head_dim": 128},
            "weights": {"total_bytes": 16 * 10**9},
        }
    )
    seen = Observed(
        kv_pool_bytes=20 * GIB,
        mem_fraction_static=0.7,
        available_before_load_bytes=70 * GIB,
        idle_bytes_per_gpu=10 * GIB,
    )
    gpu = GpuFacts(0, memory_total_bytes=80 * GIB, compute_capability=(9, 0))
    device = plan_device(version_facts("0.4.8"), model, ServerRequest(mem_fraction_static=0.8), (gpu,), seen, 0)
    assert device.fraction_base_bytes == int(63 * GIB)
    assert device.budget_bytes == pytest.approx(20 * GIB + 6.3 * GIB, abs=2)
    assert device.headroom_bytes == pytest.approx(10 * GIB - 6.3 * GIB, abs=2)
