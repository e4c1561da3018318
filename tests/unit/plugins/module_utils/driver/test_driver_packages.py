# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Packages by distribution, source, branch, flavour and fabric."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import OperatingSystem
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.driver.driver_hosts import (
    A100,
    B200,
    GB200,
    H100,
    KERNELS,
    L40S,
    SYSTEMS,
    V100,
    bare,
    codes,
    kernel,
    names_of,
    outcome,
    package,
    planned,
    specs_of,
    with_driver,
    with_fabric_manager,
)

DEBIAN = ["nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-persistenced"]
UBUNTU_580 = [
    "libnvidia-compute-580",
    "nvidia-dkms-580-open",
    "nvidia-utils-580",
    "nvidia-compute-utils-580",
    "nvidia-persistenced",
]
UBUNTU_590 = ["libnvidia-compute", "nvidia-dkms-open", "nvidia-persistenced"]
RHEL = ["nvidia-driver-cuda", "kmod-nvidia-open-dkms", "nvidia-persistenced"]


@pytest.mark.parametrize("source", ["vendor", "mirror", "folder"])
@pytest.mark.parametrize(
    ("distribution", "version", "expected"),
    [
        ("debian12", "550.163.01", ["nvidia-driver", "nvidia-kernel-open-dkms", "nvidia-persistenced"]),
        ("debian12", "570.172.08", DEBIAN),
        ("debian12", "580.95.05", DEBIAN),
        ("debian12", "590.48.01", DEBIAN),
        ("debian13", "580.95.05", DEBIAN),
        ("debian13", "590.48.01", DEBIAN),
        (
            "ubuntu2204",
            "550.163.01",
            ["libnvidia-compute-550", "nvidia-dkms-550-open", "nvidia-utils-550", "nvidia-compute-utils-550"],
        ),
        ("ubuntu2204", "580.95.05", UBUNTU_580),
        ("ubuntu2204", "590.48.01", UBUNTU_590),
        ("ubuntu2404", "580.95.05", UBUNTU_580),
        ("ubuntu2404", "590.48.01", UBUNTU_590),
        ("ubuntu2404", "620.70.06", UBUNTU_590),
        ("rhel9", "550.163.01", RHEL),
        ("rhel9", "580.95.05", RHEL),
        ("rhel9", "590.48.01", RHEL),
        ("rhel10", "580.95.05", RHEL),
        ("rhel10", "590.48.01", RHEL),
    ],
)
def test_the_vendors_packages_for_computing(distribution: str, version: str, expected: list[str], source: str) -> None:
    url = {"vendor": None, "mirror": "http://mirror.example.com/cuda/", "folder": "/srv/cuda"}[source]
    plan = planned(bare(distribution), version=version, source=source, repository_url=url)
    assert names_of(plan) == expected
    manager = "=" if plan.package_manager == "apt" else "-"
    suffix = "-*" if manager == "=" else ""
    assert specs_of(plan) == [f"{name}{manager}{version}{suffix}" for name in expected]


@pytest.mark.parametrize(
    ("distribution", "version", "flavour", "expected"),
    [
        ("debian12", "580.95.05", "open", "nvidia-open"),
        ("debian12", "580.95.05", "proprietary", "cuda-drivers"),
        ("ubuntu2404", "580.95.05", "open", "nvidia-open-580"),
        ("ubuntu2404", "580.95.05", "proprietary", "cuda-drivers-580"),
        ("ubuntu2404", "595.58.03", "open", "nvidia-open"),
        ("ubuntu2404", "595.58.03", "proprietary", "cuda-drivers"),
        ("rhel9", "580.95.05", "open", "nvidia-open"),
        ("rhel10", "580.95.05", "proprietary", "cuda-drivers"),
    ],
)
def test_everything_is_one_metapackage(distribution: str, version: str, flavour: str, expected: str) -> None:
    plan = planned(bare(distribution), version=version, flavour=flavour, compute_only=False, persistence=False)
    assert names_of(plan) == [expected]


