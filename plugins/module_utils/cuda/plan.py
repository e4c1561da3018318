# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which toolkits a host gets, from where, and whether its driver serves what SGLang's wheels need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import (
    BY_VERSION,
    FORWARD_FROM,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.request import IN_FORCE, host_of, wishes_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.solution import solution_as_dict, solve
from ansible_collections.gpufleet.sglang.plugins.module_utils.cuda.packages import Toolkit, packages_of, toolkit_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import branch_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import distribution_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.repositories import Repository, repository_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import VENDOR_SOURCES, Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import OperatingSystem

ARGUMENT_SPEC: dict[str, Any] = {
    "stack": {"type": "dict", "required": True},
    "topology": {"type": "dict", "default": {}},
    "toolkits": {"type": "list", "elements": "str", "default": []},
    "absent": {"type": "list", "elements": "str", "default": []},
    "default_toolkit": {"type": "str"},
    "forward_compatibility": {"type": "str"},
    "sglang_version": {"type": "str"},
    "source": {"type": "str", "choices": [*VENDOR_SOURCES, "none"], "default": "vendor"},
    "repository_url": {"type": "str"},
    "repository_suite": {"type": "str", "default": "/"},
    "repository_components": {"type": "list", "elements": "str", "default": []},
    "key": {"type": "str", "no_log": False},
    "key_fingerprint": {"type": "str", "no_log": False},
}


@dataclass(frozen=True)
class CudaPlan:
    """C(solution) is None on hosts without GPUs, where no driver has to serve anything."""

    repository: Repository | None
    toolkits: tuple[Toolkit, ...]
    absent: tuple[str, ...]
    compatibility: Toolkit | None
    default_toolkit: Toolkit | None
    package_manager: str | None
    solution: dict[str, Any] | None

    @property
    def packages(self) -> list[str]:
        compatibility = [] if self.compatibility is None else [self.compatibility.compatibility_package]
        return [*(toolkit.package for toolkit in self.toolkits), *compatibility]

    def as_dict(self) -> dict[str, Any]:
        return {
            # Its content is a file, whose lines have to stay lines.
            "repository": asdict(self.repository) if self.repository else None,
            "packages": self.packages,
            "absent": list(self.absent),
            "toolkits": [
                {"version": toolkit.line, "folder": toolkit.folder, "compiler": toolkit.compiler}
                for toolkit in self.toolkits
            ],
            "default_folder": self.default_toolkit.folder if self.default_toolkit else None,
            "package_manager": self.package_manager,
            "solution": self.solution,
            "steps": self.steps,
        }

    @property
    def steps(self) -> list[str]:
        found = [f"Remove {', '.join(self.absent)}."] if self.absent else []
        found += [f"Have CUDA {toolkit.line} in {toolkit.folder}, without a driver." for toolkit in self.toolkits]
        if self.compatibility is not None:
            found.append(f"Have {self.compatibility.compatibility_package} in the place of a newer driver.")
        if self.default_toolkit is not None:
            found.append(f"Let /usr/local/cuda lead to {self.default_toolkit.folder}.")
        return [*found, *(self.solution["explanation"] if self.solution else [])]


def plan_cuda(arguments: Mapping[str, Any]) -> CudaPlan:
    """Refused with the reason, before anything of the host is touched."""
    stack = arguments["stack"]
    host = host_of(arguments["topology"], stack)
    toolkits = _toolkits(arguments["toolkits"])
    removed = _toolkits(arguments["absent"])
    compatibility = toolkit_of(arguments["forward_compatibility"]) if arguments["forward_compatibility"] else None
    default = toolkit_of(arguments["default_toolkit"]) if arguments["default_toolkit"] else None
    _refuse_contradictions(toolkits, removed, default)
    if compatibility is not None:
        _refuse_useless_compatibility(compatibility, host)
    installed = [str(package["name"]) for package in stack.get("packages") or []]
    system = stack.get("os") or {}
    return CudaPlan(
        repository=_repository(system, arguments) if toolkits or compatibility else None,
        toolkits=tuple(toolkits),
        absent=tuple(name for toolkit in removed for name in packages_of(toolkit, installed)),
        compatibility=compatibility,
        default_toolkit=default,
        package_manager=system.get("package_manager"),
        solution=_solution(host, arguments["sglang_version"], compatibility is not None),
    )


