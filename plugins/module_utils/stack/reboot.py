# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the host has to be rebooted before what is installed is in force, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Driver,
    Kernel,
    NextBoot,
    OperatingSystem,
    Reboot,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree

_PACKAGES_LIMIT = 256


def reboot_of(
    os: OperatingSystem,
    running: str | None,
    kernels: Sequence[Kernel],
    next_boot: NextBoot,
    driver: Driver,
    asked: bool,
    packages: Sequence[str] = (),
) -> Reboot:
    """C(asked): a package left a request in /run/reboot-required. A container runs its host's kernel."""
    reasons = []
    if asked:
        named = f" for {', '.join(packages[:8])}" if packages else ""
        reasons.append(f"/run/reboot-required asks for it{named}.")
    bootable = [kernel.release for kernel in kernels if kernel.vmlinuz is not None]
    if os.container is None and running is not None and bootable:
        if running not in [kernel.release for kernel in kernels]:
            reasons.append(f"The running kernel {running} is no longer installed, so no module can be loaded into it.")
        if next_boot.kernel is not None and next_boot.kernel != running:
            reasons.append(f"Kernel {running} runs and {next_boot.kernel} boots next.")
    releases = driver.releases
    if releases.loaded is not None:
        for version, whose in (
            (releases.running_kernel, "the module that is installed for this kernel"),
            (releases.user_space, "the driver's libraries"),
        ):
            if version is not None and version != releases.loaded:
                reasons.append(f"The loaded nvidia module is of {releases.loaded}, and {whose} of {version}.")
    known = running is not None and next_boot.kernel is not None and os.container is None
    return Reboot(
        required=True if reasons else False if known or os.container is not None else None,
        reasons=tuple(reasons),
        packages=tuple(packages),
    )


def read_request(tree: Tree) -> tuple[bool, tuple[str, ...]]:
    """Debian's and Ubuntu's packages ask for a reboot in a file, and name themselves in another."""
    asked = tree.is_file("run/reboot-required") or tree.is_file("var/run/reboot-required")
    names = (tree.text("run/reboot-required.pkgs") or "").split()
    return asked, tuple(dict.fromkeys(names))[:_PACKAGES_LIMIT]
