# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.observation import (
    UNUSABLE,
    LastStart,
    last_start_of,
    with_hand_given,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.summary import summary_lines
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    GIB,
    changed,
    planned,
    rehearsal,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.ledgers import (
    Truth,
    asked,
    printed,
    started,
)

TRUTH = Truth()
FIRST = started(planned(asked()), TRUTH)
OF_A_GPU = ("available_before_load_bytes", "available_after_load_bytes", "kv_pool_bytes", "idle_bytes_per_gpu")


def seen(ledger: dict[str, Any], arguments: dict[str, Any]) -> LastStart:
    found = last_start_of(ledger, arguments)
    assert found is not None
    return found


def test_all_that_a_start_measured_holds_for_the_same_request() -> None:
    observed = seen({**FIRST, "in_force": True}, asked(FIRST, TRUTH)).observed
    assert observed["available_before_load_bytes"] == printed(TRUTH.before)
    assert observed["available_after_load_bytes"] == printed(TRUTH.before - TRUTH.weights)
    assert observed["mem_fraction_static"] == 0.88
    assert observed["load_seconds"] == 412.0
    assert observed["rest_seconds"] == 95.0
    at_end = FIRST["startup"]["figures"]["available_at_end_bytes"]
    assert observed["idle_bytes_per_gpu"] == at_end - TRUTH.load


def test_the_plan_after_a_start_has_its_tokens_to_the_last_one() -> None:
    second = planned(asked(FIRST))
    assert FIRST["plan"]["device"]["max_total_num_tokens"] != FIRST["startup"]["max_total_num_tokens"]
    assert second["device"]["max_total_num_tokens"] == FIRST["startup"]["max_total_num_tokens"]
    assert second["timing"]["pin_seconds"] == pytest.approx(
        80.0 * second["host"]["bytes_total"] / FIRST["startup"]["pinned_bytes"], abs=0.1
    )
    assert second["timing"]["source"] == "observed"


def test_another_fraction_moves_the_budget_by_the_memory_before_the_weights() -> None:
    at = planned(asked(FIRST, server={"tensor_parallel_size": 8, "mem_fraction_static": 0.9}))
    tokens = FIRST["startup"]["max_total_num_tokens"]
    grown = math.floor(printed(TRUTH.before) * (0.9 - 0.88))
    assert at["device"]["max_total_num_tokens"] == pytest.approx(tokens + grown / 70272, abs=1)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"server": {"tensor_parallel_size": 4}}, "tensor_parallel_size"),
        ({"server": {"gpus": [0, 1, 2, 3, 4, 5, 6, 7]}}, "gpus"),
        ({"model": {"manifest_sha256": "other"}}, "model_manifest_sha256"),
        ({"model": {"name": "Kimi-K2-Thinking"}}, "model"),
        ({"sglang_version": "0.5.10"}, "sglang_version"),
        (
            {"topology": {"gpus": [{"index": i, "memory_total_bytes": 1 << 37} for i in range(8)]}},
            "boards",
        ),
    ],
)
def test_nothing_but_the_pinning_rate_holds_for_another_process(change: dict[str, Any], named: str) -> None:
    found = seen(FIRST, changed(asked(), change))
    assert set(found.observed) == {"pin_bytes_per_second"}
    assert found.notes == (f"Of what the last start measured the rate of pinning is used, as {named} changed.",)


def test_a_release_that_allocates_in_another_way_has_no_rate_either() -> None:
    found = seen(FIRST, asked(sglang_version="0.5.23"))
    assert found.observed == {}
    assert "nothing is used" in found.notes[0]


def test_other_weights_in_memory_leave_what_was_free_before_them() -> None:
    found = seen(FIRST, changed(asked(), {"server": {"dtype": "float16"}}))
    assert [name for name in OF_A_GPU if name in found.observed] == ["available_before_load_bytes"]
    assert "dtype changed" in found.notes[0]


def test_another_way_to_run_drops_what_stayed_idle() -> None:
    arguments = changed(asked(FIRST, TRUTH), {"server": {"chunked_prefill_size": 4096}})
    found = seen({**FIRST, "in_force": True}, arguments)
    assert [name for name in OF_A_GPU if name in found.observed] == list(OF_A_GPU[:3])
    assert "idle is not used, as chunked_prefill_size changed" in found.notes[0]


def test_a_fraction_that_is_no_longer_given_takes_its_budget_with_it() -> None:
    found = seen(FIRST, asked(server={"tensor_parallel_size": 8, "mem_fraction_static": None}))
    assert "kv_pool_bytes" not in found.observed
    assert "mem_fraction_static" not in found.observed
    assert "leaves it to the release" in found.notes[0]


