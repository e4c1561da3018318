# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a driver plan, checked as far as it can be without the host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import branch_number, branch_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

VENDOR_SOURCES = ("vendor", "mirror", "folder")
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Space:
    boot_free_bytes: int | None = None
    root_free_bytes: int | None = None
    boot_on_root: bool = False
    initramfs_bytes: int | None = None


@dataclass(frozen=True)
class Container:
    name: str
    runtime: str | None = None
    cgroup_manager: str | None = None
    devices: tuple[str, ...] = ()
    uses_gpus: bool | None = None


@dataclass(frozen=True)
class MigLayout:
    """C(gpus) is empty for all of them."""

    gpus: tuple[int, ...]
    profiles: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """As documented in plugins/modules/driver_plan.py. C(fabric_manager) and C(imex) are None for auto."""

    source: str = "vendor"
    version: str | None = None
    branch: int | None = None
    available: tuple[str, ...] = ()
    package_revision: str | None = None
    headers_available: tuple[str, ...] | None = None
    flavour: str = "auto"
    compute_only: bool = True
    repository_url: str | None = None
    repository_suite: str = "/"
    repository_components: tuple[str, ...] = ()
    key: str | None = None
    key_fingerprint: str | None = None
    fabric_manager: bool | None = None
    imex: bool | None = None
    imex_nodes: tuple[str, ...] = ()
    persistence: bool = True
    container_toolkit: bool = False
    container_toolkit_version: str | None = None
    mig: tuple[MigLayout, ...] = ()
    hold: bool = True
    repair: bool = True
    allow_reboot: bool = False
    allow_downgrade: bool = False
    assume_signed: bool = False
    remove_conflicting: bool = False
    space: Space = Space()
    containers: tuple[Container, ...] | None = None
    dev_char_links: bool = False


def _choice(value: Any, option: str) -> bool | None:
    """auto, true or false, however YAML or a variable spells them."""
    text = str(value).strip().lower()
    if text == "auto":
        return None
    if text in _YES or text in _NO:
        return text in _YES
    raise Refusal(
        "driver_choice_unknown",
        f"{option} is {value!r}.",
        "Expected auto, true or false.",
        {"option": option, "value": str(value)},
    )


def fingerprint_of(text: str) -> str:
    """In capitals and without blanks; refused where that is not a whole fingerprint, since a key id can be forged."""
    plain = re.sub(r"[\s:]", "", text).upper()
    if not re.fullmatch(r"(0X)?[0-9A-F]{40}|(0X)?[0-9A-F]{64}", plain):
        raise Refusal(
            "driver_fingerprint_malformed",
            f"key_fingerprint is {text!r}, which has {len(plain)} digits.",
            "Expected all 40 hexadecimal digits, as gpg --show-keys prints them; the short id of a key can be forged.",
            {"key_fingerprint": text},
        )
    return plain.removeprefix("0X")


def _checked_repository(asked: Request) -> None:
    needs = asked.source in ("mirror", "folder")
    if needs and not asked.repository_url:
        raise Refusal(
            "driver_repository_missing",
            f"source is {asked.source} and repository_url is not given.",
            "Give the address of the mirror, or the path of the folder on the host.",
            {"source": asked.source},
        )
    if not needs and asked.repository_url:
        raise Refusal(
            "driver_repository_unused",
            f"repository_url is {asked.repository_url!r}, and source is {asked.source}.",
            "Set source to mirror or folder, or leave repository_url out.",
            {"source": asked.source, "repository_url": asked.repository_url},
        )
    if asked.source == "folder" and not str(asked.repository_url).startswith("/"):
        raise Refusal(
            "driver_repository_malformed",
            f"repository_url is {asked.repository_url!r}, and source is folder.",
            "Expected the absolute path of a folder on the host.",
            {"repository_url": asked.repository_url},
        )
    if asked.source == "mirror" and "://" not in str(asked.repository_url):
        raise Refusal(
            "driver_repository_malformed",
            f"repository_url is {asked.repository_url!r}, and source is mirror.",
            "Expected an address such as https://mirror.example.com/cuda/debian12/x86_64/.",
            {"repository_url": asked.repository_url},
        )
    flat = asked.repository_suite.endswith("/")
    if flat and asked.repository_components:
        raise Refusal(
            "driver_repository_malformed",
            f"repository_suite is {asked.repository_suite!r}, which ends in a slash and so has no components.",
            "Leave repository_components out, or name a suite such as bookworm.",
            {"repository_suite": asked.repository_suite},
        )
    if not flat and not asked.repository_components:
        raise Refusal(
            "driver_repository_malformed",
            f"repository_suite is {asked.repository_suite!r}, which has components, and none is given.",
            "Give repository_components, such as [main], or a repository_suite that ends in a slash for a flat one.",
            {"repository_suite": asked.repository_suite},
        )
    if asked.key is not None and asked.key_fingerprint is None:
        raise Refusal(
            "driver_fingerprint_missing",
            f"key is {asked.key!r}, and key_fingerprint is not given.",
            "Give the full fingerprint of that key, from where you trust it: gpg --show-keys --with-fingerprint FILE.",
            {"key": asked.key},
        )


def driver_request(arguments: Mapping[str, Any]) -> Request:
    """From validated arguments; what contradicts itself is refused."""
    version, branch = arguments["version"] or None, arguments["branch"] or None
    number = None if branch is None else branch_number(branch)
    if version is not None and number is not None and branch_of(version) != number:
        raise Refusal(
            "driver_version_not_of_branch",
            f"version is {version}, and branch is {branch}.",
            "Give one of the two, or a version of that branch.",
            {"version": version, "branch": branch},
        )
    if version is not None:
        number = branch_of(version)
    containers = arguments["containers"]
    fingerprint = arguments["key_fingerprint"]
    asked = Request(
        source=arguments["source"],
        version=version,
        branch=number,
        available=tuple(arguments["available"]),
        package_revision=arguments["package_revision"] or None,
        headers_available=None if arguments["headers_available"] is None else tuple(arguments["headers_available"]),
        flavour=arguments["flavour"],
        compute_only=arguments["compute_only"],
        repository_url=arguments["repository_url"] or None,
        repository_suite=arguments["repository_suite"],
        repository_components=tuple(arguments["repository_components"]),
        key=arguments["key"] or None,
        key_fingerprint=None if not fingerprint else fingerprint_of(fingerprint),
        fabric_manager=_choice(arguments["fabric_manager"], "fabric_manager"),
        imex=_choice(arguments["imex"], "imex"),
        imex_nodes=tuple(arguments["imex_nodes"]),
        persistence=arguments["persistence"],
        container_toolkit=arguments["container_toolkit"],
        container_toolkit_version=arguments["container_toolkit_version"] or None,
        mig=tuple(MigLayout(tuple(layout["gpus"]), tuple(layout["profiles"])) for layout in arguments["mig"]),
        hold=arguments["hold"],
        repair=arguments["repair"],
        allow_reboot=arguments["allow_reboot"],
        allow_downgrade=arguments["allow_downgrade"],
        assume_signed=arguments["assume_signed"],
        remove_conflicting=arguments["remove_conflicting"],
        space=Space(**arguments["space"]),
        containers=None
        if containers is None
        else tuple(Container(**{**one, "devices": tuple(one["devices"])}) for one in containers),
        dev_char_links=arguments["dev_char_links"],
    )
    _checked_repository(asked)
    return asked
