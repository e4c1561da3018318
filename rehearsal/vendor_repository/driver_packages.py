# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver's packages as NVIDIA's repositories for Debian have them: names, relations and places of files.

- Compute-only hosts take nvidia-driver-cuda and nvidia-kernel-open-dkms; the metapackages are nvidia-open and
  cuda-drivers (NVIDIA driver installation guide, "Debian").
- Metapackages ask for their own release or any later one, so that apt fetches the newest branch for an older one unless
  it is pinned (forums.developer.nvidia.com/t/353805, of cuda-drivers-580 580.105.08-1).
- nvidia-driver-pinning-BRANCH lays one file, /etc/apt/preferences.d/nvidia-driver-pin, excludes those of others,
  and works only when installed before the driver, in a transaction of its own (the guide's "Version locking"). Ubuntu's
  repositories have one for each release as well, Debian's have not (Azure/azhpc-images, install_nvidiagpudriver.sh).
- nvidia-driver-cuda brings nvidia-smi and excludes Debian's package of that name.
- The fabric manager's package has the branch in its name up to 570 (index of the repository for debian12).
- Debian's own packages: packages.debian.org/trixie/nvidia-open-kernel-dkms and those that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..machine_parts.module_file import kernel_module
from .package import File, Package, link, program, text

NODE = Path(__file__).resolve().parent / "node"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
UNITS = "usr/lib/systemd/system"
LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}
# Releases of NVIDIA's that the repository offers.
RELEASES = ("570.195.03", "580.95.05", "580.105.08", "590.48.01", "595.58.03")
SIGNER = "Rehearsal Secure Boot Module Signature key"

START = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl enable --quiet {unit}
  systemctl restart {unit} || true
fi
"""
STOP = """\
#!/bin/sh
if [ -d /run/systemd/system ] && [ "$1" = remove ]; then systemctl disable --now --quiet {unit} || true; fi
"""
ADD_MODULE = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  dkms add {module}/{release}
  dkms install {module}/{release}
  update-initramfs -u
fi
"""
REMOVE_MODULE = "#!/bin/sh\ndkms remove {module}/{release} || true\n"


def script(name: str, release: str) -> File:
    """A program of the node's folder, which has to know of which release it is."""
    return program((NODE / name).read_text(encoding="utf-8").replace("@VERSION@", release))


def library(name: str, release: str, content: bytes) -> Mapping[str, File]:
    return {
        f"{LIBRARIES}/lib{name}.so.{release}": File(content),
        f"{LIBRARIES}/lib{name}.so.1": link(f"lib{name}.so.{release}"),
    }


