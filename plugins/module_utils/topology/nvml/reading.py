# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came of asking the driver, before it is weighed against what the kernel says."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Driver, Gpu

# One row and one column a GPU.
Matrix = tuple[tuple["str | None", ...], ...]


@dataclass(frozen=True)
class Failure:
    """A call that failed. C(gpu) is None for calls about the whole system; C(peer) is the other GPU of a pair."""

    function: str
    gpu: int | None
    error: str
    text: str
    peer: int | None = None


@dataclass(frozen=True)
class LinkEnds:
    """Where the NVLinks of one GPU that are up lead to, as far as the driver tells."""

    to_gpus: tuple[str, ...] = ()
    to_switches: int = 0


@dataclass(frozen=True)
class NvmlGpu:
    """A GPU with all that the driver told, and beside it what serves to judge it and is no part of the result.

    C(link_ends) is None where the driver did not tell which NVLinks are up. C(slot_generation_max) is what GPU and slot
    reach together. C(numa_nodes) and C(cpus) are the driver's word about
    where the GPU is. C(utilization) is in percent.
    """

    gpu: Gpu
    link_ends: LinkEnds | None = None
    slot_generation_max: int | None = None
    numa_nodes: tuple[int, ...] = ()
    cpus: str | None = None
    utilization: int | None = None


@dataclass(frozen=True)
class NvmlReading:
    """C(counted) tells whether the driver could say how many GPUs it has."""

    driver: Driver
    gpus: tuple[NvmlGpu, ...]
    levels: Matrix
    p2p: Matrix
    failures: tuple[Failure, ...]
    counted: bool = True
