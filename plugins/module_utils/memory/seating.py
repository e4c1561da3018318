# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seats of the one instance that a plan is for, by the same rules as several on a node (placement/place.py)."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding import Binding
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import NONE
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import (
    Instance,
    check_numa_nodes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import PlacedInstance, place
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import cpu_seats
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


def seat_server(machine: MachineFacts, server: ServerRequest, facts: VersionFacts) -> PlacedInstance:
    """Seats, binding and environment of the server's ranks, or Refusal in the words of memory_plan's options.

    Whoever uses a GPU now does not count here: the plan of an instance that runs has to stay where it is.
    """
    instance = Instance("", server.ranks, server.gpus, server.numa_nodes)
    if server.device == "cpu":
        check_numa_nodes(machine, instance)
        binding = Binding(NONE, "Ranks on CPUs are spread over the NUMA nodes by the server itself.")
        return PlacedInstance("", (), cpu_seats(machine, server.ranks), None, (), binding, {}, ())
    try:
        return place(machine, (instance,), facts, avoid_in_use=False).instances[0]
    except Refusal as refusal:
        raise _in_our_words(refusal, server) from None


def _in_our_words(refusal: Refusal, server: ServerRequest) -> Refusal:
    free, unusable = refusal.evidence.get("gpus"), refusal.evidence.get("unusable")
    if refusal.code != "gpus_too_few" or (unusable and not free):
        return refusal
    remedy = f"Lower tensor_parallel_size to {free} or less."
    if isinstance(free, int) and server.pipeline_parallel_size > 1:
        tensor, stages = server.tensor_parallel_size, server.pipeline_parallel_size
        fitting = [f"tensor_parallel_size {tensor} with {most} stages or fewer" for most in [free // tensor] if most]
        fitting += [f"{stages} stages with tensor_parallel_size {most} or less" for most in [free // stages] if most]
        remedy = (
            f"Lower tensor_parallel_size x pipeline_parallel_size, which is {tensor} x {stages} = {server.ranks}, to "
            f"{free} or less: {', or '.join(fitting) if fitting else f'both are above {free}'}."
        )
    if not free:
        remedy = "Set device to cpu for a machine without GPUs, or find out why none is seen (gpu_topology_info)."
    return Refusal(refusal.code, refusal.message, remedy, refusal.evidence)
