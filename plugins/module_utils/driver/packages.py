# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to install, in which order, and what has to go for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver import names
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import (
    Distribution,
    headers_metapackages,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.fabric import Fabric
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.origins import ORIGINS, origins_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.version import Version


@dataclass(frozen=True)
class Transaction:
    """One call of the package manager. C(packages) are as it takes them; C(optional): the plan holds without it.

    C(version) is the release that all but those in C(unversioned) have.
    """

    name: str
    packages: tuple[str, ...]
    names: tuple[str, ...]
    version: str | None
    why: str
    optional: bool = False


@dataclass(frozen=True)
class Absent:
    """C(foreign): of another source than the plan's, so that taking it away needs to be allowed."""

    name: str
    version: str
    why: str
    foreign: bool = False


def spec(manager: str, name: str, release: str | None, revision: str | None) -> str:
    """C(nvidia-open=580.95.05-*) for apt, C(nvidia-open-580.95.05) for dnf."""
    if release is None:
        return name
    if manager == "apt":
        return f"{name}={release}-{revision or '*'}"
    return f"{name}-{release}-{revision}" if revision else f"{name}-{release}"


def _kernel_parts(distribution: Distribution, host: Host, asked: Request) -> tuple[list[str], list[str]]:
    """For Ubuntu's prebuilt modules: the kernels, and the metapackages that follow them."""
    if names.uses_dkms(distribution, asked.source):
        return [], []
    kernels = [kernel.release for kernel in host.concerned_kernels()]
    metapackages = headers_metapackages(distribution, host.packages or ())
    return kernels, names.ubuntu_module_variants(kernels, metapackages)


def driver_transaction(
    distribution: Distribution, host: Host, asked: Request, version: Version, flavour: str, fabric: Fabric
) -> Transaction:
    """Driver and fabric in one, so that the two are never of different releases (NVIDIA/gpu-operator issue 544)."""
    kernels, metapackages = _kernel_parts(distribution, host, asked)
    branch = version.branch
    arm = host.os.architecture == "aarch64"
    parts = [
        names.driver_names(
            distribution, asked.source, branch, flavour, asked.compute_only, asked.persistence, kernels, metapackages
        )
    ]
    if fabric.fabric_manager:
        parts.append(names.fabric_manager_names(distribution, asked.source, branch, arm))
    if fabric.subnet_manager:
        parts.append(names.subnet_manager_names(distribution, [one.release for one in host.concerned_kernels()]))
    if fabric.imex:
        parts.append(names.imex_names(asked.source, branch))
    versioned = [name for part in parts for name in part.versioned]
    others = [name for part in parts for name in part.others]
    manager = distribution.package_manager
    why = f"{flavour.capitalize()} kernel modules and what {'computing' if asked.compute_only else 'all uses'} needs"
    if fabric.fabric_manager or fabric.imex:
        why += ", with the fabric's part of the same release in the same transaction"
    return Transaction(
        name="driver",
        packages=(*(spec(manager, name, version.release, asked.package_revision) for name in versioned), *others),
        names=(*versioned, *others),
        version=version.release,
        why=f"{why}.",
    )


def pinning_transaction(distribution: Distribution, asked: Request, version: Version) -> Transaction | None:
    if not asked.hold:
        return None
    name = names.pinning_name(distribution, asked.source, version.branch, version.release)
    if name is None:
        return None
    what = f"release {version.release}" if version.release else f"branch {version.branch}"
    return Transaction(
        name="pinning",
        packages=(name,),
        names=(name,),
        version=None,
        why=f"It keeps apt on {what}, and has to be there before the driver.",
        # The file of preferences says the same, where a mirror lacks the package.
        optional=True,
    )


def headers_transaction(distribution: Distribution, host: Host, missing: Iterable[str]) -> Transaction | None:
    """C(missing) are the headers of the kernels at hand; with them come what brings those of kernels to come."""
    wanted = list(missing)
    for name in headers_metapackages(distribution, host.packages or ()):
        installed = host.package(name)
        if host.concerned_kernels() and (installed is None or installed.status != "installed"):
            wanted.append(name)
    if not wanted:
        return None
    return Transaction(
        name="headers",
        packages=tuple(wanted),
        names=tuple(wanted),
        version=None,
        why="DKMS builds the modules against them, for the kernels at hand and for those to come.",
    )


def containers_transaction(distribution: Distribution, asked: Request) -> Transaction | None:
    if not asked.container_toolkit:
        return None
    wanted = (
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
        "libnvidia-container1",
    )
    version, manager = asked.container_toolkit_version, distribution.package_manager
    return Transaction(
        name="containers",
        packages=tuple(spec(manager, name, version, None) for name in wanted),
        names=wanted,
        version=version,
        why="Containers get GPUs through it, described for CDI.",
    )


def absent_packages(
    distribution: Distribution, host: Host, asked: Request, version: Version, wanted: Iterable[str]
) -> tuple[Absent, ...]:
    """Packages of other sources, of another branch in the name, of the other flavour, and other pins."""
    keep = set(wanted)
    found = []
    origins = origins_of(distribution, host.driver_packages())
    target = "distribution" if asked.source == "distribution" else "vendor"
    for package in host.driver_packages():
        if package.name in keep or package.status in ("config-files", "not-installed"):
            continue
        origin = origins[package.name]
        if origin is not None and origin != target:
            why = f"It is of {ORIGINS[origin]}, which excludes the packages of the plan."
            found.append(Absent(package.name, package.version, why, foreign=True))
            continue
        branch = _branch_in(package.name)
        pinned = re.match(r"nvidia-driver-pinning-(.+)$", package.name)
        if pinned:
            found.append(Absent(package.name, package.version, f"It pins the driver to {pinned.group(1)}."))
        elif branch is not None and branch != version.branch:
            found.append(Absent(package.name, package.version, f"It is of branch {branch}."))
        elif branch is not None and _loses_suffix(distribution, asked, version, package.name):
            why = f"From branch {names.NO_SUFFIX_ON_UBUNTU} on it is called otherwise."
            found.append(Absent(package.name, package.version, why))
        elif _other_flavour(package.name, keep):
            found.append(Absent(package.name, package.version, "It is the other flavour of the modules."))
    return tuple(found)


def _branch_in(name: str) -> int | None:
    """The branch that a name carries: C(nvidia-dkms-570-open) -> 570."""
    match = re.search(r"-(\d{3})(?=-|$)", name)
    return int(match.group(1)) if match else None


def _loses_suffix(distribution: Distribution, asked: Request, version: Version, name: str) -> bool:
    fabric = name.startswith(("nvidia-fabricmanager-", "libnvidia-nscq-", "libnvsdm-", "nvidia-imex-"))
    if asked.source == "distribution":
        return False
    if fabric:
        return version.branch >= names.FABRIC_WITHOUT_SUFFIX
    return distribution.family == "ubuntu" and version.branch >= names.NO_SUFFIX_ON_UBUNTU


# Each excludes the other; whichever the plan has, the other one has to go.
_EXCLUDING = (
    ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms"),
    ("nvidia-open-kernel-dkms", "nvidia-kernel-dkms"),
    ("nvidia-dkms-open", "nvidia-dkms"),
    ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms"),
    ("nvidia-open", "cuda-drivers"),
)
_SUFFIXED_MODULES = re.compile(r"(nvidia-dkms|linux-modules-nvidia)-\d{3}(-server)?(?P<open>-open)?")


def _other_flavour(name: str, wanted: set[str]) -> bool:
    for one, other in _EXCLUDING:
        if (name == one and other in wanted) or (name == other and one in wanted):
            return True
    ours = _SUFFIXED_MODULES.match(name)
    if ours is None:
        return False
    return any(
        match.group(1) == ours.group(1) and bool(match.group("open")) != bool(ours.group("open"))
        for match in map(_SUFFIXED_MODULES.match, wanted)
        if match is not None
    )
