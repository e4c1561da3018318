# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.action import driver_plan
from ansible_collections.gpufleet.sglang.plugins.filter.driver_findings import driver_findings
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.facts import Expectations, Plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.options import ARGUMENT_SPEC
from ansible_collections.gpufleet.sglang.plugins.modules import driver_plan as documented
from ansible_collections.gpufleet.sglang.tests.unit.plugins.action.action_runs import ran
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.driver.driver_hosts import (
    A100,
    H100,
    V100,
    bare,
    topology_of,
    with_driver,
    with_fabric_manager,
)

NEW = "580.95.05"


def run(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    return ran(driver_plan, arguments, check_mode=check_mode)


def test_a_plan_is_returned_and_nothing_changes() -> None:
    result = run(stack=bare().as_dict(), version=NEW)
    assert (result["changed"], result["refused"], result["refusals"]) == (False, False, [])
    assert result["plan"]["version"] == NEW
    assert run(check_mode=True, stack=bare().as_dict(), version=NEW)["plan"] == result["plan"]


def test_all_refusals_are_one_failure_and_can_be_returned_instead() -> None:
    stack = with_driver(version="590.48.01", in_use=True).as_dict()
    topology = topology_of(("10de:26b9",) * 4, {0: [(4711, "python3")]})
    failed = run(stack=stack, topology=topology, version=NEW)
    assert failed["failed"] is True
    assert [line.split()[0] for line in failed["msg"].splitlines()] == ["[driver_downgrade]", "[driver_gpu_in_use]"]
    shown = run(stack=stack, topology=topology, version=NEW, refuse=False)
    assert "failed" not in shown
    assert shown["refused"] is True
    assert [one["code"] for one in shown["refusals"]] == ["driver_downgrade", "driver_gpu_in_use"]
    assert set(shown["refusals"][0]) == {"code", "message", "remedy", "evidence"}
    assert shown["plan"]["action"] == "downgrade"


def test_without_a_plan_the_refusals_are_returned_all_the_same() -> None:
    shown = run(stack=bare(gpus=(V100, "10de:2901")).as_dict(), version=NEW, refuse=False)
    assert (shown["plan"], shown["refused"]) == (None, True)


def test_strings_of_an_inventory_are_converted() -> None:
    stack = with_fabric_manager(bare(gpus=(A100,) * 8), None).as_dict()
    result = run(
        stack=stack,
        branch=580,
        fabric_manager="True",
        hold="no",
        space={"root_free_bytes": "50000000000", "boot_free_bytes": "900000000"},
        containers=[{"name": "web"}],
        mig=[{"profiles": "7g.80gb", "gpus": ["0"]}],
    )
    assert result["refusals"] == []
    assert result["plan"]["fabric"]["fabric_manager"] is True
    assert result["plan"]["holds"]["packages"] == []
    assert [one["command"][-1] for one in result["plan"]["mig"]] == ["1", "-C"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verson": NEW}, "The closest is version."),
        ({"space": {"root_free": 1}}, "The closest is space.root_free_bytes."),
        ({"source": "nvidia"}, "source"),
        ({"space": {"root_free_bytes": "much"}}, "root_free_bytes"),
        ({"containers": [{"runtime": "docker"}]}, "name"),
        ({"stack": {"kernels": []}}, "stack has no os."),
        ({"version": "latest"}, "latest"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, Any], said: str) -> None:
    result = run(**{"stack": bare().as_dict(), **change})
    assert result["failed"] is True
    assert said in result["msg"]
    assert "Traceback" not in result["msg"]
    assert result["failure"]["code"]


def test_the_documentation_is_that_of_the_options_and_of_the_plan() -> None:
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert set(options) == set(ARGUMENT_SPEC)
    for name, option in ARGUMENT_SPEC.items():
        for key in ("type", "default", "choices", "elements"):
            assert options[name].get(key) == option.get(key), (name, key)
        assert bool(options[name].get("required")) is bool(option.get("required")), name
        assert set(options[name].get("suboptions") or {}) == set(option.get("options") or {}), name
    returned = yaml.safe_load(documented.RETURN)
    assert set(returned) == {"refused", "refusals", "problems", "plan"}
    assert set(returned["plan"]["contains"]) == set(Plan.__dataclass_fields__)
    assert set(returned["plan"]["contains"]["expectations"]["sample"]) == set(Expectations.__dataclass_fields__)


def test_samples_of_the_documentation_have_the_keys_of_a_plan() -> None:
    plan = run(stack=with_fabric_manager(bare(gpus=(H100,) * 8), None).as_dict(), version=NEW)["plan"]
    returned = yaml.safe_load(documented.RETURN)["plan"]["contains"]
    for name, entry in returned.items():
        sample, value = entry.get("sample"), plan[name]
        if isinstance(sample, dict) and isinstance(value, dict):
            assert set(sample) == set(value), name
        elif isinstance(sample, list) and sample and value and isinstance(sample[0], dict):
            assert set(sample[0]) == set(value[0]), name


def test_the_filter_verifies_what_the_action_planned() -> None:
    plan = run(stack=bare().as_dict(), version=NEW, hold=False, persistence=False)["plan"]
    assert driver_findings(with_driver(version=NEW).as_dict(), plan) == {"ok": True, "release": NEW, "findings": []}
    found = driver_findings(with_driver(version="570.172.08").as_dict(), plan)
    assert found["ok"] is False
    assert {one["code"] for one in found["findings"]} >= {"driver_verify_module", "driver_verify_user_space"}


@pytest.mark.parametrize(("stack", "plan"), [("text", {}), ({}, {}), (None, None)])
def test_the_filter_names_what_it_expected(stack: Any, plan: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="Expected"):
        driver_findings(stack, plan)
