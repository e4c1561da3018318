# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Plans for the machines of the rehearsal, read as host_stack_info reads a host."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.plan import Outcome, plan_driver
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reading import read_stack
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

MACHINES = Path(machine_tree.__file__).parent / "machines"
OWN = {"source": "distribution"}
MISMATCH = {"version": "570.133.20", "branch": 570}
NEW = {"version": "580.95.05", "branch": 580}


Planned = Callable[[str, Request], Outcome]


@pytest.fixture(name="planned", scope="module")
def _planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Plans for a machine, which is built once."""

    @cache
    def host(machine: str) -> Host:
        folder = tmp_path_factory.mktemp(machine)
        machine_tree.build_tree(machine_tree.load_profile(MACHINES / f"{machine}.yml"), folder)
        return read_host(read_stack(folder).as_dict(), {})

    return lambda machine, asked: plan_driver(host(machine), asked)


@pytest.mark.parametrize(
    ("machine", "asked", "action", "method", "codes"),
    [
        ("founding", NEW, "downgrade", "reload", ["driver_downgrade", "driver_packages_conflict"]),
        ("founding", {**NEW, "allow_downgrade": True, "remove_conflicting": True}, "downgrade", "reload", []),
        ("founding", {"source": "none"}, "none", "none", []),
        ("dgx-a100-nps4", {**OWN, "branch": 580}, "upgrade", "reload", []),
        ("driver-mismatch", {**MISMATCH, "headers_available": ()}, "complete", "reload", ["driver_headers_not_there"]),
        (
            "driver-mismatch",
            {**MISMATCH, "headers_available": ("linux-headers-6.1.0-28-amd64",)},
            "complete",
            "reload",
            [],
        ),
        ("no-driver-nouveau", NEW, "install", "reboot", ["driver_nouveau_without_reboot"]),
        ("no-driver-nouveau", {**NEW, "allow_reboot": True}, "install", "reboot", []),
    ],
)
def test_plans_for_machines(
    planned: Planned, machine: str, asked: dict[str, Any], action: str | None, method: str | None, codes: list[str]
) -> None:
    found = planned(machine, Request(**asked))
    assert [refusal.code for refusal in found.refusals] == codes
    assert (found.plan.action if found.plan else None) == action
    assert (found.plan.activation.method if found.plan else None) == method


def test_a_fabric_is_planned_from_the_bus_before_there_is_a_driver(planned: Planned) -> None:
    plan = planned("no-driver-nouveau", Request(version="580.95.05", branch=580, allow_reboot=True)).plan
    assert plan is not None
    assert plan.fabric.kind == "nvswitch"
    driver = next(one for one in plan.transactions if one.name == "driver")
    assert "nvidia-fabricmanager=580.95.05-*" in driver.packages
    assert plan.initramfs.needed
