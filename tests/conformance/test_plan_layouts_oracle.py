# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Whole plans of stages, groups of attention ranks and drafts, against what SGLang's own code answered for each.

The answers are those of test_cell_sizes.py, which holds the parts of the arithmetic against them; here they are held
against the tokens that a plan gives in the end.
"""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import config_dtype
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pipeline_versions import (
    runs_over_stages,
    stage_keeps_all_layers,
)
from ansible_collections.gpufleet.sglang.tests.conformance.cell_cases import BUDGET_BYTES, PAGE_SIZE, Case
from ansible_collections.gpufleet.sglang.tests.conformance.plan_records import planned, slots_of
from ansible_collections.gpufleet.sglang.tests.conformance.test_cell_sizes import ANSWERED, CONFIGS, case_of, named

# SGLang refuses these layouts before it counts a token: heads that do not divide.
REFUSED = {"tensor_parallel_uneven"}
HEAD = {"num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128}


def request_of(release: str, case: Case) -> dict[str, Any]:
    config = CONFIGS[case.model]
    ranks = case.tensor_parallel * case.pipeline_parallel
    attention = attention_from_config(config)
    flags: dict[str, Any] = {"mamba-radix-cache-strategy": "no_buffer", "disable-overlap-schedule": True}
    if case.state_slots is not None:
        flags["max-mamba-cache-size"] = case.state_slots
    speculative = None
    if case.draft_layers:
        # Of a draft the budget only counts the layers.
        head = {"architecture": "LlamaForCausalLMEagle3", "attention": {**HEAD, "num_layers": case.draft_layers}}
        speculative = {
            "algorithm": "EAGLE3",
            "model": head,
            "model_path": "/srv/models/head",
            "num_steps": 3,
            "eagle_topk": 1,
        }
    return {
        "sglang_version": release,
        "model": {
            "architecture": config["architectures"][0],
            "dtype": config_dtype(config),
            "attention": attention.as_dict(),
        },
        "topology": {
            "gpus": [
                {"index": index, "memory_total_bytes": 80 << 30, "compute_capability": "9.0"} for index in range(ranks)
            ],
            "host": {"memory_available_bytes": 10**12},
        },
        "server": {
            "tensor_parallel_size": case.tensor_parallel,
            "pipeline_parallel_size": case.pipeline_parallel,
            "attention_data_parallel_size": case.attention_data_parallel,
            "max_running_requests": case.running_requests,
            "mem_fraction_static": 0.88,
            # Whole servers take states without a buffer in pages of one token only.
            "page_size": 1 if attention.state is not None else PAGE_SIZE,
            "extra_arguments": flags,
        },
        "hicache": {"enabled": False},
        "speculative": speculative,
        "observed": {"kv_pool_bytes": BUDGET_BYTES, "mem_fraction_static": 0.88},
    }


def in_pages(found: dict[str, Any]) -> int:
    """Models with states have pages of one token; the answers are in pages all the same."""
    return int(found["device"]["max_total_num_tokens"]) // PAGE_SIZE * PAGE_SIZE


def asked_of_a_layout(case: Case) -> bool:
    apart = case.attention_data_parallel > 1 or case.draft_layers > 0
    return case.kv_cache_dtype == "auto" and (apart or case.pipeline_parallel > 1)


ROWS = [(release, row) for release, row in ANSWERED if asked_of_a_layout(case_of(row))]
# Of a pipeline each stage was asked alone; the plan is of all of them.
STAGES: dict[tuple[str, str], list[dict[str, Any]]] = {}
for asked_release, asked_row in ROWS:
    if case_of(asked_row).pipeline_parallel > 1:
        STAGES.setdefault((asked_release, case_of(asked_row).model), []).append(asked_row)
ALONE = [(release, row) for release, row in ROWS if case_of(row).pipeline_parallel == 1]


@pytest.mark.parametrize(("release", "row"), ALONE, ids=named)
def test_tokens_of_groups_and_drafts(release: str, row: dict[str, Any]) -> None:
    case, answer = case_of(row), row["answer"]
    found = planned(request_of(release, case))
    if isinstance(found, Refusal):
        assert found.code in REFUSED, str(found)
        return
    assert in_pages(found) == answer["tokens"]
    device = found["device"]
    assert device["total_num_tokens"] == case.attention_data_parallel * device["max_total_num_tokens"]
    if answer["window_tokens"] is not None:
        assert slots_of(found, "swa") == answer["window_tokens"]
    if "slots" in answer:
        assert slots_of(found, "mamba") == answer["slots"]


@pytest.mark.parametrize(("release", "model"), sorted(STAGES), ids=str)
def test_a_pipeline_has_the_fewest_tokens_of_its_stages(release: str, model: str) -> None:
    rows = STAGES[release, model]
    assert sorted(row.get("stage", 0) for row in rows) == [0, 2]
    architecture = CONFIGS[model]["architectures"][0]
    found = planned(request_of(release, case_of(rows[0])))
    if not runs_over_stages(release, architecture):
        assert isinstance(found, Refusal) and found.code == "pipeline_unsupported"
        return
    if isinstance(found, Refusal):
        assert found.code in REFUSED, str(found)
        return
    if stage_keeps_all_layers(release, architecture):
        # The stages that were asked had layers of their own, which the whole server of this class does not give them.
        whole = planned(request_of(release, replace(case_of(rows[0]), pipeline_parallel=1)))
        assert not isinstance(whole, Refusal)
        assert in_pages(found) == in_pages(whole)
        assert [stage["pools"] for stage in found["device"]["stages"]] == [whole["device"]["pools"]] * 3
        return
    fewest = min(row["answer"]["tokens"] for row in rows)
    widths = [
        sum(pool["bytes_per_slot"] for pool in stage["pools"] if pool["kind"] != "mamba")
        for stage in found["device"]["stages"]
    ]
    # The middle stage was not asked; it may have more layers that keep tokens, or index keys with values.
    if widths[1] <= max(widths[0], widths[2]):
        assert in_pages(found) == fewest
    else:
        assert in_pages(found) < fewest
    for stage in (0, 2):
        rows_of_stage = next(row for row in rows if row.get("stage", 0) == stage)["answer"]
        pools = {pool["kind"]: pool["bytes_per_slot"] for pool in found["device"]["stages"][stage]["pools"]}
        assert pools == rows_of_stage.get("rows", pools)


def test_most_layouts_are_planned() -> None:
    judged = [planned(request_of(release, case_of(row))) for release, row in ALONE if release == "0.5.23"]
    refused = [found for found in judged if isinstance(found, Refusal)]
    assert len(judged) >= 80 and len(refused) <= 12, [str(found) for found in refused]
