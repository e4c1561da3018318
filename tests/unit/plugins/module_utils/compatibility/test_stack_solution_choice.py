# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility import solution
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import Board
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.compiled_for import torch_targets
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import BY_VERSION
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import wheels_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import PTX, Target
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.compatibility.hosts import (
    A100,
    B200,
    B300,
    H100,
    RTX_5090,
    T4,
    V100,
    conflict_of,
    refused,
    solved,
    stack,
    topology,
)


def capabilities(targets: Iterable[Target]) -> set[int]:
    return {target.architecture for target in targets}


def test_a_bare_host_gets_the_newest_release_and_a_branch_that_is_maintained_for_long() -> None:
    found = solved(topology(H100), stack())
    assert (found["sglang_version"], found["cuda_line"], found["python"]) == ("0.5.23", "13.0", "3.11")
    assert found["driver"] == {
        "branch": 580,
        "release": None,
        "minimum": "580.65.06",
        "in_force": None,
        "stays": False,
        "forward_compatibility_package": None,
    }
    assert found["wheels"] == {
        "index_suffix": None,
        "torch": {"version": "2.14.1", "index": None},
        "kernels": {"package": "sglang-kernel", "version": "0.4.10", "index": None},
        "flashinfer": {"package": "flashinfer_python", "version": "0.7.2"},
    }
    assert found["problems"] == []


@pytest.mark.parametrize(
    ("boards", "driver", "request_", "expected"),
    [
        # The driver in force stays where it does, whatever its branch.
        ((H100,), "595.58.03", {}, ("0.5.23", "13.0", 595, "595.58.03", True)),
        ((H100,), "580.65.06", {}, ("0.5.23", "13.0", 580, "580.65.06", True)),
        ((H100,), "570.133.20", {}, ("0.5.23", "13.0", 580, None, False)),
        # Kept, it decides for wheels of CUDA 12, whose last release is 0.5.19.
        ((H100,), "570.133.20", {"driver": "in_force"}, ("0.5.19", "12.9", 570, "570.133.20", True)),
        ((A100,), "535.216.03", {"driver": "in_force"}, ("0.5.19", "12.9", 535, "535.216.03", True)),
        ((H100,), None, {"driver": "570"}, ("0.5.19", "12.9", 570, None, False)),
        ((H100,), None, {"driver": "580.95.05"}, ("0.5.23", "13.0", 580, "580.95.05", False)),
        ((H100,), None, {"cuda": "cu129"}, ("0.5.19", "12.9", 580, None, False)),
        ((H100,), None, {"sglang_version": "0.5.9"}, ("0.5.9", "12.8", 580, None, False)),
        ((H100,), None, {"sglang_version": "0.5.9", "cuda": "13.0"}, ("0.5.9", "13.0", 580, None, False)),
        # The kernels of PyPI were built without Blackwell; the line that has it is taken.
        ((B200,), None, {"sglang_version": "0.4.10"}, ("0.4.10", "12.8", 580, None, False)),
        ((B200,), None, {"sglang_version": "0.5.1"}, ("0.5.1", "12.9", 580, None, False)),
        ((B300,), None, {}, ("0.5.23", "13.0", 580, None, False)),
        ((B300,), None, {"sglang_version": "0.5.9"}, ("0.5.9", "13.0", 580, None, False)),
        # The last kernels with code for 7.5 are 0.3.5.
        ((T4,), None, {}, ("0.5.1", "12.8", 580, None, False)),
        # Boards of several kinds: what all of them take.
        ((T4, H100), None, {}, ("0.5.1", "12.8", 580, None, False)),
        ((H100, B200, RTX_5090), None, {}, ("0.5.23", "13.0", 580, None, False)),
    ],
)
def test_what_is_chosen(
    boards: tuple[str, ...],
    driver: str | None,
    request_: dict[str, str],
    expected: tuple[str, str, int, str | None, bool],
) -> None:
    found = solved(topology(*boards), stack(driver), **request_)
    chosen = found["driver"]
    assert (
        found["sglang_version"],
        found["cuda_line"],
        chosen["branch"],
        chosen["release"],
        chosen["stays"],
    ) == expected


def test_another_line_than_that_of_pypi_names_its_indexes() -> None:
    wheels = solved(topology(H100), stack(), cuda="12.9")["wheels"]
    assert wheels["index_suffix"] == "cu129"
    assert wheels["torch"] == {"version": "2.13.0", "index": "https://download.pytorch.org/whl/cu129"}
    assert wheels["kernels"]["index"] == "https://docs.sglang.ai/whl/cu129/"


def test_what_the_driver_in_force_would_serve_is_said() -> None:
    found = solved(topology(H100), stack("570.133.20"))
    assert found["with_driver_in_force"] == {"sglang_version": "0.5.19", "cuda_line": "12.9"}
    assert found["explanation"][-1] == (
        "With driver 570.133.20, which is in force, SGLang 0.5.19 for CUDA 12.9 is the newest that would run."
    )


