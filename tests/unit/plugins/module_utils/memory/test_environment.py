# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.environment import (
    AFTER_CAPTURE,
    CUSTOM_POOL,
    EMBEDDING_CACHE,
    OWNED,
    PLANNED,
    checked_environment,
    size_mib,
    switched_on,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

VARIABLES = Path(__file__).resolve().parents[5] / "roles" / "sglang" / "vars" / "main" / "names.yml"
GIB = 1 << 30


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("Yes", True), (True, True), (1, True), ("0", False), ("no", False), (False, False)]
)
def test_switches_are_read_as_the_server_reads_them(value: Any, on: bool) -> None:
    environment = checked_environment({AFTER_CAPTURE: value})
    assert environment == {AFTER_CAPTURE: str(value)}
    assert switched_on(environment, AFTER_CAPTURE) is on


def test_what_is_not_set_is_off_and_without_a_size() -> None:
    assert checked_environment({}) == {}
    assert not switched_on({}, AFTER_CAPTURE)
    assert size_mib({}, EMBEDDING_CACHE) is None
    assert size_mib(checked_environment({EMBEDDING_CACHE: 250}), EMBEDDING_CACHE) == 250


@pytest.mark.parametrize(
    ("variable", "value", "code", "remedy"),
    [
        # The server would warn, and take its default.
        (AFTER_CAPTURE, "on", "environment_malformed", "Expected one of true, 1, yes, y, false, 0, no, n."),
        (AFTER_CAPTURE, "", "environment_malformed", "Expected one of true, 1, yes, y, false, 0, no, n."),
        (EMBEDDING_CACHE, "1.5", "environment_malformed", "Expected a whole number of MiB, 0 or more."),
        (EMBEDDING_CACHE, "-1", "environment_malformed", "Expected a whole number of MiB, 0 or more."),
        ("SGLANG_HUGEPAGE_SIZE", "2MB", "environment_owned", "Set hicache.hugepage_size instead."),
        ("CUDA_VISIBLE_DEVICES", "0", "environment_owned", "Set server.gpus instead."),
        ("SGLANG_VLM_CACHE_SIZE", "1", "option_unknown", f"The closest is server.environment.{EMBEDDING_CACHE}."),
    ],
)
def test_variables_that_a_plan_cannot_take(variable: str, value: str, code: str, remedy: str) -> None:
    with pytest.raises(Refusal) as refusal:
        checked_environment({variable: value})
    assert (refusal.value.code, refusal.value.remedy) == (code, remedy)


def test_a_server_on_the_cpu_may_be_kept_from_gpus() -> None:
    assert checked_environment({"CUDA_VISIBLE_DEVICES": "", AFTER_CAPTURE: "1"}, "cpu") == {AFTER_CAPTURE: "1"}
    with pytest.raises(Refusal):
        checked_environment({"SGLANG_HUGEPAGE_SIZE": "2MB"}, "cpu")


def test_the_role_hands_over_what_the_plan_knows_and_nothing_else() -> None:
    handed = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))["__sglang_planned_variables"]
    assert handed == sorted(PLANNED | set(OWNED))


def planned(environment: dict[str, Any], **server: Any) -> dict[str, Any]:
    gpu = {"index": 0, "memory_total_bytes": 81_559 << 20, "compute_capability": [9, 0]}
    model = {
        "architecture": "LlamaForCausalLM",
        "path": "/models/llama",
        "attention": {
            "family": "heads",
            "num_layers": 32,
            "num_attention_heads": 32,
            "num_kv_heads": 8,
            "head_dim": 128,
            "v_head_dim": 128,
        },
        "weights": {"total_bytes": 16 * GIB},
        "dtype": "bfloat16",
    }
    arguments = {
        "sglang_version": "0.5.23",
        "model": model,
        "topology": {"gpus": [gpu]},
        "server": {"environment": environment, **server},
        "hicache": {"enabled": False},
    }
    return plan_as_dict(plan(plan_request(arguments)))


def test_the_switch_of_the_service_changes_the_plan() -> None:
    plain, switched = planned({}), planned({AFTER_CAPTURE: "1"})
    default = round(1 - (1536 + 128) / 81_559, 3)
    assert switched["device"]["mem_fraction_static"] == default > plain["device"]["mem_fraction_static"]
    assert switched["device"]["max_total_num_tokens"] > plain["device"]["max_total_num_tokens"]
    assert any("sizes the KV cache after it has captured its graphs" in said for said in switched["assumptions"])
    assert not any("captured its graphs" in said for said in plain["assumptions"])
    # What keeps the server from it keeps the plan from it.
    for environment in ({AFTER_CAPTURE: "1", CUSTOM_POOL: "NVLINK"}, {AFTER_CAPTURE: "0"}):
        assert planned(environment)["device"] == plain["device"]
    unfit = {"extra_arguments": {"enable-dynamic-chunking": True}}
    assert planned({AFTER_CAPTURE: "1"}, **unfit)["device"] == planned({}, **unfit)["device"]
