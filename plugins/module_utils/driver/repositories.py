# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where packages come from: addresses, keys and their fingerprints, and the files that configure a repository.

NVIDIA's network repositories: docs.nvidia.com/datacenter/tesla/driver-installation-guide, "Network Repository
Enablement". Arm servers are sbsa there. Keys by the file in the repository: 3bf863cc.pub signs those of Debian 12 and
Ubuntu, 8793F200.pub that of Debian 13 (the former has SHA-1 signatures on itself, which Debian 13 does not take any
more), D42D0685.pub the RPMs. Fingerprints were compared between several independent public projects that pin them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import VENDOR_SOURCES, Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

BASE = "https://developer.download.nvidia.com/compute/cuda/repos"
TOOLKIT_BASE = "https://nvidia.github.io/libnvidia-container"
TOOLKIT_FINGERPRINT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
_ARCHITECTURES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("sbsa", "arm64")}
_NAME = "nvidia-cuda"


@dataclass(frozen=True)
class VendorKey:
    file: str
    fingerprint: str


_DEB = VendorKey("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC")
_DEB_13 = VendorKey("8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200")
_RPM = VendorKey("D42D0685.pub", "610C7B14E068A878070DA4E99CD0A493D42D0685")
VENDOR_KEYS: dict[str, VendorKey] = {
    "debian12": _DEB,
    "debian13": _DEB_13,
    "ubuntu2204": _DEB,
    "ubuntu2404": _DEB,
    "rhel9": _RPM,
    "rhel10": _RPM,
}


@dataclass(frozen=True)
class Key:
    """C(url) is where it is to be had (an address, or a path on the host), C(path) where it is put."""

    url: str
    path: str
    fingerprint: str


@dataclass(frozen=True)
class Repository:
    """C(deb822) or C(yum) are the fields of Ansible's module of that name. C(replaces) are files that configure the
    same repository otherwise, which apt refuses to read beside each other."""

    name: str
    path: str
    content: str
    deb822: dict[str, Any] | None
    yum: dict[str, Any] | None
    key: Key
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class FurtherRepository:
    name: str
    why: str
    how: str
    evidence: dict[str, Any] = field(default_factory=dict)


def architectures(machine: str | None) -> tuple[str, str]:
    """NVIDIA's and Debian's name of the architecture."""
    known = _ARCHITECTURES.get(machine or "")
    if known is None:
        raise Refusal(
            "driver_architecture_unknown",
            f"The host's architecture is {machine or 'not known'}.",
            f"Expected {' or '.join(_ARCHITECTURES)}, which are those that NVIDIA has repositories for.",
            {"architecture": machine},
        )
    return known


def repository_of(distribution: Distribution, machine: str | None, asked: Request) -> Repository | None:
    """None where the distribution's own repositories do, or nothing is installed."""
    if asked.source not in VENDOR_SOURCES:
        return None
    vendor, debian = architectures(machine)
    url = f"{BASE}/{distribution.key}/{vendor}/"
    if asked.source == "mirror":
        url = f"{str(asked.repository_url).rstrip('/')}/"
    elif asked.source == "folder":
        url = f"file://{str(asked.repository_url).rstrip('/')}/"
    own = VENDOR_KEYS[distribution.key]
    key_url = asked.key or f"{url}{own.file}"
    fingerprint = asked.key_fingerprint or own.fingerprint
    if distribution.package_manager == "apt":
        return _apt(distribution, asked, url, vendor, debian, key_url, fingerprint)
    return _dnf(distribution, url, vendor, key_url, fingerprint)


def _plain_path(url: str) -> str:
    return url[len("file://") :] if url.startswith("file://") else url


