# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many tokens (and states) come out of a device budget, and what each pool then takes.

Source: SGLang, C(init_memory_pool) and C(set_num_tokens_hybrid_swa) of model_runner_kv_cache_mixin.py (0.5.9, 0.5.10),
C(calculate_pool_sizes) of model_executor/pool_configurator.py (0.5.11 on). A pool allocates a page more than it hands
out, for the tokens that padded batches write (mem_cache/memory_pool.py: C(size + page_size) rows).
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    DRAFT,
    KV,
    MAMBA,
    SWA,
    CellSizes,
    token_budget,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import StatePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    DEFAULT_WINDOW_RATIO,
    ONE_STEP,
    TWO_STEPS_PAGED,
    PoolFacts,
)


@dataclass(frozen=True)
class DevicePool:
    """One pool of one rank: C(slots) are tokens, or states of requests; C(padding) rows come on top.

    C(index_bytes_per_slot) are those of a slot that are index keys of latent attention, where a host pool is built;
    C(layers) are those of a pool that is allocated layer by layer.
    """

    kind: str
    slots: int
    bytes_per_slot: int
    padding: int
    index_bytes_per_slot: int = 0
    layers: int = 1

    @property
    def used_bytes(self) -> int:
        return self.slots * self.bytes_per_slot

    @property
    def allocated_bytes(self) -> int:
        return (self.slots + self.padding) * self.bytes_per_slot


@dataclass(frozen=True)
class DevicePools:
    """C(tokens) is max_total_num_tokens, C(profiled) the same before a cap.

    C(stages) are the pools of a rank of each pipeline stage, C(pools) those of the stage that takes most.
    """

    tokens: int
    profiled: int
    pools: tuple[DevicePool, ...]
    explanation: tuple[str, ...]
    stages: tuple[tuple[DevicePool, ...], ...] = ()

    def slots(self, kind: str) -> int:
        return next((pool.slots for pool in self.pools if pool.kind == kind), 0)


def _pages(tokens: float, page_size: int) -> int:
    return int(tokens) // page_size * page_size


