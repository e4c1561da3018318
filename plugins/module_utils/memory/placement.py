# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which rank runs on which GPU, and so on which NUMA node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Gpu, Machine, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


@dataclass(frozen=True)
class Seat:
    """One rank's place; C(gpu) and C(numa_node) are None where there is none or none is known."""

    rank: int
    gpu: int | None
    numa_node: int | None


def choose_gpus(machine: Machine, server: ServerRequest) -> tuple[Gpu, ...]:
    """GPUs in rank order: those named, else a set on one NUMA node if one has enough, else the first by index."""
    by_index = {gpu.index: gpu for gpu in machine.gpus}
    wanted = server.ranks
    if server.gpus:
        missing = [index for index in server.gpus if index not in by_index]
        if missing:
            raise Refusal(
                "gpu_unknown",
                f"gpus names index {missing[0]}, and the machine has {_listing(machine)}.",
                "Name GPUs that exist.",
                {"gpus": list(by_index)},
            )
        if len(set(server.gpus)) != len(server.gpus) or len(server.gpus) != wanted:
            raise Refusal(
                "gpu_count_mismatch",
                f"gpus names {len(set(server.gpus))} different GPUs, and tensor_parallel_size asks for {wanted}.",
                f"Name {wanted} different GPUs, one a rank, or leave gpus empty.",
                {"wanted": wanted},
            )
        return tuple(by_index[index] for index in server.gpus)
    if wanted > len(machine.gpus):
        raise Refusal(
            "gpus_too_few",
            f"{wanted} GPUs are asked for by tensor_parallel_size, and the machine has {_listing(machine)}.",
            f"Lower tensor_parallel_size to {len(machine.gpus)} or less."
            if machine.gpus
            else "Set device to cpu for a machine without GPUs, or find out why none is seen (gpu_topology_info).",
            {"wanted": wanted, "gpus": len(machine.gpus)},
        )
    on_node = Counter(gpu.numa_node for gpu in machine.gpus if gpu.numa_node is not None)
    for gpu in machine.gpus:
        if gpu.numa_node is not None and on_node[gpu.numa_node] >= wanted:
            return tuple(peer for peer in machine.gpus if peer.numa_node == gpu.numa_node)[:wanted]
    return machine.gpus[:wanted]


def _listing(machine: Machine) -> str:
    if not machine.gpus:
        return "no GPU"
    return f"{len(machine.gpus)} GPU{'s' if len(machine.gpus) > 1 else ''}"


def seats(machine: Machine, server: ServerRequest, gpus: tuple[Gpu, ...]) -> tuple[Seat, ...]:
    if server.device == "cpu":
        only_node = machine.nodes[0].id if len(machine.nodes) == 1 else None
        return tuple(Seat(rank, None, only_node) for rank in range(server.ranks))
    return tuple(Seat(rank, gpu.index, gpu.numa_node) for rank, gpu in enumerate(gpus))


def visible_devices(machine: Machine, gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """Environment that puts rank 0 on the first of C(gpus) and so on; empty where SGLang's own order does it."""
    chosen = [gpu.index for gpu in gpus]
    if chosen == [gpu.index for gpu in machine.gpus][: len(chosen)] and chosen == list(range(len(chosen))):
        return {}
    # CUDA's own order is by speed; NVML's, which the indexes are in, is by PCI address.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in chosen)}
