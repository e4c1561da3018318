# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bytes that one token takes on one rank, by pool: what the server's budget counts and what its pools then take.

The two differ where a release forgets something, so both are given. Source: SGLang, C(get_cell_size_per_token)
(0.5.7 to 0.5.10), model_executor/pool_configurator.py C(DefaultPoolConfigurator) and C(HybridSWAPoolConfigurator)
(0.5.11 on), C(calculate_mla_kv_cache_dim); the pools of mem_cache/memory_pool.py and swa_memory_pool.py.
tests/conformance/test_cell_sizes.py holds every line of it against these functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import MXFP8, CacheType
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import FAMILY_SPARSE, Attention, Window
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    FP4_RECIPE,
    FP4_WORKSPACE,
    ONE_STEP,
    REST_SPREAD,
    PoolFacts,
)

KV, SWA, INDEXER, MAMBA, DRAFT = "kv", "swa", "indexer", "mamba", "draft"

# One float32 scale for 128 elements (DSATokenToKVPool.quant_block_size); rotary elements stay in bfloat16.
_SCALE_BLOCK, _SCALE_BYTES, _ROTARY_BYTES = 128, 4, 2
_FP4_BLOCK, _MXFP8_BLOCK = 16, 32


@dataclass(frozen=True)
class Layout:
    """How the ranks divide a model. Attention data parallelism divides the ranks, not the heads, into groups."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    attention_data_parallel_size: int = 1
    expert_parallel_size: int = 1

    @property
    def attention_ranks(self) -> int:
        """Ranks that share the heads of one request."""
        return max(1, self.tensor_parallel_size // self.attention_data_parallel_size)

    @property
    def ranks(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size

    def stage_of(self, rank: int) -> int:
        """Ranks are counted stage by stage."""
        return rank // self.tensor_parallel_size


@dataclass(frozen=True)
class Draft:
    """The draft of speculative decoding: its layers of KV cache, and its own shape where it is not the target's.

    C(counted) is how many of its layers the budget counts, where that is another number.
    """

    layers: int
    window_layers: int = 0
    attention: Attention | None = None
    counted: int | None = None

    @property
    def counted_layers(self) -> int:
        return self.layers if self.counted is None else self.counted


@dataclass(frozen=True)
class CellSizes:
    """C(pools) are bytes a token and rank as allocated, by kind.

    C(full_budget) and C(window_budget) are what the server counts for a token of the full and of the window pool; one
    of the window pool is only counted where there is one. C(token_bytes) are those of a token that all layers hold,
    where they are not whole bytes of C(pools).
    """

    pools: dict[str, int]
    full_budget: float
    window_budget: int
    explanation: tuple[str, ...]
    token_bytes: int | None = None

    @property
    def allocated(self) -> int:
        """Bytes of a token that all layers hold: that of every pool by tokens but the window's and the draft's."""
        if self.token_bytes is not None:
            return self.token_bytes
        return sum(size for kind, size in self.pools.items() if kind not in (SWA, DRAFT))


def stages(layers: int, pipeline_parallel_size: int, division: str) -> tuple[range, ...]:
    """The layers of each pipeline stage (C(get_pp_indices)): a rest goes to the last stages, one each or all to one."""
    count, rest = divmod(layers, pipeline_parallel_size)
    if division == REST_SPREAD:
        sizes = [count + (stage >= pipeline_parallel_size - rest) for stage in range(pipeline_parallel_size)]
    else:
        sizes = [count] * (pipeline_parallel_size - 1) + [count + rest]
    starts = [sum(sizes[:stage]) for stage in range(pipeline_parallel_size)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes))


def heads_of_rank(num_kv_heads: int, attention_ranks: int) -> int:
    """KV heads of one rank; fewer heads than ranks are replicated (C(get_num_kv_heads))."""
    return max(1, num_kv_heads // attention_ranks)


def _within(layers: tuple[int, ...], stage: range) -> tuple[int, ...]:
    return tuple(layer for layer in layers if layer in stage)


def index_row_bytes(head_dim: int) -> int:
    """An index key in FP8 with its scales."""
    return head_dim + head_dim // _SCALE_BLOCK * _SCALE_BYTES


def latent_row_bytes(attention: Attention, cache: CacheType, scaled: bool) -> int:
    """One latent row of one layer; C(scaled) counts the FP8 form with scales and unquantised rotary elements."""
    rank, rotary = attention.kv_lora_rank or 0, attention.qk_rope_head_dim or 0
    if attention.index is not None and cache.name == "fp8_e4m3" and not cache.raw_rows and scaled:
        return rank + rank // _SCALE_BLOCK * _SCALE_BYTES + rotary * _ROTARY_BYTES
    if cache.four_bit:
        return (rank + rotary) // 2 + (rank + rotary) // _FP4_BLOCK
    return (rank + rotary) * cache.element_bytes


def cell_sizes(
    attention: Attention,
    layout: Layout,
    cache: CacheType,
    pools: PoolFacts,
    stage: range | None = None,
    draft: Draft | None = None,
) -> CellSizes:
    """Bytes a token of one rank of one pipeline stage; all layers when no stage is given."""
    own = range(attention.num_layers) if stage is None else stage
    ranks = layout.attention_ranks
    if attention.latent:
        sizes = _latent_cells(attention, cache, pools, own, draft)
    elif attention.window is not None:
        sizes = _window_cells(attention, attention.window, ranks, cache, pools, own, draft)
    elif attention.family == FAMILY_SPARSE:
        sizes = _sparse_cells(attention, ranks, cache, pools, own, draft)
    else:
        sizes = _head_cells(attention, ranks, cache, pools, own, draft)
    if draft is None:
        return sizes
    shape = draft.attention or attention
    per_layer = (
        latent_row_bytes(shape, cache, scaled=True)
        if shape.latent
        else heads_of_rank(shape.num_kv_heads, ranks) * (shape.head_dim + shape.v_head_dim) * cache.element_bytes
    )
    index = index_row_bytes(shape.index.head_dim) * draft.layers if shape.latent and shape.index is not None else 0
    total = per_layer * draft.layers + index
    return CellSizes(
        {**sizes.pools, DRAFT: total},
        sizes.full_budget,
        sizes.window_budget,
        (
            *sizes.explanation,
            f"the draft's own KV = {draft.layers} layer{'' if draft.layers == 1 else 's'} = {total:,} bytes a token "
            "and rank",
        ),
    )


def _with_draft(cell: int, layers: int, draft: Draft | None, pools: PoolFacts) -> int:
    """The budget of a token with the draft's layers, as large as the target's."""
    if draft is None or not pools.counts_draft or not draft.counted_layers or not layers:
        return cell
    if pools.draft_part_rounded:
        return cell + int(cell * draft.counted_layers / layers)
    return int(cell * (1 + draft.counted_layers / layers))


def _counted_draft(draft: Draft | None, pools: PoolFacts, before: int, after: int) -> tuple[str, ...]:
    if draft is None:
        return ()
    if before == after:
        return ("this release does not count the draft's KV cache in the budget of a token",)
    plural = "" if draft.counted_layers == 1 else "s"
    return (f"with {draft.counted_layers} draft layer{plural}, the budget counts {after:,} bytes a token",)


def _latent_cells(
    attention: Attention, cache: CacheType, pools: PoolFacts, stage: range, draft: Draft | None
) -> CellSizes:
    layers = len(_within(attention.token_layers, stage))
    row = latent_row_bytes(attention, cache, scaled=True)
    counted = latent_row_bytes(attention, cache, scaled=pools.counts_index_scales)
    kv, budget = row * layers, counted * layers
    explanation = [f"bytes a token and rank = {_latent_words(attention, cache, row, layers)} = {kv:,}"]
    if attention.index is None:
        after = _with_draft(budget, layers, draft, pools)
        return CellSizes({KV: kv}, after, 0, (*explanation, *_counted_draft(draft, pools, budget, after)))
    own = _within(attention.index.layers, stage)
    index_layers = len(own) if pools.elides_shared_index else layers
    index_row = index_row_bytes(attention.index.head_dim)
    index = index_row * index_layers
    explanation.append(
        f"index keys a token and rank = ({attention.index.head_dim} + scales = {index_row}) x {index_layers} layers = "
        f"{index:,} bytes"
    )
    if counted != row:
        explanation.append(
            f"this release budgets {counted} bytes a row where it allocates {row}: the pools take more than planned "
            "for by its fraction"
        )
    if draft is not None and pools.draft_index_apart and draft.counted_layers and layers:
        after = budget + index + int(budget * draft.counted_layers / layers) + index_row * draft.counted_layers
    else:
        after = _with_draft(budget + index, layers, draft, pools)
    explanation += _counted_draft(draft, pools, budget + index, after)
    return CellSizes({KV: kv, INDEXER: index}, after, 0, tuple(explanation))


def _latent_words(attention: Attention, cache: CacheType, row: int, layers: int) -> str:
    rank, rotary = attention.kv_lora_rank or 0, attention.qk_rope_head_dim or 0
    words = f"(kv_lora_rank {rank} + qk_rope_head_dim {rotary})"
    if row == (rank + rotary) * cache.element_bytes:
        return f"{words} x {layers} layers x {cache.element_bytes} bytes"
    return f"{words} in {cache.name} with scales, {row} bytes, x {layers} layers"


def _head_cells(
    attention: Attention, ranks: int, cache: CacheType, pools: PoolFacts, stage: range, draft: Draft | None
) -> CellSizes:
    layers = len(_within(attention.token_layers, stage))
    heads = heads_of_rank(attention.num_kv_heads, ranks)
    key, value = attention.head_dim, attention.v_head_dim
    counted = heads * (key + (value if pools.counts_value_width else key)) * layers * cache.element_bytes
    allocated = heads * (key + (value if pools.allocates_value_width else key)) * layers * cache.element_bytes
    if cache.four_bit:
        allocated = heads * (key // 2) * layers * 2 + heads * key // _FP4_BLOCK * layers * 2
        if pools.fp4 == FP4_RECIPE:
            counted = allocated
        else:
            counted = counted // 2 + heads * key * layers * 2 // _FP4_BLOCK
            counted += heads * key * 2 if pools.fp4 == FP4_WORKSPACE else 0
    elif cache.name == MXFP8:
        counted += heads * (key + value) * layers // _MXFP8_BLOCK
        allocated += heads * (key // _MXFP8_BLOCK + value // _MXFP8_BLOCK) * layers
    after = _with_draft(counted, layers, draft, pools)
    of = "" if layers == attention.num_layers else " that keep tokens"
    scales = " with scales" if cache.four_bit or cache.name == MXFP8 else ""
    size = f"{cache.element_bytes} bytes" if not scales else f"{cache.name}{scales}"
    explanation = (
        f"bytes a token and rank = {heads} KV heads x (head_dim {key} + v_head_dim {value}) x {layers} layers{of} x "
        f"{size} = {allocated:,}",
        *_counted_draft(draft, pools, counted, after),
    )
    return CellSizes({KV: allocated}, after, 0, explanation)


def _window_cells(
    attention: Attention,
    window: Window,
    ranks: int,
    cache: CacheType,
    pools: PoolFacts,
    stage: range,
    draft: Draft | None,
) -> CellSizes:
    full_layers, window_layers = len(_within(attention.token_layers, stage)), len(_within(window.layers, stage))

    def row(num_kv_heads: int, width: int) -> int:
        heads = heads_of_rank(num_kv_heads, ranks)
        scales = heads * width // _MXFP8_BLOCK if cache.name == MXFP8 else 0
        return heads * width * cache.element_bytes + scales

    full = row(attention.num_kv_heads, attention.head_dim + attention.v_head_dim)
    swa = row(window.num_kv_heads, window.head_dim + window.v_head_dim)
    full_draft = window_draft = 0
    if draft is not None and pools.counts_draft_with_window:
        window_draft = min(max(draft.window_layers, 0), draft.counted_layers) if pools.draft_window_layers else 0
        full_draft = draft.counted_layers - window_draft
    sizes = {KV: full * full_layers, SWA: swa * window_layers}
    explanation = [
        f"bytes a token and rank = {full:,} x {full_layers} full layers = {sizes[KV]:,}, and in the window pool "
        f"{swa:,} x {window_layers} layers = {sizes[SWA]:,}"
    ]
    explanation += _counted_draft(draft, pools, 0, full_draft + window_draft)[:1]
    return CellSizes(sizes, full * (full_layers + full_draft), swa * (window_layers + window_draft), tuple(explanation))


def _sparse_cells(
    attention: Attention, ranks: int, cache: CacheType, pools: PoolFacts, stage: range, draft: Draft | None
) -> CellSizes:
    index = attention.index
    sparse = _within(index.layers, stage) if index is not None else ()
    values = _within(index.value_layers, stage) if index is not None else ()
    heads, layers = heads_of_rank(attention.num_kv_heads, ranks), len(stage)
    kv = layers * 2 * heads * attention.head_dim * cache.element_bytes
    width = index.head_dim if index is not None else 0
    keys = (len(sparse) + len(values)) * width * cache.model_element_bytes
    explanation = (
        f"bytes a token and rank = {heads} KV heads x 2 x head_dim {attention.head_dim} x {layers} layers x "
        f"{cache.element_bytes} bytes = {kv:,}",
        f"index keys a token and rank = {width} x {len(sparse)} layers x {cache.model_element_bytes} bytes = {keys:,}, "
        "the same on every tensor-parallel rank",
    )
    after = _with_draft(kv + keys, layers, draft, pools)
    return CellSizes({KV: kv, INDEXER: keys}, after, 0, (*explanation, *_counted_draft(draft, pools, kv + keys, after)))


def token_budget(cells: CellSizes, pools: PoolFacts, window_ratio: float) -> float:
    """Bytes that the server's budget divides by to get its tokens."""
    if not cells.window_budget:
        return cells.full_budget
    if pools.window_split == ONE_STEP:
        return cells.full_budget + window_ratio * cells.window_budget
    return cells.full_budget + cells.window_budget
