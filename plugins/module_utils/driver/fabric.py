# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the NVLink fabric of a host needs beside the driver.

NVSwitches of HGX and DGX boards up to H200 are on the PCI bus, and a fabric manager on the host programs them. Those
of B200 and B300 hide behind an adapter that speaks InfiniBand: the fabric manager starts a subnet manager (nvlsm)
there and needs ib_umad and ibstat (fabric manager user guide, as siderolabs/extensions pull request 717 quotes it, for
B100, B200 "and later"; NVIDIA/gpu-driver-container, _assert_nvlink5_system; NVIDIA/gpu-operator issue 2781).
Those of GB200 and GB300 NVL72 are in trays of their own, which run the fabric manager; hosts need IMEX to share memory
over them (IMEX guide). Boards that NVLink bridges join in pairs have no switch, and there the fabric manager fails at
its start.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.boards import board_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal

NVLINK5_BOARDS = ("10de:2901", "10de:3182")
MULTI_NODE_BOARDS = ("10de:2941", "10de:31c2")


@dataclass(frozen=True)
class Fabric:
    """C(kind) is none, nvswitch, nvlink5 or multi_node; the flags tell what the plan installs and starts."""

    kind: str
    reason: str
    fabric_manager: bool = False
    subnet_manager: bool = False
    imex: bool = False


def fabric_kind(host: Host) -> tuple[str, str]:
    """What fabric the host's GPUs form, and how that is known."""
    boards = Counter(host.gpus)
    for board in MULTI_NODE_BOARDS:
        if not boards[board]:
            continue
        if host.has_fabric is False:
            return "none", f"The driver says that no GPU of {board_name(board)} belongs to an NVLink fabric."
        return "multi_node", f"{board_name(board)} reaches GPUs of other hosts over NVLink switches."
    for board in NVLINK5_BOARDS:
        if boards[board] > 1:
            why = (
                f"{boards[board]} GPUs of {board_name(board)} reach one another over NVSwitches that the PCI bus does "
                "not show."
            )
            return "nvlink5", why
    if host.fabric_needed:
        return "nvswitch", "NVSwitches are on the PCI bus."
    return "none", "No NVSwitch is on the PCI bus, and no GPU is of a board that has hidden ones."


def plan_fabric(host: Host, asked: Request) -> tuple[Fabric, list[Refusal], list[Problem]]:
    kind, reason = fabric_kind(host)
    refusals, problems = [], []
    needs_manager = kind in ("nvswitch", "nvlink5")
    if asked.fabric_manager and not needs_manager:
        refusals.append(
            Refusal(
                "driver_fabric_manager_pointless",
                f"fabric_manager is true. {reason}",
                "Set fabric_manager to auto: without an NVSwitch to manage, its service fails at every start.",
                {"kind": kind, "gpus": list(host.gpus)},
            )
        )
    if asked.fabric_manager is False and needs_manager:
        problems.append(
            problem(
                "driver_fabric_manager_left_out", f"fabric_manager is false. {reason} CUDA will not start on any GPU."
            )
        )
    if kind == "nvlink5" and host.virtualization not in (None, "none"):
        problems.append(
            problem(
                "driver_fabric_in_guest",
                f"The host is a guest of {host.virtualization}. {reason}",
            )
        )
    imex = asked.imex
    if imex is None:
        imex = kind == "multi_node"
        if imex and host.has_fabric is None:
            problems.append(problem("driver_imex_assumed", reason))
    if imex and kind != "multi_node":
        refusals.append(
            Refusal(
                "driver_imex_pointless",
                f"imex is true. {reason}",
                "Set imex to auto: it serves hosts of one NVLink domain, which GB200 and GB300 NVL72 form.",
                {"kind": kind, "gpus": list(host.gpus)},
            )
        )
        imex = False
    if imex and not asked.imex_nodes:
        problems.append(problem("driver_imex_nodes_missing", f"imex_nodes is empty. {reason}"))
    manager = needs_manager and asked.fabric_manager is not False
    return Fabric(kind, reason, manager, manager and kind == "nvlink5", imex), refusals, problems
