# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands beside the driver: the machine that a node plays, kernels, CUDA and NVIDIA's container toolkit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..machine_parts.module_file import kernel_module
from .driver_packages import NODE, START, UNITS
from .package import File, Package, link, program, text

# Eight H100 and four NVSwitches, as the index of PCI ids and the profile hgx-h100-snc4 have them.
GPUS = "".join(
    [f"0000:{bus:02x}:00.0 10de:2330 0x030200\n" for bus in (0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)]
    + [f"0000:{bus:02x}:00.0 10de:22a3 0x068000\n" for bus in (0x05, 0x06, 0x07, 0x08)]
)
# NVIDIA's container toolkit, whose four packages are of one version (its installation guide).
TOOLKIT = "1.18.1-1"
# Lines of CUDA with the driver that each was made with (CUDA release notes, "CUDA Toolkit and Corresponding Driver
# Versions").
CUDA = {"12-9": ("12.9.1-1", "575.57.08"), "13-0": ("13.0.2-1", "580.95.05")}
NOUVEAU = "kernel/drivers/gpu/drm/nouveau/nouveau.ko"
# The toolkit describes the GPUs by itself from 1.18 on: at boot, and whenever modules were built.
CDI_SERVICE = """\
[Unit]
Description=Refresh NVIDIA CDI specification file

[Service]
Type=oneshot
ExecCondition=/usr/bin/nvidia-smi
ExecStart=/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml

[Install]
WantedBy=multi-user.target
"""
CDI_PATH = """\
[Unit]
Description=Trigger CDI refresh on NVIDIA driver install / uninstall events

[Path]
PathChanged=/lib/modules/%v/modules.dep

[Install]
WantedBy=multi-user.target
"""
MACHINE_PROGRAMS = ("load-nvidia", "unload-nvidia", "bare-metal")


def _node(name: str) -> File:
    return program((NODE / name).read_text(encoding="utf-8"))


def _plain(name: str, version: str, what: str, files: Mapping[str, File] | None = None, **relations: str) -> Package:
    return Package(name, version, f"{what} (stand-in)", relations, files or {}, architecture="all")


def next_kernel(running: str) -> str:
    """The release of a kernel that is newer than the one that this machine, and so every node, runs."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", running)
    major, minor, patch = found.groups() if found else ("6", "1", "0")
    return f"{major}.{minor}.{int(patch) + 1}-rehearsal-amd64"


def machine_packages() -> Iterator[Package]:
    """What makes a node play a machine with GPUs, and the programs of Debian that packages of the driver call."""
    yield Package(
        "rehearsal-machine",
        "1",
        "A machine with GPUs (stand-in)",
        {},
        {
            "etc/rehearsal/gpus": text(GPUS),
            "etc/rehearsal/boot.d/50-machine": _node("boot"),
            "usr/lib/modprobe.d/rehearsal.conf": text((NODE / "modprobe.conf").read_text(encoding="utf-8")),
            "usr/lib/systemd/system/rehearsal-bare-metal.service": text(
                (NODE / "bare-metal.service").read_text(encoding="utf-8")
            ),
            **{f"usr/lib/rehearsal/{name}": _node(name) for name in MACHINE_PROGRAMS},
        },
        {
            "postinst": "#!/bin/sh\nset -e\nsystemctl enable --quiet rehearsal-bare-metal.service\n"
            "/usr/lib/rehearsal/bare-metal\n/etc/rehearsal/boot.d/50-machine\n"
        },
        # The machine that a test has made out of it stays.
        conffiles=("etc/rehearsal/gpus",),
        architecture="all",
    )
    yield _plain("dkms", "3.2.2-1", "DKMS", {"usr/sbin/dkms": _node("dkms")})
    yield _plain(
        "initramfs-tools", "0.148", "Tools for the initramfs", {"usr/sbin/update-initramfs": _node("update-initramfs")}
    )
    yield _plain("grub2-common", "2.12-9", "Tools for GRUB", {"usr/sbin/update-grub": _node("update-grub")})


def kernel_packages(release: str) -> Iterator[Package]:
    """A kernel with nouveau, whose postinst does what Debian's do: initramfs, menu, modules."""
    version = release.partition("-")[0]
    base = f"usr/lib/modules/{release}"
    yield Package(
        f"linux-image-{release}",
        version,
        f"Linux {release} (stand-in)",
        {"Depends": "initramfs-tools, grub2-common"},
        {
            f"boot/vmlinuz-{release}": text("kernel\n"),
            f"{base}/{NOUVEAU}": File(kernel_module({"license": "GPL and additional rights"}, "x86_64")),
        },
        {
            "postinst": "#!/bin/sh\nset -e\n"
            f"touch /{base}/modules.order /{base}/modules.builtin\n[ -e /{base}/modules.dep ] || "
            f"echo '{NOUVEAU}:' >/{base}/modules.dep\nupdate-initramfs -c -k {release}\nupdate-grub\n"
            f"[ ! -x /usr/sbin/dkms ] || dkms autoinstall -k {release}\n",
            "postrm": f"#!/bin/sh\nrm -f /boot/initrd.img-{release}\n"
            f'if [ "$1" = remove ]; then rm -rf /{base}; update-grub; fi\n',
        },
    )
    yield Package(
        f"linux-headers-{release}",
        version,
        f"Headers of Linux {release} (stand-in)",
        {},
        {
            f"usr/src/linux-headers-{release}/Makefile": text("all:\n"),
            f"{base}/build": link(f"/usr/src/linux-headers-{release}"),
        },
        {
            "postinst": "#!/bin/sh\nset -e\n"
            f"[ ! -x /usr/sbin/dkms ] || [ ! -d /{base}/kernel ] || dkms autoinstall -k {release}\n"
        },
    )


