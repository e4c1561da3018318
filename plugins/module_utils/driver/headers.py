# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether modules can be built for the kernels that need them, and which packages bring the headers."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution, headers_package
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Kernel


@dataclass(frozen=True)
class PlannedKernel:
    """C(why) is running, next or both."""

    release: str
    why: str
    headers_package: str


def planned_kernels(distribution: Distribution, host: Host) -> tuple[PlannedKernel, ...]:
    return tuple(
        PlannedKernel(kernel.release, _why(kernel), headers_package(distribution, kernel.release))
        for kernel in host.concerned_kernels()
    )


def _why(kernel: Kernel) -> str:
    if kernel.running:
        return "both" if kernel.boots_next else "running"
    return "next"


_WORDS = {"both": "runs and boots next", "running": "runs", "next": "boots next"}


def plan_headers(
    distribution: Distribution, host: Host, asked: Request
) -> tuple[list[str], list[Refusal], list[Problem]]:
    """The packages of headers that are missing; what cannot be had is refused, for a module that was not built is found
    out at the next boot (NVIDIA/ansible-role-nvidia-driver issues 18, 21)."""
    wanted, refusals, problems = [], [], []
    missing = [kernel for kernel in host.concerned_kernels() if not kernel.headers_installed]
    for kernel in missing:
        package = headers_package(distribution, kernel.release)
        said = f"The headers of kernel {kernel.release}, which {_WORDS[_why(kernel)]}, are not installed"
        if asked.headers_available is None:
            wanted.append(package)
            problems.append(
                problem("driver_headers_unchecked", f"{said}, and whether {package} can be was not looked up.")
            )
        elif kernel.release in asked.headers_available or package in asked.headers_available:
            wanted.append(package)
        else:
            refusals.append(
                Refusal(
                    "driver_headers_not_there",
                    f"{said}, and no configured repository has {package}.",
                    _remedy(host, kernel, package),
                    {"kernel": kernel.release, "package": package},
                )
            )
    if not host.concerned_kernels():
        problems.append(
            problem("driver_kernels_unknown", _no_kernels(host)),
        )
    return wanted, refusals, problems


def _remedy(host: Host, kernel: Kernel, package: str) -> str:
    if kernel.running and not kernel.boots_next and host.next_kernel is not None:
        return (
            f"Reboot first, into kernel {host.next_kernel}, which boots next; or bring {package} into a repository of "
            "the "
            "host."
        )
    return (
        f"Bring {package} into a repository of the host (older kernels are in snapshot.debian.org, old-releases or the "
        "vault), or upgrade the kernel together with its headers and reboot first."
    )


def _no_kernels(host: Host) -> str:
    if host.in_container:
        return f"This is a container of {host.os.container}, which runs its host's kernel and has none of its own."
    return "Neither the kernel that runs nor the one that boots next could be told."
