# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.markers import applies
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import (
    Target,
    fits,
    parse_wheel,
    same_version,
    why_not,
)

BOOKWORM = Target((3, 11), "x86_64", (2, 36))

# Names of real wheels on PyPI -> whether Debian 12 takes them.
NAMES = {
    "sglang-0.5.9-py3-none-any.whl": True,
    "sglang-0.5.23-cp311-cp311-manylinux_2_34_x86_64.whl": True,
    "sglang-0.5.23-cp312-cp312-manylinux_2_34_x86_64.whl": False,
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": True,
    "sgl_kernel-0.3.21-cp310-abi3-manylinux2014_x86_64.whl": True,
    "sgl_kernel-0.3.21-cp312-abi3-manylinux2014_x86_64.whl": False,
    "sglang_kernel-0.4.10-cp310-abi3-manylinux_2_39_x86_64.whl": False,
    "nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_x86_64.whl": True,
    "nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_aarch64.whl": False,
    "aiohttp-3.14.5-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl": True,
    "aiohttp-3.14.5-cp311-cp311-musllinux_1_2_x86_64.whl": False,
    "python_dateutil-2.9.0-py2.py3-none-any.whl": True,
    "uvloop-0.22.1-cp311-cp311-macosx_10_9_universal2.whl": False,
    "cffi-2.1.1-pp311-pypy311_pp73-manylinux_2_17_x86_64.whl": False,
    "numpy-2.3.0-cp311-cp311t-manylinux_2_28_x86_64.whl": False,
}


@pytest.mark.parametrize("file", NAMES)
def test_a_wheel_fits_as_its_tags_say(file: str) -> None:
    wheel = parse_wheel(file)
    assert wheel is not None
    assert fits(wheel, BOOKWORM) is NAMES[file]


def test_what_keeps_a_wheel_away_is_named() -> None:
    for file, words in {
        "sglang-0.5.23-cp312-cp312-manylinux_2_34_x86_64.whl": "cp312",
        "sglang-0.5.23-cp311-cp311-manylinux_2_39_x86_64.whl": "manylinux_2_39_x86_64",
    }.items():
        wheel = parse_wheel(file)
        assert wheel is not None
        assert words in why_not(wheel, BOOKWORM)


def test_what_is_no_wheel_is_none() -> None:
    assert parse_wheel("torch-2.13.0.tar.gz") is None
    assert parse_wheel("torch.whl") is None


@pytest.mark.parametrize(
    ("pinned", "found", "same"),
    [
        ("2.13.0", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0+cpu", True),
        ("2.13.0+cu130", "2.13.0+cpu", False),
        ("2.13", "2.13.0", True),
        ("0.0.9rc2", "0.0.9", False),
        ("0.3.14.post1", "0.3.14.post1", True),
        ("2026.01.07", "2026.1.7", True),
    ],
)
def test_versions_are_the_same_as_for_pip(pinned: str, found: str, same: bool) -> None:
    assert same_version(pinned, found) is same


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("", True),
        ('python_version < "3.12"', True),
        ('python_version >= "3.9" and python_version < "3.11"', False),
        ('sys_platform == "win32"', False),
        ('sys_platform != "linux" or (sys_platform == "linux" and platform_machine != "aarch64")', True),
        ("platform_machine in 'x86_64 amd64'", True),
        ("platform_python_implementation not in 'PyPy'", True),
        ('extra == "all"', False),
        ('python_full_version <= "3.11.0a6"', False),
        # What cannot be read is rather installed than left out.
        ("something odd", True),
    ],
)
def test_markers_are_judged_for_the_target(marker: str, holds: bool) -> None:
    assert applies(marker, BOOKWORM) is holds
