# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.surveys.survey import NotASurvey, survey_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.surveys.traits import (
    age_of,
    group_names,
    slug,
    traits_of,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.surveys.kept import kept, problem

ALL = ("gpu_model", "gpu_count", "gpu_memory", "architecture", "numa", "driver", "health", "facts")


def traits(**said: Any) -> dict[str, Any]:
    return traits_of(survey_of(kept(**said)))


def test_a_whole_survey() -> None:
    survey = survey_of(kept())
    assert (survey.host, survey.taken_at) == ("gpu-1", 1_796_000_000)
    found = traits_of(survey)
    assert json.loads(json.dumps(found)) == found
    assert found["gpu_memory_bytes"] == 150_754_820_096
    assert group_names(found, "fresh", ALL) == [
        "gpu_model_h200",
        "gpu_count_8",
        "gpu_memory_140gib",
        "architecture_hopper",
        "numa_2x4",
        "driver_580",
        "health_ok",
        "facts_fresh",
    ]
    assert group_names(found, "stale", ("facts",), "fleet_") == ["fleet_facts_stale"]


def test_facts_and_the_bare_result_of_the_module_are_surveys_as_well() -> None:
    whole = kept()
    facts = {"probe_topology": whole["topology"], "probe_stack": whole["stack"], "probe_taken_at": 5, "ansible_os": "x"}
    assert survey_of(facts).taken_at == 5
    bare = survey_of(whole["topology"])
    assert (bare.taken_at, bare.stack) == (None, {})
    assert age_of(traits_of(bare), 0, 1) == "unknown"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([], "It holds a list"),
        (None, "It holds a NoneType"),
        ({}, "It holds nothing and no survey"),
        ({"name": "x", "plugin": "y"}, "It holds name, plugin and no survey"),
        ({**kept(), "schema": 2}, "form 2; expected form 1"),
        ({**kept(), "topology": None}, "Its topology lacks"),
        ({**kept(), "topology": {"gpus": [1], "numa_nodes": [], "problems": [], "host": {}}}, "Its topology lacks"),
        ({**kept(), "stack": []}, "Its stack is not"),
        ({**kept(), "taken_at": "yesterday"}, "Its time is 'yesterday'"),
        ({**kept(), "taken_at": True}, "Its time is True"),
        ({"__payload__": "{}"}, "Ansible's cache of facts"),
    ],
)
def test_what_is_no_survey_is_said_with_what_was_expected(said: Any, words: str) -> None:
    with pytest.raises(NotASurvey, match="expected") as told:
        survey_of(said)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("severities", "health"),
    [((), "ok"), (("info",), "ok"), (("info", "warning"), "warning"), (("error", "warning"), "error")],
)
def test_health_is_the_gravest_problem(severities: tuple[str, ...], health: str) -> None:
    found = traits(problems=tuple(problem(f"a_{severity}", severity) for severity in severities))
    assert found["health"] == health
    assert found["problems"] == sorted(f"a_{severity}" for severity in severities if severity != "info")


def test_problems_of_the_stack_count_as_well() -> None:
    whole = kept()
    whole["stack"]["problems"] = [problem("driver_mixed", "error")]
    assert traits_of(survey_of(whole))["problems"] == ["driver_mixed"]


def test_age() -> None:
    found = traits(taken_at=1000)
    assert [age_of(found, now, 100) for now in (900, 1000, 1100, 1101)] == ["fresh", "fresh", "fresh", "stale"]


def test_gpus_that_differ_and_hosts_with_none() -> None:
    whole = kept()
    whole["topology"]["gpus"][0].update(name="NVIDIA B200", memory_total_bytes=1 << 37, architecture="blackwell")
    whole["topology"]["gpus"][1].update(name=None, memory_total_bytes=None)
    found = traits_of(survey_of(whole))
    assert (found["gpu_model"], found["gpu_memory"], found["architecture"]) == ("mixed", "mixed", "mixed")
    whole["topology"]["gpus"] = []
    names = group_names(traits_of(survey_of(whole)), "fresh", ALL[:5])
    assert names == ["gpu_model_none", "gpu_count_0", "gpu_memory_none", "architecture_none", "numa_2x0"]
    assert traits(driver=None)["driver"] == "none"


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ([0] * 5 + [1] * 3, "5+3"),
        ([0] * 8, "8+0"),
        ([None] * 8, "2_and_gpus_elsewhere"),
        ([0] * 4 + [7] * 4, "2_and_gpus_elsewhere"),
    ],
)
def test_shapes(nodes: list[int | None], shape: str) -> None:
    whole = kept()
    for gpu, node in zip(whole["topology"]["gpus"], nodes):
        gpu["numa_node"] = node
    assert traits_of(survey_of(whole))["numa"] == shape


def test_memory_of_gpus_is_no_numa_node() -> None:
    whole = kept()
    whole["topology"]["numa_nodes"].append({"id": 9, "has_cpus": False, "kind": "gpu", "gpus": []})
    assert traits_of(survey_of(whole))["numa"] == "2x4"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Tesla V100-SXM2-32GB", "tesla_v100_sxm2_32gb"),
        ("RTX PRO 6000 Server", "rtx_pro_6000_server"),
        ("5+3", "5_3"),
        ("Ü", "unknown"),
        ("", "unknown"),
    ],
)
def test_names_of_groups_are_valid(text: str, name: str) -> None:
    assert slug(text) == name
