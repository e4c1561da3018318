# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose an installed package of the driver is: NVIDIA's repository's, the distribution's, or a third one's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package

# How a sentence calls them.
ORIGINS = {
    "vendor": "NVIDIA's repository",
    "distribution": "the distribution",
    "rpmfusion": "RPM Fusion",
    "ppa": "the PPA graphics-drivers",
}
# Names that only one of the two uses on Debian: packages.debian.org and NVIDIA's index of debian12. The others they
# share, as NVIDIA's packages were made from Debian's.
_DEBIAN_OWN = re.compile(r"nvidia-open-kernel-(dkms|support|source)|nvidia-(tesla|legacy)-.*|nvidia-driver-full")
_DEBIAN_VENDOR = re.compile(
    r"nvidia-kernel-open-dkms|nvidia-driver-cuda.*|nvidia-open(-\d+)?|cuda-drivers.*|nvidia-driver-pinning-.*"
    r"|nvidia-fabricmanager.*|libnvidia-nscq.*|libnvsdm.*|nvidia-imex.*|nvlsm"
)
# Ubuntu's revisions name its release: 0ubuntu0.24.04.1, 0ubuntu1.22.04.1.
_UBUNTU_OWN_NAMES = re.compile(
    r".*-server(-open)?(-.*)?$|linux-(modules|objects|signatures)-nvidia-.*|nvidia-headless-.*"
)
_UBUNTU_OWN_REVISION = re.compile(r"-0ubuntu\d+\.\d\d\.\d\d")
_UBUNTU_VENDOR = re.compile(r"cuda-drivers.*|nvidia-open.*|nvidia-driver-pinning-.*|nvlsm")
_UBUNTU_REVISION = re.compile(r"-[01]ubuntu\d$")
_PPA_REVISION = re.compile(r"~gpu\d\d\.\d\d")
_RPM_FUSION = re.compile(r"akmods?-nvidia.*|xorg-x11-drv-nvidia.*")


def origins_of(distribution: Distribution, packages: Sequence[Package]) -> dict[str, str | None]:
    """vendor, distribution, rpmfusion or ppa by the package's name; None for a package that does not tell."""
    if distribution.family == "debian":
        vendor = any(_DEBIAN_VENDOR.fullmatch(package.name) for package in packages)
        return {package.name: _debian(distribution, package, vendor) for package in packages}
    if distribution.family == "ubuntu":
        own = any(_is_ubuntus_own(package) for package in packages)
        return {package.name: _ubuntu(package, own) for package in packages}
    return {package.name: "rpmfusion" if _RPM_FUSION.match(package.name) else "vendor" for package in packages}


def _debian(distribution: Distribution, package: Package, vendor_is_there: bool) -> str | None:
    """A name that both have is the vendor's beside other packages of its, and else Debian's where the branch is."""
    if _DEBIAN_VENDOR.fullmatch(package.name):
        return "vendor"
    if _DEBIAN_OWN.fullmatch(package.name):
        return "distribution"
    if vendor_is_there or package.driver_release is None:
        return None
    return "distribution" if package.driver_release.startswith(f"{distribution.own_branch}.") else None


def _is_ubuntus_own(package: Package) -> bool:
    return bool(_UBUNTU_OWN_NAMES.fullmatch(package.name) or _UBUNTU_OWN_REVISION.search(package.version))


def _ubuntu(package: Package, own_is_there: bool) -> str | None:
    """A revision such as 0ubuntu1 is NVIDIA's as a rule, and Ubuntu's own in a release that is being made."""
    if _UBUNTU_VENDOR.fullmatch(package.name):
        return "vendor"
    if _PPA_REVISION.search(package.version):
        return "ppa"
    if _is_ubuntus_own(package):
        return "distribution"
    return "vendor" if _UBUNTU_REVISION.search(package.version) and not own_is_there else None
