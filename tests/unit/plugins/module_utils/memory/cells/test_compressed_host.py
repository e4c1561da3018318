# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import planned
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.compressed_models import (
    SMALL_V4,
    request_for,
)

ATTENTION = attention_from_config(SMALL_V4).as_dict()


def pools_of(found: dict[str, Any], part: str) -> dict[str, dict[str, Any]]:
    return {pool["kind"]: pool for pool in found[part]["pools"]}


def refusal_of(**more: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        planned(request_for(ATTENTION, **more))
    return refusal.value


def test_host_pools_are_pages_of_the_device_times_the_ratio() -> None:
    found = planned(request_for(ATTENTION, hicache={"ratio": 1.5}))
    device, host = pools_of(found, "device"), pools_of(found, "host")
    pages = int(found["device"]["max_total_num_tokens"] // 256 * 1.5)
    window_pages = int(device["swa"]["slots"] // 256 * 1.5)
    assert (host["kv"]["tokens"], host["kv"]["bytes_per_rank"]) == (256 * pages, 0)
    assert (host["c4"]["tokens"], host["c4_indexer"]["tokens"], host["c128"]["tokens"]) == (
        64 * pages,
        64 * pages,
        2 * pages,
    )
    assert host["swa"]["tokens"] == 256 * window_pages
    assert host["c4_state"]["tokens"] == host["c4_indexer_state"]["tokens"] == 8 * window_pages
    assert "c128_state" not in host
    assert found["host"]["bytes_total"] == 2 * sum(pool["bytes_per_rank"] for pool in host.values())
    # Every rank holds the same rows.
    assert found["host"]["unique_bytes"] * 2 == found["host"]["bytes_total"]


def test_0_5_12_keeps_more_than_the_device_and_states_of_requests() -> None:
    hicache = {"ratio": 0.5, "io_backend": "direct"}
    found = planned(request_for(ATTENTION, release="0.5.12", hicache=hicache))
    device, host = pools_of(found, "device"), pools_of(found, "host")
    assert host["kv"]["tokens"] == found["device"]["max_total_num_tokens"] + 256
    assert host["c128_state"]["tokens"] == (device["swa"]["slots"] // 256 + 1) * 128


@pytest.mark.parametrize(
    ("more", "code", "named"),
    [
        ({"hicache": {"size_gb": 10}}, "hicache_unsupported", "by a size"),
        ({"hicache": {}}, "hicache_unsupported", "by a share"),
        (
            {"hicache": {"ratio": 2.0}, "server": {"tensor_parallel_size": 1, "pipeline_parallel_size": 2}},
            "hicache_unsupported",
            "pipeline stages",
        ),
        (
            {"release": "0.5.12", "hicache": {"ratio": 2.0, "io_backend": "kernel"}},
            "hicache_transfer_unsupported",
            "direct io backend only",
        ),
    ],
)
def test_what_no_server_sizes_is_refused(more: dict[str, Any], code: str, named: str) -> None:
    refusal = refusal_of(**more)
    assert refusal.code == code
    assert named in refusal.message


def test_the_largest_ratio_fits_and_one_step_more_does_not() -> None:
    refusal = refusal_of(hicache={"ratio": 100.0})
    largest = refusal.evidence["largest_ratio"]
    assert isinstance(largest, float)
    assert 1 < largest < 100
    assert refusal.evidence["largest_size_gb"] is None
    assert planned(request_for(ATTENTION, hicache={"ratio": largest}))["host"]["bytes_total"] > 0
    assert refusal_of(hicache={"ratio": round(largest + 0.01, 2)}).code == refusal.code
