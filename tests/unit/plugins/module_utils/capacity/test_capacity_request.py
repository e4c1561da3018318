# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import capacity_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.layouts import layouts_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.capacity.workloads import asked, box


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"models": []}, "models_missing"),
        ({"topology": box(1), "boards": ["L4"]}, "machines_ambiguous"),
        ({"topology": box(1), "host_memory_available_bytes": 1}, "host_memory_ambiguous"),
        ({"workload": {"context_tokens": 0}}, "value_not_positive"),
        ({"workload": {"context_tokens": 1, "concurrent_requests": 0}}, "value_not_positive"),
        ({"workload": {"context_tokens": 1, "host_cache_tokens": -5}}, "value_not_positive"),
        ({"gpu_counts": [2, 0]}, "value_not_positive"),
        ({"gpu_counts": [16], "node_gpus": 8}, "gpu_counts_beyond_node"),
    ],
)
def test_what_cannot_be_weighed_is_refused(change: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal) as caught:
        capacity_request(asked(**change))
    assert caught.value.code == code


def test_counts_stay_within_a_node() -> None:
    assert capacity_request(asked(boards=["L4"])).counts == (1, 2, 4, 8)
    assert capacity_request(asked(boards=["L4"], node_gpus=16)).counts == (1, 2, 4, 8, 16)
    assert capacity_request(asked(boards=["L4"], gpu_counts=[6, 3, 3])).counts == (3, 6)


def test_layouts_use_every_gpu_and_come_simplest_first() -> None:
    found = layouts_of(8)
    assert all(layout.gpus == 8 for layout in found)
    assert found[0].text == "tp 8"
    assert {layout.text for layout in found} >= {"tp 8, attention dp 8", "tp 4, pp 2", "tp 1, pp 8"}
    assert len(found) == len(set(found)) == 4 + 3 + 2 + 1
    assert [layout.text for layout in layouts_of(3)] == ["tp 3", "tp 3, attention dp 3", "tp 1, pp 3"]
    assert layouts_of(4)[2].as_options() == {
        "tensor_parallel_size": 4,
        "pipeline_parallel_size": 1,
        "attention_data_parallel_size": 4,
    }
