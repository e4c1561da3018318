# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What packages are called, by source, distribution, branch and flavour.

NVIDIA's own (docs.nvidia.com/datacenter/tesla/driver-installation-guide, "Kernel Modules", "Compute-only and Desktop
Installation", "Recent Updates", table 4): on Ubuntu the branch is in the names up to 580 and not from 590 on; on
Debian packages for computing alone exist from 560 on. Fabric manager, NSCQ, NVSDM and IMEX lost the branch with 580
(NVIDIA/gpu-driver-container, precompiled/Dockerfile of rhel9 and rhel10, precompiled/nvidia-driver of ubuntu22.04 and
ubuntu24.04; it has nothing for Debian, where the same is assumed), where on RHEL the fabric manager lost a hyphen as
well. There, too: NVSDM from 570 on and not for Arm, nvlsm from 550 on. nvlsm and ibstat of infiniband-diags, which the
fabric manager's start script calls, have versions of their own. Pinning packages are offered for the branches from 570
on, and for single releases from late 2025 on (apt-cache search on debian12, as people show it).

Debian's own: packages.debian.org, bookworm and trixie. Ubuntu's own: the -server packages of restricted, whose
prebuilt modules are signed by Canonical ("NVIDIA drivers installation", documentation.ubuntu.com/server).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution, kernel_flavour

NO_SUFFIX_ON_UBUNTU = 590
COMPUTE_ONLY_ON_DEBIAN = 560
FABRIC_WITHOUT_SUFFIX = 580
FIRST_WITH_NVSDM = 570
FIRST_WITH_PINNING = 570
PERSISTENCED_ALONE_ON_UBUNTU = 580


@dataclass(frozen=True)
class Names:
    """C(versioned) are of the driver's release, C(others) have versions of their own."""

    versioned: tuple[str, ...]
    others: tuple[str, ...] = ()


def uses_dkms(distribution: Distribution, source: str) -> bool:
    """Whether the modules are built on the host; those of Ubuntu's own driver come built and signed."""
    return not (source == "distribution" and distribution.family == "ubuntu")


def driver_names(
    distribution: Distribution,
    source: str,
    branch: int,
    flavour: str,
    compute_only: bool,
    persistence: bool,
    kernels: Sequence[str] = (),
    kernel_metapackages: Sequence[str] = (),
) -> Names:
    """C(kernels) and C(kernel_metapackages) are those that Ubuntu's prebuilt modules are needed for."""
    is_open = flavour == "open"
    if source == "distribution":
        if distribution.family == "ubuntu":
            return _ubuntu_own(branch, is_open, compute_only, kernels, kernel_metapackages)
        return _debian_own(is_open, compute_only, persistence)
    if distribution.family == "debian":
        return _debian_vendor(branch, is_open, compute_only, persistence)
    if distribution.family == "ubuntu":
        return _ubuntu_vendor(branch, is_open, compute_only, persistence)
    daemon = ["nvidia-persistenced"] * persistence
    if compute_only:
        kmod = "kmod-nvidia-open-dkms" if is_open else "kmod-nvidia-latest-dkms"
        return Names(("nvidia-driver-cuda", kmod, *daemon))
    return Names(("nvidia-open" if is_open else "cuda-drivers", *daemon))


def _debian_vendor(branch: int, is_open: bool, compute_only: bool, persistence: bool) -> Names:
    modules = "nvidia-kernel-open-dkms" if is_open else "nvidia-kernel-dkms"
    daemon = ["nvidia-persistenced"] * persistence
    if branch < COMPUTE_ONLY_ON_DEBIAN:
        return Names(("nvidia-driver", modules, *daemon))
    if compute_only:
        return Names(("nvidia-driver-cuda", modules, *daemon))
    return Names(("nvidia-open" if is_open else "cuda-drivers", *daemon))


