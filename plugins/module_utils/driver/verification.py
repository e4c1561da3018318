# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what a plan expects holds: module, next kernel, libraries, fabric manager and packages of one release.

What cannot be told is no finding: a container has no modules of its own, and without topology no GPU was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Daemon, Host, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.package_state import half_installed
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.usage import nouveau_in_the_way
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.driver_findings import refuses_unsigned
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import release_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import driver_release


@dataclass(frozen=True)
class Expected:
    """C(release) is what all have to be of; None where nothing on the host tells one either."""

    release: str | None
    branch: str
    flavour: str
    fabric_manager: bool
    persistence: bool
    kernels: tuple[str, ...]
    packages: tuple[str, ...]
    held: tuple[str, ...]
    gpus: int


def _expected(plan: Mapping[str, Any], host: Host) -> Expected:
    told = plan.get("expectations") if isinstance(plan, Mapping) else None
    if not isinstance(told, Mapping):
        raise Refusal(
            "driver_stack_malformed",
            f"plan is {type(plan).__name__} without expectations.",
            "Expected plan of gpufleet.sglang.driver_plan, as a whole.",
            {},
        )
    return Expected(
        release=told.get("version") or host.installed_release(),
        branch=str(told["branch"]),
        flavour=told["flavour"],
        fabric_manager=told["fabric_manager"],
        persistence=told["persistence"],
        kernels=tuple(told["kernels"]),
        packages=tuple(told["packages"]),
        held=tuple(told["held"]),
        gpus=told["gpus"],
    )


