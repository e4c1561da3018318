# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Where packages come from, with which key, and requests that contradict themselves."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import DISTRIBUTIONS
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.repositories import VENDOR_KEYS
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import driver_request, fingerprint_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.driver.driver_hosts import (
    SYSTEMS,
    bare,
    planned,
    with_driver,
)

VENDOR = "https://developer.download.nvidia.com/compute/cuda/repos"
DEB = "EB693B3035CD5710E231E123A4B469963BF863CC"
DEB_13 = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
RPM = "610C7B14E068A878070DA4E99CD0A493D42D0685"
OWN = "0123456789ABCDEF0123456789ABCDEF01234567"


@pytest.mark.parametrize(
    ("distribution", "file", "fingerprint"),
    [
        ("debian12", "3bf863cc.pub", DEB),
        ("debian13", "8793F200.pub", DEB_13),
        ("ubuntu2204", "3bf863cc.pub", DEB),
        ("ubuntu2404", "3bf863cc.pub", DEB),
        ("rhel9", "D42D0685.pub", RPM),
        ("rhel10", "D42D0685.pub", RPM),
    ],
)
@pytest.mark.parametrize(("machine", "folder"), [("x86_64", "x86_64"), ("aarch64", "sbsa")])
def test_the_vendors_repository(distribution: str, file: str, fingerprint: str, machine: str, folder: str) -> None:
    stack = bare(distribution, os=replace(SYSTEMS[distribution], architecture=machine))
    repository = planned(stack, version="580.95.05").repository
    assert repository is not None
    url = f"{VENDOR}/{distribution}/{folder}/"
    assert (repository.deb822 or {}).get("uris") == [url] or (repository.yum or {}).get("baseurl") == url
    assert repository.key.url == url + file
    assert repository.key.fingerprint == fingerprint
    assert fingerprint.endswith(file.partition(".")[0].upper())


def test_every_distribution_has_a_key() -> None:
    assert set(VENDOR_KEYS) == set(DISTRIBUTIONS)


def test_apts_file_says_what_the_fields_do() -> None:
    repository = planned(bare("debian12"), version="580.95.05").repository
    assert repository is not None
    assert repository.content == (
        "Types: deb\n"
        f"URIs: {VENDOR}/debian12/x86_64/\n"
        "Suites: /\n"
        "Architectures: amd64\n"
        "Signed-By: /etc/apt/keyrings/nvidia-cuda.asc\n"
    )
    assert repository.deb822 is not None
    assert repository.deb822["signed_by"] == repository.key.path
    assert repository.replaces == ("/etc/apt/sources.list.d/cuda-debian12-x86_64.list",)


def test_dnfs_file_checks_signatures_and_takes_the_place_of_nvidias_own() -> None:
    repository = planned(bare("rhel9"), version="580.95.05").repository
    assert repository is not None
    assert repository.path == "/etc/yum.repos.d/cuda-rhel9.repo"
    assert repository.content.splitlines() == [
        "[cuda-rhel9-x86_64]",
        "name = NVIDIA CUDA for RHEL 9",
        f"baseurl = {VENDOR}/rhel9/x86_64/",
        "enabled = 1",
        "gpgcheck = 1",
        "gpgkey = file:///etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-CUDA",
    ]
    assert repository.yum is not None
    assert repository.yum["gpgcheck"] is True


def test_a_faithful_mirror_has_nvidias_key_in_it_and_another_its_own() -> None:
    asked: dict[str, Any] = {
        "source": "mirror",
        "repository_url": "https://mirror.example.com/cuda/debian12/x86_64",
        "version": "580.95.05",
    }
    faithful = planned(bare("debian12"), **asked).repository
    assert faithful is not None
    assert faithful.key.url == "https://mirror.example.com/cuda/debian12/x86_64/3bf863cc.pub"
    assert faithful.key.fingerprint == DEB
    own = planned(
        bare("debian12"),
        key="https://mirror.example.com/key.gpg",
        key_fingerprint=OWN,
        repository_suite="bookworm",
        repository_components=("main",),
        **asked,
    ).repository
    assert own is not None
    assert (own.key.url, own.key.fingerprint) == ("https://mirror.example.com/key.gpg", OWN)
    assert own.key.path == "/etc/apt/keyrings/nvidia-cuda.gpg"
    assert "Suites: bookworm\nComponents: main\n" in own.content


@pytest.mark.parametrize(("distribution", "manager"), [("debian12", "apt"), ("rhel9", "dnf")])
def test_a_folder_is_a_file_address_and_its_key_a_path(distribution: str, manager: str) -> None:
    plan = planned(bare(distribution), source="folder", repository_url="/srv/cuda/", version="580.95.05")
    assert plan.repository is not None
    assert "file:///srv/cuda/" in plan.repository.content
    assert plan.repository.key.url == f"/srv/cuda/{VENDOR_KEYS[distribution].file}"
    assert plan.package_manager == manager


