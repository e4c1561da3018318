# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The distributions whose drivers can be planned, and what each calls the same things."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import OperatingSystem, Package


@dataclass(frozen=True)
class Distribution:
    """C(key) is the name in NVIDIA's repositories, C(label) that for people.

    C(own_branch) is the branch of the distribution's own driver, None where it has none or several; C(vendor_since) the
    first branch in NVIDIA's network repository for it, where that is known to matter.
    """

    key: str
    label: str
    family: str
    package_manager: str
    own_branch: int | None = None
    vendor_since: int | None = None
    modularity: bool = False


# Branches of Debian's own: packages nvidia-driver 535.261.03-1 in bookworm and 550.163.01-2 in trixie, non-free.
# NVIDIA's repository for Debian 13 was opened with 590; who needs 580 there takes that of Debian 12: so say the notes
# of several public projects, its index was not read. RHEL 10 has no modularity (NVIDIA driver installation guide of
# release 620, "Kernel Modules", table 5).
DISTRIBUTIONS: dict[str, Distribution] = {
    one.key: one
    for one in (
        Distribution("debian12", "Debian 12", "debian", "apt", own_branch=535),
        Distribution("debian13", "Debian 13", "debian", "apt", own_branch=550, vendor_since=590),
        Distribution("ubuntu2204", "Ubuntu 22.04", "ubuntu", "apt"),
        Distribution("ubuntu2404", "Ubuntu 24.04", "ubuntu", "apt"),
        Distribution("rhel9", "RHEL 9", "rhel", "dnf", modularity=True),
        Distribution("rhel10", "RHEL 10", "rhel", "dnf"),
    )
}
_RHEL_LIKE = ("rhel", "rocky", "almalinux", "centos", "ol")


def distribution_of(os: OperatingSystem) -> Distribution:
    """By what /etc/os-release says; refused where no repository of NVIDIA's is known for it."""
    version = os.version_id or ""
    like_rhel = os.id in _RHEL_LIKE
    key = f"rhel{version.partition('.')[0]}" if like_rhel else f"{os.id}{version.replace('.', '')}"
    known = DISTRIBUTIONS.get(key)
    if known is None:
        labels = ", ".join(one.label for one in DISTRIBUTIONS.values())
        raise Refusal(
            "driver_distribution_unknown",
            f"The host runs {os.id or 'an unknown system'} {version}.".replace(" .", "."),
            f"Expected one of {labels}, or what is like RHEL. Install the driver by other means and set source to "
            "none.",
            {"id": os.id, "version_id": os.version_id},
        )
    return known


def headers_package(distribution: Distribution, release: str) -> str:
    """The package with the headers of exactly this kernel."""
    if distribution.package_manager == "apt":
        return f"linux-headers-{release}"
    # 5.14.0-427.13.1.el9_4.aarch64+64k is of kernel-64k-core.
    plain, _plus, variant = release.partition("+")
    return f"kernel-{variant}-devel-{plain}" if variant else f"kernel-devel-{plain}"


def headers_metapackages(distribution: Distribution, packages: Sequence[Package]) -> list[str]:
    """What brings the headers of kernels to come, beside the packages that bring those kernels: without them the next
    kernel that is installed boots without a driver."""
    if distribution.package_manager == "dnf":
        return ["kernel-devel-matched"]
    found = []
    for package in packages:
        # linux-image-amd64, linux-image-generic-hwe-24.04, linux-generic; not those of one release.
        match = re.match(r"linux-(?:image-)?((?:cloud-|rt-)?(?:amd64|arm64)|[a-z]+(?:-hwe-\d\d\.\d\d)?)$", package.name)
        if package.kind == "kernel" and match and not match.group(1).startswith(("modules", "headers")):
            found.append(f"linux-headers-{match.group(1)}")
    return list(dict.fromkeys(found))


def kernel_flavour(release: str) -> str:
    """Ubuntu's name for the kind of kernel: C(6.8.0-45-generic) -> generic, C(6.8.0-1015-aws) -> aws."""
    return release.rpartition("-")[2]
