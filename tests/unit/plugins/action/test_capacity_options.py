# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.action import capacity_options
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.modules import capacity_options as documented
from ansible_collections.gpufleet.sglang.tests.unit.plugins.action.action_runs import ran
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.capacity.workloads import QWEN, asked, box


def run(arguments: dict[str, Any], check_mode: bool = False) -> dict[str, Any]:
    return ran(capacity_options, arguments, check_mode=check_mode)


def test_options_are_returned_and_nothing_changes() -> None:
    result = run(asked(topology=box(4)))
    assert result["changed"] is False
    assert result["best"]["gpus"] == 4
    assert result["options"][0] == result["best"]
    assert run(asked(topology=box(4)), check_mode=True)["options"] == result["options"]


def test_strings_of_an_inventory_are_converted() -> None:
    workload = {"context_tokens": "32768", "concurrent_requests": "16", "host_cache_tokens": None}
    result = run(asked(boards="NVIDIA L40S", workload=workload, gpu_counts="4,8"))
    assert [option["gpus"] for option in result["options"]] == [8, 4]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"board": ["L4"]}, "The closest is boards."),
        ({"workload": {"context": 5}}, "The closest is workload.context_tokens."),
        ({"server": {"tensor_parallel_size": 8}}, "server.tensor_parallel_size is not known."),
        ({"hicache": {"rato": 2}}, "The closest is hicache.ratio."),
        ({"models": [{**QWEN, "atention": {}}]}, "The closest is model.attention."),
        ({"topology": {"gpu": []}}, "The closest is topology.gpus."),
    ],
)
def test_typing_errors_name_the_closest_option(change: dict[str, Any], said: str) -> None:
    result = run(asked(**change))
    assert result["failure"]["code"] == "option_unknown"
    assert said in result["msg"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"workload": {"concurrent_requests": 2}}, "context_tokens"),
        ({"workload": {"context_tokens": "long"}}, "context_tokens"),
        ({"models": None}, "models"),
        ({"gpu_counts": ["many"]}, "gpu_counts"),
    ],
)
def test_values_of_the_wrong_kind_are_named(change: dict[str, Any], said: str) -> None:
    result = run(asked(**change))
    assert result["failed"] is True
    assert said in result["msg"]
    assert "Traceback" not in result["msg"]


def test_a_refusal_is_a_failure_with_its_code() -> None:
    assert run(asked(boards=["H1000"]))["failure"]["code"] == "board_unknown"


def _documented(options: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (option["type"], option.get("default"), _documented(option.get("suboptions", {})))
        for name, option in options.items()
    }


def _specified(options: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (option["type"], option.get("default"), _specified(option.get("options", {})))
        for name, option in options.items()
    }


def test_every_option_is_documented_as_it_is() -> None:
    said = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert _documented(said) == _specified(ARGUMENT_SPEC)
