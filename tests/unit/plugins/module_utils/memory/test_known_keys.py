# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import (
    refuse_unknown_facts,
    refuse_unknown_options,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding, rehearsal


@pytest.mark.parametrize("arguments", [founding(), rehearsal()])
def test_what_is_known_passes(arguments: dict[str, Any]) -> None:
    refuse_unknown_options(arguments, ARGUMENT_SPEC)
    refuse_unknown_facts(arguments["model"], arguments["topology"])


def test_a_registered_result_is_taken_as_it_is() -> None:
    refuse_unknown_facts({}, {"changed": False, "failed": False, "warnings": [], "driver": {}, "gpu_links": []})


@pytest.mark.parametrize(
    ("model", "topology", "named", "closest"),
    [
        ({"wieghts": {}}, {}, "model.wieghts", "model.weights"),
        ({"attention": {"nlayers": 1}}, {}, "model.attention.nlayers", "model.attention.num_layers"),
        ({"weights": {"total_byte": 1}}, {}, "model.weights.total_byte", "model.weights.total_bytes"),
        ({}, {"gpu": []}, "topology.gpu", "topology.gpus"),
        (
            {},
            {"gpus": [{"index": 0}, {"memory_total": 1}]},
            "topology.gpus[1].memory_total",
            "topology.gpus[1].memory_total_bytes",
        ),
        ({}, {"numa_nodes": [{"ids": 0}]}, "topology.numa_nodes[0].ids", "topology.numa_nodes[0].id"),
        (
            {},
            {"host": {"memory_avail_bytes": 1}},
            "topology.host.memory_avail_bytes",
            "topology.host.memory_available_bytes",
        ),
    ],
)
def test_a_typing_error_in_facts_is_refused_by_name(
    model: dict[str, Any], topology: dict[str, Any], named: str, closest: str
) -> None:
    with pytest.raises(Refusal) as refused:
        refuse_unknown_facts(model, topology)
    assert refused.value.evidence == {"option": named, "closest": closest}


def test_values_of_another_kind_are_left_to_those_who_read_them() -> None:
    refuse_unknown_facts({"attention": None, "weights": 3}, {"gpus": "x", "numa_nodes": [1], "host": None})


CONTAINERS = {"containers": {"type": "list", "elements": "dict", "options": {"name": {}, "devices": {"type": "list"}}}}


def test_options_in_a_list_of_mappings_are_followed() -> None:
    refuse_unknown_options({"containers": [{"name": "one", "devices": ["/dev/nvidia0"]}, {"name": "two"}]}, CONTAINERS)
    with pytest.raises(Refusal) as refused:
        refuse_unknown_options({"containers": [{"name": "one"}, {"device": []}]}, CONTAINERS)
    assert refused.value.evidence == {"option": "containers[1].device", "closest": "containers[1].devices"}


@pytest.mark.parametrize("value", [[], None, ["one"], "one"])
def test_what_else_stands_in_for_a_list_is_left_to_the_argument_specification(value: Any) -> None:
    refuse_unknown_options({"containers": value}, CONTAINERS)


def test_a_list_in_place_of_one_mapping_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        refuse_unknown_options({"space": [1]}, {"space": {"type": "dict", "options": {"boot_free_bytes": {}}}})
    assert (refused.value.code, refused.value.evidence) == ("option_malformed", {"option": "space"})
