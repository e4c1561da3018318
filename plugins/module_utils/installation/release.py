# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which environment a request means on a node, and why it cannot be made there, before anything is touched. Pure.

The environment's name has a digest of everything that makes it: two requests with the same name get the same
environment, and one that differs gets another beside it. Where hashes are known, the source of wheels does not count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import (
    Asked,
    NodePython,
    Place,
    Wheelhouse,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.chosen_wheels import choose
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.markers import applies
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.requirements import (
    Requirement,
    all_hashed,
    canonical_text,
    parse_requirements,
    version_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Wheel, same_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.python_versions import oldest_python
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version

# An estimate of what pip compiles beside the sources that it unpacks.
_COMPILED_SHARE = 0.25
# 207 wheels for x86_64 that PyPI resolves sglang==0.5.23 to have 4.35 GB; they unpack to about 2.2 times as much, and
# lie on the disk beside it while they are installed.
_INDEX_BYTES = {"cuda": 15 * GB, "cpu": 4 * GB}
_RESERVE_BYTES = GB
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*\Z")


@dataclass(frozen=True)
class Release:
    """C(requirements) as the installer gets them; C(resolve): it may add what they need themselves."""

    name: str
    digest: str
    requirements: str
    resolve: bool
    hashed: bool
    wheels: tuple[Wheel, ...]


def checked_version(version: str) -> str:
    """The version as PyPI has it. Raises Refusal for the tag of an image, which names no package."""
    parsed = parse_version(version)
    if version.startswith("v") or "-" in version:
        raise Refusal(
            "version_is_image_tag",
            f"sglang_version is {version}, which is the tag of a container image and no version of the package.",
            f'Expected "{str(parsed)}"; the CUDA line is chosen by the wheels, from sglang_wheelhouse or '
            "sglang_extra_index_urls.",
            {"sglang_version": version, "expected": str(parsed)},
        )
    return version


def checked_urls(asked: Asked) -> None:
    """Raises Refusal for an address with a password: it would show in argv and in what the installer prints."""
    named = [("sglang_index_url", asked.index_url)] + [
        ("sglang_extra_index_urls", one) for one in asked.extra_index_urls
    ]
    for option, url in named:
        if url is None:
            continue
        # Anywhere in it: a password with a slash ends the host for whoever parses it, and is one all the same.
        if "@" in url:
            host = url.rsplit("@", 1)[1].split("/", 1)[0]
            raise Refusal(
                "index_url_holds_credentials",
                f"{option} has an address with credentials for {host}.",
                "Expected the address alone; give machine, login and password in sglang_index_credentials, from where "
                "they reach the installer in a file that only root reads.",
                {"option": option, "host": host},
            )
    if asked.wheelhouse and (asked.index_url or asked.extra_index_urls):
        raise Refusal(
            "wheelhouse_and_index",
            "sglang_wheelhouse is set beside sglang_index_url or sglang_extra_index_urls.",
            "Expected one source: with a wheelhouse no index is asked.",
        )


def checked_python(asked: Asked, python: NodePython | None) -> NodePython:
    """Raises Refusal for a Python from which no environment of this release can be made."""
    oldest = ".".join(map(str, oldest_python(asked.version)))
    if python is None:
        raise Refusal(
            "release_python_missing",
            f"{asked.python} does not run on this node.",
            f"Expected a Python {oldest} or newer, as SGLang {asked.version} needs: name its package in "
            "sglang_system_packages, or set sglang_python to one that is there.",
            {"python": asked.python, "oldest": oldest},
        )
    if python.target.python < oldest_python(asked.version):
        raise Refusal(
            "python_too_old",
            f"{asked.python} is Python {python.version}.",
            f"SGLang {asked.version} needs {oldest} or newer: set sglang_python to such an interpreter of the node, "
            f"such as /usr/bin/python{oldest}, and name its packages in sglang_system_packages.",
            {"python": asked.python, "version": python.version, "oldest": oldest},
        )
    comes = any(re.fullmatch(r"python3(\.\d+)?-(venv|full)", one) for one in asked.system_packages)
    if not python.makes_environments and not comes:
        raise Refusal(
            "python_without_venv",
            f"{asked.python} (Python {python.version}) has no venv or no ensurepip, and cannot make an environment.",
            f"Name python{python.target.python[0]}.{python.target.python[1]}-venv in sglang_system_packages.",
            {"python": asked.python, "version": python.version},
        )
    return python


def comes_with_packages(asked: Asked) -> bool:
    """Whether an interpreter that is not there yet is among the packages that come first."""
    name = asked.python.rsplit("/", 1)[-1]
    return any(one == name or one.startswith(f"{name}-") for one in asked.system_packages)


def checked_place(place: Place, needed_bytes: int) -> None:
    """Raises Refusal where the environment cannot lie."""
    if not place.executable:
        raise Refusal(
            "install_root_noexec",
            f"{place.folder} is on a file system that is mounted noexec, so that nothing of it can be run or loaded.",
            "Remount it without noexec, or set sglang_install_root to a folder on another file system.",
            {"folder": place.folder},
        )
    if not place.writable:
        raise Refusal(
            "install_root_read_only",
            f"{place.folder} is on a file system that is mounted read-only.",
            "Mount it for writing, or set sglang_install_root to a folder on another file system.",
            {"folder": place.folder},
        )
    if place.free_bytes < needed_bytes:
        raise Refusal(
            "install_root_too_small",
            f"{place.folder} has {format_gb(place.free_bytes)} free.",
            f"The environment needs {format_gb(needed_bytes)}, {format_gb(needed_bytes - place.free_bytes)} more: make "
            "room there (sglang_keep_releases lets old ones go), or set sglang_install_root to a larger file system.",
            {"free_bytes": place.free_bytes, "needed_bytes": needed_bytes, "folder": place.folder},
        )


def needed_bytes(device: str, unpacked_bytes: int | None) -> int:
    """C(unpacked_bytes): what the wheels unpack to, None where they come from an index."""
    if unpacked_bytes is None:
        return _INDEX_BYTES[device] + _RESERVE_BYTES
    return int(unpacked_bytes * (1 + _COMPILED_SHARE)) + _RESERVE_BYTES


def _requirements(asked: Asked, wheelhouse: Wheelhouse | None) -> tuple[tuple[Requirement, ...], bool]:
    """The pins, and whether what they need is resolved."""
    text = asked.requirements
    if text is None and wheelhouse is not None:
        text = wheelhouse.requirements
    if text is None:
        return parse_requirements(f"sglang=={asked.version}"), True
    found = parse_requirements(text)
    pinned = version_of(found, "sglang")
    if pinned is None or not same_version(asked.version.split("+", 1)[0], pinned):
        raise Refusal(
            "requirements_of_another_release",
            f"The requirements pin sglang=={pinned}." if pinned else "The requirements do not pin sglang.",
            f"sglang_version is {asked.version}: expected the line sglang=={asked.version} among them.",
            {"sglang_version": asked.version, "pinned": pinned},
        )
    return found, False


def _hashed(asked: Asked, wanted: tuple[Requirement, ...], where: str, *, resolve: bool, sums: bool) -> bool:
    without = [f"{one.name}{one.specifier}" for one in wanted if not one.hashes]
    if not without:
        return bool(wanted)
    if len(without) < len(wanted) and not asked.hashes_required:
        raise Refusal(
            "hashes_partial",
            f"{len(without)} of {len(wanted)} requirements have no hash, {without[0]} first.",
            "With one hash the installer wants them all: make them with uv pip compile --generate-hashes.",
            {"without": without[:50]},
        )
    if asked.hashes_required:
        how = (
            f"sglang_requirements_file has to pin every package, as what sglang=={asked.version} needs is not resolved "
            "with hashes"
            if resolve
            else f"run sha256sum *.whl > SHA256SUMS in {where} where its wheels are known to be good"
            if asked.wheelhouse and not sums
            else "make them with uv pip compile --generate-hashes"
        )
        raise Refusal(
            "hashes_missing",
            f"{len(without)} of {len(wanted)} requirements have no hash, {without[0]} first, and hashes are required"
            + (" as the wheels come from a wheelhouse." if asked.require_hashes is None else "."),
            f"Either {how}, or let wheels in unseen with sglang_require_hashes: false.",
            {"without": without[:50]},
        )
    return False


def planned_release(asked: Asked, python: NodePython, wheelhouse: Wheelhouse | None) -> Release:
    """The environment that is asked for on a node with this Python. Raises Refusal where it cannot be had."""
    checked_version(asked.version)
    checked_urls(asked)
    everything, resolve = _requirements(asked, wheelhouse)
    wanted = tuple(one for one in everything if applies(one.marker, python.target))
    where = asked.wheelhouse or ""
    wheels: tuple[Wheel, ...] = ()
    if wheelhouse is not None:
        chosen = choose(wanted, wheelhouse, python.target, where, hashes_required=asked.hashes_required)
        wanted, wheels = chosen.requirements, chosen.wheels
    sums = wheelhouse is not None and wheelhouse.sums is not None
    hashed = _hashed(asked, wanted, where, resolve=resolve, sums=sums)
    text = canonical_text(wanted)
    digest = _digest(asked, python, text, resolve=resolve, hashed=hashed)
    return Release(f"{_label(asked.version)}-{digest[:12]}", digest, text, resolve, all_hashed(wanted), wheels)


def _label(version: str) -> str:
    # parse_version has let it pass, so that it is a name of a folder as well.
    return version if _LABEL.match(version) else str(parse_version(version))


def _digest(asked: Asked, python: NodePython, text: str, *, resolve: bool, hashed: bool) -> str:
    sources: Iterable[str | None] = () if hashed or asked.wheelhouse else (asked.index_url, *asked.extra_index_urls)
    parts = {
        "requirements": text,
        "resolve": resolve,
        "sources": list(sources),
        "interpreter": asked.python,
        "python": python.target.tag,
        "machine": python.target.machine,
        # A newer glibc takes the same wheels; another libc takes others.
        "libc": "glibc" if python.target.glibc else "other",
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
