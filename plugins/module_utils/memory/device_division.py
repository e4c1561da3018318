# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How one request divides the bytes of its device budget: cells, pages, states and settings, put together once.

The arithmetic is in cell_size.py, state_pools.py and device_pools.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cache_type import cache_type
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cell_size import CellSizes, Layout, cell_sizes
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_pools import (
    DevicePools,
    describe,
    device_pools,
    pools_of_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.pool_request import (
    PoolRequest,
    attention_in_force,
    index_page_size,
    pool_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.state_pools import StatePlan, plan_states
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.known_architecture import check_release
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.pool_versions import PoolFacts, pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts


@dataclass(frozen=True)
class Division:
    """What turns bytes into pools; C(attention) is the one in force, C(cap) is max_total_tokens."""

    attention: Attention
    layout: Layout
    facts: PoolFacts
    cells: CellSizes
    page_size: int
    cap: int | None
    asked: PoolRequest
    explanation: tuple[str, ...]


def division_of(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    gpus: tuple[GpuFacts, ...],
    hicache: bool,
    page_size: int,
) -> Division:
    """The division of one request, or a Refusal of what its release does not serve or this one does not count."""
    version = str(facts.version)
    check_release(model.architecture, model.attention, version)
    asked, pools = pool_request(server.extra_arguments), pool_facts(version)
    capabilities = [gpu.compute_capability for gpu in gpus if gpu.compute_capability is not None]
    # Where cards differ, the first rank's decides.
    capability = capabilities[0] if capabilities else None
    attention, cause = attention_in_force(
        model.architecture,
        model.attention,
        version,
        asked,
        server.attention_backend,
        hicache,
        blackwell=capability is not None and capability[0] == 10,
    )
    if server.kv_cache_dtype == "auto" and model.kv_cache_quantized:
        raise Refusal(
            "kv_cache_dtype_ambiguous",
            "kv_cache_dtype is auto and the checkpoint carries a quantised KV cache, so the element size would be "
            "the checkpoint's affair.",
            "Set kv_cache_dtype explicitly, for example fp8_e4m3 or bfloat16.",
        )
    cache = cache_type(
        attention,
        pools,
        server.kv_cache_dtype,
        model.dtype if server.dtype == "auto" else server.dtype,
        capability,
        asked.index_backends,
    )
    layout = Layout(server.tensor_parallel_size, server.pipeline_parallel_size)
    cells = cell_sizes(attention, layout, cache, pools)
    forced = index_page_size(attention) if server.device == "cuda" else None
    lines = [*cells.explanation]
    if cause is not None:
        lines.append(f"all layers keep every token: SGLang {version} has no window pool for this model under {cause}")
    if forced is not None and forced != page_size:
        lines.append(f"pages of {forced} tokens: sparse latent attention takes no other")
    return Division(attention, layout, pools, cells, forced or page_size, server.max_total_tokens, asked, tuple(lines))


def _states(division: Division, budget_bytes: float) -> StatePlan | None:
    state = division.attention.state
    if state is None:
        return None
    return plan_states(state, division.layout.attention_ranks, budget_bytes, division.asked.states, division.facts)


def divide(division: Division, budget_bytes: int) -> tuple[DevicePools, list[str]]:
    """The pools out of a budget, and the arithmetic in words."""
    states = _states(division, budget_bytes)
    divided = device_pools(
        division.attention,
        division.cells,
        division.facts,
        budget_bytes if states is None else states.left_bytes,
        division.page_size,
        division.cap,
        division.asked.window_ratio,
        states,
    )
    before = list(states.explanation) if states is not None else []
    return divided, [*before, *divided.explanation, *describe(divided.pools)]


def divide_tokens(division: Division, tokens: int) -> tuple[DevicePools, list[str]]:
    """The pools of a number of tokens, where no memory is measured; states have to be asked for by number."""
    states = None
    if division.attention.state is not None:
        if division.asked.states.slots is None:
            raise Refusal(
                "state_slots_missing",
                "device is cpu and max-mamba-cache-size is not set.",
                "Set it in extra_arguments: without a GPU there is no budget to divide.",
            )
        # A budget that is never short, so that the slots asked for are the slots.
        states = replace(_states(division, 2.0**60) or StatePlan(0, 0, 0, 0, 0.0, ()), left_bytes=0.0)
    divided = pools_of_tokens(
        division.attention,
        division.cells,
        division.facts,
        tokens,
        division.page_size,
        division.asked.window_ratio,
        states,
    )
    return divided, [*divided.explanation, *describe(divided.pools)]
