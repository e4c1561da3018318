# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts as gpu_topology_info and host_stack_info describe them, as far as a solution looks."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.request import host_of, wishes_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.solution import solution_as_dict, solve
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import CATALOGUE

H100, H200, T4 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "Tesla T4"
V100, B300, B200 = "Tesla V100-SXM2-32GB", "NVIDIA B300 SXM6 AC", "NVIDIA B200"
A100, RTX_5090 = "NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 5090"


def topology(*names: str) -> dict[str, Any]:
    boards = {board.name: board for board in CATALOGUE}
    return {
        "gpus": [
            {
                "index": index,
                "name": name,
                "compute_capability": boards[name].compute_capability,
                "pci_device_id": boards[name].pci_id,
            }
            for index, name in enumerate(names)
        ]
    }


def stack(driver: str | None = None, system: str = "debian 12", machine: str = "x86_64") -> dict[str, Any]:
    name, version = system.split()
    return {
        "os": {"id": name, "version_id": version, "architecture": machine},
        "driver": {"gpus": [], "loaded": {"version": driver}, "user_space": {"version": driver}},
    }


def solved(facts: dict[str, Any], software: dict[str, Any], **request: Any) -> dict[str, Any]:
    host = host_of(facts, software)
    return solution_as_dict(solve(host, wishes_of(request, host)))


def refused(facts: dict[str, Any], software: dict[str, Any], **request: Any) -> Refusal:
    try:
        found = solved(facts, software, **request)
    except Refusal as refusal:
        return refusal
    raise AssertionError(f"solved: {found['explanation']}")


def conflict_of(refusal: Refusal) -> list[str]:
    """The constraints of a refusal by their keys."""
    conflict = refusal.evidence["conflict"]
    assert isinstance(conflict, list)
    return [part["constraint"] for part in conflict]