@pytest.mark.parametrize(
    ("distribution", "version", "expected"),
    [
        ("debian12", "580.95.05", "nvidia-kernel-dkms"),
        ("ubuntu2404", "580.95.05", "nvidia-dkms-580"),
        ("ubuntu2404", "595.58.03", "nvidia-dkms"),
        ("rhel9", "580.95.05", "kmod-nvidia-latest-dkms"),
    ],
)
def test_the_proprietary_modules_have_names_of_their_own(distribution: str, version: str, expected: str) -> None:
    assert expected in names_of(planned(bare(distribution), version=version, flavour="proprietary"))


@pytest.mark.parametrize(
    ("distribution", "version", "expected"),
    [
        ("debian12", "570.172.08", ["nvidia-fabricmanager-570", "libnvidia-nscq-570", "libnvsdm-570"]),
        ("debian12", "580.95.05", ["nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"]),
        ("ubuntu2204", "550.163.01", ["nvidia-fabricmanager-550", "libnvidia-nscq-550"]),
        ("ubuntu2404", "590.48.01", ["nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"]),
        ("rhel9", "570.172.08", ["nvidia-fabric-manager", "libnvidia-nscq-570", "libnvsdm-570"]),
        ("rhel9", "580.95.05", ["nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"]),
        ("rhel10", "590.48.01", ["nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"]),
    ],
)
def test_the_fabric_manager_comes_in_the_drivers_transaction_and_release(
    distribution: str, version: str, expected: list[str]
) -> None:
    stack = with_fabric_manager(bare(distribution, (H100,) * 8), None, running=False, enabled=False)
    plan = planned(stack, version=version)
    assert names_of(plan)[-len(expected) :] == expected
    assert all(version in spec for spec in specs_of(plan))
    assert [one.name for one in plan.transactions if set(expected) & set(one.names)] == ["driver"]


def test_nvsdm_is_not_there_for_arm() -> None:
    stack = bare("ubuntu2404", (A100,) * 8)
    stack = with_fabric_manager(stack, None)
    arm = planned(
        with_fabric_manager(bare("ubuntu2404", (A100,) * 8, os=_arm("ubuntu2404")), None), version="580.95.05"
    )
    assert "libnvsdm" not in names_of(arm)
    assert "libnvsdm" in names_of(planned(stack, version="580.95.05"))


def _arm(distribution: str) -> OperatingSystem:
    return replace(SYSTEMS[distribution], architecture="aarch64")


@pytest.mark.parametrize("distribution", sorted(KERNELS))
@pytest.mark.parametrize("gpus", [(L40S,) * 8, (H100,), ("10de:2331", "10de:2331"), ("10de:233b",) * 2])
def test_boards_without_switches_get_no_fabric_manager(distribution: str, gpus: tuple[str, ...]) -> None:
    plan = planned(bare(distribution, gpus), version="580.95.05")
    assert not any("fabric" in name or "nvlsm" in name or "imex" in name for name in names_of(plan))
    assert [service.name for service in plan.services] == ["nvidia-persistenced"]


@pytest.mark.parametrize(("distribution", "library"), [("debian12", "libibumad3"), ("rhel9", "libibumad")])
def test_b200_gets_a_subnet_manager_too(distribution: str, library: str) -> None:
    plan = planned(bare(distribution, (B200,) * 8), version="580.95.05")
    assert names_of(plan)[-3:] == ["nvlsm", "infiniband-diags", library]
    assert specs_of(plan)[-3:] == ["nvlsm", "infiniband-diags", library]
    assert [file.content.splitlines()[-1] for file in plan.files if "modules-load" in file.path] == ["ib_umad"]
    assert plan.fabric.kind == "nvlink5"


def test_ubuntus_generic_kernels_have_ib_umad_in_their_extra_modules() -> None:
    plan = planned(bare("ubuntu2404", (B200,) * 8), version="580.95.05")
    assert names_of(plan)[-1] == "linux-modules-extra-6.8.0-45-generic"


