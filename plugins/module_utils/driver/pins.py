# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the driver is kept at its release: holds, apt's preferences, dnf's version lock and module stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver import names
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.packages import Transaction
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import VENDOR_SOURCES, Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.version import Version

PREFERENCES = "/etc/apt/preferences.d/gpufleet-nvidia-driver"
# By source package, as NVIDIA's pinning packages do, so that libraries that come along are pinned too. The container
# toolkit's source package is libnvidia-container, nvidia-settings and the like have the driver's version.
_PINNED_SOURCES = "src:*nvidia*:any src:cuda-drivers:any src:cuda-compat:any"
# From 1000 on apt goes back to the version, too (apt_preferences(5)).
_PRIORITY = 1000


@dataclass(frozen=True)
class Holds:
    """C(locks) are entries for dnf's version lock, C(release) what is held now and in the way."""

    manager: str
    packages: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    release: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preferences:
    path: str
    content: str


@dataclass(frozen=True)
class ModuleStream:
    """C(reset): another stream may be enabled, which dnf does not switch by itself."""

    module: str
    stream: str
    spec: str
    reset: bool


def plan_holds(
    distribution: Distribution, host: Host, asked: Request, version: Version, driver: Transaction | None, changes: bool
) -> Holds:
    """Holds have to be let go of before a change, whoever set them, and are set again after it."""
    manager = distribution.package_manager
    held = tuple(package.name for package in host.driver_packages() if package.held) if changes else ()
    if driver is None or not asked.hold:
        return Holds(manager, release=held)
    wanted = driver.names
    locks: tuple[str, ...] = ()
    if manager == "dnf":
        # With the version in it, so that it can be written before the package is there.
        locks = tuple(f"{name}-{version.release}-*" if version.release else name for name in wanted)
    return Holds(manager, wanted, locks, held)


def plan_preferences(distribution: Distribution, asked: Request, version: Version) -> Preferences | None:
    """The same as NVIDIA's pinning packages say, which a mirror may lack."""
    if distribution.package_manager != "apt" or not asked.hold or asked.source not in VENDOR_SOURCES:
        return None
    if version.release is not None:
        pin, what = f"{version.release}-{asked.package_revision or '*'}", f"Release {version.release}"
    else:
        pin, what = f"{version.branch}.*", f"Branch {version.branch}"
    content = (
        f"Explanation: {what} of the NVIDIA driver and no other.\n"
        f"Package: {_PINNED_SOURCES}\n"
        f"Pin: version {pin}\n"
        f"Pin-Priority: {_PRIORITY}\n"
    )
    return Preferences(PREFERENCES, content)


def plan_stream(distribution: Distribution, asked: Request, version: Version, flavour: str) -> ModuleStream | None:
    if not distribution.modularity or asked.source not in VENDOR_SOURCES:
        return None
    stream = names.module_stream(version.branch, flavour)
    return ModuleStream("nvidia-driver", stream, f"@nvidia-driver:{stream}", reset=True)


def held_elsewhere(host: Host, wanted: Sequence[str]) -> list[str]:
    """Packages that the plan needs in another version and that are held as they are."""
    return [package.name for package in host.packages or () if package.held and package.name in wanted]
