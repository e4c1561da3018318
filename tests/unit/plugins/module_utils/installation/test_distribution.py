# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role asks of distributions, of which only Debian boots in the tests."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.distribution import from_distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.options import asked_from
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import OperatingSystem
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import family_of

DEBIAN = ("/usr/bin/python3", ["python3-venv", "python3-dev", "g++", "numactl"])
RHEL = ("/usr/bin/python3", ["python3", "python3-devel", "gcc-c++", "numactl"])
RHEL_9 = ("/usr/bin/python3.12", ["python3.12", "python3.12-devel", "gcc-c++", "numactl"])
PLAIN: dict[str, Any] = {
    "version": "0.5.23",
    "device": "cpu",
    "python": None,
    "requirements": None,
    "installer": "auto",
    "uv_version": None,
    "wheelhouse": None,
    "index_url": None,
    "extra_index_urls": [],
    "require_hashes": None,
    "system_packages": None,
}


def system(name: str, version: str, like: str | None = None) -> OperatingSystem:
    return OperatingSystem(id=name, version_id=version, family=family_of(name, like))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (system("debian", "12"), DEBIAN),
        (system("debian", "13"), DEBIAN),
        (system("ubuntu", "22.04"), DEBIAN),
        (system("ubuntu", "24.04"), DEBIAN),
        (system("linuxmint", "22", "ubuntu debian"), DEBIAN),
        (system("rhel", "9.6"), RHEL_9),
        (system("rocky", "9.4", "rhel centos fedora"), RHEL_9),
        (system("almalinux", "9", "rhel centos fedora"), RHEL_9),
        (system("rhel", "10.0"), RHEL),
        (system("rocky", "10.1", "rhel centos fedora"), RHEL),
        (system("fedora", "43"), RHEL),
        (system("opensuse-leap", "15.6", "suse opensuse"), ("/usr/bin/python3", [])),
    ],
    ids=lambda value: f"{value.id}-{value.version_id}" if isinstance(value, OperatingSystem) else "",
)
def test_names_are_those_of_the_distribution(found: OperatingSystem, expected: tuple[str, list[str]]) -> None:
    own = from_distribution(found)
    assert (own.python, list(own.packages)) == expected


def test_what_is_given_counts_and_an_empty_list_is_given() -> None:
    rhel = system("rhel", "9.6")
    asked = asked_from({**PLAIN, "python": "/opt/python/bin/python3", "system_packages": []}, rhel)
    assert (asked.python, asked.system_packages) == ("/opt/python/bin/python3", ())
    asked = asked_from(PLAIN, rhel)
    assert (asked.python, asked.system_packages[0]) == ("/usr/bin/python3.12", "python3.12")


def test_what_installs_counts_on_no_package_that_would_come_before() -> None:
    plain = {name: value for name, value in PLAIN.items() if name != "system_packages"}
    assert asked_from(plain, system("debian", "12")).system_packages == ()
