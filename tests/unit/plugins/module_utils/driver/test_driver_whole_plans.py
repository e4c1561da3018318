# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Whole plans: actions, changes, steps, and what holds of every plan over distributions, sources, branches, fabrics."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.plan import plan_driver
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.verification import verification
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package, Stack, UserSpace
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.driver.driver_hosts import (
    A100,
    B200,
    B300,
    GB200,
    H100,
    KERNELS,
    L40S,
    RTX_PRO_6000,
    V100,
    bare,
    codes,
    kernel,
    module,
    names_of,
    outcome,
    package,
    planned,
    with_driver,
    with_fabric_manager,
)

NEW = "580.95.05"
RELEASES = {550: "550.163.01", 570: "570.211.01", 580: NEW, 590: "590.48.01", 595: "595.58.03", 620: "620.70.06"}
FABRICS: dict[str, tuple[tuple[str, ...], bool]] = {
    "pcie": ((L40S,) * 8, False),
    "bridged": (("10de:2331",) * 2, False),
    "a100": ((A100,) * 8, True),
    "h100": ((H100,) * 8, True),
    "b200": ((B200,) * 8, False),
    "b300": ((B300,) * 8, False),
    "gb200": ((GB200,) * 4, False),
    "rtx": ((RTX_PRO_6000,) * 8, False),
    "v100": ((V100,) * 4, False),
}


def every_case() -> Iterator[tuple[str, str, int, str]]:
    yield from product(sorted(KERNELS), ("vendor", "mirror", "folder", "distribution"), RELEASES, FABRICS)


def stack_of(distribution: str, fabric: str) -> Stack:
    gpus, switches = FABRICS[fabric]
    stack = bare(distribution, gpus)
    return with_fabric_manager(stack, None, False, False) if switches else stack


def test_what_holds_of_every_plan() -> None:
    """Over all distributions, sources, branches and fabrics: 864 cases."""
    seen = refused = 0
    for distribution, source, branch, fabric in every_case():
        url = {"mirror": "http://mirror.example.com/cuda/", "folder": "/srv/cuda"}.get(source)
        asked: dict[str, Any] = {"version": RELEASES[branch], "source": source, "repository_url": url}
        if source == "distribution":
            asked = {"branch": branch, "source": source}
        found = outcome(stack_of(distribution, fabric), None, **asked)
        case = f"{distribution} {source} {branch} {fabric}"
        seen += 1
        refused += bool(found.refusals)
        assert found.plan is not None, case
        plan = found.plan
        for refusal in found.refusals:
            assert refusal.message.endswith("."), (case, refusal.message)
            assert refusal.remedy.endswith("."), (case, refusal.remedy)
        if "driver_distribution_has_none" in codes(found):
            assert plan.transactions == ()
            continue
        names = names_of(plan)
        assert len(names) == len(set(names)), case
        # The flavour of the modules is one, and the GPUs' own.
        opened = [name for name in names if "open" in name]
        assert bool(opened) is (plan.flavour.name == "open"), (case, names)
        # All that has the driver's version has it in one transaction.
        driver = next(one for one in plan.transactions if one.name == "driver")
        if source != "distribution":
            assert any(RELEASES[branch] in spec for spec in driver.packages), case
            assert plan.repository is not None, case
        # A fabric manager only where switches are, and nvlsm only where they hide.
        manager = [name for name in names if "fabric" in name]
        assert bool(manager) is (fabric in ("a100", "h100", "b200", "b300")), (case, names)
        assert ("nvlsm" in names) is (fabric in ("b200", "b300")), case
        assert any("imex" in name for name in names) is (fabric == "gb200"), case
        # Nothing that does not fit the package manager.
        if plan.package_manager == "dnf":
            assert not any("=" in spec for spec in driver.packages), case
            assert plan.preferences is None
        else:
            assert plan.module_stream is None
            assert plan.holds.locks == ()
        assert plan.expectations.packages == driver.names, case
        assert all(step.endswith(".") for step in plan.steps), (case, plan.steps)
        if seen % 20 == 0:
            assert found.as_dict() == outcome(stack_of(distribution, fabric), None, **asked).as_dict(), case
    assert seen == 1296
    print(f"{seen} plans, {refused} of them refused")


@pytest.mark.parametrize(
    ("fabric", "branch", "expected"),
    [
        ("b300", 570, ["driver_too_old_for_gpu"]),
        ("b300", 580, []),
        ("rtx", 570, ["driver_too_old_for_gpu"]),
        ("rtx", 580, []),
        ("b200", 550, ["driver_too_old_for_gpu"]),
        ("b200", 570, []),
        ("v100", 580, []),
        ("v100", 590, ["driver_gpu_ended"]),
        ("h100", 550, []),
        ("pcie", 620, []),
    ],
)
@pytest.mark.parametrize("distribution", sorted(KERNELS))
def test_boards_and_branches(distribution: str, fabric: str, branch: int, expected: list[str]) -> None:
    assert codes(outcome(stack_of(distribution, fabric), version=RELEASES[branch])) == expected


# Actions, changes, and what a second run says -------------------------------------------------------------------------


