# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Small hosts in a folder: files, links, kernel modules, and whole machines as distributions lay them out."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

RELEASE = "595.58.03"
BLACKWELL = "0x2bb5"


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for relative, content in files.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def link(root: Path, relative: str, target: str) -> Path:
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


# Kernel modules -------------------------------------------------------------------------------------------------------


def der(tag: int, *content: bytes) -> bytes:
    """One element of DER."""
    body = b"".join(content)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes(4, "big").lstrip(b"\0")
    return bytes([tag, 0x80 | len(length)]) + length + body


def pkcs7(signer: str, *, encoding: tuple[int, str] = (0x0C, "utf-8"), by_key: bool = False) -> bytes:
    """The message that signs a module, as scripts/sign-file makes it, with no real signature in it."""
    name = der(0x30, der(0x31, der(0x30, der(0x06, b"\x55\x04\x03"), der(encoding[0], signer.encode(encoding[1])))))
    who = der(0x80, b"\x01\x02\x03") if by_key else der(0x30, name, der(0x02, b"\x2a"))
    sha512 = der(0x30, der(0x06, bytes.fromhex("608648016503040203")))
    rsa = der(0x30, der(0x06, bytes.fromhex("2a864886f70d010101")), der(0x05))
    info = der(0x30, der(0x02, b"\x01"), who, sha512, rsa, der(0x04, b"\xaa" * 256))
    data = der(0x30, der(0x06, bytes.fromhex("2a864886f70d010701")))
    signed = der(0x30, der(0x02, b"\x01"), der(0x31, sha512), data, der(0x31, info))
    return der(0x30, der(0x06, bytes.fromhex("2a864886f70d010702")), der(0xA0, signed))


def signature(message: bytes, length: int | None = None) -> bytes:
    """The message with the trailer that ends a signed module."""
    size = len(message) if length is None else length
    return message + struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, size) + b"~Module signature appended~\n"


def elf(sections: Sequence[tuple[str, bytes]], *, bits: int = 64, order: str = "<") -> bytes:
    """A relocatable ELF file with these sections behind the empty one, and the names' section as the last."""
    names = b"\0"
    places = []
    for name, _content in [*sections, (".shstrtab", b"")]:
        places.append(len(names))
        names += name.encode() + b"\0"
    header_size, entry_size = (64, 64) if bits == 64 else (52, 40)
    body = b""
    entries = [b"\0" * entry_size]
    for place, content in zip(places, [*(content for _name, content in sections), names]):
        offset = header_size + len(body)
        form = "IIQQQQIIQQ" if bits == 64 else "IIIIIIIIII"
        entries.append(struct.pack(order + form, place, 1, 0, 0, offset, len(content), 0, 0, 1, 0))
        body += content
    ident = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1 if order == "<" else 2, 1]) + b"\0" * 9
    form = "HHIQQQIHHHHHH" if bits == 64 else "HHIIIIIHHHHHH"
    table = header_size + len(body)
    header = struct.pack(
        order + form, 1, 62, 1, 0, 0, table, 0, header_size, 0, 0, entry_size, len(entries), len(entries) - 1
    )
    return ident + header + body + b"".join(entries)


def modinfo(**fields: str) -> bytes:
    return b"".join(f"{name}={value}\0".encode() for name, value in fields.items())


def nvidia_module(version: str = RELEASE, license_name: str = "Dual MIT/GPL", signer: str | None = None) -> bytes:
    info = modinfo(version=version, license=license_name, vermagic="6.8.0 SMP")
    file = elf([(".text", b"\x90" * 64), (".modinfo", info)])
    return file if signer is None else file + signature(pkcs7(signer))


# Parts of machines ----------------------------------------------------------------------------------------------------


def kernel(release: str, *, headers: bool = True, **modules: bytes) -> dict[str, str | bytes]:
    """The files of an installed kernel of Debian's kind; modules by name with their content, below updates/dkms."""
    base = f"lib/modules/{release}"
    dependencies = "kernel/drivers/gpu/drm/nouveau/nouveau.ko: kernel/drivers/gpu/drm/drm.ko\n"
    files: dict[str, str | bytes] = {
        f"boot/vmlinuz-{release}": "image",
        f"boot/initrd.img-{release}": "initramfs",
        f"{base}/kernel/drivers/gpu/drm/nouveau/nouveau.ko": elf([(".modinfo", modinfo(license="GPL and additional"))]),
    }
    for name, content in modules.items():
        files[f"{base}/updates/dkms/{name}.ko"] = content
        dependencies = f"updates/dkms/{name}.ko:\n{dependencies}"
    files[f"{base}/modules.dep"] = dependencies
    if headers:
        files[f"usr/src/linux-headers-{release}/Makefile"] = "all:\n"
    return files