@pytest.mark.parametrize(
    ("distribution", "source", "names"),
    [
        ("debian12", "vendor", ["contrib"]),
        ("debian12", "distribution", ["contrib non-free non-free-firmware"]),
        ("ubuntu2404", "vendor", []),
        ("ubuntu2404", "distribution", ["restricted multiverse"]),
        ("rhel9", "vendor", ["epel"]),
        ("rhel10", "vendor", ["epel"]),
    ],
)
def test_further_repositories(distribution: str, source: str, names: list[str]) -> None:
    plan = planned(bare(distribution), source=source, branch=None if source == "distribution" else 580)
    assert [one.name for one in plan.further_repositories] == names


def test_the_container_toolkit_is_nvidias_only() -> None:
    plan = planned(bare("debian12"), source="distribution", container_toolkit=True)
    toolkit = plan.further_repositories[-1]
    assert toolkit.evidence["fingerprint"] == "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
    vendor = planned(bare("debian12"), version="580.95.05", container_toolkit=True, container_toolkit_version="1.18.2")
    assert [one.name for one in vendor.further_repositories] == ["contrib"]
    assert vendor.transactions[-1].packages[0] == "nvidia-container-toolkit=1.18.2-*"
    assert vendor.services[-1].name == "nvidia-cdi-refresh.path"


def test_nothing_is_configured_for_none() -> None:
    plan = planned(with_driver(version="580.95.05"), source="none")
    assert (plan.repository, plan.preferences, plan.files, plan.holds.packages) == (None, None, (), ())


# Requests -------------------------------------------------------------------------------------------------------------


def arguments(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "source": "vendor",
        "version": None,
        "branch": None,
        "available": [],
        "package_revision": None,
        "headers_available": None,
        "flavour": "auto",
        "compute_only": True,
        "repository_url": None,
        "repository_suite": "/",
        "repository_components": [],
        "key": None,
        "key_fingerprint": None,
        "fabric_manager": "auto",
        "imex": "auto",
        "imex_nodes": [],
        "persistence": True,
        "container_toolkit": False,
        "container_toolkit_version": None,
        "mig": [],
        "hold": True,
        "repair": True,
        "allow_reboot": False,
        "allow_downgrade": False,
        "assume_signed": False,
        "remove_conflicting": False,
        "space": {},
        "containers": None,
        "dev_char_links": False,
    }
    assert set(changes) <= set(given)
    return {**given, **changes}


def test_a_release_tells_its_branch() -> None:
    assert driver_request(arguments(version="580.95.05")).branch == 580
    assert driver_request(arguments(version="580.95.05", branch="R580")).branch == 580


@pytest.mark.parametrize(
    ("value", "read"),
    [("auto", None), (True, True), (False, False), ("true", True), ("no", False), ("True", True), ("AUTO", None)],
)
def test_auto_true_and_false_however_they_are_spelt(value: object, read: bool | None) -> None:
    assert driver_request(arguments(fabric_manager=value)).fabric_manager is read


def test_fingerprints_are_read_with_and_without_blanks() -> None:
    assert fingerprint_of("eb69 3b30 35cd 5710 e231  e123 a4b4 6996 3bf8 63cc") == DEB
    assert fingerprint_of(f"0x{DEB}") == DEB


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"source": "mirror"}, "driver_repository_missing"),
        ({"source": "folder"}, "driver_repository_missing"),
        ({"repository_url": "https://example.com/"}, "driver_repository_unused"),
        ({"source": "folder", "repository_url": "srv/cuda"}, "driver_repository_malformed"),
        ({"source": "mirror", "repository_url": "/srv/cuda"}, "driver_repository_malformed"),
        ({"repository_suite": "bookworm"}, "driver_repository_malformed"),
        ({"repository_components": ["main"]}, "driver_repository_malformed"),
        ({"key": "/srv/key.asc"}, "driver_fingerprint_missing"),
        ({"key": "/srv/key.asc", "key_fingerprint": "3BF863CC"}, "driver_fingerprint_malformed"),
        ({"version": "580"}, "driver_version_malformed"),
        ({"branch": "latest"}, "driver_branch_malformed"),
        ({"version": "580.95.05", "branch": "570"}, "driver_version_not_of_branch"),
        ({"fabric_manager": "maybe"}, "driver_choice_unknown"),
        ({"imex": 7}, "driver_choice_unknown"),
    ],
)
def test_requests_that_contradict_themselves(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(Refusal) as caught:
        driver_request(arguments(**changes))
    assert caught.value.code == code
