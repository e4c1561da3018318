# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which kernel modules: by what every GPU of the host can run with, what is asked for, and what the branch has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.boards import board_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import required_flavour


@dataclass(frozen=True)
class Flavour:
    name: str
    reason: str


def _named(pci_ids: Iterable[str]) -> str:
    return ", ".join(board_name(pci_id) for pci_id in dict.fromkeys(pci_ids))


def _needing(host: Host, flavour: str) -> str:
    return _named(gpu for gpu in host.gpus if required_flavour(gpu) == flavour)


def choose_flavour(host: Host, asked: Request) -> tuple[Flavour | None, list[Refusal], list[Problem]]:
    """None where there is none to plan with. host_stack_info tells what the GPUs need that are meant to be served."""
    need = host.required_flavour
    if host.vgpu and asked.source != "none":
        refusal = Refusal(
            "driver_vgpu_guest",
            "GPUs of this guest are slices of vGPU, which need the guest driver of that product in the hypervisor's "
            "branch.",
            "Install the guest driver from NVIDIA's licensing portal, and set source to none.",
            {"gpus": list(host.gpus)},
        )
        return None, [refusal], []
    if need == "none":
        refusal = Refusal(
            "driver_flavours_exclude",
            f"{_needing(host, 'open')} works with the open modules only, {_needing(host, 'proprietary')} with the "
            "proprietary ones only, and one host loads either.",
            "Take the GPUs of one kind out of the host, or give them to a virtual machine (vfio-pci).",
            {"open": _ids(host, "open"), "proprietary": _ids(host, "proprietary")},
        )
        return None, [refusal], []
    if need is None:
        if asked.flavour == "auto":
            refusal = Refusal(
                "driver_no_gpu",
                "No NVIDIA GPU is on the PCI bus of the host.",
                "Check that the boards are seated and given to this machine (lspci -d 10de:), or state flavour, for an "
                "image that other machines will boot.",
                {},
            )
            return None, [refusal], []
        found = problem("driver_without_gpu", "No NVIDIA GPU is on the PCI bus of the host.")
        return Flavour(asked.flavour, "It was asked for, and no GPU says otherwise."), [], [found]
    if asked.flavour not in ("auto", need) and need != "either":
        why = (
            "has no GPU System Processor, which the open modules need"
            if need == "proprietary"
            else "works with the open modules only"
        )
        refusal = Refusal(
            "driver_flavour_unsuitable",
            f"flavour is {asked.flavour}, and {_needing(host, need)} {why}.",
            f"Set flavour to {need}, or to auto.",
            {"flavour": asked.flavour, "required": need, "gpus": _ids(host, need)},
        )
        return Flavour(need, f"{_needing(host, need)} needs it."), [refusal], []
    if need == "either":
        if asked.flavour == "auto":
            why = "Every GPU of the host works with the open modules, which NVIDIA recommends from release 560 on."
            return Flavour("open", why), [], []
        return Flavour(asked.flavour, "It was asked for, and every GPU of the host works with it."), [], []
    if need == "open":
        return Flavour("open", f"{_needing(host, need)} works with the open modules only."), [], []
    return Flavour("proprietary", f"{_needing(host, need)} has no GPU System Processor for the open modules."), [], []


def _ids(host: Host, flavour: str) -> list[str]:
    return list(dict.fromkeys(gpu for gpu in host.gpus if required_flavour(gpu) == flavour))
