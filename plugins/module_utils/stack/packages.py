# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which packages matter here, and what each is for.

The names are NVIDIA's own repositories' (Debian, Ubuntu, RHEL), the distributions' and RPM Fusion's, before and after
branch numbers left the names with release 590.
"""

from __future__ import annotations

import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import driver_release

# The first kind whose pattern matches is a package's kind.
_PATTERNS = (
    ("container", r"(lib)?nvidia-container-.*|libnvidia-container\d.*|nvidia-container-toolkit.*|nvidia-docker2"),
    (
        "fabric",
        r"nvidia-fabric-?manager.*|cuda-drivers-fabricmanager.*|nvlsm|libnvidia-nscq.*|libnvsdm.*|nvidia-imex.*",
    ),
    (
        "kernel_module",
        r"nvidia(-open)?-kernel-.*|nvidia-dkms(-.*)?|nvidia-open-kernel-dkms|linux-(modules|objects|signatures)-nvidia-.*"
        r"|a?kmods?-nvidia.*|nvidia-kmod.*|dkms-nvidia.*|kmod-nvidia.*",
    ),
    (
        "driver",
        r"nvidia-(driver|utils|open|headless|compute-utils|smi|persistenced|modprobe|settings|firmware|libs|xconfig"
        r"|alternative|legacy|tesla|egl|vdpau|opencl|support|prime|powerd|suspend|installer|libXNVCtrl)(-.*)?"
        r"|libnvidia-.*|libcuda1.*|libnvcuvid1.*|libnvoptix1.*|libxnvctrl.*|cuda-drivers.*|xserver-xorg-video-nvidia.*"
        r"|xorg-x11-(drv-)?nvidia.*|firmware-nvidia-.*",
    ),
    (
        "cuda",
        r"cuda|cuda-.*|nvidia-cuda-.*|cudnn.*|lib(cublas|cudnn|cufft|cufile|curand|cusolver|cusparse|cutensor|nccl|npp|nvjpeg"
        r"|nvjitlink|nvfatbin)\d?.*|nsight-.*|datacenter-gpu-manager.*|gds-tools-.*|nvidia-gds.*|nvidia-fs.*",
    ),
    ("headers", r"linux-headers-.*|kernel(-\w+)?-devel.*|kernel-headers"),
    (
        "kernel",
        r"linux-(image|modules|modules-extra|generic|virtual|cloud|nvidia|aws|azure|gcp|oem|lowlatency)(-.*)?"
        r"|kernel(-(core|modules.*|rt|rt-core|64k|64k-core|uek.*))?",
    ),
    ("dkms", r"dkms"),
)
_KINDS = tuple((kind, re.compile(f"(?:{pattern})$")) for kind, pattern in _PATTERNS)
KINDS = tuple(kind for kind, _pattern in _KINDS)
DRIVER_KINDS = ("driver", "kernel_module", "fabric")
# Parts whose version is the driver's release wherever they come from. Distributions build others (settings, modprobe,
# persistenced) of another release, which works.
_TELLS_RELEASE = re.compile(
    r"(?:nvidia-driver(-\d+)?(-open|-server|-server-open)?|nvidia-driver-(libs|bin|cuda|cuda-libs)"
    r"|nvidia-(dkms|kernel-common|kernel-source|compute-utils|utils)(-\d+)?(-open|-server|-server-open)?"
    r"|libnvidia-compute(-\d+)?(-server)?|libcuda1|libnvidia-ml1?|nvidia-smi|nvidia(-open)?-kernel-(open-)?dkms"
    r"|nvidia-open(-\d+)?|kmod-nvidia(?!-fs).*|nvidia-kmod-common|cuda-drivers(-\d+)?"
    r"|linux-modules-nvidia-.*)$"
)


def kind_of(name: str) -> str | None:
    """What a package is for; None for one that does not matter here."""
    return next((kind for kind, pattern in _KINDS if pattern.match(name)), None)


def release_of(name: str, version: str) -> str | None:
    """The driver's release that a package belongs to; None for packages that do not tell."""
    if kind_of(name) == "fabric":
        return driver_release(version)
    if name.startswith("linux-modules-nvidia-"):
        return None  # versioned like the kernel that it was built for
    return driver_release(version) if _TELLS_RELEASE.match(name) else None