def installed(stack: Stack, version: str = NEW) -> Stack:
    """The host as it is when the plan has been carried out."""
    plan = planned(stack, version=version)
    there: list[Package] = [
        package(name, f"{version}-1", held=name in plan.holds.packages)
        for one in plan.transactions
        for name in one.names
        if name not in ("nvlsm", "infiniband-diags", "libibumad3")
    ]
    others = [package(name, "2025.10.1", held=True) for name in names_of(plan) if name in ("nvlsm", "infiniband-diags")]
    if "libibumad3" in names_of(plan):
        others.append(package("libibumad3", "44.0-2", held=True))
    modules = module(version, plan.flavour.name)
    kernels = tuple(replace(one, nvidia_module=modules) for one in stack.kernels)
    done = with_driver(
        "debian12",
        stack.driver.gpus,
        version=version,
        packages=[*there, *others],
        kernels=kernels,
        user_space=UserSpace(version),
    )
    if plan.fabric.fabric_manager:
        done = with_fabric_manager(done, version)
    return done


@pytest.mark.parametrize("fabric", ["pcie", "h100", "b200"])
def test_a_second_run_has_nothing_to_do_and_the_plan_holds(fabric: str) -> None:
    before = stack_of("debian12", fabric)
    first = planned(before, version=NEW)
    assert first.action == "install"
    assert [one.what for one in first.changes][0] == "driver"
    after = installed(before)
    second = planned(after, version=NEW)
    assert (second.action, second.changes, second.activation.method) == ("none", (), "none")
    assert second.holds.release == ()
    assert verification(after.as_dict(), first.as_dict()) == {"ok": True, "release": NEW, "findings": []}
    assert second.steps[-1] == f"Nothing else: release {NEW} is installed and in force."


def test_a_bare_host_gets_everything_in_order() -> None:
    plan = planned(stack_of("debian12", "h100"), version=NEW)
    said = "\n".join(plan.steps)
    assert said.index("Configure https://") < said.index("nvidia-driver-pinning") < said.index("nvidia-driver-cuda")
    assert said.index("DKMS build") < said.index("Load nvidia") < said.index("Enable and start nvidia-fabricmanager")
    assert plan.activation.method == "load"
    assert not plan.reboot.needed


def test_a_new_kernel_without_a_module_is_completed() -> None:
    stack = installed(stack_of("debian12", "pcie"))
    new = kernel("6.1.0-28-amd64", running=False)
    stack = replace(stack, kernels=(new, replace(stack.kernels[0], boots_next=False)))
    plan = planned(stack, version=NEW)
    assert plan.action == "complete"
    assert ("dkms", "autoinstall", "-k", "6.1.0-28-amd64") in plan.dkms.commands
    assert plan.activation.method == "none"


def test_a_part_that_is_missing_is_completed_and_said() -> None:
    stack = installed(stack_of("debian12", "pcie"))
    assert stack.packages is not None
    short = replace(stack, packages=tuple(one for one in stack.packages if one.name != "nvidia-persistenced"))
    plan = planned(short, version=NEW)
    assert plan.action == "complete"
    assert [(one.what, one.before, one.after) for one in plan.changes] == [
        ("package nvidia-persistenced", None, NEW),
        ("hold of nvidia-persistenced", None, "held"),
    ]
    toolkit = planned(stack, version=NEW, container_toolkit=True)
    assert toolkit.action == "complete"
    assert "package nvidia-container-toolkit" in [one.what for one in toolkit.changes]


def test_an_upgrade_says_from_what_to_what() -> None:
    plan = planned(installed(stack_of("debian12", "pcie"), "580.65.06"), version=NEW)
    assert plan.action == "upgrade"
    told = {one.what: (one.before, one.after) for one in plan.changes}
    assert told["driver"] == ("580.65.06", NEW)
    assert told["loaded module"] == ("580.65.06", NEW)
    assert told["package nvidia-driver-cuda"] == ("580.65.06-1", NEW)
    assert plan.holds.release == plan.holds.packages
    assert [one.name for one in plan.absent] == ["nvidia-driver-pinning-580.65.06"]


def test_a_plan_as_a_dict_is_plain_and_keeps_the_lines_of_files() -> None:
    result = outcome(stack_of("debian12", "b200"), version=NEW).as_dict()
    plan = result["plan"]
    assert result["refused"] is False
    assert plan["files"][0]["content"].count("\n") == 3
    assert plan["preferences"]["content"].count("\n") == 4
    assert plan["repository"]["content"].startswith("Types: deb\nURIs: ")
    assert isinstance(plan["transactions"], list)
    assert plan["expectations"]["gpus"] == 8


@pytest.mark.parametrize("stack", [{}, {"os": None, "kernels": None}, {"os": 5, "kernels": [], "driver": {}}])
def test_what_is_no_stack_is_refused(stack: dict[str, object]) -> None:
    with pytest.raises(Refusal) as caught:
        read_host(stack, {})
    assert caught.value.code == "driver_stack_malformed"


def test_a_stack_of_nulls_is_planned_or_refused_and_never_breaks() -> None:
    stack = bare("debian12").as_dict()
    for key in stack:
        hollow = {**stack, key: None}
        if key in ("os", "driver"):
            hollow[key] = dict.fromkeys(stack[key])
        found = plan_driver(read_host(hollow, {}), Request(version=NEW, branch=580))
        assert found.plan is not None or found.refusals, key
