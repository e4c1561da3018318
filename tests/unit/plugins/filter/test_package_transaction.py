# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.filter.package_transaction import package_transaction

# As apt 2.6 (Debian 12), apt 3.0 (Debian 13) and dnf 4 (RHEL 9) print.
APT = """\
Reading package lists...
NOTE: This is only a simulation!
Inst cuda-toolkit-13-0-config-common (13.0.2-1 NVIDIA CUDA:1.0 [all])
Inst cuda-nvcc-13-0 [13.0.1-1] (13.0.2-1 NVIDIA CUDA:1.0 [amd64])
Inst libcublas-13-0:amd64 (13.1.0.3-1 NVIDIA CUDA:1.0 [amd64])
Conf cuda-toolkit-13-0-config-common (13.0.2-1 NVIDIA CUDA:1.0 [all])
"""
WITH_DRIVER = APT + "Inst nvidia-kernel-open-dkms (590.48.01-1 NVIDIA CUDA:1.0 [amd64])\nRemv libcuda1 [580.95.05-1]\n"
SIZE_2 = "Need to get 3,012 MB of archives.\nAfter this operation, 7,402 MB of additional disk space will be used.\n"
SIZE_3 = "Summary:\n  Installing: 3\n  Download size: 3012 MB\n  Space needed: 7402 MB / 9.1 GB available\n"
DNF = """\
Dependencies resolved.
================================================================================
 Package                  Arch     Version            Repository           Size
================================================================================
Installing:
 cuda-toolkit-13-0        x86_64   13.0.2-1           cuda-rhel9-x86_64   9.0 k
Installing dependencies:
 cuda-nvcc-13-0           x86_64   13.0.88-1          cuda-rhel9-x86_64    40 M
Removing dependent packages:
 kmod-nvidia-latest-dkms  x86_64   3:580.95.05-1.el9  @cuda-rhel9-x86_64   60 M

Transaction Summary
================================================================================
Install  2 Packages

Total download size: 3.0 G
Installed size: 7.1 G
Operation aborted.
"""


@pytest.mark.parametrize(
    ("size", "needed"),
    [
        (SIZE_2, 7402 * 10**6),
        (SIZE_3, 7402 * 10**6),
        ("", None),
        ("After this operation, 12.3 kB of additional disk space will be used.", 12300),
    ],
)
def test_apt(size: str, needed: int | None) -> None:
    assert package_transaction(APT, size) == {
        "installed": ["cuda-toolkit-13-0-config-common", "cuda-nvcc-13-0", "libcublas-13-0"],
        "removed": [],
        "driver": [],
        "needed_bytes": needed,
    }


def test_parts_of_the_driver_are_named_whether_they_come_or_go() -> None:
    found = package_transaction(WITH_DRIVER, SIZE_2)
    assert found["driver"] == ["libcuda1", "nvidia-kernel-open-dkms"]
    assert found["removed"] == ["libcuda1"]


def test_dnf() -> None:
    assert package_transaction(DNF) == {
        "installed": ["cuda-toolkit-13-0", "cuda-nvcc-13-0"],
        "removed": ["kmod-nvidia-latest-dkms"],
        "driver": ["kmod-nvidia-latest-dkms"],
        "needed_bytes": int(7.1 * (1 << 30)),
    }


def test_nothing_to_do() -> None:
    assert package_transaction("0 upgraded, 0 newly installed.\n", "")["installed"] == []
