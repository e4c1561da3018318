# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is free of a GPU before the weights are loaded: as it was observed, or else the card less what others hold.

SGLang takes the least of all ranks, with the CUDA context and the collectives already in place.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.context_memory import context_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import (
    capability_of,
    smallest_card,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import foreign_users, runs_sglang

# Below this a driver may use for itself what nobody is named for.
_UNNAMED_BYTES = 1 * GIB


def available_before_load(
    server: ServerRequest, gpus: tuple[GpuFacts, ...], observed: Observed, assumptions: list[str]
) -> int | None:
    """None where neither the cards nor an earlier start say it."""
    if observed.available_before_load_bytes is not None:
        return observed.available_before_load_bytes
    card = smallest_card(gpus)
    if card is None:
        return None
    context = context_bytes(server.ranks, capability_of(gpus))
    assumptions.append(
        f"CUDA context and collectives take {format_gib(context)} of a GPU before the weights are loaded "
        "(give observed.available_before_load_bytes to replace this)."
    )
    left = card
    for gpu in gpus:
        held, who = held_by_others(gpu, running=bool(observed.own_pinned_bytes))
        if held and gpu.memory_total_bytes is not None:
            left = min(left, max(0, gpu.memory_total_bytes - held))
            assumptions.append(f"{who} holds {format_gib(held)} of GPU {gpu.index} and keeps it.")
    return max(0, left - context)


def held_by_others(gpu: GpuFacts, running: bool) -> tuple[int, str]:
    """(bytes, by whom) that a start finds taken. SGLang's own processes are this instance's and end before it.

    C(running) says that this instance runs now, so that memory without a name is its own.
    """
    foreign = sorted(set(foreign_users(gpu)))
    if foreign:
        told = [size for name, size in zip(gpu.users, gpu.memory_by_user) if not runs_sglang(name)]
        if None not in told and told:
            return sum(size or 0 for size in told), " and ".join(foreign)
        own = sum(size or 0 for name, size in zip(gpu.users, gpu.memory_by_user) if runs_sglang(name))
        return max(0, (gpu.memory_used_bytes or 0) - own), " and ".join(foreign)
    if gpu.users or running or (gpu.memory_used_bytes or 0) < _UNNAMED_BYTES:
        return 0, ""
    return gpu.memory_used_bytes or 0, "A process without a name"