@pytest.mark.parametrize(("version", "name"), [("570.172.08", "nvidia-imex-570"), ("580.95.05", "nvidia-imex")])
def test_gb200_gets_imex_and_no_fabric_manager(version: str, name: str) -> None:
    plan = planned(bare("ubuntu2404", (GB200,) * 4, os=_arm("ubuntu2404")), version=version)
    assert names_of(plan)[-1] == name
    assert not plan.fabric.fabric_manager
    assert [service.name for service in plan.services] == ["nvidia-persistenced", "nvidia-imex"]


def test_debians_own_driver() -> None:
    plan = planned(bare("debian12"), source="distribution")
    assert names_of(plan) == ["libcuda1", "nvidia-smi", "nvidia-open-kernel-dkms", "nvidia-persistenced"]
    assert plan.branch == "535"
    assert plan.repository is None
    assert plan.further_repositories[0].evidence == {"components": ["contrib", "non-free", "non-free-firmware"]}
    proprietary = planned(bare("debian13"), source="distribution", flavour="proprietary", compute_only=False)
    assert names_of(proprietary) == ["nvidia-driver", "nvidia-kernel-dkms", "nvidia-persistenced"]
    assert proprietary.branch == "550"


def test_ubuntus_own_driver_comes_with_signed_modules_for_each_kernel_and_those_to_come() -> None:
    stack = bare(
        "ubuntu2404",
        kernels=(kernel("6.8.0-47-generic", running=False), kernel("6.8.0-45-generic", boots_next=False)),
        packages=(package("linux-image-generic", "6.8.0-47.47"),),
    )
    plan = planned(stack, source="distribution", branch=580)
    assert names_of(plan) == [
        "nvidia-headless-no-dkms-580-server-open",
        "nvidia-utils-580-server",
        "linux-modules-nvidia-580-server-open-6.8.0-47-generic",
        "linux-modules-nvidia-580-server-open-6.8.0-45-generic",
        "linux-modules-nvidia-580-server-open-generic",
    ]
    assert not plan.dkms.used
    assert names_of(plan, "headers") == []
    assert names_of(plan, "pinning") == []


def test_rhel_has_no_driver_of_its_own() -> None:
    found = outcome(bare("rhel9"), source="distribution")
    assert codes(found) == ["driver_distribution_has_none"]


@pytest.mark.parametrize("distribution", ["debian12", "debian13"])
def test_debian_has_no_fabric_manager_of_its_own(distribution: str) -> None:
    stack = with_fabric_manager(bare(distribution, (A100,) * 8), None)
    assert codes(outcome(stack, source="distribution")) == ["driver_fabric_manager_not_there"]


def test_ubuntu_has_a_fabric_manager_and_no_subnet_manager() -> None:
    plan = planned(with_fabric_manager(bare("ubuntu2404", (H100,) * 8), None), source="distribution", branch=580)
    assert "nvidia-fabricmanager-580" in names_of(plan)
    found = outcome(bare("ubuntu2404", (B200,) * 8), source="distribution", branch=580)
    assert codes(found) == ["driver_fabric_manager_not_there"]


# Order, pins and what has to go ---------------------------------------------------------------------------------------


def test_headers_come_first_and_the_pin_before_the_driver() -> None:
    release = KERNELS["debian12"]
    stack = bare("debian12", kernels=(kernel(release, headers_installed=False),))
    plan = planned(stack, version="580.95.05", headers_available=(release,), container_toolkit=True)
    assert [one.name for one in plan.transactions] == ["headers", "pinning", "driver", "containers"]
    assert specs_of(plan, "headers") == [f"linux-headers-{release}"]
    assert specs_of(plan, "pinning") == ["nvidia-driver-pinning-580.95.05"]


@pytest.mark.parametrize(
    ("distribution", "asked", "pin"),
    [
        ("debian12", {"version": "580.95.05"}, ["nvidia-driver-pinning-580.95.05"]),
        ("debian12", {"branch": 595}, ["nvidia-driver-pinning-595"]),
        ("ubuntu2404", {"version": "595.58.03"}, ["nvidia-driver-pinning-595.58.03"]),
        ("debian12", {"version": "570.172.08"}, ["nvidia-driver-pinning-570.172.08"]),
        ("debian12", {"version": "550.163.01"}, []),
        ("rhel9", {"version": "580.95.05"}, []),
        ("debian12", {"version": "580.95.05", "hold": False}, []),
    ],
)
def test_pinning_packages(distribution: str, asked: dict[str, Any], pin: list[str]) -> None:
    assert specs_of(planned(bare(distribution), **asked), "pinning") == pin


