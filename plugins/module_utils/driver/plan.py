# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A driver plan out of a host and a request: everything that forbids it, all at once, and what it would do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver import names
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.changes import action_of, list_changes, missing
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.containers import plan_daemon_reload
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution, distribution_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.fabric import Fabric, plan_fabric
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.facts import Expectations, Installed, Plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.files import plan_dkms, plan_files, plan_initramfs
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.flavour import Flavour, choose_flavour
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.headers import plan_headers, planned_kernels
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.mig import plan_mig
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.origins import origins_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.package_state import check_packages, plan_repair
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.packages import (
    Transaction,
    absent_packages,
    containers_transaction,
    driver_transaction,
    headers_transaction,
    pinning_transaction,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.pins import (
    plan_holds,
    plan_preferences,
    plan_stream,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.repositories import (
    further_repositories,
    repository_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.secure_boot import check_signatures
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.services import plan_services
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.space import check_space
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.steps import steps_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.usage import check_usage, plan_activation
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.version import (
    Version,
    choose_version,
    version_findings,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal

# Distributions whose own dkms is older than 3.1.8, which NVIDIA's packages need from 570.148.08 on.
_OLD_DKMS = ("debian12", "ubuntu2204", "ubuntu2404")


@dataclass(frozen=True)
class Outcome:
    """C(plan) is None where a refusal leaves nothing to be planned."""

    plan: Plan | None
    refusals: tuple[Refusal, ...] = ()
    problems: tuple[Problem, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "refused": bool(self.refusals),
            "refusals": [refusal.as_dict() for refusal in self.refusals],
            "problems": [found.as_dict() for found in self.problems],
            "plan": None if self.plan is None else self.plan.as_dict(),
        }


def plan_driver(host: Host, asked: Request) -> Outcome:
    try:
        distribution = _distribution(host, asked)
        flavour, refusals, problems = choose_flavour(host, asked)
        if flavour is None:
            return Outcome(None, tuple(refusals), tuple(problems))
        version = choose_version(host, distribution, asked)
        repository_of(distribution, host.os.architecture, asked)
    except Refusal as refusal:
        return Outcome(None, (refusal,))
    more_refusals, more_problems = version_findings(host, distribution, asked, version, flavour.name)
    fabric, fabric_refusals, fabric_problems = plan_fabric(host, asked)
    refusals += [*more_refusals, *_fabric_not_there(distribution, asked, fabric)]
    problems += more_problems
    plan, found, stated = _plan(host, distribution, asked, flavour, version, fabric)
    return Outcome(
        plan, (*refusals, *fabric_refusals, *found), tuple(dict.fromkeys((*problems, *fabric_problems, *stated)))
    )


def _distribution(host: Host, asked: Request) -> Distribution:
    try:
        return distribution_of(host.os)
    except Refusal:
        if asked.source != "none":
            raise
    name = f"{host.os.id or 'unknown'}{(host.os.version_id or '').replace('.', '')}"
    return Distribution(name, name, host.os.family, host.os.package_manager or "other")


def _fabric_not_there(distribution: Distribution, asked: Request, fabric: Fabric) -> list[Refusal]:
    """Debian has no fabric manager of its own, Ubuntu no subnet manager."""
    if asked.source != "distribution" or not (fabric.fabric_manager or fabric.imex):
        return []
    lacking = "fabric manager" if distribution.family != "ubuntu" else "subnet manager (nvlsm)"
    if distribution.family == "ubuntu" and not fabric.subnet_manager:
        return []
    return [
        Refusal(
            "driver_fabric_manager_not_there",
            f"{fabric.reason} {distribution.label} has no {lacking} of its own.",
            "Set source to vendor, mirror or folder.",
            {"distribution": distribution.key, "kind": fabric.kind},
        )
    ]


def _modules_missing(host: Host, release: str | None, dkms: bool) -> bool:
    """Whether a kernel that needs modules has none of the release, though the packages are there."""
    if not dkms or host.installed_release() is None:
        return False
    for kernel in host.concerned_kernels():
        module = kernel.nvidia_module
        if module is None or (release is not None and module.version not in (None, release)):
            return True
    return False


def _plan(
    host: Host, distribution: Distribution, asked: Request, flavour: Flavour, version: Version, fabric: Fabric
) -> tuple[Plan, list[Refusal], list[Problem]]:
    installs = asked.source != "none" and not _has_none(distribution, asked)
    dkms = installs and names.uses_dkms(distribution, asked.source)
    refusals: list[Refusal] = []
    problems: list[Problem] = []

    def take(found: tuple[list[Refusal], list[Problem]]) -> None:
        refusals.extend(found[0])
        problems.extend(found[1])

    driver = driver_transaction(distribution, host, asked, version, flavour.name, fabric) if installs else None
    absent = () if driver is None else absent_packages(distribution, host, asked, version, driver.names)
    pinning = pinning_transaction(distribution, asked, version) if driver else None
    absent = tuple(one for one in absent if pinning is None or one.name not in pinning.names)
    action = action_of(host, version, flavour.name, driver, absent)
    if action == "none" and _modules_missing(host, version.release, dkms):
        action = "complete"
    headers_wanted: list[str] = []
    if dkms:
        headers_wanted, headers_refused, headers_stated = plan_headers(distribution, host, asked)
        take((headers_refused, headers_stated))
    transactions = [
        headers_transaction(distribution, host, headers_wanted) if dkms else None,
        pinning,
        driver,
        containers_transaction(distribution, asked) if installs else None,
    ]
    planned = tuple(one for one in transactions if one is not None)
    if action == "none" and any(missing(host, one) for one in planned if not one.optional):
        action = "complete"
    changes = action != "none"
    repair, found_halves = plan_repair(host, asked, [name for one in planned for name in one.names])
    refusals.extend(found_halves if installs else [])
    if installs:
        take(check_packages(distribution, host, asked, absent))
    take(check_signatures(distribution, host, asked, dkms))
    activation, reboot = plan_activation(host, asked, fabric, version.release, flavour.name, changes)
    kernels = planned_kernels(distribution, host)
    releases = tuple(kernel.release for kernel in kernels)
    files = plan_files(asked, fabric) if installs else ()
    initramfs = plan_initramfs(distribution, host, releases, changes and installs)
    if not installs:
        initramfs = replace(initramfs, needed=False)
    if installs:
        take(check_usage(host, asked, activation, version.release))
    if changes:
        take(check_space(host, asked, flavour.name, fabric.fabric_manager, dkms, initramfs.needed))
    mig, mig_refusals = plan_mig(host, asked)
    refusals.extend(mig_refusals)
    daemon_reload, reload_problems = plan_daemon_reload(asked)
    problems.extend(reload_problems)
    if daemon_reload.postpone and changes:
        refusals.append(_containers_lose(daemon_reload.containers, daemon_reload.remedy or ""))
    if dkms and asked.source in ("mirror", "folder") and distribution.key in _OLD_DKMS and version.branch >= 570:
        problems.append(
            problem(
                "driver_dkms_of_repository", f"{distribution.label} has DKMS before 3.1.8, and the source is a copy."
            )
        )
    holds = plan_holds(distribution, host, asked, version, driver, changes)
    services = plan_services(host, asked, fabric)
    plan = Plan(
        action=action,
        source=asked.source,
        distribution=distribution.key,
        package_manager=distribution.package_manager,
        flavour=flavour,
        branch=str(version.branch),
        version=version.release,
        version_reason=version.reason,
        installed=_installed(host, distribution),
        repository=repository_of(distribution, host.os.architecture, asked),
        further_repositories=further_repositories(distribution, asked, dkms),
        repair=repair,
        transactions=planned,
        absent=absent,
        module_stream=plan_stream(distribution, asked, version, flavour.name),
        holds=holds,
        preferences=plan_preferences(distribution, asked, version),
        files=files,
        initramfs=initramfs,
        dkms=plan_dkms(dkms, releases),
        services=services,
        activation=activation,
        reboot=reboot,
        daemon_reload=daemon_reload,
        fabric=fabric,
        mig=mig,
        kernels=kernels,
        expectations=_expectations(host, asked, flavour, version, fabric, releases, driver, holds.packages),
        changes=list_changes(host, version, flavour.name, planned if changes else (), absent, holds, services),
    )
    return replace(plan, steps=steps_of(plan, distribution)), refusals, problems


def _has_none(distribution: Distribution, asked: Request) -> bool:
    """Whether the distribution is to give a driver that it does not have, which has been refused."""
    return asked.source == "distribution" and distribution.family == "rhel"


def _containers_lose(containers: tuple[str, ...], remedy: str) -> Refusal:
    return Refusal(
        "driver_containers_lose_gpus",
        f"{', '.join(containers)} would lose GPUs: packages reload systemd's units when they are installed.",
        f"Stop them first. {remedy}",
        {"containers": list(containers)},
    )


def _installed(host: Host, distribution: Distribution) -> Installed:
    origins = origins_of(distribution, host.driver_packages())
    told = (origins[package.name] for package in host.driver_packages() if package.status == "installed")
    return Installed(
        version=host.installed_release(),
        flavour=host.installed_flavour(),
        source=next((origin for origin in told if origin is not None), None),
        fabric_manager=host.fabric_manager.installed_version,
    )


def _expectations(
    host: Host,
    asked: Request,
    flavour: Flavour,
    version: Version,
    fabric: Fabric,
    kernels: tuple[str, ...],
    driver: Transaction | None,
    held: tuple[str, ...],
) -> Expectations:
    return Expectations(
        version=version.release,
        branch=str(version.branch),
        flavour=flavour.name,
        fabric_manager=fabric.fabric_manager,
        imex=fabric.imex,
        persistence=asked.persistence,
        kernels=kernels,
        nouveau=False,
        packages=() if driver is None else driver.names,
        held=held,
        gpus=len(host.gpus),
    )
