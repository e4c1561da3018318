# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A layout of GPUs that MIG divides: whether the boards can, and the commands.

Boards and commands: docs.nvidia.com/datacenter/tesla/mig-user-guide, "Supported GPUs" (of release 610), "Deployment
Considerations" (of release 620, which adds B300 and GB300) and "Getting Started with MIG". How many instances a board
takes at most differs (4 of A30 and RTX PRO 6000, 2 of RTX PRO 5000 and 4500); the driver refuses what is too much.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.boards import board_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_PROFILE = re.compile(r"([1-7])(?:c\.\d)?g\.\d{1,3}gb(\+(me|me\.all|gfx))?$")
_SLICES = 7
# GA100 (A100, A30, A800), GH100, GB100 and GB110 by ranges of ids; RTX PRO 6000, 5000 and 4500 Blackwell one by one.
_RANGES = ((0x20B0, 0x20FF), (0x2300, 0x23FF), (0x2900, 0x29BF), (0x3180, 0x31FF))
_BOARDS = ("10de:2bb1", "10de:2bb3", "10de:2bb4", "10de:2bb5", "10de:2c31")


@dataclass(frozen=True)
class MigCommand:
    gpu: int
    command: tuple[str, ...]


def can_be_divided(pci_id: str) -> bool:
    number = int(pci_id.partition(":")[2] or "0", 16)
    return pci_id in _BOARDS or any(first <= number <= last for first, last in _RANGES)


def plan_mig(host: Host, asked: Request) -> tuple[tuple[MigCommand, ...], list[Refusal]]:
    commands: list[MigCommand] = []
    refusals: list[Refusal] = []
    seen: set[int] = set()
    for layout in asked.mig:
        gpus = layout.gpus or tuple(range(len(host.gpus)))
        refusals += _profiles(layout.profiles)
        for gpu in gpus:
            refusals += _gpu(host, gpu, gpu in seen)
            seen.add(gpu)
            if _is_there(host, gpu, layout.profiles):
                continue
            if 0 <= gpu < len(host.mig_enabled) and host.mig_enabled[gpu]:
                commands.append(MigCommand(gpu, ("nvidia-smi", "mig", "-i", str(gpu), "-dci")))
                commands.append(MigCommand(gpu, ("nvidia-smi", "mig", "-i", str(gpu), "-dgi")))
            else:
                commands.append(MigCommand(gpu, ("nvidia-smi", "-i", str(gpu), "-mig", "1")))
            profiles = ",".join(layout.profiles)
            commands.append(MigCommand(gpu, ("nvidia-smi", "mig", "-i", str(gpu), "-cgi", profiles, "-C")))
    return (() if refusals else tuple(commands)), refusals


def _is_there(host: Host, gpu: int, profiles: tuple[str, ...]) -> bool:
    """Whether the GPU is divided like that already, in whatever order."""
    return 0 <= gpu < len(host.mig_profiles) and sorted(host.mig_profiles[gpu]) == sorted(profiles)


def _profiles(profiles: tuple[str, ...]) -> list[Refusal]:
    matches = [_PROFILE.match(profile) for profile in profiles]
    if None in matches or not profiles:
        return [
            Refusal(
                "driver_mig_profile",
                f"The profiles of a MIG layout are {', '.join(profiles) or 'none'}.",
                "Expected names such as 3g.40gb; nvidia-smi mig -lgip lists those of a board.",
                {"profiles": list(profiles)},
            )
        ]
    slices = sum(int(match.group(1)) for match in matches if match is not None)
    if slices <= _SLICES:
        return []
    return [
        Refusal(
            "driver_mig_profile",
            f"{', '.join(profiles)} take {slices} compute slices, and no GPU has more than {_SLICES}.",
            f"Take profiles whose leading numbers add up to {_SLICES} or less.",
            {"profiles": list(profiles), "slices": slices},
        )
    ]


def _gpu(host: Host, gpu: int, again: bool) -> list[Refusal]:
    if again or not 0 <= gpu < len(host.gpus):
        what = (
            f"GPU {gpu} is in two layouts."
            if again
            else f"A MIG layout names GPU {gpu}, the host has {len(host.gpus)}."
        )
        remedy = "Name each GPU once, by its index, which counts from 0."
        return [Refusal("driver_mig_gpu", what, remedy, {"gpu": gpu, "gpus": len(host.gpus)})]
    if not can_be_divided(host.gpus[gpu]):
        return [
            Refusal(
                "driver_mig_gpu",
                f"GPU {gpu} is {board_name(host.gpus[gpu])}, which MIG cannot divide.",
                "Leave it out of mig. A30, A100, Hopper, data center Blackwell and RTX PRO 4500 to 6000 Blackwell can "
                "be divided.",
                {"gpu": gpu, "pci_id": host.gpus[gpu]},
            )
        ]
    users = [one for one in host.processes or () if one.gpu == gpu]
    if users:
        names = ", ".join(f"{one.name or 'unknown'} ({one.pid})" for one in users)
        return [
            Refusal(
                "driver_mig_gpu",
                f"GPU {gpu} is to be divided and is in use by {names}.",
                "Stop these first: a GPU is divided when it is idle.",
                {"gpu": gpu, "processes": [one.pid for one in users]},
            )
        ]
    return []