def test_preferences_say_the_release_and_go_back_to_it() -> None:
    plan = planned(bare("debian12"), version="580.95.05", package_revision="1")
    assert plan.preferences is not None
    assert "Pin: version 580.95.05-1\nPin-Priority: 1000\n" in plan.preferences.content
    branch = planned(bare("debian12"), branch=550).preferences
    assert branch is not None
    assert branch.content.splitlines()[2] == "Pin: version 550.*"
    assert planned(bare("rhel9"), version="580.95.05").preferences is None


def test_rhel_9_takes_a_module_stream_and_rhel_10_a_version_lock() -> None:
    nine, ten = (planned(bare(name), version="580.95.05") for name in ("rhel9", "rhel10"))
    assert nine.module_stream is not None
    assert (nine.module_stream.spec, nine.module_stream.reset) == ("@nvidia-driver:580-open", True)
    assert ten.module_stream is None
    locks = tuple(f"{name}-580.95.05-*" for name in RHEL)
    assert nine.holds.locks == ten.holds.locks == locks
    other = planned(bare("rhel9"), version="580.95.05", flavour="proprietary")
    assert other.module_stream is not None
    assert other.module_stream.stream == "580-dkms"


def test_kernels_to_come_get_headers_as_well() -> None:
    stack = bare("debian12", packages=(package("linux-image-amd64", "6.1.112-1"),))
    assert specs_of(planned(stack, version="580.95.05"), "headers") == ["linux-headers-amd64"]
    there = bare(
        "debian12", packages=(package("linux-image-amd64", "6.1.112-1"), package("linux-headers-amd64", "6.1.112-1"))
    )
    assert specs_of(planned(there, version="580.95.05"), "headers") == []
    hwe = bare("ubuntu2404", packages=(package("linux-image-generic-hwe-24.04", "6.11.0"),))
    assert specs_of(planned(hwe, version="580.95.05"), "headers") == ["linux-headers-generic-hwe-24.04"]
    assert specs_of(planned(bare("rhel9"), version="580.95.05"), "headers") == ["kernel-devel-matched"]


def test_an_upgrade_across_the_change_of_names_takes_the_old_names_away() -> None:
    there = [name for name in UBUNTU_580 if "580" in name]
    old = [package(name, "580.95.05-0ubuntu1") for name in (*there, "nvidia-driver-pinning-580")]
    stack = with_driver("ubuntu2404", version="580.95.05", packages=old)
    plan = planned(stack, version="595.58.03")
    assert plan.action == "upgrade"
    assert sorted(one.name for one in plan.absent) == sorted(one.name for one in old)
    assert not any(one.foreign for one in plan.absent)


def test_names_that_both_have_are_the_vendors_beside_its_own() -> None:
    there = ["nvidia-driver", "nvidia-kernel-open-dkms", "nvidia-smi", "nvidia-kernel-support", "libcuda1"]
    stack = with_driver("debian12", version="535.261.03", packages=[package(name, "535.261.03-1") for name in there])
    plan = planned(stack, version="580.95.05")
    assert not any(one.foreign for one in plan.absent)
    assert plan.installed.source == "vendor"


def test_the_other_flavour_goes() -> None:
    old = [package("nvidia-driver-cuda", "580.95.05-1"), package("nvidia-kernel-dkms", "580.95.05-1")]
    plan = planned(with_driver("debian12", version="580.95.05", packages=old), version="580.95.05", persistence=False)
    assert [(one.name, one.why) for one in plan.absent] == [
        ("nvidia-kernel-dkms", "It is the other flavour of the modules.")
    ]
    assert plan.action == "change"


def test_volta_gets_the_proprietary_modules_of_branch_580() -> None:
    plan = planned(bare("debian12", (V100,) * 4))
    assert (plan.branch, plan.flavour.name) == ("580", "proprietary")
    assert "nvidia-kernel-dkms" in names_of(plan)