def _toolkits(asked: Sequence[str]) -> list[Toolkit]:
    return list(dict.fromkeys(toolkit_of(text) for text in asked))


def _refuse_contradictions(toolkits: Sequence[Toolkit], removed: Sequence[Toolkit], default: Toolkit | None) -> None:
    both = [toolkit.line for toolkit in toolkits if toolkit in removed]
    if both:
        raise Refusal(
            "cuda_wanted_and_unwanted",
            f"CUDA {', '.join(both)} is to be installed and to be removed.",
            "Name each release in cuda_toolkits or in cuda_absent.",
            {"versions": both},
        )
    if default is not None and default not in toolkits:
        known = ", ".join(toolkit.line for toolkit in toolkits) or "none"
        raise Refusal(
            "cuda_default_not_installed",
            f"/usr/local/cuda is to lead to CUDA {default.line}, and the toolkits to be installed are {known}.",
            f"Add '{default.line}' to cuda_toolkits, or choose one of them.",
            {"default": default.line},
        )


def _refuse_useless_compatibility(compatibility: Toolkit, host: Host) -> None:
    package = compatibility.compatibility_package
    others = [board.name for board in host.boards if not board.for_data_centres]
    if others:
        raise Refusal(
            "forward_compatibility_unsupported",
            f"{package} is asked for, and {others[0]} is no board for data centres: CUDA would fail with error 804, "
            "forward compatibility was attempted on non supported HW.",
            "Take a newer driver instead, or wheels of a line of CUDA that the driver serves.",
            {"boards": others},
        )
    if host.driver is None:
        raise Refusal(
            "forward_compatibility_without_driver",
            f"{package} is asked for, and no driver is in force: it takes the place of a part of one only.",
            "Install the driver first (role gpufleet.sglang.nvidia_driver); a new one needs no such package.",
        )
    line = BY_VERSION.get(compatibility.line)
    own = int(line.own_driver.partition(".")[0]) if line is not None else None
    branch = branch_of(host.driver)
    if own is not None and branch >= own:
        raise Refusal(
            "forward_compatibility_needless",
            f"{package} is asked for, and driver {host.driver} serves CUDA {compatibility.line} by itself; older "
            "libraries in the place of its own would break it.",
            "Leave cuda_forward_compatibility out.",
            {"driver": host.driver},
        )
    if branch < FORWARD_FROM:
        raise Refusal(
            "forward_compatibility_driver_too_old",
            f"{package} is asked for, and driver {host.driver} is older than branch {FORWARD_FROM}, its base.",
            f"Install a driver of branch {FORWARD_FROM} or newer first.",
            {"driver": host.driver},
        )


def _repository(system: Mapping[str, Any], arguments: Mapping[str, Any]) -> Repository | None:
    if arguments["source"] in ("mirror", "folder") and not arguments["repository_url"]:
        raise Refusal(
            "cuda_repository_missing",
            f"The source is {arguments['source']}, and no address of it is given.",
            "Set cuda_repository_url to the mirror's address, or to the path of the folder on the host.",
        )
    request = Request(
        source=arguments["source"],
        repository_url=arguments["repository_url"],
        repository_suite=arguments["repository_suite"],
        repository_components=tuple(arguments["repository_components"]),
        key=arguments["key"],
        key_fingerprint=arguments["key_fingerprint"],
    )
    os = OperatingSystem(id=system.get("id"), version_id=system.get("version_id"))
    return repository_of(distribution_of(os), system.get("architecture"), request)


def _solution(host: Host, version: str | None, forward: bool) -> dict[str, Any] | None:
    """Whether the driver in force serves the wheels, or which one would; a host without GPUs needs none."""
    if not host.boards:
        return None
    driver = None if host.driver is None else IN_FORCE
    asked = {"sglang_version": version, "driver": driver, "forward_compatibility": forward}
    return solution_as_dict(solve(host, wishes_of(asked, host)))
