# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host pools that a goal has chosen stay while available memory moves by less than the slack, and while it is safe."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import slack_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    GIB,
    changed,
    founding,
    planned,
    rehearsal,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.ledgers import (
    Truth,
    asked,
    on_host,
    started,
)

GB = 10**9
VERSIONS = ["0.5.9", "0.5.18", "0.5.20", "0.5.23"]
GOALS: list[dict[str, Any]] = [{"auto": True}, {"leave_bytes": 40 * GB}]
BOTH: dict[str, Any] = {
    "server": {"tensor_parallel_size": 8, "mem_fraction_static": None, "mem_fraction_auto": True},
    "hicache": {"ratio": None, "auto": True},
}
shares = st.floats(-1, 1, allow_nan=False)
hosts = st.integers(300 * GB, 2000 * GB)


def wanted(version: str, goal: dict[str, Any]) -> dict[str, Any]:
    return {**founding(hicache={"ratio": None, **goal}), "sglang_version": version}


def ran(plan: dict[str, Any]) -> dict[str, Any]:
    """The ledger of a start that held exactly the tokens of the plan."""
    ledger = started(plan, Truth())
    ledger["startup"]["max_total_num_tokens"] = plan["device"]["max_total_num_tokens"]
    ledger["startup"]["figures"]["pinned_bytes"] = plan["host"]["bytes_total"]
    return ledger


def again(arguments: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "ledger": {**ledger, "in_force": True}}


def written(plan: dict[str, Any]) -> dict[str, Any]:
    """What the role writes of it into unit and environment."""
    return {name: value for name, value in plan["unit"].items() if name != "limit_memlock_bytes"}