def test_boards_raise_the_minimum_of_the_driver() -> None:
    assert solved(topology(B300), stack())["driver"]["minimum"] == "580.82.07"
    assert solved(topology(RTX_5090), stack(), driver="570")["driver"]["minimum"] == "570.86.16"


@pytest.mark.parametrize(
    ("system", "python"),
    [
        ("debian 12", "3.11"),
        ("debian 13", "3.13"),
        ("ubuntu 24.04", "3.12"),
        ("rhel 9.6", "3.11"),
        ("rocky 9.4", "3.11"),
        ("almalinux 10.0", "3.12"),
    ],
)
def test_each_system_serves_the_newest_release_with_an_interpreter_of_its_own(system: str, python: str) -> None:
    found = solved(topology(H100), stack(system=system))
    assert (found["sglang_version"], found["python"]) == ("0.5.23", python)


def test_a_release_candidate_of_python_is_no_interpreter_to_serve_with() -> None:
    found = solved(topology(H100), stack(system="ubuntu 22.04"))
    assert (found["sglang_version"], found["python"]) == ("0.5.21", "3.10")
    found = solved(topology(H100), stack(system="ubuntu 22.04"), python="3.11")
    assert (found["sglang_version"], found["python"]) == ("0.5.23", "3.11")


def test_an_unknown_system_and_a_host_without_gpus_constrain_nothing_and_say_so() -> None:
    found = solved({}, stack(system="void 1"))
    assert found["sglang_version"] == "0.5.23"
    assert [problem["code"] for problem in found["problems"]] == ["gpus_unknown", "system_unknown"]


def test_boards_come_from_the_survey_of_the_software_where_the_topology_has_none() -> None:
    software = stack()
    software["driver"]["gpus"] = ["10de:3182"]
    assert solved({}, software)["driver"]["minimum"] == "580.82.07"


def test_boards_on_paper_are_known_by_their_names() -> None:
    on_paper = {"gpus": [{"index": 0, "name": B300, "compute_capability": "10.3"}]}
    assert solved(on_paper, stack())["driver"]["minimum"] == "580.82.07"
    # A board that is in no catalogue counts by its compute capability.
    unknown = {"gpus": [{"index": 0, "name": "A board", "compute_capability": "9.0"}]}
    assert solved(unknown, stack())["sglang_version"] == "0.5.23"


def test_arm_has_cuda_from_the_indexes_alone_before_pytorch_2_11() -> None:
    found = solved(topology(H100), stack(machine="aarch64"), sglang_version="0.5.9")
    assert (found["cuda_line"], found["wheels"]["index_suffix"]) == ("12.9", "cu129")
    assert solved(topology(H100), stack(machine="aarch64"))["wheels"]["index_suffix"] is None
    # Its kernels have no code for anything before Hopper.
    assert conflict_of(refused(topology(A100), stack(machine="aarch64"))) == ["kernels_80"]


def test_forward_compatibility_stands_in_for_a_driver_on_boards_for_data_centres() -> None:
    found = solved(
        topology(H100), stack("570.133.20"), sglang_version="0.5.23", driver="in_force", forward_compatibility=True
    )
    assert found["driver"]["forward_compatibility_package"] == "cuda-compat-13-0"
    assert found["driver"]["minimum"] is None
    refusal = refused(
        topology(RTX_5090), stack("570.133.20"), sglang_version="0.5.23", driver="in_force", forward_compatibility=True
    )
    assert "line_driver" in conflict_of(refusal)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (H100, True),
        ("NVIDIA L40S", True),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", True),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", False),
        ("NVIDIA RTX A6000", False),
        (RTX_5090, False),
    ],
)
def test_boards_for_data_centres_by_their_names(name: str, expected: bool) -> None:
    assert Board(name, 90).for_data_centres is expected


def test_pytorch_for_arm_has_no_code_for_what_arm_hosts_do_not_have() -> None:
    line, wheels = BY_VERSION["12.9"], wheels_of(parse_version("0.5.9"))
    found = {machine: capabilities(torch_targets(wheels, line, machine)) for machine in ("x86_64", "aarch64")}
    assert {70, 75, 80, 90, 100, 120} <= found["x86_64"]
    assert found["aarch64"] == {90, 100, 120}


def test_volta_left_pytorch_for_cuda_12_with_2_11() -> None:
    line = BY_VERSION["12.9"]
    assert 70 in capabilities(torch_targets(wheels_of(parse_version("0.5.10")), line, "x86_64"))
    assert 70 not in capabilities(torch_targets(wheels_of(parse_version("0.5.11")), line, "x86_64"))


