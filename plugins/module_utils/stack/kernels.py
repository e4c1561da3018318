# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The installed kernels: image, initramfs, headers, and the nvidia and nouveau modules that each would load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.elf import read_module_info
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    DkmsModule,
    Kernel,
    NvidiaModule,
    Package,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key

# A machine has a handful; a folder full of rubbish is not read to its end.
KERNELS_LIMIT = 64
_DEPENDENCIES_LIMIT = 16 << 20
_IMAGE = re.compile(r"^vmlinu[xz]-(?P<release>.+?)(?:\.efi\.signed)?$")
# Debian builds nvidia-current.ko and lets modprobe find it by an alias.
_NVIDIA = re.compile(
    r"^([^:\s]*/nvidia(?:-current(?:-open)?|-tesla(?:-\d+)?(?:-open)?|-legacy-\w+)?\.ko(?:\.\w+)?):", re.M
)
_NOUVEAU = re.compile(r"^([^:\s]*/nouveau\.ko(?:\.\w+)?):", re.M)
# Where nvidia.ko lies when depmod has not been run.
_MODULE_FOLDERS = (
    "updates/dkms",
    "updates",
    "extra",
    "extra/nvidia",
    "weak-updates/nvidia",
    "kernel/drivers/video",
    "kernel/drivers/video/nvidia",
    "kernel/drivers/char/drm",
    "misc",
)
_OPEN_LICENSES = ("Dual MIT/GPL", "GPL", "GPL v2", "Dual BSD/GPL", "MIT")


def release_of_image(path: str | None) -> str | None:
    """C(/boot/vmlinuz-6.8.0-45-generic) -> C(6.8.0-45-generic), also for C(/<machine id>/<release>/linux)."""
    parts = [part for part in (path or "").split("/") if part]
    if not parts:
        return None
    match = _IMAGE.match(parts[-1])
    if match:
        return match.group("release")
    return parts[-2] if parts[-1] in ("linux", "vmlinuz") and len(parts) >= 3 else None


def flavour_of(license_name: str | None) -> str | None:
    """The module's licence tells the flavour: NVIDIA is the proprietary one, Dual MIT/GPL the open one."""
    if license_name is None:
        return None
    if license_name == "NVIDIA":
        return "proprietary"
    return "open" if license_name in _OPEN_LICENSES else None


def source_of(path: str, release: str, dkms: Sequence[DkmsModule], packages: Sequence[Package]) -> str:
    """dkms, packaged or unknown, for the module at this path below the kernel's folder."""
    by_dkms = any(
        entry.kernel == release and entry.state == "installed" and entry.module.startswith("nvidia") for entry in dkms
    )
    if by_dkms or path.startswith("updates/dkms/"):
        return "dkms"
    for package in packages:
        precompiled = package.name.startswith(("linux-modules-nvidia-", "linux-objects-nvidia-"))
        if precompiled and package.name.endswith(f"-{release}"):
            return "packaged"
        if package.name.startswith(("kmod-nvidia", "nvidia-kmod")) and "dkms" not in package.name:
            return "packaged"
    return "unknown"


def _releases(tree: Tree) -> list[str]:
    found = {name for name in tree.names("lib/modules") if tree.is_folder(f"lib/modules/{name}")}
    found |= {match.group("release") for match in map(_IMAGE.match, tree.names("boot")) if match}
    ours = [name for name in found if "rescue" not in name and not name.endswith((".old", ".bak"))]
    return sorted(ours, key=version_key, reverse=True)[:KERNELS_LIMIT]


def _first_file(tree: Tree, *candidates: str) -> str | None:
    return next((shown(path) for path in candidates if tree.is_file(path)), None)


def _headers(tree: Tree, release: str) -> str | None:
    """What modules are built against; the link is there without them on RHEL, where it leads nowhere."""
    for path in (f"lib/modules/{release}/build", f"usr/src/linux-headers-{release}", f"usr/src/kernels/{release}"):
        if tree.is_file(f"{path}/Makefile"):
            return shown(tree.resolved(path))
    return None


def _module_path(tree: Tree, release: str, pattern: re.Pattern[str]) -> str | None:
    """The module that modprobe would load, below the kernel's folder: the one depmod has chosen among several."""
    base = f"lib/modules/{release}"
    dependencies = tree.text(f"{base}/modules.dep", _DEPENDENCIES_LIMIT)
    if dependencies:
        match = pattern.search(dependencies)
        return match.group(1) if match and tree.is_file(f"{base}/{match.group(1)}") else None
    folders = [*_MODULE_FOLDERS, *(f"kernel/{name}" for name in tree.names(f"{base}/kernel") if "nvidia" in name)]
    for folder in folders:
        for name in tree.names(f"{base}/{folder}"):
            if pattern.match(f"{folder}/{name}:"):
                return f"{folder}/{name}"
    return None


def _nvidia_module(
    tree: Tree, release: str, dkms: Sequence[DkmsModule], packages: Sequence[Package], trusted: Sequence[str] | None
) -> NvidiaModule | None:
    inside = _module_path(tree, release, _NVIDIA)
    if inside is None:
        return None
    path = f"lib/modules/{release}/{inside}"
    found = NvidiaModule(path=shown(path) or path, source=source_of(inside, release, dkms, packages))
    info = read_module_info(tree, path)
    if info is None:
        return found
    signer = info.signature.signer if info.signature else None
    return replace(
        found,
        version=info.first("version"),
        license=info.first("license"),
        flavour=flavour_of(info.first("license")),
        signed=info.signature is not None,
        signer=signer,
        signer_trusted=None if signer is None or trusted is None else signer in trusted,
    )


def read_kernels(
    tree: Tree,
    running: str | None,
    dkms: Sequence[DkmsModule],
    packages: Sequence[Package],
    trusted: Sequence[str] | None,
) -> tuple[Kernel, ...]:
    """The newest first. Which one boots next is told by boot.py."""
    kernels = []
    for release in _releases(tree):
        headers = _headers(tree, release)
        nouveau = _module_path(tree, release, _NOUVEAU)
        kernels.append(
            Kernel(
                release=release,
                running=release == running,
                vmlinuz=_first_file(
                    tree, f"boot/vmlinuz-{release}", f"boot/vmlinux-{release}", f"lib/modules/{release}/vmlinuz"
                ),
                initramfs=_first_file(
                    tree, f"boot/initrd.img-{release}", f"boot/initramfs-{release}.img", f"boot/initrd-{release}"
                ),
                headers_installed=headers is not None,
                headers_path=headers,
                nvidia_module=_nvidia_module(tree, release, dkms, packages, trusted),
                nouveau_path=shown(f"lib/modules/{release}/{nouveau}") if nouveau else None,
            )
        )
    return tuple(kernels)
