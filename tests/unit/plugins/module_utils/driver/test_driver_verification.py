# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What of a plan does not hold on a host."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.verification import verification
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    LoadedModule,
    Nouveau,
    Persistenced,
    SecureBoot,
    Stack,
    UserSpace,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.driver.driver_hosts import (
    H100,
    KERNELS,
    L40S,
    bare,
    kernel,
    module,
    package,
    planned,
    topology_of,
    with_driver,
    with_fabric_manager,
)

NEW = "580.95.05"
NAMES = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-persistenced")


def plan_for(gpus: tuple[str, ...] = (L40S,) * 4, fabric: bool = False, **asked: Any) -> dict[str, Any]:
    stack = bare("debian12", gpus)
    return planned(with_fabric_manager(stack, None) if fabric else stack, version=NEW, **asked).as_dict()


def after(version: str = NEW, gpus: tuple[str, ...] = (L40S,) * 4, **facts: Any) -> Stack:
    held = [package(name, f"{version}-1", held=True) for name in NAMES]
    return with_driver("debian12", gpus, version=version, **{"packages": held, **facts})


def found(stack: Stack, plan: dict[str, Any], topology: dict[str, Any] | None = None) -> list[str]:
    result = verification(stack.as_dict(), plan, topology)
    errors = [one for one in result["findings"] if one["severity"] == "error"]
    assert result["ok"] is (errors == [])
    return [one["code"] for one in result["findings"]]


def test_a_host_that_is_as_planned_has_no_findings() -> None:
    result = verification(after().as_dict(), plan_for(), topology_of((L40S,) * 4))
    assert result == {"ok": True, "release": NEW, "findings": []}


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        ({"loaded": LoadedModule()}, ["driver_verify_module"]),
        ({"loaded": LoadedModule(True, "570.172.08", "open", 1, False)}, ["driver_verify_module"]),
        ({"loaded": LoadedModule(True, NEW, "proprietary", 1, False)}, ["driver_verify_module"]),
        ({"kernels": (kernel(KERNELS["debian12"]),)}, ["driver_verify_next_module"]),
        (
            {
                "kernels": (
                    kernel("6.1.0-28-amd64", running=False),
                    kernel(KERNELS["debian12"], boots_next=False, nvidia_module=module(NEW)),
                )
            },
            ["driver_verify_next_module"],
        ),
        (
            {"kernels": (kernel(KERNELS["debian12"], nvidia_module=module("570.172.08")),)},
            ["driver_verify_next_module"],
        ),
        (
            {"kernels": (kernel(KERNELS["debian12"], nvidia_module=module(NEW, "proprietary")),)},
            ["driver_verify_next_module"],
        ),
        (
            {
                "kernels": (kernel(KERNELS["debian12"], nvidia_module=module(NEW, signed=False)),),
                "secure_boot": SecureBoot(True, True, lockdown="integrity"),
            },
            ["driver_verify_signature"],
        ),
        ({"user_space": UserSpace("570.172.08")}, ["driver_verify_user_space"]),
        ({"user_space": UserSpace()}, ["driver_verify_user_space"]),
        ({"nouveau": Nouveau(initramfs_stale=True)}, ["driver_verify_nouveau"]),
        ({"persistenced": Persistenced(NEW, False, True)}, ["driver_verify_service"]),
        ({"persistenced": Persistenced(NEW, True, False)}, ["driver_verify_service"]),
        ({"packages": [package(name, f"{NEW}-1") for name in NAMES]}, ["driver_verify_holds"]),
        (
            {"packages": [package(name, f"{NEW}-1", held=True) for name in NAMES[:2]]},
            ["driver_verify_packages"],
        ),
        (
            {
                "packages": [
                    package(NAMES[0], f"{NEW}-1", held=True),
                    package(NAMES[1], f"{NEW}-1", "half-configured", held=True),
                    package(NAMES[2], f"{NEW}-1", held=True),
                ]
            },
            ["driver_verify_packages"],
        ),
        (
            {
                "packages": [
                    package(NAMES[0], f"{NEW}-1", held=True),
                    package(NAMES[1], "570.172.08-1", held=True),
                    package(NAMES[2], f"{NEW}-1", held=True),
                ]
            },
            ["driver_verify_packages"],
        ),
    ],
)
def test_each_part_has_to_agree(facts: dict[str, Any], codes: list[str]) -> None:
    assert found(after(**facts), plan_for()) == codes


