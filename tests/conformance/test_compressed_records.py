# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compressed caches (DeepSeek-V4) as each release that serves them divides memory, to the byte of every pool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import stages
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_host import compressed_host_pools
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_pools import (
    CompressedRequest,
    compressed_of_tokens,
    counted_bytes,
    divide_compressed,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePools
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_RATIO, Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import Allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention, Compressed
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    compressed_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.conformance.compressed_cases import (
    GIB,
    MODELS,
    RELEASES,
    RUNNING_REQUESTS,
    CompressedCase,
    compressed_cases,
)
from ansible_collections.gpufleet.sglang.tests.conformance.plan_records import Asked, planned, request_of
from ansible_collections.gpufleet.sglang.tests.conformance.pool_records import Start
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.test_pool_records import rows

HERE = Path(__file__).resolve().parent


def _record(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "oracle" / f"compressed-{release}.json").read_text(encoding="utf-8"))
    return found


RECORDS = {release: _record(release) for release in RELEASES}


def _attention(model: str) -> tuple[Attention, Compressed]:
    config = yaml.safe_load((HERE / "configs" / f"{model}.yml").read_text(encoding="utf-8"))["config"]
    attention = attention_from_config(config)
    assert attention.compressed is not None
    return attention, attention.compressed


ATTENTION = {model: _attention(model) for model in MODELS}


def _case(row: dict[str, Any]) -> CompressedCase:
    return CompressedCase(**{key: value for key, value in row.items() if key != "answer"})


def _asked(case: CompressedCase) -> CompressedRequest:
    return CompressedRequest(
        running_requests=(case.running_requests or RUNNING_REQUESTS) // case.attention_data_parallel,
        window_ratio=case.window_ratio,
    )


def _stage(release: str, case: CompressedCase) -> range:
    attention, _compressed = ATTENTION[case.model]
    division = pool_facts(release).pipeline_division
    return stages(attention.num_layers, case.pipeline_parallel, division)[case.stage]


def _divided(release: str, case: CompressedCase) -> DevicePools:
    attention, compressed = ATTENTION[case.model]
    found, _lines = divide_compressed(
        compressed,
        [_stage(release, case)],
        compressed_facts(release),
        _asked(case),
        attention.head_dim,
        case.budget_bytes,
        case.cap,
    )
    return found


def test_records_name_their_wheels_and_answer_every_question() -> None:
    for release, record in RECORDS.items():
        assert record["sglang"] == release
        assert record["source"]["wheel"].startswith(f"sglang-{release}-")
        assert len(record["source"]["sha256"]) == 64
        assert [_case(row) for row in record["rows"]] == list(compressed_cases())


@pytest.mark.parametrize("release", RELEASES)
def test_tokens_and_every_byte_of_the_device_pools(release: str) -> None:
    judged = 0
    for row in RECORDS[release]["rows"]:
        case, answer = _case(row), row["answer"]
        attention, compressed = ATTENTION[case.model]
        if "error" in answer:
            assert "leaves no room" in answer["error"]
            assert _divided(release, case).tokens == 0
            continue
        facts, stage = compressed_facts(release), _stage(release, case)
        counted = counted_bytes(compressed, stage, facts, _asked(case), attention.head_dim)
        assert counted == answer["bytes_per_token"], row
        found = _divided(release, case)
        assert found.tokens == answer["tokens"], row
        assert found.slots("swa") == answer["window_tokens"], row
        assert {pool.kind: pool.allocated_bytes for pool in found.pools} == answer["device"], row
        judged += 1
    assert judged >= len(RECORDS[release]["rows"]) - 1


@pytest.mark.parametrize("release", RELEASES)
def test_every_byte_of_the_host_pools(release: str) -> None:
    judged = 0
    for row in RECORDS[release]["rows"]:
        case, host = _case(row), row["answer"].get("host")
        if host is None:
            continue
        built = compressed_host_pools(
            version_facts(release),
            _divided(release, case).pools,
            Sizing(BY_RATIO, ratio=case.host_ratio),
            Allocation("shmem"),
        )
        assert built[0].tokens == host["tokens"], row
        assert built[0].bytes_per_rank == 0
        sizes = {pool.kind: pool.bytes_per_rank for pool in built[1:]}
        assert sizes == {kind: size for kind, size in host.items() if kind != "tokens"}, row
        assert [pool.pinned_bytes for pool in built] == [pool.bytes_per_rank for pool in built]
        judged += 1
    assert judged == 10


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("model", MODELS)
def test_the_whole_planner_says_the_same(model: str, release: str) -> None:
    case = CompressedCase(model, host_ratio=2.0)
    answer = next(row["answer"] for row in RECORDS[release]["rows"] if _case(row) == case)
    found = planned(
        request_of(
            Start(model, 8),
            Asked(release=release),
            {"kv_pool_bytes": case.budget_bytes, "mem_fraction_static": 0.9},
            hicache={"ratio": 2.0, "io_backend": "direct", "mem_layout": "layer_first"},
        )
    )
    assert not isinstance(found, Refusal), found.message
    device = found["device"]
    assert device["max_total_num_tokens"] == answer["tokens"]
    assert device["page_size"] == 256
    assert {pool["kind"]: pool["allocated_bytes"] for pool in device["pools"]} == answer["device"]
    host = dict(answer["host"])
    assert found["host"]["pools"][0] | {"kind": "kv", "tokens": host.pop("tokens")} == found["host"]["pools"][0]
    assert {pool["kind"]: pool["bytes_per_rank"] for pool in found["host"]["pools"][1:]} == host
    assert found["host"]["bytes_total"] == 8 * sum(host.values())
    # Every rank holds the same rows.
    assert found["host"]["unique_bytes"] == sum(host.values())


@needs_recorded_data
def test_slots_of_a_recorded_start() -> None:
    """A start of SGLang's own CI with drafts: their rings are twice as long, and one layer is counted for them."""
    row = next(row for row in rows("ci-capacities.json") if "deepseek_v4" in row["test_file"])["measured_mean"]
    attention, compressed = ATTENTION["deepseek-v4-flash"]
    # Means over runs whose tokens differ by pages.
    tokens = int(row["token_capacity"]) // 256 * 256
    found, _lines = compressed_of_tokens(
        compressed,
        [range(attention.num_layers)],
        compressed_facts("0.5.16"),
        CompressedRequest(RUNNING_REQUESTS),
        attention.head_dim,
        tokens,
    )
    logged = {
        "c4": row["dsv4_c4"],
        "c128": row["dsv4_c128"],
        "swa": row["dsv4_swa"],
        "c4_state": row["dsv4_c4_state"] / 2,
    }
    for kind, slots in logged.items():
        assert found.slots(kind) == pytest.approx(slots, abs=256), kind


def test_what_pages_take_beyond_the_budget() -> None:
    """To 0.5.20 the budget counts rows without what fills their pages up, and 0.5.12 a layer that is not there."""
    case = CompressedCase("deepseek-v4-flash")
    taken = {release: sum(pool.allocated_bytes for pool in _divided(release, case).pools) for release in RELEASES}
    over = {release for release, size in taken.items() if size - case.budget_bytes > GIB // 10}
    assert over == {release for release in RELEASES if "0.5.13" <= release < "0.5.21"}
    assert max(taken.values()) - case.budget_bytes < GIB // 2
