# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.cuda.packages import (
    driver_packages,
    packages_of,
    toolkit_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.cuda.plan import ARGUMENT_SPEC, plan_cuda
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.compatibility.hosts import (
    H100,
    RTX_5090,
    stack,
    topology,
)


def software(driver: str | None = None, system: str = "debian 12", **more: Any) -> dict[str, Any]:
    found = stack(driver, system)
    found["os"]["package_manager"] = "dnf" if system.split()[0] in ("rhel", "rocky") else "apt"
    return {**found, "packages": [{"name": name} for name in more.get("packages", ())]}


def planned(facts: dict[str, Any], boards: tuple[str, ...] = (), **asked: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in ARGUMENT_SPEC.items()}
    return plan_cuda({**defaults, "stack": facts, "topology": topology(*boards), **asked}).as_dict()


def refusal(facts: dict[str, Any], boards: tuple[str, ...] = (), **asked: Any) -> Refusal:
    with pytest.raises(Refusal) as refused:
        planned(facts, boards, **asked)
    return refused.value


@pytest.mark.parametrize(
    ("system", "url", "path"),
    [
        ("debian 12", "debian12/x86_64/", "/etc/apt/sources.list.d/nvidia-cuda.sources"),
        ("debian 13", "debian13/x86_64/", "/etc/apt/sources.list.d/nvidia-cuda.sources"),
        ("ubuntu 22.04", "ubuntu2204/x86_64/", "/etc/apt/sources.list.d/nvidia-cuda.sources"),
        ("ubuntu 24.04", "ubuntu2404/x86_64/", "/etc/apt/sources.list.d/nvidia-cuda.sources"),
        ("rhel 9.6", "rhel9/x86_64/", "/etc/yum.repos.d/cuda-rhel9.repo"),
        ("rocky 10.0", "rhel10/x86_64/", "/etc/yum.repos.d/cuda-rhel10.repo"),
    ],
)
def test_packages_and_repository_of_each_distribution(system: str, url: str, path: str) -> None:
    plan = planned(software(system=system), toolkits=["12.9", "13.0"], default_toolkit="13.0")
    assert plan["packages"] == ["cuda-toolkit-12-9", "cuda-toolkit-13-0"]
    assert plan["default_folder"] == "/usr/local/cuda-13.0"
    assert plan["repository"]["path"] == path
    assert f"https://developer.download.nvidia.com/compute/cuda/repos/{url}" in plan["repository"]["content"]
    assert len(plan["repository"]["content"].splitlines()) >= 4
    assert plan["toolkits"][0] == {
        "version": "12.9",
        "folder": "/usr/local/cuda-12.9",
        "compiler": "/usr/local/cuda-12.9/bin/nvcc",
    }


def test_nothing_asked_for_configures_and_installs_nothing() -> None:
    plan = planned(software())
    assert (plan["repository"], plan["packages"], plan["absent"], plan["solution"], plan["steps"]) == (
        None,
        [],
        [],
        None,
        [],
    )


def test_repositories_that_are_configured_already_are_left_alone() -> None:
    assert planned(software(), toolkits=["13.0"], source="none")["repository"] is None


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("cuda", "cuda_package_brings_driver"),
        ("cuda-13-0", "cuda_package_brings_driver"),
        ("cuda-runtime-12-9", "cuda_package_brings_driver"),
        ("cuda-drivers", "cuda_package_brings_driver"),
        ("cuda-drivers-580", "cuda_package_brings_driver"),
        ("cuda-toolkit", "cuda_package_moves"),
        ("cuda-toolkit-13", "cuda_package_moves"),
        ("13", "cuda_version_malformed"),
        ("13.0.2", "cuda_version_malformed"),
        ("9.2", "cuda_version_malformed"),
        ("cuda-toolkit-13-0", "cuda_version_malformed"),
    ],
)
def test_what_is_no_release_of_the_toolkit_is_refused_by_name(given: str, code: str) -> None:
    refused = refusal(software(), toolkits=[given])
    assert refused.code == code
    assert given in refused.message


def test_a_removal_names_all_packages_of_the_release_and_no_others() -> None:
    installed = [
        "cuda-toolkit-12-9",
        "cuda-nvcc-12-9",
        "cuda-toolkit-12-9-config-common",
        "libcublas-12-9",
        "libcublas-dev-12-9",
        "gds-tools-12-9",
        "cuda-toolkit-12-config-common",
        "cuda-toolkit-13-0",
        "cuda-nvcc-13-0",
        "libnvidia-compute",
        "nvidia-driver-cuda",
    ]
    plan = planned(software(packages=installed), absent=["12.9"], toolkits=["13.0"])
    assert plan["absent"] == sorted(installed[:6])
    assert packages_of(toolkit_of("13.0"), installed) == ["cuda-nvcc-13-0", "cuda-toolkit-13-0"]


def test_contradictions_are_refused() -> None:
    assert refusal(software(), toolkits=["13.0"], absent=["13.0"]).code == "cuda_wanted_and_unwanted"
    assert refusal(software(), toolkits=["13.0"], default_toolkit="12.9").code == "cuda_default_not_installed"
    assert refusal(software(), toolkits=["13.0"], source="mirror").code == "cuda_repository_missing"
    assert refusal(software(system="debian 11"), toolkits=["13.0"]).code == "driver_distribution_unknown"


def test_the_driver_in_force_is_held_against_the_wheels() -> None:
    fine = planned(software("580.95.05"), (H100,), sglang_version="0.5.23")
    assert fine["solution"]["driver"]["stays"] is True
    conflict = refusal(software("570.133.20"), (H100,), sglang_version="0.5.23")
    assert conflict.code == "stack_conflict"
    assert "CUDA 13.0 needs driver 580.65.06 or newer." in conflict.message
    # Without a release it is the newest that the driver serves.
    assert planned(software("570.133.20"), (H100,))["solution"]["sglang_version"] == "0.5.19"
    # Without a driver it is said which one has to come.
    assert planned(software(), (H100,))["solution"]["driver"]["minimum"] == "580.65.06"


def test_forward_compatibility_lets_an_older_driver_serve() -> None:
    plan = planned(software("570.133.20"), (H100,), sglang_version="0.5.23", forward_compatibility="13.0")
    assert plan["packages"] == ["cuda-compat-13-0"]
    assert plan["solution"]["driver"]["forward_compatibility_package"] == "cuda-compat-13-0"


@pytest.mark.parametrize(
    ("driver", "boards", "code"),
    [
        ("570.133.20", (RTX_5090,), "forward_compatibility_unsupported"),
        (None, (H100,), "forward_compatibility_without_driver"),
        ("580.95.05", (H100,), "forward_compatibility_needless"),
        ("530.30.02", (H100,), "forward_compatibility_driver_too_old"),
    ],
)
def test_forward_compatibility_where_it_does_not_work(driver: str | None, boards: tuple[str, ...], code: str) -> None:
    assert refusal(software(driver), boards, forward_compatibility="13.0").code == code


def test_which_packages_are_a_part_of_the_driver() -> None:
    names = ["cuda-drivers", "libcuda1", "nvidia-open", "cuda-compat-13-0", "cuda-toolkit-13-0", "libcublas-13-0",
             "kmod-nvidia-open-dkms", "nvidia-fabricmanager"]  # fmt: skip
    assert driver_packages(names) == [
        "cuda-drivers",
        "kmod-nvidia-open-dkms",
        "libcuda1",
        "nvidia-fabricmanager",
        "nvidia-open",
    ]