def unit(description: str, command: str) -> File:
    return text(
        f"[Unit]\nDescription={description}\n\n[Service]\nExecStart=/usr/bin/{command}\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def module_package(name: str, version: str, release: str, flavour: str, module: str, other: str) -> Package:
    """The modules' source: here it is the module itself, which dkms copies."""
    content = kernel_module(
        {"version": release, "license": LICENSES[flavour], "alias": "pci:v000010DEd*sv*sd*bc03sc02i00*"}, "x86_64"
    )
    words = {"module": module, "release": release}
    return Package(
        name,
        version,
        f"NVIDIA kernel modules of {release}, {flavour}, built by DKMS (stand-in)",
        {
            "Depends": f"dkms, nvidia-kernel-support (= {version}), firmware-nvidia-gsp (= {version})",
            "Conflicts": f"nvidia-kernel-modules, {other}",
            "Provides": f"nvidia-kernel-modules, nvidia-kernel-{release}",
        },
        {
            f"usr/src/{module}-{release}/{module}.ko": File(content),
            f"usr/src/{module}-{release}/dkms.conf": text(f'PACKAGE_NAME="{module}"\nPACKAGE_VERSION="{release}"\n'),
        },
        {"postinst": ADD_MODULE.format(**words), "prerm": REMOVE_MODULE.format(**words)},
        source="nvidia-graphics-drivers",
    )


def pinning_packages(releases: tuple[str, ...]) -> Iterator[Package]:
    for branch in dict.fromkeys(release.split(".")[0] for release in releases):
        yield Package(
            f"nvidia-driver-pinning-{branch}",
            f"{branch}-1",
            f"Keeps apt on branch {branch} of the driver (stand-in)",
            {
                "Conflicts": "nvidia-driver-pinning",
                "Replaces": "nvidia-driver-pinning",
                "Provides": "nvidia-driver-pinning",
            },
            {
                "etc/apt/preferences.d/nvidia-driver-pin": text(
                    f"Package: src:*nvidia*:any src:cuda-drivers:any src:cuda-compat:any\nPin: version "
                    f"{branch}.*\nPin-Priority: 1000\n"
                )
            },
            architecture="all",
            source="nvidia-driver-pinning",
        )


def user_space(version: str, release: str, nvml: bytes, *, vendor: bool) -> Iterator[Package]:
    """Libraries, tools and the persistence daemon; Debian has nvidia-smi apart, NVIDIA in nvidia-driver-cuda."""
    same = f"(= {version})"
    source = "nvidia-graphics-drivers"

    def plain(name: str, files: Mapping[str, File], **relations: str) -> Package:
        named = {key.replace("_", "-"): value for key, value in relations.items()}
        return Package(name, version, f"{name} of the NVIDIA driver {release} (stand-in)", named, files, source=source)

    yield plain("libnvidia-ml1", library("nvidia-ml", release, nvml))
    yield plain("libnvidia-ptxjitcompiler1", library("nvidia-ptxjitcompiler", release, b"stand-in\n"))
    yield plain("libcuda1", library("cuda", release, b"stand-in\n"), Depends=f"libnvidia-ptxjitcompiler1 {same}")
    yield plain("firmware-nvidia-gsp", {f"usr/lib/firmware/nvidia/{release}/gsp_ga10x.bin": text("stand-in\n")})
    yield plain("nvidia-modprobe", {"usr/bin/nvidia-modprobe": program("#!/bin/sh\nexec modprobe nvidia\n")})
    yield plain(
        "nvidia-kernel-support",
        {"usr/lib/modprobe.d/nvidia-kernel-common.conf": text("# Parameters of the modules\n")},
        Depends="nvidia-modprobe",
    )
    yield Package(
        "nvidia-persistenced",
        version,
        f"nvidia-persistenced of the NVIDIA driver {release} (stand-in)",
        {},
        {
            "usr/bin/nvidia-persistenced": script("nvidia-persistenced", release),
            f"{UNITS}/nvidia-persistenced.service": unit("NVIDIA Persistence Daemon", "nvidia-persistenced"),
        },
        {
            name: words.format(unit="nvidia-persistenced.service")
            for name, words in (("postinst", START), ("prerm", STOP))
        },
        source="nvidia-persistenced",
    )
    smi = {"usr/bin/nvidia-smi": script("nvidia-smi", release)}
    libraries = f"libcuda1 {same}, libnvidia-ml1 {same}"
    if vendor:
        yield plain(
            "nvidia-driver-cuda",
            smi,
            Depends=f"{libraries}, nvidia-persistenced {same}, nvidia-modprobe {same}",
            Conflicts="nvidia-smi",
            Replaces="nvidia-smi",
        )
        yield plain("nvidia-driver-libs", {}, Depends=f"libnvidia-ml1 {same}")
        yield plain("nvidia-driver", {}, Depends=f"nvidia-driver-libs {same}, nvidia-modprobe {same}")
        return
    yield plain("nvidia-smi", smi, Depends=f"libnvidia-ml1 {same}")
    yield plain("nvidia-driver-libs", {}, Depends=libraries)
    yield plain("nvidia-driver-bin", {}, Depends=f"libnvidia-ml1 {same}")
    yield plain(
        "nvidia-driver",
        {},
        Depends=f"nvidia-driver-libs {same}, nvidia-driver-bin {same}, nvidia-kernel-dkms {same} | "
        f"nvidia-kernel-{release} | nvidia-open-kernel-{release}",
        Recommends="nvidia-persistenced",
    )


def fabric_packages(release: str) -> Iterator[Package]:
    version, branch = f"{release}-1", release.split(".")[0]
    name = f"nvidia-fabricmanager-{branch}" if int(branch) <= 570 else "nvidia-fabricmanager"
    yield Package(
        name,
        version,
        f"NVIDIA fabric manager {release} (stand-in)",
        {
            "Conflicts": "nvidia-fabricmanager-api",
            "Provides": "nvidia-fabricmanager-api",
            "Replaces": "nvidia-fabricmanager-api",
        },
        {
            "usr/bin/nv-fabricmanager": script("nv-fabricmanager", release),
            f"{UNITS}/nvidia-fabricmanager.service": unit("NVIDIA fabric manager service", "nv-fabricmanager"),
        },
        {"prerm": STOP.format(unit="nvidia-fabricmanager.service")},
        source="nvidia-fabricmanager",
    )
    suffix = name.removeprefix("nvidia-fabricmanager")
    for tool in ("libnvidia-nscq", "libnvsdm"):
        yield Package(f"{tool}{suffix}", version, f"{tool} {release} (stand-in)", source=tool)
    daemon = program("#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 3600 & wait $!; done\n")
    yield Package(
        "nvidia-imex",
        version,
        f"NVIDIA IMEX daemon {release} (stand-in)",
        {},
        {
            "usr/bin/nvidia-imex": daemon,
            "etc/nvidia-imex/config.cfg": text("LOG_LEVEL=4\n"),
            f"{UNITS}/nvidia-imex.service": unit("NVIDIA IMEX service", "nvidia-imex"),
        },
        {"prerm": STOP.format(unit="nvidia-imex.service")},
        source="nvidia-imex",
    )


def driver_release(release: str, nvml: bytes) -> Iterator[Package]:
    """All of NVIDIA's packages of one release."""
    version = f"{release}-1"
    yield from user_space(version, release, nvml, vendor=True)
    yield module_package("nvidia-kernel-open-dkms", version, release, "open", "nvidia", "nvidia-kernel-dkms")
    yield module_package("nvidia-kernel-dkms", version, release, "proprietary", "nvidia", "nvidia-kernel-open-dkms")
    yield from fabric_packages(release)
    later = f"(>= {release})"
    for name, modules in (("nvidia-open", "nvidia-kernel-open-dkms"), ("cuda-drivers", "nvidia-kernel-dkms")):
        yield Package(
            name,
            version,
            f"NVIDIA driver {release}, metapackage (stand-in)",
            {"Depends": f"nvidia-driver {later}, nvidia-driver-cuda {later}, {modules} {later}"},
            source=name,
        )


def debian_driver(version: str, nvml: bytes) -> Iterator[Package]:
    """The driver as Debian builds it."""
    release = version.partition("-")[0]
    yield from user_space(version, release, nvml, vendor=False)
    open_name, other = "nvidia-open-kernel-dkms", "nvidia-kernel-dkms"
    yield module_package(open_name, version, release, "open", "nvidia-current-open", other)
    yield module_package(other, version, release, "proprietary", "nvidia-current", open_name)