def test_capped_tokens_tell_no_budget() -> None:
    capped = {"tensor_parallel_size": 8, "mem_fraction_static": 0.88, "max_total_tokens": 100000}
    ledger = started(planned(asked(server=capped)), TRUTH)
    found = seen(ledger, asked(server=capped))
    assert "kv_pool_bytes" not in found.observed
    assert found.observed["available_after_load_bytes"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"processes": [{"pid": 1}, {"pid": 4000}]}, "other processes"),
        ({"processes": []}, "does not tell its processes"),
        ({"memory_free_bytes": None}, "not measured"),
    ],
)
def test_idle_memory_is_not_taken_from_gpus_that_others_use(change: dict[str, Any], why: str) -> None:
    arguments = asked(FIRST, TRUTH)
    arguments["topology"]["gpus"][0].update(change)
    found = seen({**FIRST, "in_force": True}, arguments)
    assert "idle_bytes_per_gpu" not in found.observed
    assert why in found.notes[0]


def test_what_load_once_took_is_remembered() -> None:
    heavy, light = Truth(load=3 * GIB), Truth(load=GIB)
    second = started(planned(asked(FIRST, heavy)), light)
    at_end = second["startup"]["figures"]["available_at_end_bytes"]
    for arguments in (asked(second, light), asked(second)):
        found = seen({**second, "in_force": "processes" in arguments["topology"]["gpus"][0]}, arguments)
        assert found.load_bytes_per_gpu == pytest.approx(heavy.load, abs=GIB // 50)
        assert found.observed["idle_bytes_per_gpu"] == at_end - found.load_bytes_per_gpu


def test_memory_before_any_request_is_not_called_idle() -> None:
    found = seen(FIRST, asked())
    assert "idle_bytes_per_gpu" not in found.observed
    assert "before any request" in found.notes[0]


def test_a_server_on_a_cpu_is_observed_in_time_alone() -> None:
    plan = planned(rehearsal())
    ledger = started({**plan, "device": {**plan["device"], "mem_fraction_static": 0.9}}, TRUTH)
    found = seen(ledger, rehearsal())
    assert set(found.observed) == {"pin_bytes_per_second", "load_seconds", "rest_seconds"}


@pytest.mark.parametrize(
    "ledger",
    [
        {},
        {"plan": {}},
        {"plan": {}, "startup": None},
    ],
)
def test_what_is_no_ledger_is_none(ledger: dict[str, Any]) -> None:
    assert last_start_of(ledger, asked()) is None


def test_a_ledger_without_figures_is_read_for_what_it_has() -> None:
    old = {**FIRST, "schema": 1, "startup": {"max_total_num_tokens": 159277, "pinned_bytes": 5}}
    found = seen(old, asked())
    assert found.observed == {}
    assert found.notes == (UNUSABLE,)
    assert [one.figure for one in found.deviations] == ["max_total_num_tokens", "host_bytes"]


@pytest.mark.parametrize("nonsense", [-1, float("nan"), float("inf"), "12", True, None, [], 1 << 60])
def test_figures_that_are_none_do_not_stop_a_plan(nonsense: Any) -> None:
    figures = dict.fromkeys(FIRST["startup"]["figures"], nonsense)
    ledger = {**FIRST, "startup": {**FIRST["startup"], "figures": figures, "max_total_num_tokens": nonsense}}
    assert planned(asked(ledger))["device"]["max_total_num_tokens"] > 0


def test_what_is_given_by_hand_goes_first() -> None:
    assert with_hand_given(
        {"load_seconds": 3.0, "rest_seconds": 4.0}, {"load_seconds": 5.0, "kv_pool_bytes": None}
    ) == {
        "load_seconds": 5.0,
        "rest_seconds": 4.0,
    }


@pytest.mark.parametrize(
    "given",
    [{"kv_pool_bytes": 5}, {"idle_bytes_per_gpu": 5}, {"mem_fraction_static": 0.9}],
)
def test_a_budget_is_not_taken_for_that_of_another_fraction(given: dict[str, Any]) -> None:
    measured = {"kv_pool_bytes": 7, "idle_bytes_per_gpu": 8, "mem_fraction_static": 0.88, "load_seconds": 1.0}
    assert with_hand_given(measured, given) == {"load_seconds": 1.0, **given}


def test_a_part_given_by_hand_is_not_held_against_a_smaller_whole() -> None:
    measured = {"available_before_load_bytes": 10, "available_after_load_bytes": 5}
    assert with_hand_given(measured, {"kv_pool_bytes": 11}) == {"available_after_load_bytes": 5, "kv_pool_bytes": 11}


def test_the_same_request_has_the_same_arguments_after_its_start() -> None:
    first = planned(asked())
    second = planned(asked(started(first, TRUTH), TRUTH))
    assert second["arguments"] == first["arguments"]
    assert second["unit"]["environment"] == first["unit"]["environment"]
    # They stand in the unit, which a second run is not to write anew.
    assert second["unit"]["timeout_start_seconds"] == first["unit"]["timeout_start_seconds"]


def test_a_person_reads_what_the_last_start_taught() -> None:
    text = "\n".join(summary_lines(planned(asked(FIRST))))
    assert "Last start device tokens: " in text
    assert "what stays idle under load is not known" in " ".join(text.split())
    assert "Last start" not in "\n".join(summary_lines(planned(asked())))
