# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Nodes in a folder, as distributions lay out their boot files and as a kernel shows its values."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import write

GIB_KIB = 1 << 20
DEFAULT_GRUB = """\
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX=""
"""
MENU = """\
set default="0"
menuentry 'Linux' $menuentry_id_option 'simple' {{
\tlinux\t/boot/vmlinuz-6.1.0-1-amd64 root=UUID=0-1 ro {words}
}}
"""
ENTRY = """\
title {title}
version {release}
linux /vmlinuz-{release}
initrd /initramfs-{release}.img $tuned_initrd
options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M rd.lvm.lv=rhel/root {more}
grub_users $grub_users
grub_arg --unrestricted
grub_class rhel
"""
RHEL_GRUB = """\
GRUB_TIMEOUT=5
GRUB_DEFAULT=saved
GRUB_CMDLINE_LINUX="crashkernel=1G-4G:192M rd.lvm.lv=rhel/root"
GRUB_ENABLE_BLSCFG={blscfg}
"""


def debian(root: Path, version: str = "12.12", more: Mapping[str, str] | None = None) -> Path:
    """Debian 12 and 13: GRUB with a menu, no drop-ins."""
    return write(
        root,
        {
            "etc/debian_version": f"{version}\n",
            "etc/default/grub": DEFAULT_GRUB,
            "usr/sbin/update-grub": "#!/bin/sh\n",
            "boot/grub/grub.cfg": MENU.format(words="quiet"),
            "proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.1.0-1-amd64 root=UUID=0-1 ro quiet\n",
            "proc/sys/kernel/random/boot_id": "11111111-0000-0000-0000-000000000000\n",
            **(more or {}),
        },
    )


def ubuntu(root: Path, codename: str = "trixie/sid") -> Path:
    """Ubuntu 22.04 and 24.04 as a cloud image: a drop-in of its maker, which sets the line anew."""
    cloud = 'GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"\n'
    return debian(root, codename, {"etc/default/grub.d/50-cloudimg-settings.cfg": cloud})


def rhel(root: Path, kernel: str = "5.14.0-570.el9.x86_64", cmdline: bool = True, blscfg: str = "true") -> Path:
    """RHEL and Rocky 9 and 10: entries of the Boot Loader Specification, which GRUB reads, and a rescue entry."""
    entries = "boot/loader/entries"
    machine = "0123456789abcdef0123456789abcdef"
    files = {
        "etc/redhat-release": "Rocky Linux\n",
        "etc/default/grub": RHEL_GRUB.format(blscfg=blscfg),
        "usr/sbin/grub2-mkconfig": "#!/bin/sh\n",
        f"{entries}/{machine}-{kernel}.conf": ENTRY.format(title="Rocky", release=kernel, more="rhgb quiet"),
        f"{entries}/{machine}-0-rescue.conf": ENTRY.format(title="Rescue", release="0-rescue", more=""),
        "proc/cmdline": f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{kernel} root=/dev/mapper/rhel-root ro rhgb quiet\n",
        "proc/sys/kernel/random/boot_id": "11111111-0000-0000-0000-000000000000\n",
    }
    if cmdline:
        files["etc/kernel/cmdline"] = "root=/dev/mapper/rhel-root ro rhgb quiet\n"
    return write(root, files)


def systemd_boot(root: Path) -> Path:
    info = b"\x06\0\0\0" + "systemd-boot 257\0".encode("utf-16-le")
    return write(
        root,
        {
            "etc/kernel/cmdline": "root=UUID=0-1 ro quiet\n",
            "boot/loader/loader.conf": "timeout 3\n",
            "boot/loader/entries/debian-6.conf": "title Debian\nlinux /6/linux\noptions root=UUID=0-1\noptions quiet\n",
            "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f": info,
            "proc/cmdline": "root=UUID=0-1 ro quiet\n",
        },
    )


VALUES = {
    "kernel/numa_balancing": "1",
    "vm/swappiness": "60",
    "vm/max_map_count": "65530",
    "vm/overcommit_memory": "0",
    "vm/zone_reclaim_mode": "0",
    "net/core/somaxconn": "4096",
}


def values(root: Path, given: Mapping[str, str] | None = None, nodes: int = 2, gib: int = 256) -> Path:
    """A kernel's values: settings, huge pages on nodes of equal size, governors, swap, mounts."""
    files: dict[str, str | bytes] = {f"proc/sys/{name}": f"{value}\n" for name, value in VALUES.items()}
    thp = "sys/kernel/mm/transparent_hugepage"
    (root / "var/lib").mkdir(parents=True, exist_ok=True)
    files |= {
        f"{thp}/enabled": "always madvise [never]\n",
        f"{thp}/defrag": "always defer defer+madvise [madvise] never\n",
        f"{thp}/shmem_enabled": "always within_size advise [never] deny force\n",
        "proc/meminfo": f"MemTotal: {gib * nodes * GIB_KIB} kB\nMemAvailable: {(gib * nodes - 16) * GIB_KIB} kB\n",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/sda3 partition 8388604 1024 -2\n",
        "proc/self/mounts": "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n",
        "etc/fstab": "# device\nUUID=0-1 / ext4 defaults 0 1\nUUID=0-2 none swap sw 0 0\n",
    }
    for node in range(nodes):
        here = f"sys/devices/system/node/node{node}"
        files[f"{here}/meminfo"] = f"Node {node} MemTotal: {gib * GIB_KIB} kB\n"
        for size in (2048, GIB_KIB):
            files[f"{here}/hugepages/hugepages-{size}kB/nr_hugepages"] = "0\n"
            files[f"{here}/hugepages/hugepages-{size}kB/free_hugepages"] = "0\n"
        policy = f"sys/devices/system/cpu/cpufreq/policy{node}"
        files[f"{policy}/scaling_governor"] = "schedutil\n"
        files[f"{policy}/scaling_available_governors"] = "performance schedutil\n"
    return write(root, {**files, **(given or {})})


def snapshot(root: Path) -> dict[str, Any]:
    """Everything below a folder: kind, mode and content."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        name, mode = str(path.relative_to(root)), stat.S_IMODE(status.st_mode)
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = (mode, None if path.is_dir() else path.read_bytes())
    return found
