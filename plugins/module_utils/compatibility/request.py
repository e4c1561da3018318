# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of stack_solution, and what the facts of a host say that a solution depends on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import (
    PYTHONS,
    Board,
    DriverChoice,
    Host,
    Wishes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import line_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.operating_systems import system_libraries
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import AARCH64, X86_64, wheels_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import BRANCHES, branch_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import architecture_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import driver_release
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import CATALOGUE, board_of

IN_FORCE = "in_force"
_BY_NAME = {board.name: board for board in CATALOGUE}
ARGUMENT_SPEC: dict[str, Any] = {
    "topology": {"type": "dict", "default": {}},
    "stack": {"type": "dict", "default": {}},
    "request": {
        "type": "dict",
        "default": {},
        "options": {
            "sglang_version": {"type": "str"},
            "cuda": {"type": "str"},
            "driver": {"type": "str"},
            "python": {"type": "str"},
            "forward_compatibility": {"type": "bool", "default": False},
        },
    },
}


def host_of(topology: Mapping[str, Any], stack: Mapping[str, Any]) -> Host:
    """What the facts say; what they leave open does not constrain."""
    system = stack.get("os") or {}
    machine = {"arm64": AARCH64, "amd64": X86_64}.get(str(system.get("architecture")), system.get("architecture"))
    libraries = system_libraries(system.get("id"), system.get("version_id"))
    driver = stack.get("driver") or {}
    return Host(
        machine=machine or X86_64,
        boards=_boards(topology.get("gpus") or [], driver.get("gpus") or []),
        system=libraries.name if libraries else None,
        glibc=libraries.glibc if libraries else None,
        pythons=libraries.pythons if libraries else (),
        driver=_in_force(driver),
    )


def _in_force(driver: Mapping[str, Any]) -> str | None:
    """The module that is loaded, or else what the libraries say of themselves."""
    loaded = (driver.get("loaded") or {}).get("version")
    return driver_release(loaded) or driver_release((driver.get("user_space") or {}).get("version"))


def _boards(gpus: Iterable[Mapping[str, Any]], pci_ids: Iterable[str]) -> tuple[Board, ...]:
    """As the topology has them, or else by the PCI ids of the survey of the software."""
    counts: Counter[Board] = Counter()
    for gpu in gpus:
        name = gpu.get("name")
        # A machine on paper has names alone.
        known = board_of(gpu.get("pci_device_id")) or _BY_NAME.get(str(name))
        pci_id = gpu.get("pci_device_id") or (known.pci_id if known else None)
        told = gpu.get("compute_capability") or (known.compute_capability if known else None)
        architecture = architecture_of(told)
        if architecture is not None:
            counts[Board(str(name or pci_id), architecture, pci_id)] += 1
    if not counts:
        for pci_id in pci_ids:
            known = board_of(pci_id)
            architecture = architecture_of(known.compute_capability) if known else None
            if known is not None and architecture is not None:
                counts[Board(known.name, architecture, pci_id)] += 1
    return tuple(Board(one.name, one.architecture, one.pci_id, number) for one, number in counts.items())


def wishes_of(request: Mapping[str, Any], host: Host) -> Wishes:
    """What is asked for, refused where it can be no choice at all."""
    version = request.get("sglang_version")
    cuda = request.get("cuda")
    python = request.get("python")
    asked = str(request.get("driver") or "")
    return Wishes(
        wheels=wheels_of(parse_version(str(version))) if version else None,
        line=line_of(str(cuda)) if cuda else None,
        driver=_driver_of(asked, host) if asked else None,
        keep_driver=asked == IN_FORCE,
        python=_python_of(str(python)) if python else None,
        forward_compatibility=bool(request.get("forward_compatibility")),
    )


def _driver_of(asked: str, host: Host) -> DriverChoice:
    if asked == IN_FORCE:
        if host.driver is None:
            raise Refusal(
                "driver_not_in_force",
                "request.driver is in_force, and no driver is loaded or installed on this host.",
                "Leave request.driver out to have one chosen, or name a branch such as '580'.",
            )
        return DriverChoice(branch_of(host.driver), host.driver)
    if re.fullmatch(r"[rR]?\d{3}", asked):
        branch = int(asked[-3:])
        if branch not in BRANCHES:
            raise Refusal(
                "solution_branch_unknown",
                f"request.driver is {asked!r}, which is no branch that this collection knows of.",
                f"Expected one of {', '.join(map(str, BRANCHES))}, a whole release such as '580.95.05', or in_force.",
                {"driver": asked},
            )
        return DriverChoice(branch)
    return DriverChoice(branch_of(asked), asked)


def _python_of(asked: str) -> int:
    match = re.fullmatch(r"3\.(\d{1,2})", asked)
    if match is None or int(match.group(1)) not in PYTHONS:
        raise Refusal(
            "python_unknown",
            f"request.python is {asked!r}.",
            f"Expected one of {', '.join(f'3.{minor}' for minor in PYTHONS)}, quoted, which is there on the node.",
            {"python": asked},
        )
    return int(match.group(1))
