# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.action import memory_plan
from ansible_collections.gpufleet.sglang.tests.unit.plugins.action.action_runs import ran
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding, rehearsal


def run(arguments: dict[str, Any], check_mode: bool = False) -> dict[str, Any]:
    return ran(memory_plan, arguments, check_mode=check_mode)


def test_plan_is_returned_and_nothing_changes() -> None:
    result = run(founding())
    assert result["changed"] is False
    assert result["plan"]["device"]["max_total_num_tokens"] == 159_277


def test_check_mode_plans_the_same() -> None:
    assert run(founding(), check_mode=True)["plan"] == run(founding())["plan"]


def test_strings_of_an_inventory_are_converted() -> None:
    arguments = founding(server={"tensor_parallel_size": "8", "mem_fraction_static": "0.88"}, hicache={"ratio": "4"})
    assert run(arguments)["plan"] == run(founding())["plan"]


def test_null_means_not_given() -> None:
    arguments = rehearsal(server={"page_size": None, "gpus": [], "served_model_name": None}, observed={})
    assert run(arguments)["plan"]["device"]["max_total_num_tokens"] == 65_536


def test_refusal_is_a_failure_with_evidence() -> None:
    result = run(founding(hicache={"ratio": 8.0}))
    assert result["failed"] is True
    assert result["failure"]["evidence"]["largest_ratio"] == 4.3
    assert "hicache.ratio to 4.3 or less" in result["msg"]
    assert "plan" not in result


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sglang_vers": "0.5.9"}, "The closest is sglang_version."),
        ({"server": {"tensor_paralel_size": 8}}, "The closest is server.tensor_parallel_size."),
        ({"hicache": {"rato": 2}}, "The closest is hicache.ratio."),
        ({"observed": {"kv_bytes": 1}}, "The closest is observed.kv_pool_bytes."),
        ({"server": {"zzz": 1}}, "Expected one of"),
    ],
)
def test_typing_errors_name_the_closest_option(change: dict[str, Any], said: str) -> None:
    result = run(founding(**change))
    assert result["failure"]["code"] == "option_unknown"
    assert said in result["msg"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hicache": {"ratio": None, "size_gb": 40.5}}, "size_gb"),
        ({"hicache": {"ratio": "much"}}, "ratio"),
        ({"server": {"device": "tpu"}}, "device"),
        ({"server": {"tensor_parallel_size": "eight"}}, "tensor_parallel_size"),
        ({"model": None}, "model"),
        ({"server": ["a"]}, "server"),
    ],
)
def test_values_of_the_wrong_kind_are_named(change: dict[str, Any], said: str) -> None:
    result = run(founding(**change))
    assert result["failed"] is True
    assert said in result["msg"]
    assert "Traceback" not in result["msg"]
