# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Which branch, release and flavour, and which GPUs they serve."""

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.boards import FIRST, first_releases, too_old
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import (
    BRANCHES,
    DEFAULT_BRANCH,
    branch_number,
    branch_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.driver.driver_hosts import (
    A100,
    B200,
    B300,
    GB300,
    GH200,
    H100,
    H200,
    L40S,
    P100,
    RTX_PRO_6000,
    T4,
    V100,
    bare,
    codes,
    outcome,
    planned,
    problem_codes,
    with_driver,
)


@pytest.mark.parametrize(("text", "branch"), [("580.95.05", 580), ("535.54", 535), ("590.48.01", 590)])
def test_releases_have_a_branch(text: str, branch: int) -> None:
    assert branch_of(text) == branch


@pytest.mark.parametrize("text", ["580", "580.95.05-1", "latest", "", "3:580.95.05", "5800.1.1"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        branch_of(text)
    assert caught.value.code == "driver_version_malformed"


@pytest.mark.parametrize(("text", "branch"), [("580", 580), ("R595", 595), (" r570 ", 570)])
def test_branches_are_read(text: str, branch: int) -> None:
    assert branch_number(text) == branch


def test_what_is_no_branch_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        branch_number("580-open")
    assert caught.value.code == "driver_branch_malformed"


def test_the_table_of_boards_is_of_known_branches_and_its_releases_of_their_branches() -> None:
    for pci_id, first in FIRST.items():
        assert set(first.by_branch) <= set(BRANCHES), pci_id
        assert all(branch_of(release) == branch for branch, release in first.by_branch.items()), pci_id
        ordered = [first.by_branch[branch] for branch in sorted(first.by_branch)]
        assert ordered == sorted(ordered, key=version_key)


@pytest.mark.parametrize(
    ("gpu", "branch", "release", "first"),
    [
        (B200, 570, "570.133.20", None),
        (B200, 570, "570.124.06", "570.133.20"),
        (B200, 570, None, None),
        (B200, 565, None, "570.133.20"),
        (B200, 550, "550.163.01", "570.133.20"),
        (B200, 575, "575.57.08", None),
        (B300, 575, "575.64.05", "580.82.07"),
        (B300, 580, "580.65.06", "580.82.07"),
        (B300, 580, "580.95.05", None),
        (B300, 590, "590.44.01", None),
        (GB300, 580, "580.65.06", "580.82.07"),
        (RTX_PRO_6000, 570, "570.211.01", "575.57.08"),
        (RTX_PRO_6000, 575, "575.51.03", "575.57.08"),
        (RTX_PRO_6000, 580, "580.65.06", None),
        ("10de:29ff", 565, "565.77", "570.86.15"),
        ("10de:31ff", 575, "575.64.05", "580.82.07"),
        (H200, 550, "550.54.15", "550.90.07"),
        (H200, 535, "535.288.01", "550.90.07"),
        (H100, 535, "535.54.03", None),
        (GH200, 535, "535.288.01", None),
        (L40S, 535, "535.288.01", None),
        (V100, 535, "535.288.01", None),
    ],
)
def test_the_first_release_that_serves_a_board(gpu: str, branch: int, release: str | None, first: str | None) -> None:
    assert too_old(gpu, branch, release) == first


def test_boards_of_before_blackwell_that_are_not_listed_are_served_by_all() -> None:
    assert first_releases(A100) is None
    assert first_releases("10de:29ff") is not None


# Flavour --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "asked", "name"),
    [
        ((L40S,), "auto", "open"),
        ((L40S,), "proprietary", "proprietary"),
        ((T4,), "auto", "open"),
        ((H100,) * 8, "auto", "open"),
        ((B200,) * 8, "auto", "open"),
        ((B200,) * 8, "open", "open"),
        ((GH200,), "auto", "open"),
        ((V100,) * 4, "auto", "proprietary"),
        ((V100,) * 4, "proprietary", "proprietary"),
        ((V100, A100), "auto", "proprietary"),
        ((A100, RTX_PRO_6000), "auto", "open"),
    ],
)
def test_flavours(gpus: tuple[str, ...], asked: str, name: str) -> None:
    assert planned(bare("debian12", gpus), version="580.95.05", flavour=asked).flavour.name == name


@pytest.mark.parametrize(
    ("gpus", "asked", "said"),
    [
        ((V100,), "open", "10de:1db1 (Tesla V100-SXM2-16GB) has no GPU System Processor"),
        ((P100, L40S), "open", "10de:15f8 has no GPU System Processor"),
        ((B200,), "proprietary", "10de:2901 (B200) works with the open modules only"),
        ((GH200,), "proprietary", "10de:2342 (NVIDIA GH200) works with the open modules only"),
    ],
)
def test_a_flavour_that_a_gpu_cannot_run_is_refused_by_name(gpus: tuple[str, ...], asked: str, said: str) -> None:
    found = outcome(bare("debian12", gpus), version="580.95.05", flavour=asked)
    assert codes(found) == ["driver_flavour_unsuitable"]
    assert said in found.refusals[0].message


def test_gpus_without_a_common_flavour_are_refused_with_both_named() -> None:
    found = outcome(bare("debian12", (V100, B200)), version="580.95.05")
    assert codes(found) == ["driver_flavours_exclude"]
    assert found.plan is None
    assert found.refusals[0].evidence == {"open": [B200], "proprietary": [V100]}
    assert "10de:2901 (B200)" in found.refusals[0].message
    assert "Tesla V100" in found.refusals[0].message


def test_a_host_without_gpus_needs_a_flavour_to_be_stated() -> None:
    assert codes(outcome(bare("debian12", ()))) == ["driver_no_gpu"]
    found = outcome(bare("debian12", ()), flavour="open", version="580.95.05")
    assert codes(found) == []
    assert "driver_without_gpu" in problem_codes(found)
    assert found.plan is not None
    assert found.plan.activation.method == "none"


@pytest.mark.parametrize("version", ["590.48.01", "595.58.03", "620.70.06"])
def test_volta_ends_with_580(version: str) -> None:
    found = outcome(bare("debian12", (V100,)), version=version)
    assert codes(found) == ["driver_gpu_ended"]
    assert found.refusals[0].remedy == "Set branch to '580'."


@pytest.mark.parametrize(("version", "refused"), [("615.71.09", []), ("620.70.06", ["driver_flavour_gone"])])
def test_the_proprietary_modules_end_with_615(version: str, refused: list[str]) -> None:
    assert codes(outcome(bare("debian12"), version=version, flavour="proprietary")) == refused


# Branch and release ---------------------------------------------------------------------------------------------------


def test_the_default_is_the_long_term_branch_that_serves_all() -> None:
    for gpus in ((L40S,), (B300,) * 8, (V100,), (H100,) * 8):
        plan = planned(bare("debian12", gpus))
        assert (plan.branch, plan.version) == (str(DEFAULT_BRANCH), None)
        assert "June 2028" in plan.version_reason
    assert "driver_release_open" in problem_codes(outcome(bare("debian12")))


def test_nvidias_repository_for_debian_13_begins_later() -> None:
    plan = planned(bare("debian13"))
    assert (plan.branch, plan.version_reason.split(".")[0]) == (
        "595",
        "NVIDIA's repository for Debian 13 begins with branch 590",
    )
    assert planned(bare("debian13", (V100,))).branch == "580"
    before = outcome(bare("debian13"), version="580.95.05")
    assert "driver_branch_before_repository" in problem_codes(before)
    mirror = outcome(bare("debian13"), version="580.95.05", source="folder", repository_url="/srv/cuda")
    assert "driver_branch_before_repository" not in problem_codes(mirror)


def test_what_is_installed_stays_unless_something_else_is_asked_for() -> None:
    stack = with_driver("debian12", version="570.172.08")
    kept = planned(stack)
    assert (kept.action, kept.version) == ("none", "570.172.08")
    same_branch = planned(stack, branch=570)
    assert (same_branch.action, same_branch.version) == ("none", "570.172.08")
    assert planned(stack, branch=580).action == "upgrade"


def test_the_newest_of_the_branch_that_the_repository_offers() -> None:
    offered = ("570.172.08-1", "580.65.06-1", "580.105.08-1", "580.95.05-1", "3:595.58.03-1.el9")
    plan = planned(bare("debian12"), branch=580, available=offered)
    assert plan.version == "580.105.08"
    assert planned(bare("debian12"), branch=595, available=offered).version == "595.58.03"


@pytest.mark.parametrize("asked", [{"version": "580.119.02"}, {"branch": 590}])
def test_what_the_repository_does_not_offer_is_refused_with_what_it_does(asked: dict[str, Any]) -> None:
    found = outcome(bare("debian12"), available=("580.95.05-1", "570.172.08-1"), **asked)
    assert codes(found) == ["driver_version_not_offered"]
    assert "570.172.08, 580.95.05" in found.refusals[0].message


def test_a_list_of_debians_own_releases_tells_nothing_of_nvidias_repository() -> None:
    own = ("535.261.03-1", "535.247.01-1")
    assert codes(outcome(bare("debian12"), version="580.95.05", available=own)) == []
    assert planned(bare("debian12"), source="distribution", available=own).version == "535.261.03"


def test_a_release_that_is_installed_need_not_be_offered_any_more() -> None:
    stack = with_driver("debian12", version="570.172.08")
    assert codes(outcome(stack, version="570.172.08", available=("580.95.05-1",))) == []


def test_a_downgrade_is_refused_unless_it_is_allowed() -> None:
    stack = with_driver("debian12", version="580.95.05")
    found = outcome(stack, version="570.172.08")
    assert codes(found) == ["driver_downgrade"]
    assert found.refusals[0].evidence["installed"] == "580.95.05"
    assert planned(stack, version="570.172.08", allow_downgrade=True).action == "downgrade"
    assert codes(outcome(stack, branch=570)) == ["driver_downgrade"]


def test_a_gpu_that_is_too_new_is_refused_with_the_release_that_serves_it() -> None:
    found = outcome(bare("debian12", (RTX_PRO_6000,) * 8), version="570.172.08")
    assert codes(found) == ["driver_too_old_for_gpu"]
    assert found.refusals[0].remedy == "Set version to '575.57.08' or a later one."
    own = outcome(bare("debian13", (B200,) * 2), source="distribution")
    assert "driver_too_old_for_gpu" in codes(own)
    assert "Set source to vendor" in own.refusals[0].remedy


def test_a_listed_board_of_before_blackwell_is_a_warning() -> None:
    found = outcome(bare("debian12", (H200,)), version="535.288.01")
    assert codes(found) == []
    assert "driver_board_not_listed" in problem_codes(found)


@pytest.mark.parametrize(
    ("version", "code"),
    [("580.95.05", None), ("570.172.08", "driver_branch_ended"), ("999.10.01", "driver_branch_unknown")],
)
def test_branches_that_are_over_or_unknown_are_said(version: str, code: str | None) -> None:
    stated = problem_codes(outcome(bare("debian12"), version=version))
    assert [one for one in stated if one.startswith("driver_branch")] == ([] if code is None else [code])


def test_debians_own_has_one_branch() -> None:
    found = outcome(bare("debian12"), source="distribution", version="580.95.05")
    assert codes(found) == ["driver_version_not_offered"]


def test_none_wants_a_driver_that_is_there() -> None:
    assert codes(outcome(bare("debian12"), source="none")) == ["driver_not_there"]
    plan = planned(with_driver("debian12", version="580.95.05"), source="none")
    assert (plan.action, plan.transactions, plan.repository, plan.version) == ("none", (), None, "580.95.05")
    assert plan.steps == ("Check that release 580.95.05 is in force; nothing is installed.",)
    assert codes(outcome(with_driver("debian12", (B300,), version="575.57.08"), source="none")) == [
        "driver_too_old_for_gpu"
    ]