def slack_of(available: int, nodes: int) -> int:
    """What the whole host may move by: where it is told node by node, each node by its own."""
    return min(slack_bytes(available), nodes * slack_bytes(available // nodes)) if nodes else slack_bytes(available)


@settings(max_examples=10, deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    goal=st.sampled_from(GOALS),
    available=hosts,
    nodes=st.sampled_from([0, 2]),
    moves=st.lists(st.tuples(shares, st.booleans()), min_size=3, max_size=5),
)
def test_memory_that_moves_within_the_slack_changes_nothing(
    version: str, goal: dict[str, Any], available: int, nodes: int, moves: list[tuple[float, bool]]
) -> None:
    arguments = {**wanted(version, goal), "change_threshold": 0}
    first = planned(on_host(arguments, available, nodes=nodes))
    ledger = ran(first)
    for share, running in moves:
        now = available + int(share * slack_of(available, nodes))
        host = on_host(arguments, now, ledger if running else None, nodes)
        found = planned({**host, "ledger": {**ledger, "in_force": running}})
        assert found["arguments"] == first["arguments"]
        assert written(found) == written(first)
        assert found["host"]["left_bytes"] >= found["host"]["reserve_bytes"]
        assert found["host"]["guard"]["verdict"] == "passes"


@settings(max_examples=20, deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    available=hosts,
    nodes=st.sampled_from([0, 2]),
    fall=st.floats(0, 3, allow_nan=False),
)
def test_a_ratio_stays_exactly_as_long_as_it_is_allowed(version: str, available: int, nodes: int, fall: float) -> None:
    arguments = wanted(version, {"auto": True})
    first = planned(on_host(arguments, available, nodes=nodes))
    ratio, ledger = first["host"]["ratio"], ran(first)
    now = available - int(fall * slack_bytes(available))
    # No host has less than nothing available beside the pools.
    assume(now >= ledger["startup"]["figures"]["pinned_bytes"] + 8 * 10**8)
    host = on_host(arguments, now, ledger, nodes)
    found = planned({**again(host, ledger), "change_threshold": 0.99})
    try:
        planned({**host, "hicache": {"ratio": ratio}})
    except Refusal:
        # At once, whatever the threshold, and with the slack that a new choice has.
        assert found["host"]["ratio"] < ratio
        assert found["host"]["left_bytes"] >= found["host"]["reserve_bytes"] + slack_bytes(now)
        assert found["arguments"] == planned(host)["arguments"]
    else:
        assert found["host"]["ratio"] == ratio


def test_a_fall_by_a_byte_too_much_lowers_it_at_once() -> None:
    arguments = wanted("0.5.9", {"auto": True})
    first = planned(on_host(arguments, 396 * GB))
    needed, ledger = first["host"]["required_available_bytes"], ran(first)
    stays = planned(again(on_host(arguments, needed, ledger), ledger))
    assert (first["host"]["ratio"], stays["host"]["ratio"]) == (4.25, 4.25)
    assert any(
        "HiCache ratio 4.25 is in force and stays: every bound allows it" in line for line in stays["explanation"]
    )
    lower = planned(again(on_host(arguments, needed - 1, ledger), ledger))
    assert lower["host"]["ratio"] == 4.2
    assert planned(again(on_host(arguments, needed - 1, ran(lower)), ran(lower)))["host"]["ratio"] == 4.2


@pytest.mark.parametrize(("more", "threshold", "ratio"), [(3, 0, 4.25), (9, 0, 4.35), (9, 0.05, 4.25), (40, 0.05, 4.7)])
def test_it_rises_for_more_than_the_slack_and_the_threshold_only(more: int, threshold: float, ratio: float) -> None:
    arguments = {**wanted("0.5.9", {"auto": True}), "change_threshold": threshold}
    ledger = ran(planned(on_host(arguments, 396 * GB)))
    assert planned(again(on_host(arguments, (396 + more) * GB, ledger), ledger))["host"]["ratio"] == ratio


def test_with_a_restart_that_comes_anyway_the_ratio_is_chosen_anew() -> None:
    arguments = wanted("0.5.9", {"auto": True})
    ledger = ran(planned(on_host(arguments, 396 * GB)))
    host = again(on_host(arguments, 395 * GB, ledger), ledger)
    assert planned(host)["host"]["ratio"] == 4.25
    renamed = {**host, "server": {**host["server"], "served_model_name": "kimi"}}
    assert planned(renamed)["host"]["ratio"] < 4.25


@settings(max_examples=10, deadline=None)
@given(
    available=hosts,
    beside=st.floats(0, 0.5, allow_nan=False),
    load=st.integers(0, 5 * GIB),
    noise=st.lists(st.tuples(st.integers(-GIB // 100, GIB // 100), st.floats(-0.4, 0.4)), min_size=5, max_size=6),
    # Not at once: what serving leaves idle has to be seen, and is a second cause for a change.
    reboots=st.sets(st.integers(1, 5)),
)
def test_both_goals_together_come_to_rest_after_one_change(
    available: int, beside: float, load: int, noise: list[tuple[int, float]], reboots: set[int]
) -> None:
    """Planned, started, looked at with what page tables take, planned again; now and then a start runs no more."""
    slack = slack_bytes(available)
    plan = planned(on_host(asked(**BOTH), available))
    ledger, changes = started(plan, Truth(load=load)), []
    for turn, (figures, share) in enumerate(noise):
        truth, stopped = Truth(load=load, noise=figures), turn in reboots
        now = available + int(share * slack) - (0 if stopped else int(beside * slack))
        arguments = asked(ledger, None if stopped else truth, **BOTH)
        found = planned(on_host(arguments, now, None if stopped else ledger))
        assert found["host"]["left_bytes"] >= found["host"]["reserve_bytes"]
        if found["arguments"] != plan["arguments"]:
            changes.append((turn, plan["arguments"], found["arguments"]))
        else:
            assert written(found) == written(plan)
        if stopped or found["arguments"] != plan["arguments"]:
            plan, ledger = found, started(found, truth)
    assert len(changes) <= 1, changes


@pytest.mark.parametrize(
    "server", [{"mem_fraction_static": None}, {"mem_fraction_static": 0.9}, {"max_total_tokens": 50_000}]
)
@pytest.mark.parametrize("hicache", [{"ratio": 2.0}, {"ratio": None, "size_gb": 40}, {"enabled": False, "ratio": None}])
def test_without_a_goal_a_start_that_was_measured_leaves_unit_and_arguments_as_they_are(
    server: dict[str, Any], hicache: dict[str, Any]
) -> None:
    asks: dict[str, Any] = {"server": {**BOTH["server"], "mem_fraction_auto": False, **server}, "hicache": hicache}
    first = planned(on_host(asked(**asks), 1000 * GB))
    # Other weights than estimated, so that the device holds other tokens than planned.
    ledger, truth = started(first, Truth(weights=int(70.2 * GIB))), Truth()
    for running in (True, False):
        arguments = asked(ledger, truth if running else None, **asks)
        found = planned(on_host(arguments, 990 * GB, ledger if running else None))
        assert found["last_start"]["observed"]["available_after_load_bytes"]
        assert (found["arguments"], written(found)) == (first["arguments"], written(first))


@pytest.mark.parametrize("hicache", [{"ratio": 32.0}, {"ratio": None, "auto": True}, {"ratio": None, "size_gb": 1}])
def test_on_a_cpu_a_start_that_was_measured_changes_nothing(hicache: dict[str, Any]) -> None:
    arguments = rehearsal(hicache=hicache)
    first = planned(arguments)
    pinned, held = first["host"]["bytes_total"], first["host"]["held_by_device_bytes"]
    ledger: dict[str, Any] = {
        "schema": 2,
        "plan": first,
        "in_force": True,
        "main_pid": 10,
        "startup": {
            "max_total_num_tokens": 65_536,
            "pinned_bytes": pinned,
            "ranks": [{"pid": 11}, {"pid": 12}],
            "figures": {
                "mem_fraction_static": 0.8,
                "available_before_load_bytes": 3 * GIB,
                "available_after_load_bytes": 2 * GIB,
                "available_at_end_bytes": GIB,
                "pinned_bytes": pinned,
                "pin_seconds": 16.0,
                "pin_bytes_per_second": pinned / 16,
                "load_seconds": 25.0,
                "rest_seconds": 15.0,
                "start_seconds": 56.0,
            },
        },
    }
    own = pinned + held + 2 * 700_000_000
    running = changed(
        {**arguments, "ledger": ledger, "observed": {"own_pinned_bytes": own}},
        {"topology": {"host": {"memory_available_bytes": 30 * GB - own - 900_000_000}}},
    )
    found = planned(running)
    assert found["timing"]["pin_bytes_per_second"] == round(pinned / 16, 1)
    assert "mem_fraction_static" not in found["last_start"]["observed"]
    assert "mem-fraction-static" not in found["arguments"]
    assert (found["arguments"], written(found)) == (first["arguments"], written(first))