def gpus(count: int = 2, device: str = BLACKWELL) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for number in range(count):
        here = f"sys/bus/pci/devices/0000:{number + 1:02x}:00.0"
        files |= {f"{here}/vendor": "0x10de\n", f"{here}/device": f"{device}\n", f"{here}/class": "0x030200\n"}
    return files


def nvswitches(count: int = 4) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for number in range(count):
        here = f"sys/bus/pci/devices/0000:{number + 0x80:02x}:00.0"
        files |= {f"{here}/vendor": "0x10de\n", f"{here}/device": "0x22a3\n", f"{here}/class": "0x068000\n"}
    return files


def loaded(version: str = RELEASE, *, is_open: bool = True, references: int = 27) -> dict[str, str | bytes]:
    kind = "Open Kernel Module for x86_64" if is_open else "x86_64 Kernel Module"
    return {
        "sys/module/nvidia/version": f"{version}\n",
        "sys/module/nvidia/refcnt": f"{references}\n",
        "sys/module/nvidia/holders/nvidia_uvm/refcnt": "0\n",
        "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build  (builder)\n",
    }


def libraries(version: str = RELEASE, folder: str = "usr/lib/x86_64-linux-gnu") -> dict[str, str | bytes]:
    return {f"{folder}/lib{name}.so.{version}": "library" for name in ("cuda", "nvidia-ml")}


def package(name: str, version: str, status: str = "install ok installed", **fields: str) -> str:
    more = "".join(f"{field.replace('_', '-')}: {value}\n" for field, value in fields.items())
    return f"Package: {name}\nStatus: {status}\nArchitecture: amd64\n{more}Version: {version}\nDescription: x\n more\n"


def running(release: str) -> dict[str, str | bytes]:
    return {"proc/sys/kernel/osrelease": f"{release}\n", "proc/sys/kernel/arch": "x86_64\n"}


UBUNTU_MENU = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="DEFAULT"
fi
function recordfail {
  set recordfail=1
}
menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-aaaa' {
    recordfail
    linux    /boot/vmlinuz-NEW root=UUID=aaaa ro iommu=pt
    initrd    /boot/initrd.img-NEW
}
submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-aaaa' {
    menuentry 'Ubuntu, with Linux NEW' --class ubuntu $menuentry_id_option 'gnulinux-NEW-advanced-aaaa' {
        linux    /boot/vmlinuz-NEW root=UUID=aaaa ro iommu=pt
    }
    menuentry 'Ubuntu, with Linux NEW (recovery mode)' $menuentry_id_option 'gnulinux-NEW-recovery-aaaa' {
        linux    /boot/vmlinuz-NEW root=UUID=aaaa ro recovery nomodeset
    }
    menuentry 'Ubuntu, with Linux OLD' --class ubuntu $menuentry_id_option 'gnulinux-OLD-advanced-aaaa' {
        linux    /boot/vmlinuz-OLD root=UUID=aaaa ro
    }
}
menuentry "Memory test (memtest86+x64.efi)" {
    linux    /boot/memtest86+x64.efi
}
"""


def ubuntu_menu(new: str, old: str, default: str = "0") -> str:
    return UBUNTU_MENU.replace("DEFAULT", default).replace("NEW", new).replace("OLD", old)


def ubuntu(root: Path, *, new: str = "6.17.0-22-generic", old: str = "6.17.0-20-generic") -> Path:
    """Ubuntu 24.04 with a hardware-enablement kernel, a newer one that waits for a reboot, the driver by DKMS."""
    module = nvidia_module(signer="gpu-host-7 Secure Boot Module Signature key")
    write(
        root,
        {
            "etc/os-release": 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n',
            "usr/bin/apt-get": "program",
            "boot/grub/grub.cfg": ubuntu_menu(new, old),
            "boot/grub/grubenv": "# GRUB Environment Block\n" + "#" * 900,
            "usr/lib/modprobe.d/nvidia-graphics-drivers.conf": "blacklist nouveau\nalias nouveau off\n",
            "var/lib/dkms/nvidia/595.58.03/source/dkms.conf": "",
            "var/lib/dpkg/status": "\n".join(
                [
                    package("bash", "5.2.21-2ubuntu4"),
                    package("nvidia-dkms-open", "595.58.03-1ubuntu1", "hold ok installed", Source="nvidia-open"),
                    package("libnvidia-compute", "595.58.03-1ubuntu1", "hold ok installed"),
                    package("linux-image-" + new, "6.17.0-22.22~24.04.1"),
                    package("nvidia-driver-570", "570.86.10-0ubuntu1", "deinstall ok config-files"),
                ]
            ),
            **kernel(new, nvidia=module),
            **kernel(old, nvidia=module),
            **running(old),
            **gpus(),
            **loaded(),
            **libraries(),
        },
    )
    for release in (new, old):
        link(root, f"lib/modules/{release}/build", f"/usr/src/linux-headers-{release}")
        write(root, {f"var/lib/dkms/nvidia/595.58.03/{release}/x86_64/module/nvidia.ko": module})
        link(root, f"var/lib/dkms/nvidia/kernel-{release}-x86_64", f"595.58.03/{release}/x86_64")
    return root


MACHINE_ID = "3f1c0de5a0c94d9db7f0c2f9a4f1d0aa"


def bls_entry(release: str, title: str = "Rocky Linux") -> str:
    return (
        f"title {title} ({release}) 9.6 (Blue Onyx)\nversion {release}\nlinux /vmlinuz-{release}\n"
        f"initrd /initramfs-{release}.img $tuned_initrd\noptions root=/dev/mapper/rl-root ro $tuned_params\n"
        "grub_users $grub_users\ngrub_arg --unrestricted\ngrub_class rocky\n"
    )


RHEL_MENU = """\
set pager=1
if [ -f ${config_directory}/grubenv ]; then
  load_env -f ${config_directory}/grubenv
