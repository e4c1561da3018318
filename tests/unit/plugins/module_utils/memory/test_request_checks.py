# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding, planned


def refused(**changes: Any) -> Refusal:
    with pytest.raises(Refusal) as found:
        planned(founding(**changes))
    return found.value


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        ({"observed": {"kv_pool_bytes": 10**13}}, "observed_inconsistent", "observed.kv_pool_bytes"),
        ({"observed": {"idle_bytes_per_gpu": 10**12}}, "observed_inconsistent", "observed.idle_bytes_per_gpu"),
        ({"observed": {"available_before_load_bytes": 10**12}}, "observed_inconsistent", "before_load_bytes"),
        ({"observed": {"pin_bytes_per_second": 1e-300}}, "value_out_of_range", "observed.pin_bytes_per_second"),
        ({"observed": {"load_seconds": 1e18}}, "value_out_of_range", "observed.load_seconds"),
        ({"server": {"page_size": 10**9}}, "value_out_of_range", "server.page_size"),
        ({"server": {"chunked_prefill_size": 10**9}}, "value_out_of_range", "server.chunked_prefill_size"),
        ({"server": {"dtype": "foo"}}, "choice_unknown", "server.dtype"),
        ({"server": {"attention_backend": "foo"}}, "choice_unknown", "server.attention_backend"),
        ({"change_threshold": 1.5}, "change_threshold_out_of_range", "change_threshold is 1.5."),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(changes: dict[str, Any], code: str, named: str) -> None:
    refusal = refused(**changes)
    assert refusal.code == code
    assert named in refusal.message
    assert "xpected" in refusal.remedy


def test_a_budget_takes_the_size_of_the_cards() -> None:
    asked = founding(observed={"kv_pool_bytes": None, "available_before_load_bytes": None, "idle_bytes_per_gpu": None})
    for gpu in asked["topology"]["gpus"]:
        gpu["memory_total_bytes"] = None
    with pytest.raises(Refusal) as found:
        planned(asked)
    assert (found.value.code, found.value.message) == ("gpu_memory_unknown", "The memory of the GPUs is not known.")
    assert "topology.gpus[].memory_total_bytes, or observed.kv_pool_bytes" in found.value.remedy


def test_what_sizes_a_host_tier_that_is_off_is_told() -> None:
    plan = planned(founding(hicache={"enabled": False, "ratio": 2.0}))
    [warning] = [found for found in plan["warnings"] if found["code"] == "hicache_off_ignores"]
    assert "hicache.ratio" in warning["message"]


def test_the_fraction_that_a_refusal_names_passes_and_the_one_below_does_not() -> None:
    off = {"enabled": False}
    refusal = refused(server={"mem_fraction_static": 0.03}, hicache=off)
    assert refusal.code == "kv_budget_empty"
    least = refusal.evidence["smallest_mem_fraction_static"]
    assert isinstance(least, float)
    assert f"Set server.mem_fraction_static to {least} or more" in refusal.remedy
    assert planned(founding(server={"mem_fraction_static": least}, hicache=off))["device"]["max_total_num_tokens"] > 0
    below = refused(server={"mem_fraction_static": round(least - 0.001, 3)}, hicache=off)
    assert below.code == "kv_budget_empty"


def test_a_server_pins_no_more_than_its_host_has() -> None:
    asked = founding(observed={"own_pinned_bytes": 10**14})
    asked["topology"]["host"] = {**asked["topology"]["host"], "memory_total_bytes": 2048 * 10**9}
    with pytest.raises(Refusal) as found:
        planned(asked)
    assert found.value.code == "observed_inconsistent"
    assert "100,000.00 GB" in found.value.message
    assert "2,048.00 GB" in found.value.message