def device_pools(
    attention: Attention,
    cells: CellSizes,
    facts: PoolFacts,
    budget_bytes: float,
    page_size: int,
    cap: int | None = None,
    window_ratio: float = DEFAULT_WINDOW_RATIO,
    states: StatePlan | None = None,
    added: int = 0,
) -> DevicePools:
    """Pools out of C(budget_bytes), of which the states have been taken where there are any.

    C(added) tokens are put on top of what the budget holds, as releases before 0.5.7 do for drafts.
    """
    per_token = token_budget(cells, facts, window_ratio)
    first = int(int(budget_bytes) // per_token)
    words = format_count(int(per_token)) if per_token == int(per_token) else f"{per_token:,.1f}"
    lines = [f"tokens = {format_count(int(budget_bytes))} bytes // {words} = {format_count(first)}"]
    if added:
        first += added
        lines.append(
            f"tokens with those of drafts = {format_count(first)}: this release adds them to what the budget holds"
        )
    profiled = tokens = _pages(first, page_size)
    if page_size > 1:
        lines.append(f"tokens in whole pages of {page_size} = {format_count(profiled)}")
    if cap is not None and cap < profiled:
        tokens = _pages(cap, page_size)
        lines.append(f"tokens capped by max_total_tokens = {format_count(tokens)}")
    window = None
    if cells.window_budget and facts.window_split != ONE_STEP:
        before, profiled = tokens, _pages(_two_steps(cells, profiled, window_ratio), page_size)
        tokens, window = _split(cells, facts, tokens, page_size, window_ratio)
        lines.append(
            f"full tokens = {format_count(before)} x ({cells.full_budget:,} + {cells.window_budget:,}) bytes / "
            f"({cells.full_budget:,} + {window_ratio:g} x {cells.window_budget:,}) = {format_count(tokens)}"
        )
    pools = _pools(attention, cells, facts, tokens, page_size, window_ratio, states, window)
    return DevicePools(tokens, profiled, pools, (*lines, *_window_lines(pools, tokens, window_ratio)))


def pools_of_tokens(
    attention: Attention,
    cells: CellSizes,
    facts: PoolFacts,
    tokens: int,
    page_size: int,
    window_ratio: float = DEFAULT_WINDOW_RATIO,
    states: StatePlan | None = None,
) -> DevicePools:
    """Pools of a given number of tokens, where no memory is measured (device cpu)."""
    whole = _pages(tokens, page_size)
    line = f"tokens = max_total_tokens in whole pages of {page_size} = {format_count(whole)}"
    window = None
    if cells.window_budget and facts.window_split != ONE_STEP:
        whole, window = _split(cells, facts, whole, page_size, window_ratio)
    pools = _pools(attention, cells, facts, whole, page_size, window_ratio, states, window)
    return DevicePools(whole, whole, pools, (line, *_window_lines(pools, whole, window_ratio)))


def _pools(
    attention: Attention,
    cells: CellSizes,
    facts: PoolFacts,
    tokens: int,
    page_size: int,
    window_ratio: float,
    states: StatePlan | None,
    window_slots: int | None = None,
) -> tuple[DevicePool, ...]:
    pools = []
    for kind, size in cells.pools.items():
        slots = tokens
        if kind == SWA:
            slots = _pages(tokens * window_ratio, page_size) if window_slots is None else window_slots
            if facts.window_floor and attention.window is not None and attention.window.tokens is not None:
                check_window(slots, attention.window.tokens, page_size)
        pools.append(DevicePool(kind, slots, size, page_size))
    if states is not None:
        pools.append(DevicePool(MAMBA, states.slots, states.bytes_per_slot, states.padding_slots))
    return tuple(pools)


def _window_lines(pools: tuple[DevicePool, ...], tokens: int, window_ratio: float) -> list[str]:
    return [
        f"window tokens = {format_count(tokens)} x {window_ratio:g} = {format_count(pool.slots)}"
        for pool in pools
        if pool.kind == SWA
    ]


def _two_steps(cells: CellSizes, tokens: int, window_ratio: float) -> int:
    """Tokens of a pool without windows first, then the same bytes divided between the two pools."""
    total = tokens * (cells.full_budget + cells.window_budget)
    return int(total / (cells.full_budget + window_ratio * cells.window_budget))


def _split(cells: CellSizes, facts: PoolFacts, tokens: int, page_size: int, window_ratio: float) -> tuple[int, int]:
    """Tokens of the full and of the window pool, before 0.5.11."""
    unrounded = _two_steps(cells, tokens, window_ratio)
    full = _pages(unrounded, page_size)
    of = full if facts.window_split == TWO_STEPS_PAGED else unrounded
    return full, _pages(int(of * window_ratio), page_size)


def check_window(slots: int, window: int, page_size: int) -> None:
    """Refuse a window pool that holds no request, in releases that do so."""
    if slots > window + page_size:
        return
    raise Refusal(
        "window_pool_too_small",
        f"The window pool of {format_count(slots)} tokens cannot hold one request: a window takes "
        f"{format_count(window)} tokens and a page of {page_size} more.",
        "Raise swa_full_tokens_ratio or mem_fraction_static.",
        {"window_pool_tokens": slots, "sliding_window": window, "page_size": page_size},
    )


def describe(pools: tuple[DevicePool, ...]) -> list[str]:
    """One line for each pool of a rank, when there is more than the KV pool."""
    if len(pools) == 1 and pools[0].kind == KV:
        return []
    names = {KV: "KV", SWA: "window", MAMBA: "state", DRAFT: "draft"}
    return [
        f"{names.get(pool.kind, 'index')} pool = ({format_count(pool.slots)} + {pool.padding} for padding) x "
        f"{pool.bytes_per_slot:,} bytes = {format_gib(pool.allocated_bytes)}"
        for pool in pools
    ]
