# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What PyTorch's caching allocator takes from a GPU for the weights of one rank; pure.

Constants and rules are those of c10/cuda/CUDACachingAllocator.cpp: up to 1 MiB from segments of 2 MiB, up to 10 MiB
from segments of 20 MiB, above that a segment of its own, rounded up to 2 MiB. What is merged into one parameter
(queries, keys and values; gate and up; all experts of a layer) is one allocation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_sharding import round_up

SMALL, LARGE = 1 * MIB, 10 * MIB
SMALL_SEGMENT, MEDIUM_SEGMENT, GRANULE = 2 * MIB, 20 * MIB, 2 * MIB
_MERGED = {
    "q_proj": "qkv_proj",
    "k_proj": "qkv_proj",
    "v_proj": "qkv_proj",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
    "w1": "w13",
    "w3": "w13",
    "q_a_proj": "fused_qkv_a_proj_with_mqa",
    "kv_a_proj_with_mqa": "fused_qkv_a_proj_with_mqa",
}


@dataclass(frozen=True)
class HeldTensor:
    """Bytes that a rank holds in each of C(layers) layers, out of the runs C(where) of the whole model."""

    name: str
    part: str
    where: tuple[tuple[int, int], ...]
    size_bytes: int
    layers: int


def merged_name(name: str) -> str:
    """The parameter that a checkpoint's tensor becomes a part of."""
    components = name.replace(".experts.*.", ".experts.").split(".")
    # A draft of MLA without a query rank keeps kv_a_proj_with_mqa apart; both are large, so nothing is lost.
    return ".".join(_MERGED.get(component, component) for component in components)


def allocated_bytes(held: Iterable[HeldTensor]) -> int:
    """Bytes of all segments."""
    parameters: dict[tuple[str, tuple[tuple[int, int], ...], int], int] = {}
    for item in held:
        key = (item.name, item.where, item.layers)
        parameters[key] = parameters.get(key, 0) + item.size_bytes
    small = medium = large = 0
    for (_owner, _what, layers), size in parameters.items():
        if size <= SMALL:
            small += size * layers
        elif size < LARGE:
            medium += size * layers
        else:
            large += round_up(size, GRANULE) * layers
    return round_up(small, SMALL_SEGMENT) + round_up(medium, MEDIUM_SEGMENT) + large
