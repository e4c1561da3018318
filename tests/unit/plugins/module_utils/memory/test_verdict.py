# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import GLM_5
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import planned


def indexed(release: str, fraction: float, dtype: str = "fp8_e4m3") -> dict[str, Any]:
    card = {"memory_total_bytes": 143771 << 20, "compute_capability": "9.0"}
    return planned(
        {
            "sglang_version": release,
            "model": {
                "architecture": "GlmMoeDsaForCausalLM",
                "dtype": "bfloat16",
                "attention": plain(attention_from_config(GLM_5)),
                "weights": {"total_bytes": 8 * 60 * 10**9},
            },
            "topology": {
                "gpus": [{"index": index, **card} for index in range(8)],
                "host": {"memory_available_bytes": 2 * 10**12},
            },
            "server": {
                "tensor_parallel_size": 8,
                "page_size": 64,
                "kv_cache_dtype": dtype,
                "mem_fraction_static": fraction,
            },
            "hicache": {"enabled": False},
        }
    )


@pytest.mark.parametrize(
    ("release", "dtype", "above"),
    [
        ("0.5.9", "fp8_e4m3", True),
        ("0.5.16", "fp8_e4m3", True),
        ("0.5.17", "fp8_e4m3", False),
        ("0.5.16", "bfloat16", False),
    ],
)
def test_pools_that_a_release_counts_too_small_are_warned_of(release: str, dtype: str, above: bool) -> None:
    plan = indexed(release, 0.85, dtype)
    device = plan["device"]
    assert (device["kv_pool_bytes"] > device["budget_bytes"]) == above
    said = [warning for warning in plan["warnings"] if warning["code"] == "pools_exceed_budget"]
    assert len(said) == above
    if not above:
        return
    more = device["kv_pool_bytes"] - device["budget_bytes"]
    assert f"{more / 1e9:,.2f} GB more" in said[0]["message"]
    # With the fraction that is named, the pools take what was meant for them.
    lower = float(said[0]["remedy"].split("mem_fraction_static to ")[1].split(",")[0])
    assert 0.7 < lower < 0.85
    mended = indexed(release, lower, dtype)["device"]["kv_pool_bytes"]
    assert device["budget_bytes"] * 0.995 < mended <= device["budget_bytes"]