def _ubuntu_vendor(branch: int, is_open: bool, compute_only: bool, persistence: bool) -> Names:
    if branch >= NO_SUFFIX_ON_UBUNTU:
        daemon = ["nvidia-persistenced"] * persistence
        if compute_only:
            return Names(("libnvidia-compute", "nvidia-dkms-open" if is_open else "nvidia-dkms", *daemon))
        return Names(("nvidia-open" if is_open else "cuda-drivers", *daemon))
    if compute_only:
        # nvidia-smi is in utils, and before 580 the persistence daemon in compute-utils.
        separate = persistence and branch >= PERSISTENCED_ALONE_ON_UBUNTU
        modules = f"nvidia-dkms-{branch}-open" if is_open else f"nvidia-dkms-{branch}"
        utilities = (f"nvidia-utils-{branch}", f"nvidia-compute-utils-{branch}")
        return Names((f"libnvidia-compute-{branch}", modules, *utilities, *["nvidia-persistenced"] * separate))
    return Names((f"nvidia-open-{branch}" if is_open else f"cuda-drivers-{branch}",))


def _debian_own(is_open: bool, compute_only: bool, persistence: bool) -> Names:
    modules = "nvidia-open-kernel-dkms" if is_open else "nvidia-kernel-dkms"
    # Debian builds the persistence daemon of another release, which works.
    daemon = ("nvidia-persistenced",) * persistence
    return Names(("libcuda1", "nvidia-smi", modules) if compute_only else ("nvidia-driver", modules), daemon)


def _ubuntu_own(
    branch: int, is_open: bool, compute_only: bool, kernels: Sequence[str], metapackages: Sequence[str]
) -> Names:
    suffix = "-open" if is_open else ""
    variants = [*kernels, *metapackages] or ["generic"]
    # Versioned like the kernels that they were built for.
    modules = tuple(dict.fromkeys(f"linux-modules-nvidia-{branch}-server{suffix}-{name}" for name in variants))
    if compute_only:
        parts = (f"nvidia-headless-no-dkms-{branch}-server{suffix}", f"nvidia-utils-{branch}-server")
        return Names(parts, modules)
    return Names((f"nvidia-driver-{branch}-server{suffix}",), modules)


def ubuntu_module_variants(kernels: Sequence[str], metapackages: Sequence[str]) -> list[str]:
    """The metapackages of prebuilt modules that follow the host's kernels: generic, generic-hwe-24.04, aws, ..."""
    told = [name[len("linux-headers-") :] for name in metapackages]
    return list(dict.fromkeys(told or map(kernel_flavour, kernels)))


def fabric_manager_names(distribution: Distribution, source: str, branch: int, arm: bool) -> Names:
    """The fabric manager and the libraries that monitoring asks for the switches."""
    suffixed = branch < FABRIC_WITHOUT_SUFFIX or source == "distribution"
    suffix = f"-{branch}" if suffixed else ""
    manager = f"nvidia-fabricmanager{suffix}"
    if distribution.family == "rhel":
        manager = "nvidia-fabric-manager" if suffixed else "nvidia-fabricmanager"
    names = [manager, f"libnvidia-nscq{suffix}"]
    if branch >= FIRST_WITH_NVSDM and not arm and source != "distribution":
        names.append(f"libnvsdm{suffix}")
    return Names(tuple(names))


def subnet_manager_names(distribution: Distribution, kernels: Sequence[str]) -> Names:
    """For NVSwitches behind an adapter. They do not have the driver's version. Ubuntu's generic kernels have ib_umad in
    their extra modules."""
    generic = [kernel for kernel in kernels if distribution.family == "ubuntu" and kernel_flavour(kernel) == "generic"]
    extra = [f"linux-modules-extra-{kernel}" for kernel in generic]
    library = "libibumad" if distribution.family == "rhel" else "libibumad3"
    return Names((), ("nvlsm", "infiniband-diags", library, *extra))


def imex_names(source: str, branch: int) -> Names:
    suffix = f"-{branch}" if branch < FABRIC_WITHOUT_SUFFIX or source == "distribution" else ""
    return Names((f"nvidia-imex{suffix}",))


def pinning_name(distribution: Distribution, source: str, branch: int, release: str | None) -> str | None:
    """The package with apt's pins for one release, or for a branch; to be installed before the driver."""
    if source == "distribution" or distribution.package_manager != "apt" or branch < FIRST_WITH_PINNING:
        return None
    return f"nvidia-driver-pinning-{release or branch}"


def module_stream(branch: int, flavour: str) -> str:
    """dnf's stream on RHEL 9 whose modules are built by DKMS: 580-open, 580-dkms."""
    return f"{branch}-{'open' if flavour == 'open' else 'dkms'}"
