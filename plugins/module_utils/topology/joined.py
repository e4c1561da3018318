# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One GPU with its two witnesses, the kernel and the driver, for whoever has to weigh them against each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import NvmlGpu

# Without a driver boards are numbered in the order of the bus, whatever they are.
INDEXES_DIFFER = "the driver may leave out a board that is not known here, and would number the GPUs otherwise"


@dataclass(frozen=True)
class Joined:
    """C(gpu) is what is reported; C(pci) and C(nvml) are None where the kernel or the driver does not know it."""

    gpu: Gpu
    pci: PciGpu | None
    nvml: NvmlGpu | None


def spelled(numbers: Iterable[object]) -> str:
    """C([0, 3]) -> C(0, 3), for sentences."""
    return ", ".join(str(number) for number in numbers)