def cuda_packages() -> Iterator[Package]:
    """Toolkits side by side, which bring no driver, and the metapackages that do."""
    for line, (version, driver) in CUDA.items():
        dotted = line.replace("-", ".")
        home = f"usr/local/cuda-{dotted}"
        yield _plain(f"cuda-toolkit-{line}-config-common", version, "CUDA's settings for the loader",
                     {f"etc/ld.so.conf.d/gds-{line}.conf": text(f"/{home}/lib64\n")})  # fmt: skip
        yield _plain(f"cuda-cudart-{line}", version, "CUDA's runtime",
                     {f"{home}/lib64/libcudart.so.{dotted}": text("stand-in\n")},
                     Depends=f"cuda-toolkit-{line}-config-common")  # fmt: skip
        nvcc = program(f'#!/bin/sh\necho "Cuda compilation tools, release {dotted}, V{version.partition("-")[0]}"\n')
        yield _plain(f"cuda-nvcc-{line}", version, "CUDA's compiler", {f"{home}/bin/nvcc": nvcc})
        parts = f"cuda-cudart-{line} (>= {version}), cuda-nvcc-{line} (>= {version})"
        yield _plain(f"cuda-toolkit-{line}", version, f"CUDA toolkit {dotted}", Depends=parts)
        # Libraries of the driver that came with the line, in a folder that nothing looks into by itself.
        compatible = {f"{home}/compat/libcuda.so.{driver}": text("stand-in\n")}
        yield _plain(f"cuda-compat-{line}", f"{driver}-1", "CUDA's forward compatibility", compatible)
        runtime = f"cuda-cudart-{line} (>= {version}), cuda-drivers (>= {driver})"
        yield _plain(f"cuda-runtime-{line}", version, f"CUDA {dotted} and a driver", Depends=runtime)
        yield _plain(f"cuda-{line}", version, f"All of CUDA {dotted}",
                     Depends=f"cuda-toolkit-{line} (>= {version}), cuda-runtime-{line} (>= {version})")  # fmt: skip
    yield _plain("cuda-toolkit", "13.0.2-1", "The newest CUDA toolkit", Depends="cuda-toolkit-13-0 (>= 13.0.2)")
    yield _plain("cuda", "13.0.2-1", "All of the newest CUDA", Depends="cuda-13-0 (>= 13.0.2)")


def toolkit_packages() -> Iterator[Package]:
    same = f"(= {TOOLKIT})"
    ctk = program(
        "#!/bin/sh\n# Writes where it is told to, as `nvidia-ctk cdi generate --output=FILE` does.\nset -eu\n"
        'for word in "$@"; do\n  case $word in\n    --output=*) mkdir -p "$(dirname "${word#--output=}")"\n'
        '      { echo "cdiVersion: 0.5.0"; echo "kind: nvidia.com/gpu"; echo "devices:"; '
        'grep " 0x030[02]" /etc/rehearsal/gpus | nl -v 0 | while read -r index rest; do '
        'echo "- name: \\"$index\\""; done; } >"${word#--output=}" ;;\n  esac\ndone\n'
    )
    yield Package("libnvidia-container1", TOOLKIT, "NVIDIA container library (stand-in)")
    yield Package("libnvidia-container-tools", TOOLKIT, "NVIDIA container library's tools (stand-in)",
                  {"Depends": f"libnvidia-container1 {same}"})  # fmt: skip
    yield Package(
        "nvidia-container-toolkit-base",
        TOOLKIT,
        "NVIDIA container toolkit, base (stand-in)",
        {},
        {
            "usr/bin/nvidia-ctk": ctk,
            f"{UNITS}/nvidia-cdi-refresh.service": text(CDI_SERVICE),
            f"{UNITS}/nvidia-cdi-refresh.path": text(CDI_PATH),
        },
        {"postinst": START.format(unit="nvidia-cdi-refresh.path nvidia-cdi-refresh.service")},
    )
    yield Package("nvidia-container-toolkit", TOOLKIT, "NVIDIA container toolkit (stand-in)",
                  {"Depends": f"nvidia-container-toolkit-base {same}, libnvidia-container-tools {same}"})  # fmt: skip
    yield Package("nvlsm", "2025.10.11-1", "NVLink subnet manager (stand-in)")


def keyring(distribution: str, url: str, key: bytes) -> Package:
    """cuda-keyring, which configures the repository by itself."""
    place = "usr/share/keyrings/cuda-archive-keyring.gpg"
    return Package(
        "cuda-keyring",
        "1.1-1",
        f"Key and settings of the CUDA repository for {distribution} (stand-in)",
        {},
        {
            place: File(key),
            f"etc/apt/sources.list.d/cuda-{distribution}-x86_64.list": text(f"deb [signed-by=/{place}] {url} /\n"),
            "etc/apt/preferences.d/cuda-repository-pin-600": text(
                "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
            ),
        },
        architecture="all",
    )


def kernels(folder: Path) -> tuple[str, str]:
    """The kernel that runs here and on every node, and a newer one."""
    running = (folder / "sys/kernel/osrelease").read_text(encoding="ascii").strip()
    return running, next_kernel(running)
