# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of CUDA's packages, which are the same in NVIDIA's repositories for Debian, Ubuntu and RHEL.

CUDA installation guide for Linux, "Meta Packages": cuda-toolkit-X-Y installs the toolkit and no driver; cuda, cuda-X-Y
and cuda-runtime-X-Y bring cuda-drivers with them; cuda-toolkit and cuda-toolkit-X follow the newest release, so that an
upgrade changes what nvcc is. Forward compatibility: CUDA Compatibility, "Installing the CUDA Forward Compatibility
Package".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import DRIVER_KINDS, kind_of

_LINE = re.compile(r"(\d{2})\.(\d{1,2})")
# What people write in the place of a version.
_WITH_DRIVER = re.compile(r"cuda(?:-\d+-\d+)?|cuda-(?:runtime|demo-suite)-\d+-\d+|cuda-drivers(?:-.*)?")
_MOVING = re.compile(r"cuda-toolkit(?:-\d+)?")
# Bounds against slips, beside the newest at the time (13.5): no repository is promised to go back to the oldest.
OLDEST, NEWEST = (11, 8), (13, 99)


@dataclass(frozen=True)
class Toolkit:
    """One release of the toolkit, C(13.0), which lies beside others in a folder of its own."""

    line: str

    @property
    def suffix(self) -> str:
        return self.line.replace(".", "-")

    @property
    def package(self) -> str:
        return f"cuda-toolkit-{self.suffix}"

    @property
    def compatibility_package(self) -> str:
        return f"cuda-compat-{self.suffix}"

    @property
    def folder(self) -> str:
        return f"/usr/local/cuda-{self.line}"

    @property
    def compiler(self) -> str:
        return f"{self.folder}/bin/nvcc"

    @property
    def patterns(self) -> tuple[str, ...]:
        """All packages of the release, for its removal: its parts end with its number as well."""
        return (rf"(?:cuda|lib|nsight|gds-tools)[a-z0-9-]*-{self.suffix}(?:-[a-z-]+)?",)


def toolkit_of(text: str) -> Toolkit:
    """C(13.0) as a toolkit; names of packages are refused, those that bring a driver with the reason."""
    asked = text.strip()
    match = _LINE.fullmatch(asked)
    if match is not None and OLDEST <= (int(match.group(1)), int(match.group(2))) <= NEWEST:
        return Toolkit(asked)
    if _WITH_DRIVER.fullmatch(asked):
        raise Refusal(
            "cuda_package_brings_driver",
            f"{asked} is a metapackage that installs NVIDIA's newest driver as well.",
            "Name the release of the toolkit, quoted, such as '13.0': its package, cuda-toolkit-13-0, leaves the "
            "driver alone, which is for the role gpufleet.sglang.nvidia_driver.",
            {"given": asked},
        )
    if _MOVING.fullmatch(asked):
        raise Refusal(
            "cuda_package_moves",
            f"{asked} is a metapackage that follows the newest release: the next upgrade changes what nvcc is.",
            "Name the release of the toolkit, quoted, such as '13.0'.",
            {"given": asked},
        )
    raise Refusal(
        "cuda_version_malformed",
        f"{asked!r} is no release of the CUDA toolkit.",
        "Expected its first two numbers, quoted, such as '12.9' or '13.0'; unquoted YAML makes 13.0 a number.",
        {"given": asked},
    )


def driver_packages(names: Iterable[str]) -> list[str]:
    """Those that are a part of the driver. Packages for forward compatibility are none, for all their libraries."""
    return sorted({name for name in names if kind_of(name) in DRIVER_KINDS})


def packages_of(toolkit: Toolkit, installed: Iterable[str]) -> list[str]:
    """The installed packages of a release."""
    return sorted({name for name in installed for pattern in toolkit.patterns if re.fullmatch(pattern, name)})
