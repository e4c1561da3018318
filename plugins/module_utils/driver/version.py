# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which branch and release, and whether they can serve the GPUs of the host."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.boards import board_name, first_for, too_old
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import (
    BRANCHES,
    DEFAULT_BRANCH,
    LAST_BEFORE_TURING,
    LAST_PROPRIETARY,
    branch_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import VENDOR_SOURCES, Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import required_flavour
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import driver_release, version_key


@dataclass(frozen=True)
class Version:
    """C(release) is None where any of the branch will do that the repository has."""

    branch: int
    release: str | None
    reason: str


def _available(distribution: Distribution, asked: Request) -> list[str]:
    """Releases that the repository has, oldest first; empty where nobody told. Where all of them are the distribution's
    own and another source is asked for, that source is not configured yet."""
    releases = sorted({driver_release(version) or version for version in asked.available}, key=version_key)
    own = [one for one in releases if one.partition(".")[0] == str(distribution.own_branch)]
    return [] if asked.source in VENDOR_SOURCES and own == releases else releases


def _offered(distribution: Distribution, asked: Request, branch: int) -> list[str]:
    return [one for one in _available(distribution, asked) if one.partition(".")[0] == str(branch)]


def _default_branch(host: Host, distribution: Distribution, asked: Request) -> tuple[int, str]:
    """The long-term branch, or the first maintained one after it that serves every GPU."""
    late = [gpu for gpu in host.gpus if too_old(gpu, DEFAULT_BRANCH, None)]
    since = distribution.vendor_since if asked.source == "vendor" else None
    if since is not None and since > DEFAULT_BRANCH and host.required_flavour != "proprietary" and not late:
        branch = _maintained_from(since)
        return branch, f"NVIDIA's repository for {distribution.label} begins with branch {since}."
    if not late:
        ends = BRANCHES[DEFAULT_BRANCH].ends
        return DEFAULT_BRANCH, f"Branch {DEFAULT_BRANCH} is maintained until {ends} and serves every GPU of the host."
    needed = max(int((first_for(gpu, DEFAULT_BRANCH) or "0").partition(".")[0]) for gpu in late)
    return _maintained_from(needed), f"{board_name(late[0])} needs branch {needed} or a later one."


def _maintained_from(first: int) -> int:
    return next((one for one in BRANCHES if one >= first and BRANCHES[one].ends), first)


def choose_version(host: Host, distribution: Distribution, asked: Request) -> Version:
    installed = host.installed_release()
    if asked.source == "none" and asked.branch is None:
        if installed is None:
            raise Refusal(
                "driver_not_there",
                "source is none, and no driver is installed.",
                "Install one, or set source to vendor.",
                {},
            )
        return Version(branch_of(installed), installed, "It is installed, and source is none.")
    if asked.version is not None:
        return Version(branch_of(asked.version), asked.version, "It was asked for.")
    if asked.branch is not None:
        branch, why = asked.branch, f"Branch {asked.branch} was asked for."
    elif asked.source == "distribution" and distribution.own_branch is not None:
        branch, why = distribution.own_branch, f"{distribution.label} has branch {distribution.own_branch}."
    elif installed is not None:
        branch, why = branch_of(installed), f"Release {installed} is installed."
    else:
        branch, why = _default_branch(host, distribution, asked)
    offered = _offered(distribution, asked, branch)
    if offered:
        return Version(branch, offered[-1], f"{why} It is the newest release of that branch in the repository.")
    if installed is not None and branch_of(installed) == branch:
        return Version(branch, installed, f"{why} The installed release stays, as no other was asked for.")
    return Version(branch, None, f"{why} Any release of it will do that the repository has.")


def version_findings(
    host: Host, distribution: Distribution, asked: Request, version: Version, flavour: str
) -> tuple[list[Refusal], list[Problem]]:
    refusals, problems = [], []
    for check in (_unsuitable_for_gpus, _flavour_is_gone, _not_offered, _downgrade, _not_the_distributions):
        refusals += check(host, distribution, asked, version, flavour)
    known = BRANCHES.get(version.branch)
    if known is None:
        message = f"Branch {version.branch} is none of {', '.join(map(str, BRANCHES))}."
        problems.append(problem("driver_branch_unknown", message))
    elif known.ends is None:
        maintained = ", ".join(f"{one.number} (until {one.ends})" for one in BRANCHES.values() if one.ends)
        message = f"Branch {version.branch} is not maintained for long or any more. Those that are: {maintained}."
        problems.append(problem("driver_branch_ended", message))
    since = distribution.vendor_since if asked.source == "vendor" else None
    if since is not None and version.branch < since and not _available(distribution, asked):
        said = f"NVIDIA's repository for {distribution.label} begins with branch {since}"
        message = f"{said}, and the plan is for {_named(version)}."
        problems.append(problem("driver_branch_before_repository", message))
    for gpu in dict.fromkeys(host.gpus):
        first = too_old(gpu, version.branch, version.release)
        if first is not None and required_flavour(gpu) != "open":
            message = (
                f"{board_name(gpu)} is in the list of release {first} and later, the plan is for {_named(version)}."
            )
            problems.append(problem("driver_board_not_listed", message))
    if version.release is None and asked.source != "none":
        message = f"The plan is for branch {version.branch}, and the release is what the repository has when it runs."
        problems.append(problem("driver_release_open", message))
    return refusals, problems


def _named(version: Version) -> str:
    return f"release {version.release}" if version.release else f"branch {version.branch}"


def _unsuitable_for_gpus(
    host: Host, distribution: Distribution, asked: Request, version: Version, flavour: str
) -> list[Refusal]:
    refusals = []
    old = [gpu for gpu in dict.fromkeys(host.gpus) if required_flavour(gpu) == "proprietary"]
    if old and version.branch > LAST_BEFORE_TURING and host.required_flavour == "proprietary":
        refusals.append(
            Refusal(
                "driver_gpu_ended",
                f"{', '.join(map(board_name, old))} is served up to branch {LAST_BEFORE_TURING}, and the plan is for "
                f"{_named(version)}.",
                f"Set branch to '{LAST_BEFORE_TURING}'.",
                {"gpus": old, "last_branch": str(LAST_BEFORE_TURING)},
            )
        )
    for gpu in dict.fromkeys(host.gpus):
        first = too_old(gpu, version.branch, version.release)
        if first is not None and required_flavour(gpu) == "open":
            refusals.append(
                Refusal(
                    "driver_too_old_for_gpu",
                    f"{board_name(gpu)} is served from release {first} on, and the plan is for {_named(version)}.",
                    f"Set version to '{first}' or a later one."
                    if asked.source != "distribution" or distribution.own_branch is None
                    else f"Set source to vendor, as {distribution.label} has branch {distribution.own_branch} only.",
                    {"gpu": gpu, "first_release": first, "release": version.release, "branch": str(version.branch)},
                )
            )
    return refusals


def _flavour_is_gone(
    host: Host, distribution: Distribution, asked: Request, version: Version, flavour: str
) -> list[Refusal]:
    if flavour != "proprietary" or version.branch <= LAST_PROPRIETARY:
        return []
    if host.required_flavour == "proprietary":
        return []  # said already: no branch after 580 serves these GPUs
    return [
        Refusal(
            "driver_flavour_gone",
            f"flavour is proprietary, and the plan is for {_named(version)}; NVIDIA ships open modules only from "
            "branch "
            "620 on.",
            "Set flavour to auto, or a branch up to 615.",
            {"branch": str(version.branch), "last_branch": str(LAST_PROPRIETARY)},
        )
    ]


def _not_offered(
    host: Host, distribution: Distribution, asked: Request, version: Version, flavour: str
) -> list[Refusal]:
    every = _available(distribution, asked)
    if not every or asked.source == "none":
        return []
    offered = _offered(distribution, asked, version.branch)
    wanted = version.release
    if (wanted is not None and wanted in offered) or (wanted is None and offered):
        return []
    if wanted is not None and wanted == host.installed_release():
        return []
    return [
        Refusal(
            "driver_version_not_offered",
            f"The repository has no {_named(version)}. It has {', '.join(every)}.",
            "Set version to one of these, or bring that release into the repository.",
            {"version": wanted, "branch": str(version.branch), "available": every},
        )
    ]


def _downgrade(host: Host, distribution: Distribution, asked: Request, version: Version, flavour: str) -> list[Refusal]:
    installed = host.installed_release()
    if installed is None or asked.allow_downgrade or asked.source == "none":
        return []
    older = version.branch < branch_of(installed)
    if version.release is not None:
        older = version_key(version.release) < version_key(installed)
    if not older:
        return []
    return [
        Refusal(
            "driver_downgrade",
            f"Release {installed} is installed, and the plan is for {_named(version)}, which is older.",
            "Set allow_downgrade to true where that is meant; check first that CUDA of what runs there works with it.",
            {"installed": installed, "version": version.release, "branch": str(version.branch)},
        )
    ]


def _not_the_distributions(
    host: Host, distribution: Distribution, asked: Request, version: Version, flavour: str
) -> list[Refusal]:
    if asked.source != "distribution":
        return []
    if distribution.family == "rhel":
        return [
            Refusal(
                "driver_distribution_has_none",
                f"source is distribution, and {distribution.label} has no NVIDIA driver of its own.",
                "Set source to vendor, mirror or folder.",
                {"distribution": distribution.key},
            )
        ]
    if distribution.own_branch is None or version.branch == distribution.own_branch:
        return []
    return [
        Refusal(
            "driver_version_not_offered",
            f"source is distribution, {distribution.label} has branch {distribution.own_branch}, and the plan is for "
            f"{_named(version)}.",
            f"Set branch to '{distribution.own_branch}', or source to vendor.",
            {"branch": str(version.branch), "available": [str(distribution.own_branch)]},
        )
    ]