def test_nouveau_that_came_back() -> None:
    stack = after(loaded=LoadedModule(), gpus_by_driver={"nouveau": 4}, nouveau=Nouveau(loaded=True))
    assert found(stack, plan_for()) == ["driver_verify_module", "driver_verify_nouveau"]


def test_a_bare_host_is_nothing_of_what_was_planned() -> None:
    codes = found(bare(), plan_for())
    assert codes[:4] == [
        "driver_verify_packages",
        "driver_verify_module",
        "driver_verify_next_module",
        "driver_verify_user_space",
    ] or codes[:3] == ["driver_verify_module", "driver_verify_next_module", "driver_verify_user_space"]
    assert codes.count("driver_verify_packages") >= len(NAMES)


def test_without_a_release_in_the_plan_all_have_to_agree_on_one_of_the_branch() -> None:
    plan = planned(bare("debian12"), branch=580).as_dict()
    assert plan["version"] is None
    assert found(after(), plan) == []
    assert "driver_verify_packages" in found(after("570.172.08"), plan)
    assert found(after(user_space=UserSpace("580.65.06")), plan) == ["driver_verify_user_space"]


# Fabric ---------------------------------------------------------------------------------------------------------------

FABRIC = ("nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm")


def fabric_host(version: str | None = NEW, running: bool = True, enabled: bool = True) -> Stack:
    held = [package(name, f"{NEW}-1", held=True) for name in (*NAMES, *FABRIC)]
    return with_fabric_manager(after(gpus=(H100,) * 8, packages=held), version, running, enabled)


@pytest.mark.parametrize(
    ("version", "running", "enabled", "said"),
    [
        (NEW, True, True, []),
        ("580.65.06", True, True, ["The fabric manager is of release 580.65.06, expected is 580.95.05."]),
        (None, False, False, ["No fabric manager is installed."]),
        (NEW, False, True, ["nvidia-fabricmanager does not run."]),
        (NEW, True, False, ["nvidia-fabricmanager is not enabled, so that it does not start at boot."]),
    ],
)
def test_the_fabric_manager_has_to_be_of_the_very_release(
    version: str | None, running: bool, enabled: bool, said: list[str]
) -> None:
    plan = plan_for((H100,) * 8, fabric=True)
    result = verification(fabric_host(version, running, enabled).as_dict(), plan)
    told = [one["message"] for one in result["findings"] if one["code"] == "driver_verify_fabric"]
    assert told == said
    assert result["ok"] is (not said)


@pytest.mark.parametrize(
    ("fabric", "code"),
    [
        ({"state": "completed", "status": 0}, None),
        ({"state": "in_progress", "status": None}, "driver_verify_fabric_state"),
        ({"state": "not_started", "status": None}, "driver_verify_fabric_state"),
        ({"state": "completed", "status": 15}, "driver_verify_fabric_state"),
        (None, None),
    ],
)
def test_each_gpu_has_to_have_joined_the_fabric(fabric: dict[str, Any] | None, code: str | None) -> None:
    topology = topology_of((H100,) * 8)
    topology["gpus"][6]["fabric"] = fabric
    assert found(fabric_host(), plan_for((H100,) * 8, fabric=True), topology) == ([code] if code else [])


def test_every_gpu_on_the_bus_has_to_be_listed_and_working() -> None:
    plan = plan_for()
    assert found(after(), plan, topology_of((L40S,) * 3)) == ["driver_verify_gpus"]
    lost = topology_of((L40S,) * 4)
    lost["gpus"][1]["state"] = "lost"
    assert found(after(), plan, lost) == ["driver_verify_gpus"]
    without = {"driver": {"source": "pci"}, "gpus": []}
    assert found(after(), plan, without) == []


def test_a_container_is_judged_by_its_packages() -> None:
    held = [package(name, f"{NEW}-1", held=True) for name in NAMES]
    stack = bare("debian12", packages=tuple(held), kernels=())
    stack = replace(stack, os=replace(stack.os, container="podman"))
    assert found(stack, plan_for()) == []
    short = replace(stack, packages=tuple(held[:2]))
    assert found(short, plan_for()) == ["driver_verify_packages"]


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        verification(after().as_dict(), {"version": NEW})
    assert caught.value.code == "driver_stack_malformed"
