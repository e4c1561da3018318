# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter import placement as plugin
from ansible_collections.gpufleet.sglang.plugins.filter.placement import FilterModule, placement

TOPOLOGY = {
    "gpus": [{"index": index, "numa_node": index // 2} for index in range(4)],
    "numa_nodes": [{"id": node, "memory_available_bytes": 100 * 10**9} for node in range(2)],
    "host": {"memory_available_bytes": 200 * 10**9},
}
ONE = [{"name": "chat", "ranks": 2, "pool_bytes_per_rank": 48 * 10**9}]


def test_the_result_is_plain_and_complete() -> None:
    result = placement(TOPOLOGY, ONE, "0.5.23")
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    documented = yaml.safe_load(plugin.RETURN)["_value"]["contains"]
    assert set(result) == set(documented)
    assert set(result["instances"][0]) == set(documented["instances"]["contains"])
    for key in ("seats", "binding"):
        sample = documented["instances"]["contains"][key]["sample"]
        shown = result["instances"][0][key]
        assert set(sample[0] if key == "seats" else sample) == set(shown[0] if key == "seats" else shown)
    assert set(documented["nodes"]["sample"][0]) == set(result["nodes"][0])


def test_a_reserve_is_kept_unless_told_otherwise() -> None:
    # 100 GB less half of 10 GiB do not hold two pools of 48 GB.
    assert [entry["code"] for entry in placement(TOPOLOGY, ONE)["problems"]] == ["pool_exceeds_node"]
    assert placement(TOPOLOGY, ONE, reserve_bytes=0)["problems"] == []


def test_the_documented_default_of_the_reserve_holds() -> None:
    options = yaml.safe_load(plugin.DOCUMENTATION)["options"]
    assert options["reserve_bytes"]["default"] == plugin.DEFAULT_RESERVE_BYTES
    assert FilterModule().filters()["placement"] is placement


@pytest.mark.parametrize(
    ("topology", "instances", "more", "said"),
    [
        ("probe", ONE, {}, "Expected what gpu_topology_info returns"),
        (None, ONE, {}, "Expected what gpu_topology_info returns"),
        (TOPOLOGY, None, {}, "instances is None"),
        (TOPOLOGY, [{"name": "chat", "ranks": 5}], {}, "5 GPUs are needed for chat"),
        (TOPOLOGY, [{"name": "chat", "gpus": [7]}], {}, "gpus names 7, and the machine has GPUs 0, 1, 2 and 3"),
        (TOPOLOGY, ONE, {"sglang_version": "9.9.9"}, "SGLang 9.9.9 is not known"),
        (TOPOLOGY, ONE, {"reserve_bytes": "much"}, "reserve_bytes is 'much'"),
        (TOPOLOGY, ONE, {"reserve_bytes": -1}, "reserve_bytes is -1"),
    ],
)
def test_bad_input_ends_in_the_refusals_sentence(topology: Any, instances: Any, more: Any, said: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        placement(topology, instances, **more)
    assert said in str(error.value)
