# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether packages, modules and a new initramfs have room.

Figures: Debian's index of trixie gives 450 MB installed and 108 MB to download for the compute-only packages of
550.163.01 (Installed-Size and Size, with firmware and the source of the modules), and half as much again for what
screens need; later branches grew, so twice that is asked for. A build of all modules takes about 500 MB per kernel
while it runs. An initramfs is written beside the old one, and holds nvidia.ko where the distribution's hooks take it
along: about 15 MB of the open and 110 MB of the proprietary flavour, as lsmod shows them, before compression.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MB, format_gb, format_gb_to_free
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal

_DOWNLOAD = {True: 220 * MB, False: 600 * MB}
_INSTALLED = {True: 900 * MB, False: 1800 * MB}
_FABRIC = 150 * MB
_BUILD_PER_KERNEL = 500 * MB
_MODULES = {"open": 20 * MB, "proprietary": 120 * MB}
# Where no initramfs tells how large one is.
_INITRAMFS = 150 * MB


def root_bytes(compute_only: bool, fabric: bool, kernels: int, dkms: bool) -> int:
    build = _BUILD_PER_KERNEL * max(kernels, 1) if dkms else 0
    return _DOWNLOAD[compute_only] + _INSTALLED[compute_only] + (_FABRIC if fabric else 0) + build


def boot_bytes(initramfs_bytes: int | None, flavour: str) -> int:
    """One at a time: the new one is written beside the old one and then takes its place, where the old one has no
    nvidia module in it yet."""
    return (initramfs_bytes or _INITRAMFS) + _MODULES[flavour]


def check_space(
    host: Host, asked: Request, flavour: str, fabric: bool, dkms: bool, initramfs: bool
) -> tuple[list[Refusal], list[Problem]]:
    space, kernels = asked.space, len(host.concerned_kernels())
    root, boot = root_bytes(asked.compute_only, fabric, kernels, dkms), boot_bytes(space.initramfs_bytes, flavour)
    if not initramfs:
        boot = 0
    if space.boot_on_root:
        root += boot
    refusals = []
    if space.root_free_bytes is not None and space.root_free_bytes < root:
        what = f"packages, {kernels or 1} build{'s' * (kernels > 1)} of the modules" if dkms else "packages"
        refusals.append(
            Refusal(
                "driver_no_space",
                f"/ has {format_gb(space.root_free_bytes)} free, and {what}"
                f"{' and a new initramfs' if space.boot_on_root and boot else ''} take about {format_gb(root)}.",
                f"Free {format_gb_to_free(root - space.root_free_bytes)} there: apt-get clean or dnf clean packages, "
                "old kernels (apt-get autoremove --purge), journals (journalctl --vacuum-size=500M).",
                {"path": "/", "free_bytes": space.root_free_bytes, "needed_bytes": root},
            )
        )
    if boot and not space.boot_on_root and space.boot_free_bytes is not None and space.boot_free_bytes < boot:
        now = f"the one that is there has {format_gb(space.initramfs_bytes, 3)}, " if space.initramfs_bytes else ""
        refusals.append(
            Refusal(
                "driver_no_space",
                f"/boot has {format_gb(space.boot_free_bytes, 3)} free, and a new initramfs takes about "
                f"{format_gb(boot, 3)} beside the old one ({now}the modules up to {format_gb(_MODULES[flavour], 3)}).",
                f"Free {format_gb_to_free(boot - space.boot_free_bytes, 3)} there by removing old kernels: apt-get "
                "autoremove --purge, or dnf remove --oldinstallonly.",
                {"path": "/boot", "free_bytes": space.boot_free_bytes, "needed_bytes": boot},
            )
        )
    unknown = [
        path
        for path, free in (("/", space.root_free_bytes), ("/boot", space.boot_free_bytes))
        if free is None and not (path == "/boot" and (space.boot_on_root or not boot))
    ]
    if not unknown:
        return refusals, []
    needed = {"/": format_gb(root), "/boot": format_gb(boot, 3)}
    message = ", ".join(f"{path} (about {needed[path]} needed)" for path in unknown)
    return refusals, [problem("driver_space_unchecked", f"What is free was not given: {message}.")]