@pytest.mark.parametrize(
    ("boards", "driver", "request_", "conflict"),
    [
        ((H100,), None, {"sglang_version": "0.5.23", "driver": "570"}, "sglang_version driver wheels line_driver"),
        ((H100,), None, {"sglang_version": "0.5.23", "cuda": "12.9"}, "sglang_version cuda wheels"),
        ((H100,), "570.86.15", {"cuda": "13.0", "driver": "in_force"}, "cuda driver line_driver"),
        ((V100,), None, {}, "kernels_70"),
        ((V100, H100), None, {}, "kernels_70"),
        ((T4,), None, {"sglang_version": "0.5.23"}, "sglang_version kernels_75"),
        ((B300,), None, {"cuda": "12.9"}, "cuda kernels_103"),
        ((B300,), "570.133.20", {"driver": "in_force"}, "driver driver_10de:3182"),
        ((T4, B200), None, {"sglang_version": "0.5.9"}, "sglang_version kernels_75"),
        ((H100,), None, {"python": "3.14", "sglang_version": "0.5.23"}, "sglang_version python wheels_python"),
        ((H100,), None, {"python": "3.9", "cuda": "13.0"}, "cuda python wheels wheels_python"),
    ],
)
def test_the_smallest_conflict(
    boards: tuple[str, ...], driver: str | None, request_: dict[str, str], conflict: str
) -> None:
    refusal = refused(topology(*boards), stack(driver), **request_)
    assert refusal.code == "stack_conflict"
    assert conflict_of(refusal) == conflict.split()


def test_a_refusal_says_what_is_what_and_what_would_do() -> None:
    refusal = refused(topology(H100), stack(), sglang_version="0.5.23", driver="570")
    assert refusal.message == (
        "SGLang 0.5.23 is asked for. Driver branch 570 is asked for. SGLang 0.5.23 and its torch 2.14.1 have wheels "
        "for x86_64 and CUDA 13.0 only. CUDA 13.0 needs driver 580.65.06 or newer."
    )
    assert refusal.remedy == (
        "Let go of one: without this release of SGLang, SGLang 0.5.19 for CUDA 12.9 with driver branch 570 and Python "
        "3.11 would do; or without this driver, SGLang 0.5.23 for CUDA 13.0 with driver branch 580 and Python 3.11 "
        "would do."
    )
    assert refusal.evidence["changes"] == [
        {
            "let_go_of": "sglang_version",
            "then": "SGLang 0.5.19 for CUDA 12.9 with driver branch 570 and Python 3.11",
        },
        {"let_go_of": "driver", "then": "SGLang 0.5.23 for CUDA 13.0 with driver branch 580 and Python 3.11"},
    ]


def test_a_conflict_of_the_hardware_alone_promises_nothing() -> None:
    refusal = refused(topology(V100), stack())
    assert refusal.message == (
        "Tesla V100-SXM2-32GB (compute capability 7.0) is served by the kernels of no release of SGLang."
    )
    assert refusal.remedy.startswith("No choice of release")


def test_code_that_the_wheels_lack_is_listed() -> None:
    assert (
        "sglang-kernel 0.4.10 of SGLang 0.5.23 for CUDA 13.0 has code for compute capabilities 8.0, 8.9, 9.0, "
        "10.0 (family) and 12.0, and none for 7.5 (Tesla T4)."
    ) in refused(topology(T4), stack(), sglang_version="0.5.23").message


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"sglang_version": "0.3.0"}, "sglang_wheels_unknown"),
        ({"sglang_version": "newest"}, "sglang_version_malformed"),
        ({"cuda": "11.8"}, "cuda_line_unknown"),
        ({"driver": "571"}, "solution_branch_unknown"),
        ({"driver": "latest"}, "driver_version_malformed"),
        ({"driver": "in_force"}, "driver_not_in_force"),
        ({"python": "3.8"}, "python_unknown"),
        ({"python": "python3"}, "python_unknown"),
    ],
)
def test_what_can_be_no_choice_is_refused(request_: dict[str, str], code: str) -> None:
    assert refused(topology(H100), stack(), **request_).code == code


def test_a_post_release_is_read_as_the_release_that_it_amends() -> None:
    assert solved(topology(H100), stack(), sglang_version="0.5.10.post1")["sglang_version"] == "0.5.10"


def test_an_older_driver_of_the_same_major_line_is_said() -> None:
    found = solved(topology(A100), stack("550.90.07"), driver="in_force")
    assert [problem["code"] for problem in found["problems"]] == ["driver_older_than_toolkit"]
    older = solved(topology(H100), stack("595.58.03"), driver="580")
    assert [problem["code"] for problem in older["problems"]] == ["solution_downgrades_driver"]


def test_code_that_the_driver_compiles_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # The wheels of all known releases have machine code for every board that SGLang serves.
    monkeypatch.setattr(solution, "kernel_targets", lambda *_given: {Target(80, kind=PTX)})
    problems = {found["code"]: found["message"] for found in solved(topology(H100), stack())["problems"]}
    assert problems["compiled_at_start"] == f"Compiled by the driver, as there is PTX alone: {H100}."
