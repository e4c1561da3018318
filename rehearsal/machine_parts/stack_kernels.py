# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installed kernels: images, modules, headers, the boot menu and DKMS's tree."""

from __future__ import annotations

import re
from typing import Any

from .entries import Entries, Link, Profile, ProfileError
from .module_file import kernel_module

LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}
DKMS_STATES = ("installed", "built", "added", "none")
NOUVEAU = "kernel/drivers/gpu/drm/nouveau/nouveau.ko"
MENU_ENTRY = """\
{pad}menuentry '{title}' --class linux $menuentry_id_option '{id}' {{
{pad}	linux	/boot/vmlinuz-{release} {arguments}
{pad}	initrd	/boot/initrd.img-{release}
{pad}}}
"""


def age(release: str) -> list[tuple[int, str]]:
    """A key that sorts releases of kernels as people read them."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.findall(r"\d+|\D+", release)]


def installed_kernels(profile: Profile) -> dict[str, dict[str, Any]]:
    """Each with all it may leave out: headers, and the driver's module by DKMS where a driver is loaded."""
    told = profile["stack"].get("kernels") or {profile["host"]["kernel"]: {}}
    driver = profile["driver"]
    module = {"version": driver["version"], "flavour": driver.get("flavour", "open")} if driver else None
    found = {}
    for release, own in told.items():
        nvidia = own.get("nvidia", module)
        whole = {"headers": True, **own, "nvidia": {**(module or {"flavour": "open"}), **nvidia} if nvidia else None}
        whole.setdefault("dkms", "installed" if nvidia else "none")
        if whole["dkms"] not in DKMS_STATES:
            raise ProfileError(f"{profile['name']}: dkms of {release} is {whole['dkms']}; known: {DKMS_STATES}.")
        found[release] = whole
    return found


def kernels(profile: Profile) -> Entries:
    rpm = profile["stack"]["os"].startswith("rhel")
    architecture = profile["host"]["architecture"]
    for release, kernel in installed_kernels(profile).items():
        base = f"lib/modules/{release}"
        yield f"boot/vmlinuz-{release}", "image"
        yield f"boot/initramfs-{release}.img" if rpm else f"boot/initrd.img-{release}", "initramfs"
        if architecture == "ppc64le":
            yield f"boot/config-{release}", "CONFIG_PPC_64K_PAGES=y"
        yield f"{base}/{NOUVEAU}", kernel_module({"license": "GPL and additional rights"}, architecture)
        modules = [NOUVEAU]
        nvidia = kernel["nvidia"]
        if nvidia:
            modules.append("extra/nvidia.ko" if rpm else "updates/dkms/nvidia.ko")
            content = _nvidia(nvidia, release, architecture)
            yield f"{base}/{modules[-1]}", content
        yield f"{base}/modules.dep", "\n".join(f"{module}:" for module in modules)
        if kernel["headers"]:
            headers = f"usr/src/kernels/{release}" if rpm else f"usr/src/linux-headers-{release}"
            yield f"{headers}/Makefile", "all:"
            yield f"{base}/build", Link(headers)
        yield from _dkms(profile, release, kernel)
    if not rpm:
        yield from _menu(profile)


def _nvidia(nvidia: dict[str, Any], release: str, architecture: str) -> bytes:
    fields = {"version": nvidia["version"], "license": LICENSES[nvidia["flavour"]], "vermagic": f"{release} SMP"}
    return kernel_module(fields, architecture, nvidia.get("signer"))


def _dkms(profile: Profile, release: str, kernel: dict[str, Any]) -> Entries:
    """C(added) is a source without a module, C(built) a module that was not put where the kernel looks for it."""
    if kernel["dkms"] == "none":
        return
    driver = profile["driver"] or {}
    version = profile["stack"].get("user_space", driver.get("version", "0"))
    nvidia = kernel["nvidia"] or {"version": version, "flavour": driver.get("flavour", "open")}
    version, architecture = nvidia["version"], profile["host"]["architecture"]
    base = f"var/lib/dkms/nvidia/{version}"
    yield (
        f"usr/src/nvidia-{version}/dkms.conf",
        f'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="{version}"\nAUTOINSTALL="yes"',
    )
    yield f"{base}/source", Link(f"usr/src/nvidia-{version}")
    if kernel["dkms"] == "added":
        return
    yield f"{base}/{release}/{architecture}/module/nvidia.ko", _nvidia(nvidia, release, architecture)
    if kernel["dkms"] == "installed":
        yield f"var/lib/dkms/nvidia/kernel-{release}-{architecture}", Link(f"{base}/{release}/{architecture}")


def _menu(profile: Profile) -> Entries:
    """GRUB's: the newest on top, all of them in the submenu, one of which may be the default."""
    releases = sorted(installed_kernels(profile), key=age, reverse=True)
    wanted = profile["stack"].get("boots_next", releases[0])
    if wanted not in releases:
        raise ProfileError(f"{profile['name']}: boots_next is {wanted}, which is not among the kernels.")
    arguments = re.sub(r"\S*BOOT_IMAGE=\S+\s*", "", profile["host"]["cmdline"])

    def entry(title: str, name: str, release: str, pad: str = "") -> str:
        return MENU_ENTRY.format(pad=pad, title=title, id=name, release=release, arguments=arguments)

    default = "0" if wanted == releases[0] else f"gnulinux-advanced>gnulinux-{wanted}-advanced"
    lines = [f'set default="{default}"\n', entry("Linux", "gnulinux-simple", releases[0])]
    lines.append("submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced' {\n")
    lines += [entry(f"Linux {release}", f"gnulinux-{release}-advanced", release, "\t") for release in releases]
    yield "boot/grub/grub.cfg", "".join([*lines, "}"])
