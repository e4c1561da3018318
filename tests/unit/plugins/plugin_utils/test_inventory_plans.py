# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of hosts of an inventory.

The arguments are put together by hand: Ansible's loader of collections, which the role's own templates need, does not
go with pytest in one process. tests/integration/test_validate_playbook.py has the role's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.beside import without_claims
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_of import plan_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper
from ansible_collections.gpufleet.sglang.plugins.plugin_utils import inventory_plans
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.inventory_plans import Plans
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.inventory_reading import COLLECTION, roles_of
from ansible_collections.gpufleet.sglang.tests.integration.paper_fleet import KINDS, SHARED

H200, SMALL, ODD = KINDS[0].variables, KINDS[3].variables, KINDS[4].variables


class ByHand(Plans):
    def arguments_of(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """As roles/sglang/tasks/plan_memory.yml has it, of the few variables that these tests set."""
        name = variables["sglang_instance"]
        return {
            "sglang_version": variables["sglang_version"],
            "model": variables["sglang_paper_model"],
            "topology": without_claims(
                variables["__sglang_probe"],
                [claim for other, claim in variables["__sglang_claims"].items() if other != name],
            ),
            "server": {
                "port": variables["__sglang_ports"][name],
                "gpus": variables["__sglang_seats"].get(name, []),
                "tensor_parallel_size": variables["sglang_tensor_parallel_size"],
                "mem_fraction_static": variables["sglang_mem_fraction_static"],
            },
            "hicache": {"ratio": variables["sglang_hicache_ratio"]},
            "margin_bytes": variables["sglang_margin_bytes"],
        }


@pytest.fixture(name="plans")
def _plans() -> Plans:
    loader = DataLoader()
    return ByHand(loader, COLLECTION, next(role for role in roles_of(loader) if role.name == "sglang"))


def paper(name: str = "gpu-1", **said: Any) -> Host:
    variables = {**SHARED, "sglang_hicache_ratio": 1.1, **said}
    return Host(name, frozenset({"all", "sglang_paper"}), variables)


def told(plans: Plans, host: Host) -> list[Finding]:
    return list(plans.findings(host))


def test_what_fits_is_no_finding(plans: Plans) -> None:
    assert told(plans, paper(**H200)) == []


@pytest.mark.parametrize(("variables", "words"), [(SMALL, "guard_refuses: "), (ODD, "board_unknown: ")])
def test_what_does_not_fit_has_the_words_of_the_plan(plans: Plans, variables: dict[str, Any], words: str) -> None:
    [one] = told(plans, paper(**variables))
    assert (one.code, one.severity, one.hosts) == ("plan_impossible", "error", ("gpu-1",))
    assert one.found.startswith(words)
    assert one.remedy


def test_a_value_that_the_planner_does_not_take(plans: Plans) -> None:
    [one] = told(plans, paper(**{**H200, "sglang_margin_bytes": "a lot"}))
    assert one.code == "plan_impossible"


def test_a_warning_of_a_plan(plans: Plans) -> None:
    [one] = told(plans, paper(**KINDS[2].variables))
    assert (one.code, one.severity) == ("plan_doubtful", "warning")
    assert "fraction_above_default, in instance main" in one.found


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (paper(), "no machine on paper and no survey"),
        (paper(**{**H200, "sglang_paper_model": {}}), "no model on paper"),
        (paper(**{**H200, "sglang_version": None}), "no sglang_version"),
        (paper(**H200, sglang_replica="kimi"), "a node of a replica"),
    ],
)
def test_what_cannot_be_planned_is_told(plans: Plans, host: Host, words: str) -> None:
    [one] = told(plans, host)
    assert (one.code, one.severity, one.found) == ("plan_not_made", "info", words)


def test_hosts_without_servers_are_none_of_its_business(plans: Plans) -> None:
    assert told(plans, Host("router-1", frozenset({"all", "router"}), dict(ODD))) == []


def test_instances_are_planned_beside_each_other(plans: Plans) -> None:
    """Each alone has room for its host pool; the second has none beside the first."""
    machine = {"board": "NVIDIA H200", "count": 8, "numa_nodes": 2, "memory_gb": 2048}
    shared: dict[str, Any] = {
        "sglang_paper_machine": machine,
        "sglang_tensor_parallel_size": 4,
        "sglang_hicache_ratio": 2.2,
    }
    entries = [{"instance": "a", "port": None}, {"instance": "b", "port": None}]
    assert told(plans, paper(**shared)) == []
    [one] = told(plans, paper(**shared, sglang_instances=entries))
    assert one.code == "plan_impossible"
    assert one.found.endswith("in instance b")
    [one] = told(plans, paper(**{**shared, "sglang_tensor_parallel_size": 8}, sglang_instances=entries))
    assert one.code == "plan_impossible"


def test_a_survey_takes_the_place_of_a_machine_on_paper(plans: Plans) -> None:
    topology = machine_on_paper(SMALL["sglang_paper_machine"])
    node = Host(
        "gpu-1", frozenset({"sglang"}), {**paper(**SMALL).variables, "sglang_paper_machine": {}}, topology=topology
    )
    [one] = told(plans, node)
    assert one.found.startswith("guard_refuses: ")
    topology["gpus"][0]["memory_used_bytes"] = 80 * 10**9
    [one] = told(plans, Host(node.name, node.groups, node.variables, topology=topology))
    assert (one.code, "while servers held memory" in one.found) == ("plan_not_made", True)


def test_hosts_alike_are_planned_once(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Any] = []

    def counted(arguments: Mapping[str, Any]) -> dict[str, Any]:
        planned.append(arguments)
        return plan_of(arguments)

    monkeypatch.setattr(inventory_plans, "plan_of", counted)
    hosts = [paper(f"gpu-{number}", **{**H200, "sglang_host": f"10.0.0.{number}"}) for number in range(1, 101)]
    assert [one for host in hosts for one in told(plans, host)] == []
    assert len(planned) == 1
