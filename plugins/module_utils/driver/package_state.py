# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of the installed packages stands in the way: half of them, others' drivers, and upgrades by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.packages import Absent
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package

_WHOLE = ("installed", "config-files", "not-installed")
_COMMANDS = (("dpkg", "--configure", "-a"), ("apt-get", "--fix-broken", "--assume-yes", "install"))
# Packages that are there beside any driver, and bring nothing of one.
_TOOLS = re.compile(
    r"nvidia-(settings|modprobe|persistenced|detect|installer-cleanup|prime|driver-pinning-.*)$|firmware-nvidia-"
)


@dataclass(frozen=True)
class Repair:
    """C(commands) finish what an interrupted run of the package manager left."""

    needed: bool = False
    packages: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()


def half_installed(host: Host) -> list[Package]:
    return [package for package in host.packages or () if package.status not in _WHOLE]


def plan_repair(host: Host, asked: Request, wanted: Iterable[str]) -> tuple[Repair, list[Refusal]]:
    """What the plan itself was about to install when it was interrupted is finished; others' halves are refused, since
    what they would do when they go on is not known."""
    halves = half_installed(host)
    if not halves:
        return Repair(), []
    ours = set(wanted)
    foreign = [one for one in halves if one.name not in ours and one.kind not in ("driver", "kernel_module", "fabric")]
    if asked.repair and not foreign:
        return Repair(True, tuple(one.name for one in halves), _COMMANDS), []
    named = ", ".join(f"{one.name} {one.version} ({one.status})" for one in (foreign or halves))
    return Repair(), [
        Refusal(
            "driver_packages_half_installed",
            f"dpkg has packages that are neither installed nor removed: {named}.",
            "Run dpkg --configure -a, then apt-get --fix-broken install, and read why they stopped.",
            {"packages": [{"name": one.name, "version": one.version, "status": one.status} for one in halves]},
        )
    ]


def runfile_installation(host: Host) -> str | None:
    """What shows that the driver was installed past the package manager, by NVIDIA's .run file or by hand."""
    if host.packages is None or host.in_container:
        return None
    packaged = [
        package
        for package in host.driver_packages()
        if package.status == "installed" and package.kind != "fabric" and not _TOOLS.match(package.name)
    ]
    if host.user_space_version is not None and not packaged:
        return f"Libraries of release {host.user_space_version} are there, and no package of the driver."
    for kernel in host.concerned_kernels():
        module = kernel.nvidia_module
        if module is not None and module.source == "unknown":
            return f"{module.path} of release {module.version} is neither of DKMS nor of a package."
    return None


def check_packages(
    distribution: Distribution, host: Host, asked: Request, absent: Sequence[Absent]
) -> tuple[list[Refusal], list[Problem]]:
    refusals, problems = [], []
    runfile = runfile_installation(host)
    if runfile is not None and asked.source != "none":
        refusals.append(
            Refusal(
                "driver_runfile_installed",
                f"{runfile} NVIDIA's .run installer or somebody by hand put it there, and packages would overwrite "
                "half of "
                "it.",
                "Remove it first: nvidia-uninstall (or the .run file with --uninstall), and reboot where its module is "
                "in "
                "use.",
                {"release": host.user_space_version or host.loaded.version},
            )
        )
    foreign = [one for one in absent if one.foreign]
    if foreign and not asked.remove_conflicting:
        refusals.append(
            Refusal(
                "driver_packages_conflict",
                f"Packages of another source are installed, which exclude those of the plan: "
                f"{', '.join(f'{one.name} {one.version}' for one in foreign)}.",
                "Set remove_conflicting to true to have them replaced, or source to where they are from.",
                {"packages": [one.name for one in foreign]},
            )
        )
    if host.packages is None and asked.source != "none":
        refusals.append(
            Refusal(
                "driver_packages_unknown",
                "The installed packages of the host could not be listed.",
                "Run host_stack_info with become: true, and on RPM systems with rpm there.",
                {},
            )
        )
    covers = host.unattended.covers_driver
    if host.unattended.enabled and covers is not False:
        said = f"{host.unattended.tool} installs upgrades by itself"
        reach = "and they can reach the driver" if covers else "and whether they reach the driver cannot be told"
        if asked.hold:
            problems.append(problem("driver_unattended_held", f"{said}, {reach}."))
        elif covers:
            refusals.append(
                Refusal(
                    "driver_unattended_upgrades",
                    f"{said}, {reach}: {host.unattended.reason or 'no package of it is held'} hold is false.",
                    "Set hold to true, or put the driver's packages on the black list "
                    "(Unattended-Upgrade::Package-Blacklist), or exclude them (exclude= of dnf).",
                    {"tool": host.unattended.tool},
                )
            )
        else:
            problems.append(problem("driver_unattended_unclear", f"{said}, {reach}, and hold is false."))
    return refusals, problems