elif [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="${saved_entry}"
fi
insmod part_gpt
# The blscfg command parses the BootLoaderSpec files stored in /boot/loader/entries
insmod blscfg
blscfg
if [ "${menu_auto_hide}" -a "${boot_success}" = "1" ]; then
  set timeout=1
fi
menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {
    fwsetup
}
"""


def rhel(root: Path, *, new: str = "5.14.0-570.12.1.el9_6.x86_64", old: str = "5.14.0-503.40.1.el9_5.x86_64") -> Path:
    """Rocky Linux 9 with BLS entries, a saved default, precompiled modules in extra/, a version lock."""
    base = f"lib/modules/{new}"
    write(
        root,
        {
            "etc/os-release": 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n',
            "usr/bin/dnf": "program",
            "usr/lib/sysimage/rpm/rpmdb.sqlite": "SQLite format 3",
            "etc/dnf/plugins/versionlock.list": "# comment\nkmod-nvidia-open-dkms-3:595.58.03-1.el9.*\n",
            "boot/grub2/grub.cfg": RHEL_MENU,
            "boot/grub2/grubenv": (
                f"# GRUB Environment Block\nsaved_entry={MACHINE_ID}-{old}\ntuned_params=iommu=pt\nboot_success=1\n"
            ),
            f"boot/loader/entries/{MACHINE_ID}-{new}.conf": bls_entry(new),
            f"boot/loader/entries/{MACHINE_ID}-{old}.conf": bls_entry(old),
            f"boot/loader/entries/{MACHINE_ID}-0-rescue.conf": bls_entry("0-rescue-" + MACHINE_ID),
            f"boot/vmlinuz-0-rescue-{MACHINE_ID}": "image",
            f"boot/vmlinuz-{new}": "image",
            f"boot/initramfs-{new}.img": "initramfs",
            f"boot/vmlinuz-{old}": "image",
            f"boot/initramfs-{old}.img": "initramfs",
            f"{base}/modules.dep": "extra/nvidia.ko.xz:\n",
            f"{base}/extra/nvidia.ko.xz": nvidia_module(license_name="NVIDIA"),
            f"lib/modules/{old}/modules.dep": "kernel/fs/xfs/xfs.ko.xz:\n",
            f"usr/src/kernels/{new}/Makefile": "all:\n",
            **running(new),
            **libraries(folder="usr/lib64"),
        },
    )
    link(root, f"{base}/build", f"/usr/src/kernels/{new}")
    # kernel-core brings the link, kernel-devel what it leads to.
    link(root, f"lib/modules/{old}/build", f"/usr/src/kernels/{old}")
    return root