def verification(
    stack: Mapping[str, Any], plan: Mapping[str, Any], topology: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """C(ok) is whether nothing is wrong that keeps the GPUs from working, now or after the next boot."""
    host = read_host(stack, topology or {})
    expected = _expected(plan, host)
    findings = [
        *_release(expected),
        *_modules(host, expected),
        *_user_space(host, expected),
        *_fabric_manager(host, expected),
        *_fabric_states(topology or {}, expected),
        *_gpus(topology or {}, expected),
        *_packages(host, expected),
        *_nouveau(stack, host),
        *_services(host, expected),
    ]
    return {
        "ok": not any(found.severity == "error" for found in findings),
        "release": expected.release,
        "findings": [found.as_dict() for found in findings],
    }


def _release(expected: Expected) -> list[Problem]:
    if expected.release is None:
        return [problem("driver_verify_packages", "No package and no library of the driver is there.")]
    if expected.release.partition(".")[0] == expected.branch:
        return []
    message = f"Release {expected.release} is installed, and branch {expected.branch} was planned."
    return [problem("driver_verify_packages", message)]


def _modules(host: Host, expected: Expected) -> list[Problem]:
    if host.in_container:
        return []
    found = []
    if host.gpus and not host.loaded.loaded:
        found.append(problem("driver_verify_module", "No module of the driver is loaded."))
    elif host.loaded.loaded and host.loaded.version not in (None, expected.release):
        message = f"The module of release {host.loaded.version} is loaded, expected is {expected.release}."
        found.append(problem("driver_verify_module", message))
    elif host.loaded.loaded and host.loaded.flavour not in (None, expected.flavour):
        message = f"The {host.loaded.flavour} module is loaded, expected is the {expected.flavour} one."
        found.append(problem("driver_verify_module", message))
    for kernel in host.concerned_kernels():
        module = kernel.nvidia_module
        if module is None:
            found.append(problem("driver_verify_next_module", f"Kernel {kernel.release} has no module of the driver."))
            continue
        if module.version not in (None, expected.release):
            message = (
                f"Kernel {kernel.release} has a module of release {module.version}, expected is {expected.release}."
            )
            found.append(problem("driver_verify_next_module", message))
        if module.flavour not in (None, expected.flavour):
            message = (
                f"Kernel {kernel.release} has the {module.flavour} module, expected is the {expected.flavour} one."
            )
            found.append(problem("driver_verify_next_module", message))
        if refuses_unsigned(host.secure_boot) and (module.signed is False or module.signer_trusted is False):
            why = "is not signed" if module.signed is False else f"is signed by {module.signer}, which is not trusted"
            found.append(problem("driver_verify_signature", f"{module.path} {why}."))
    return found


def _user_space(host: Host, expected: Expected) -> list[Problem]:
    version = host.user_space_version
    if version is None:
        return [] if host.in_container else [problem("driver_verify_user_space", "libnvidia-ml is not there.")]
    if version == expected.release:
        return []
    message = f"The libraries are of release {version}, expected is {expected.release}."
    return [problem("driver_verify_user_space", message)]


def _fabric_manager(host: Host, expected: Expected) -> list[Problem]:
    if not expected.fabric_manager:
        return []
    daemon = host.fabric_manager
    if daemon.installed_version is None and not daemon.running:
        return [problem("driver_verify_fabric", "No fabric manager is installed.")]
    found = []
    if daemon.installed_version not in (None, expected.release):
        message = f"The fabric manager is of release {daemon.installed_version}, expected is {expected.release}."
        found.append(problem("driver_verify_fabric", message))
    return found + [problem("driver_verify_fabric", said) for said in _state("nvidia-fabricmanager", daemon)]


def _state(name: str, daemon: Daemon) -> list[str]:
    said = []
    if daemon.running is False:
        said.append(f"{name} does not run.")
    if daemon.enabled is False:
        said.append(f"{name} is not enabled, so that it does not start at boot.")
    return said


def _fabric_states(topology: Mapping[str, Any], expected: Expected) -> list[Problem]:
    """GPUs that tell of their fabric, which those before Hopper do not (Dstack-TEE/dstack issue 1167)."""
    if not expected.fabric_manager:
        return []
    found = []
    for gpu in topology.get("gpus") or ():
        fabric = gpu.get("fabric") or {}
        state, status = fabric.get("state"), fabric.get("status")
        if state not in (None, "completed"):
            found.append(
                problem("driver_verify_fabric_state", f"GPU {gpu.get('index')} is {state} in joining the fabric.")
            )
        elif status not in (None, 0):
            message = f"GPU {gpu.get('index')} joined the fabric with NVML's error {status}."
            found.append(problem("driver_verify_fabric_state", message))
    return found


def _gpus(topology: Mapping[str, Any], expected: Expected) -> list[Problem]:
    if (topology.get("driver") or {}).get("source") != "nvml":
        return []
    listed: Sequence[Mapping[str, Any]] = topology.get("gpus") or ()
    working = [gpu for gpu in listed if gpu.get("state") in (None, "ok")]
    if len(working) >= expected.gpus:
        return []
    message = f"The driver has {len(working)} of {expected.gpus} GPUs that are on the bus."
    return [problem("driver_verify_gpus", message)]


def _packages(host: Host, expected: Expected) -> list[Problem]:
    if host.packages is None:
        return []
    found = []
    for name in expected.packages:
        package = host.package(name)
        if package is None or package.status != "installed":
            state = "is not installed" if package is None else f"is {package.status}"
            found.append(problem("driver_verify_packages", f"Package {name} {state}."))
            continue
        release = release_of(name, package.version)
        if release is not None and release != expected.release and driver_release(package.version) is not None:
            message = f"Package {name} is of release {release}, expected is {expected.release}."
            found.append(problem("driver_verify_packages", message))
    named = set(expected.packages)
    halves = [one for one in half_installed(host) if one.name not in named]
    if halves:
        said = ", ".join(f"{one.name} ({one.status})" for one in halves)
        found.append(problem("driver_verify_packages", f"Neither installed nor removed: {said}."))
    held = {package.name: package.held for package in host.packages}
    free = [name for name in expected.held if held.get(name) is False]
    if free:
        found.append(problem("driver_verify_holds", f"Not held: {', '.join(free)}."))
    return found


def _nouveau(stack: Mapping[str, Any], host: Host) -> list[Problem]:
    if host.in_container:
        return []
    found = []
    if nouveau_in_the_way(host):
        found.append(problem("driver_verify_nouveau", "nouveau is loaded and holds GPUs."))
    if ((stack["driver"] or {}).get("nouveau") or {}).get("initramfs_stale"):
        message = "The initramfs of the next boot is older than the file that blacklists nouveau."
        found.append(problem("driver_verify_nouveau", message))
    return found


def _services(host: Host, expected: Expected) -> list[Problem]:
    if not expected.persistence or host.in_container:
        return []
    return [problem("driver_verify_service", said) for said in _state("nvidia-persistenced", host.persistenced)]
