# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and NVSwitches on the PCI bus, with the bridges above them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.files import link_name, names_in, read_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Pcie
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.texts import (
    parse_link_speed,
    parse_link_width,
    parse_numa_node,
    parse_pci_address,
)

NVIDIA_VENDOR = "10de"
# PCI classes (PCI Code and ID Assignment): VGA and 3D controllers are GPUs, "other bridge" is what NVSwitches show.
GPU_CLASSES = ("0300", "0302")
NVSWITCH_CLASS = "0680"


@dataclass(frozen=True)
class PciGpu:
    """A GPU as the bus shows it. C(bridges) leads from the host bridge down to the port it hangs on."""

    address: str
    pci_id: str
    bridges: tuple[str, ...]
    numa_node: int | None
    cpu_list: str | None
    kernel_driver: str | None
    pcie: Pcie
    slot_generation_max: int | None


def nvidia_functions(root: Path, classes: tuple[str, ...]) -> list[str]:
    """PCI addresses of NVIDIA's functions of these classes, in the order of the bus."""
    found = []
    for name in names_in(root, "sys/bus/pci/devices"):
        here = f"sys/bus/pci/devices/{name}"
        if parse_pci_address(name) is None or (read_text(root, f"{here}/vendor") or "")[2:] != NVIDIA_VENDOR:
            continue
        # A virtual function is a slice of a GPU for a guest, not a GPU of this host.
        virtual = os.path.lexists(root / here / "physfn")
        if (read_text(root, f"{here}/class") or "")[2:6] in classes and not virtual:
            found.append(name)
    return sorted(found, key=lambda name: [int(part, 16) for part in re.split(r"[:.]", name)])


def _bridges(root: Path, name: str) -> tuple[str, ...]:
    """The way from the host bridge to the device, from where its link below sys/bus/pci leads."""
    try:
        target = (root / "sys/bus/pci/devices" / name).readlink()
    except OSError:
        return ()
    parts = target.parts
    starts = [place for place, part in enumerate(parts) if re.match(r"^pci[0-9a-f]{4,8}:[0-9a-f]{2}$", part)]
    return parts[starts[-1] : -1] if starts else ()


def read_pci_gpus(root: Path) -> tuple[PciGpu, ...]:
    gpus = []
    for name in nvidia_functions(root, GPU_CLASSES):
        here = f"sys/bus/pci/devices/{name}"
        bridges = _bridges(root, name)
        slot = f"sys/bus/pci/devices/{bridges[-1]}" if len(bridges) > 1 else None
        gpus.append(
            PciGpu(
                address=parse_pci_address(name) or name,
                pci_id=f"{NVIDIA_VENDOR}:{(read_text(root, f'{here}/device') or '')[2:]}",
                bridges=bridges,
                numa_node=parse_numa_node(read_text(root, f"{here}/numa_node")),
                cpu_list=read_text(root, f"{here}/local_cpulist") or None,
                kernel_driver=link_name(root, f"{here}/driver"),
                pcie=Pcie(
                    generation_max=parse_link_speed(read_text(root, f"{here}/max_link_speed")),
                    width_max=parse_link_width(read_text(root, f"{here}/max_link_width")),
                    generation=parse_link_speed(read_text(root, f"{here}/current_link_speed")),
                    width=parse_link_width(read_text(root, f"{here}/current_link_width")),
                ),
                slot_generation_max=parse_link_speed(read_text(root, f"{slot}/max_link_speed")) if slot else None,
            )
        )
    return tuple(gpus)
