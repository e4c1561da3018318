# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that the driver needs on the host, and the initramfs that has to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.fabric import Fabric
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request

MODPROBE = "/etc/modprobe.d/gpufleet-nvidia.conf"
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
MODULES_LOAD = "/etc/modules-load.d/gpufleet-nvidia-fabric.conf"


@dataclass(frozen=True)
class File:
    """C(initramfs): whether it has to be made anew for a change of the file."""

    path: str
    content: str
    why: str
    mode: str = "0644"
    initramfs: bool = False


@dataclass(frozen=True)
class Initramfs:
    needed: bool = False
    tool: str | None = None
    kernels: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Dkms:
    used: bool = False
    kernels: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()


def plan_files(asked: Request, fabric: Fabric) -> tuple[File, ...]:
    """Nothing is set for the nvidia module itself: its defaults are right for servers, and options that a release drops
    keep it from loading."""
    files = [
        File(
            MODPROBE,
            "# Written by gpufleet.sglang; nouveau and NVIDIA's driver exclude each other.\n"
            "blacklist nouveau\n"
            "options nouveau modeset=0\n",
            "nouveau must not take the GPUs.",
            initramfs=True,
        )
    ]
    if fabric.subnet_manager:
        files.append(
            File(
                MODULES_LOAD,
                "# Written by gpufleet.sglang; the fabric manager's subnet manager reaches the NVSwitches through it.\n"
                "ib_umad\n",
                "The fabric manager does not start without ib_umad.",
            )
        )
    if fabric.imex and asked.imex_nodes:
        # IMEX guide, "Getting Started": one address a line, the same file on all hosts of the domain.
        content = "".join(f"{node}\n" for node in asked.imex_nodes)
        files.append(File(IMEX_NODES, content, "IMEX looks for the hosts of its domain there."))
    return tuple(files)


def plan_initramfs(distribution: Distribution, host: Host, kernels: Sequence[str], changes: bool) -> Initramfs:
    """For kernels that have one, where nouveau could load from it or it is about to change."""
    having = {kernel.release for kernel in host.concerned_kernels() if kernel.initramfs is not None}
    concerned = tuple(release for release in kernels if release in having)
    needed = bool(concerned) and (changes or MODPROBE not in host.nouveau_blacklisted_by)
    if distribution.package_manager == "apt":
        commands = tuple(("update-initramfs", "-u", "-k", release) for release in concerned)
        return Initramfs(needed, "update-initramfs", concerned, commands)
    commands = tuple(("dracut", "--force", "--kver", release) for release in concerned)
    return Initramfs(needed, "dracut", concerned, commands)


def plan_dkms(used: bool, kernels: Sequence[str]) -> Dkms:
    if not used:
        return Dkms()
    return Dkms(True, tuple(kernels), tuple(("dkms", "autoinstall", "-k", release) for release in kernels))
