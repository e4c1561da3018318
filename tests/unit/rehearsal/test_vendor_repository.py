# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packages that stand in for NVIDIA's and Debian's fit one another; apt itself meets them in tests/integration."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.vendor_repository.driver_packages import (
    RELEASES,
    debian_driver,
    driver_release,
    pinning_packages,
)
from ansible_collections.gpufleet.sglang.rehearsal.vendor_repository.other_packages import (
    cuda_packages,
    kernel_packages,
    machine_packages,
    next_kernel,
    toolkit_packages,
)
from ansible_collections.gpufleet.sglang.rehearsal.vendor_repository.package import Package

NVML = b"library"
OWN = [*machine_packages(), *kernel_packages("6.1.0-1-amd64")]
VENDOR = [
    *pinning_packages(RELEASES),
    *cuda_packages(),
    *toolkit_packages(),
    *(package for release in RELEASES for package in driver_release(release, NVML)),
]
DEBIAN = [*debian_driver("550.163.01-2", NVML)]


def offered(packages: list[Package]) -> dict[str, set[str]]:
    """Versions by name, also of what packages provide without a version."""
    found: dict[str, set[str]] = {}
    for package in packages:
        found.setdefault(package.name, set()).add(package.version)
        for name in package.relations.get("Provides", "").split(","):
            found.setdefault(name.strip(), set()).add("")
    return found


def satisfied(dependency: str, there: dict[str, set[str]]) -> bool:
    for choice in dependency.split("|"):
        match = re.fullmatch(r"\s*(\S+?)(?: \((=|>=) (\S+?)\))?\s*", choice)
        assert match, choice
        name, relation, version = match.groups()
        if name in there and (relation != "=" or version in there[name]):
            return True
    return False


@pytest.mark.parametrize("packages", [VENDOR + OWN, DEBIAN + OWN], ids=["vendor", "debian"])
def test_every_dependency_can_be_had(packages: list[Package]) -> None:
    there = offered(packages)
    for package in packages:
        for dependency in package.relations.get("Depends", "").split(","):
            assert not dependency or satisfied(dependency, there), f"{package.name} {package.version}: {dependency}"


@pytest.mark.parametrize("release", RELEASES)
def test_the_module_tells_its_release_and_flavour(release: str) -> None:
    modules = {package.name: package for package in VENDOR if package.version == f"{release}-1"}
    for name, licence in (("nvidia-kernel-open-dkms", b"Dual MIT/GPL"), ("nvidia-kernel-dkms", b"NVIDIA")):
        content = modules[name].files[f"usr/src/nvidia-{release}/nvidia.ko"].content
        assert f"version={release}\0".encode() in content
        assert b"license=" + licence + b"\0" in content


def test_flavours_exclude_one_another_and_so_do_pins() -> None:
    newest = f"{RELEASES[-1]}-1"
    for name in ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms"):
        (package,) = (package for package in VENDOR if (package.name, package.version) == (name, newest))
        assert "nvidia-kernel-modules" in package.relations["Conflicts"]
        assert "nvidia-kernel-modules" in package.relations["Provides"]
    pins = [package for package in VENDOR if package.name.startswith("nvidia-driver-pinning-")]
    assert [package.name for package in pins] == [
        f"nvidia-driver-pinning-{branch}" for branch in ("570", "580", "590", "595")
    ]
    assert {package.relations["Conflicts"] for package in pins} == {"nvidia-driver-pinning"}


def test_metapackages_take_any_later_release_which_is_the_trap_that_pins_are_for() -> None:
    for package in VENDOR:
        if package.name in ("nvidia-open", "cuda-drivers"):
            release = package.version.partition("-")[0]
            assert f"nvidia-driver-cuda (>= {release})" in package.relations["Depends"]


def test_a_toolkit_brings_no_driver() -> None:
    there = {package.name: package for package in VENDOR}
    waiting, seen = ["cuda-toolkit-13-0"], set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        wanted = there[name].relations.get("Depends", "")
        waiting += [word for word in re.findall(r"([a-z][\w.+-]*)(?: \([^)]*\))?", wanted) if word not in seen]
    assert not [name for name in seen if "driver" in name or "nvidia" in name]


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        ("6.1.0-25-amd64", "6.1.1-rehearsal-amd64"),
        ("6.18.44-fc-v669", "6.18.45-rehearsal-amd64"),
        ("odd", "6.1.1-rehearsal-amd64"),
    ],
)
def test_the_next_kernel_is_newer(running: str, expected: str) -> None:
    assert next_kernel(running) == expected


def test_a_package_in_its_control_file() -> None:
    package = Package("a", "1:2-3", "what it is", {"Depends": "b (= 1)", "Conflicts": "c"}, source="s")
    assert package.file_name == "a_2-3_amd64.deb"
    assert package.control().splitlines() == [
        "Package: a",
        "Source: s",
        "Version: 1:2-3",
        "Architecture: amd64",
        "Section: non-free/utils",
        "Priority: optional",
        "Maintainer: Rehearsal <rehearsal@example.org>",
        "Depends: b (= 1)",
        "Conflicts: c",
        "Description: what it is",
    ]
