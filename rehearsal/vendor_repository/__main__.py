# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make apt repositories with the layout and the names of NVIDIA's, and one with Debian's: see README.md.

    python -m rehearsal.vendor_repository .build/rehearsal/repositories

Prints the folder. It is made anew only when what makes it has changed, or the kernel that runs here.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import hashlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

from ..machine_parts.library import LIBRARY, build_library, compiler
from .archive import flat_archive, make_key, public_key, stop_agent, suite_archive
from .driver_packages import NODE, RELEASES, debian_driver, driver_release, pinning_packages
from .other_packages import cuda_packages, kernel_packages, kernels, keyring, machine_packages, toolkit_packages
from .package import Package

HERE = Path(__file__).resolve().parent
# What each Debian calls the driver that it builds itself (packages.debian.org/nvidia-driver).
SUITES = {"bookworm": ("debian12", "535.261.03-1~deb12u1"), "trixie": ("debian13", "550.163.01-2")}
VENDOR, DEBIAN, STRANGER = "vendor", "debian", "stranger"
FIELDS = {"Origin": "NVIDIA", "Label": "NVIDIA CUDA", "Architecture": "x86_64", "Architectures": "amd64 all"}
STAMP = "made-by"


def digest(running: str) -> str:
    """Of everything that the repositories are made of."""
    state = hashlib.sha256(running.encode())
    parts = [HERE.parent / "machine_parts" / name for name in ("module_file.py", "library.py")]
    sources = [*HERE.rglob("*"), *(HERE.parent / "nvml").glob("*.[ch]"), *parts]
    for path in sorted(path for path in sources if path.is_file() and path.suffix not in (".pyc", ".md")):
        state.update(path.name.encode() + path.read_bytes())
    return state.hexdigest()


def nvml_library(folder: Path) -> bytes:
    """The stand-in that answers NVML where a C compiler is found, else a file that only has the name."""
    cc = compiler()
    if cc is None:
        return b"stand-in\n"
    build_library(folder, cc)
    return (folder / LIBRARY).read_bytes()


def dearmored(key: str) -> bytes:
    body = re.sub(r"(?s).*?\n\n(.*?)\n=.*", r"\1", key)
    return base64.b64decode(body)


def make(folder: Path, running: str, following: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        nvml = nvml_library(Path(work))
    home = folder / ".gnupg"
    for name in (VENDOR, DEBIAN, STRANGER):
        fingerprint = make_key(home, name)
        (folder / f"{name}.fingerprint").write_text(f"{fingerprint}\n", encoding="ascii")
        (folder / f"{name}.asc").write_text(public_key(home, name), encoding="ascii")
    key = public_key(home, VENDOR)
    key_name = (folder / f"{VENDOR}.fingerprint").read_text(encoding="ascii").strip()[-8:].lower()
    drivers: list[Package] = [package for release in RELEASES for package in driver_release(release, nvml)]
    common = [*pinning_packages(RELEASES), *cuda_packages(), *toolkit_packages(), *drivers]
    for suite, (distribution, version) in SUITES.items():
        place = folder / distribution / "x86_64"
        url = f"https://developer.download.nvidia.com/compute/cuda/repos/{distribution}/x86_64/"
        flat_archive(place, [keyring(distribution, url, dearmored(key)), *common], home, VENDOR, FIELDS)
        (place / f"{key_name}.pub").write_text(key, encoding="ascii")
        own = [*machine_packages(), *kernel_packages(running), *kernel_packages(following)]
        components = {"main": own, "non-free": [*debian_driver(version, nvml)], "contrib": [], "non-free-firmware": []}
        suite_archive(folder / "debian", suite, components, home, DEBIAN)
    shutil.copy2(NODE / "play-machine", folder / "play-machine")
    stop_agent(home)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make apt repositories that stand in for NVIDIA's and Debian's.")
    parser.add_argument("dest", type=Path, help="the folder to make, or to keep where it is up to date")
    dest: Path = parser.parse_args().dest.absolute()
    running, following = kernels(Path("/proc"))
    dest.parent.mkdir(parents=True, exist_ok=True)
    with (dest.parent / f".{dest.name}.lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = dest / STAMP, digest(running)
        if not stamp.is_file() or stamp.read_text(encoding="ascii") != wanted:
            dest.mkdir(exist_ok=True)
            for path in dest.iterdir():
                # What a node has mounted stays the same folder; the keys stay, since nodes may trust them.
                if path.is_dir() and path.name != ".gnupg":
                    shutil.rmtree(path)
            make(dest, running, following)
            (dest / "kernels").write_text(f"{running}\n{following}\n", encoding="ascii")
            stamp.write_text(wanted, encoding="ascii")
    sys.stdout.write(f"{dest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