def _apt(
    distribution: Distribution, asked: Request, url: str, vendor: str, debian: str, key_url: str, fingerprint: str
) -> Repository:
    ending = ".gpg" if key_url.endswith(".gpg") else ".asc"
    key = Key(_plain_path(key_url), f"/etc/apt/keyrings/{_NAME}{ending}", fingerprint)
    fields = {
        "Types": "deb",
        "URIs": url,
        "Suites": asked.repository_suite,
        "Components": " ".join(asked.repository_components),
        "Architectures": debian,
        "Signed-By": key.path,
    }
    return Repository(
        name=_NAME,
        path=f"/etc/apt/sources.list.d/{_NAME}.sources",
        content="".join(f"{name}: {value}\n" for name, value in fields.items() if value),
        deb822={
            "name": _NAME,
            "types": ["deb"],
            "uris": [url],
            "suites": [asked.repository_suite],
            "components": list(asked.repository_components),
            "architectures": [debian],
            "signed_by": key.path,
        },
        yum=None,
        key=key,
        # What the package cuda-keyring leaves; another Signed-By for one address makes apt refuse all sources.
        replaces=(f"/etc/apt/sources.list.d/cuda-{distribution.key}-{vendor}.list",),
    )


def _dnf(distribution: Distribution, url: str, vendor: str, key_url: str, fingerprint: str) -> Repository:
    # The names are those in NVIDIA's own cuda-rhel9.repo, so that it is replaced where it is there.
    name, file = f"cuda-{distribution.key}-{vendor}", f"cuda-{distribution.key}"
    key = Key(_plain_path(key_url), "/etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-CUDA", fingerprint)
    fields = {
        "name": f"NVIDIA CUDA for {distribution.label}",
        "baseurl": url,
        "enabled": "1",
        "gpgcheck": "1",
        "gpgkey": f"file://{key.path}",
    }
    return Repository(
        name=name,
        path=f"/etc/yum.repos.d/{file}.repo",
        content=f"[{name}]\n" + "".join(f"{option} = {value}\n" for option, value in fields.items()),
        deb822=None,
        yum={
            "name": name,
            "file": file,
            "description": fields["name"],
            "baseurl": url,
            "enabled": True,
            "gpgcheck": True,
            "gpgkey": fields["gpgkey"],
        },
        key=key,
    )


def further_repositories(distribution: Distribution, asked: Request, uses_dkms: bool) -> tuple[FurtherRepository, ...]:
    """What has to be enabled beside it. Debian's contrib holds what NVIDIA's packages for Debian depend on."""
    found = []
    own = asked.source == "distribution"
    if distribution.family == "debian" and asked.source in (*VENDOR_SOURCES, "distribution"):
        components = ["contrib", "non-free", "non-free-firmware"] if own else ["contrib"]
        found.append(
            FurtherRepository(
                " ".join(components),
                "Debian's own driver is there." if own else "NVIDIA's packages for Debian depend on packages there.",
                f"Add {' '.join(components)} to Components of Debian's sources in /etc/apt.",
                {"components": components},
            )
        )
    if distribution.family == "ubuntu" and own:
        found.append(
            FurtherRepository(
                "restricted multiverse",
                "Ubuntu's own driver is in restricted, its fabric manager in multiverse.",
                "Add restricted and multiverse to Components of Ubuntu's sources in /etc/apt.",
                {"components": ["restricted", "multiverse"]},
            )
        )
    if distribution.family == "rhel" and uses_dkms and not own:
        found.append(
            FurtherRepository(
                "epel",
                "DKMS, which builds the modules, is in EPEL; NVIDIA's packages need 3.1.8 of it.",
                f"Install epel-release, or the package of that name for {distribution.label} from "
                "dl.fedoraproject.org.",
                {"packages": ["epel-release"]},
            )
        )
    if asked.container_toolkit and own:
        found.append(
            FurtherRepository(
                "nvidia-container-toolkit",
                "The container toolkit is in NVIDIA's repositories only.",
                f"Configure {TOOLKIT_BASE}/stable/deb/ with the key {TOOLKIT_BASE}/gpgkey, "
                f"fingerprint {TOOLKIT_FINGERPRINT}.",
                {
                    "url": f"{TOOLKIT_BASE}/stable/deb/",
                    "key": f"{TOOLKIT_BASE}/gpgkey",
                    "fingerprint": TOOLKIT_FINGERPRINT,
                },
            )
        )
    return tuple(found)
