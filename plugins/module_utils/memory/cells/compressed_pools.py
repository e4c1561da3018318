# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The device pools of compressed attention (DeepSeek-V4): seven of a rank, out of one budget, alike on every rank.

A token takes no row of its own for long: each layer keeps a window, and behind it one row for 4 or for 128 tokens, with
an index key for each row of ratio 4. The vectors that have not been put together yet are states: those of ratio 4 lie
beside the pages of the window, those of ratio 128 belong to requests from 0.5.15 on.

Source: SGLang, C(DSV4PoolConfigurator) and the pools of mem_cache/deepseek_v4_memory_pool.py, of NVIDIA cards and with
the environment's defaults: states in float32, rows as FlashMLA of V4 reads them. The arithmetic is done in the order of
that code, whose numbers are floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import SWA, index_row_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import (
    DevicePool,
    DevicePools,
    check_window,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Compressed
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    COMPRESSED_PAGE_SIZE,
    COMPRESSED_WINDOW_RATIO,
    STATE_RINGS,
    CompressedFacts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import DEFAULT_WINDOW_RATIO

C4, C4_INDEXER, C128 = "c4", "c4_indexer", "c128"
C4_STATE, C4_INDEXER_STATE, C128_STATE = "c4_state", "c4_indexer_state", "c128_state"

_PAGE = COMPRESSED_PAGE_SIZE
# An FP8 row of 448 elements, 64 rotary ones in bfloat16, a scale for each 64 of the former and a byte of padding; a
# page of them is a multiple of what the reader takes at once.
_ROW_BYTES, _PAGE_STEP = 448 + 64 * 2 + 448 // 64 + 1, 576
_STATE_ELEMENT_BYTES = 4


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def row_bytes(page: int) -> int:
    """Bytes of a row in pages of so many, with its part of what fills a page up."""
    return _up(page * _ROW_BYTES, _PAGE_STEP) // page


@dataclass(frozen=True)
class CompressedRequest:
    """What was asked of the pools, of one group of attention data parallelism; C(window_ratio) is None by default."""

    running_requests: int
    window_ratio: float | None = None


@dataclass(frozen=True)
class CompressedLayers:
    """Layers of one stage: all of them, and those with a row for 4 and for 128 tokens."""

    layers: int
    of_4: int
    of_128: int


def layers_of(compressed: Compressed, stage: range) -> CompressedLayers:
    own = compressed.ratios[stage.start : stage.stop]
    return CompressedLayers(len(own), own.count(4), own.count(128))


def window_share(facts: CompressedFacts, asked: CompressedRequest) -> float:
    """Tokens of the window pool for each token."""
    ratio = asked.window_ratio
    if ratio is None or (facts.default_ratio_taken_for_unset and ratio == DEFAULT_WINDOW_RATIO):
        return COMPRESSED_WINDOW_RATIO
    return ratio


def counted_layers(compressed: Compressed, stage: range, facts: CompressedFacts) -> CompressedLayers:
    """The layers that the budget of a stage counts, which are not always its own."""
    return layers_of(compressed, stage if facts.counts_own_stage else range(len(compressed.ratios)))


def counted_bytes(
    compressed: Compressed, stage: range, facts: CompressedFacts, asked: CompressedRequest, head_dim: int
) -> float:
    """What one token is counted at, of one rank of one pipeline stage."""
    counted, ratio = counted_layers(compressed, stage, facts), window_share(facts, asked)
    of_4, of_128, index = counted.of_4, counted.of_128, index_row_bytes(compressed.index_head_dim)
    state, index_state = (4 * width * _STATE_ELEMENT_BYTES for width in (head_dim, compressed.index_head_dim))
    late_state = 2 * head_dim * _STATE_ELEMENT_BYTES
    if facts.counts_page_padding:
        of_window = row_bytes(_PAGE) * counted.layers + (STATE_RINGS[4] / _PAGE * (state + index_state) * of_4)
        rows = (
            (1 / 4 * row_bytes(_PAGE // 4) + 1 / 4 * index, of_4),
            (1 / 128 * row_bytes(_PAGE // 128), of_128),
        )
        return ratio * of_window + sum(size * count for size, count in rows if count)
    rings = {each: held / compressed.window_tokens for each, held in STATE_RINGS.items()}
    return (
        ratio * _ROW_BYTES * counted.layers
        + 1 / 4 * _ROW_BYTES * of_4
        + 1 / 128 * _ROW_BYTES * of_128
        + 1 / 4 * index * of_4
        + ratio * rings[4] * state * of_4
        + (0 if facts.request_states else ratio * rings[128] * late_state * of_128)
        + ratio * rings[4] * index_state * of_4
    )


def _request_state_bytes(layers: CompressedLayers, requests: int, head_dim: int) -> int:
    """States of ratio 128 that belong to requests, as the budget counts them."""
    ring = STATE_RINGS[128]
    rows = _up((requests + 1) * ring + ring + 1, 128)
    return rows * 2 * head_dim * _STATE_ELEMENT_BYTES * layers.of_128


def tokens_of_budget(
    compressed: Compressed,
    stage: range,
    facts: CompressedFacts,
    asked: CompressedRequest,
    head_dim: int,
    budget_bytes: int,
) -> tuple[int, list[str]]:
    """Tokens in whole pages, and the arithmetic in words."""
    left, lines = budget_bytes, []
    if facts.request_states:
        layers = counted_layers(compressed, stage, facts)
        states = _request_state_bytes(layers, asked.running_requests, head_dim)
        left = max(budget_bytes - states, 0)
        lines.append(f"states of {format_count(asked.running_requests)} running requests = {format_gib(states)}")
    per_token = counted_bytes(compressed, stage, facts, asked, head_dim)
    tokens = int(left / per_token) // _PAGE * _PAGE
    lines.append(
        f"tokens = {format_count(left)} bytes // {per_token:,.2f} in whole pages of {_PAGE} = {format_count(tokens)}"
    )
    return tokens, lines


def pools_of(
    compressed: Compressed,
    layers: CompressedLayers,
    facts: CompressedFacts,
    asked: CompressedRequest,
    head_dim: int,
    tokens: int,
) -> tuple[DevicePool, ...]:
    """The pools of one rank for a number of tokens in whole pages."""
    window = int(tokens * window_share(facts, asked)) // _PAGE * _PAGE
    if facts.window_floor:
        check_window(window, compressed.window_tokens, _PAGE)
    state_page = _PAGE if facts.counts_page_padding else compressed.window_tokens
    of_4 = window // state_page * STATE_RINGS[4]
    requests = min(asked.running_requests, tokens // 2)
    of_128 = (requests + 1) * STATE_RINGS[128] if facts.request_states else window // state_page * STATE_RINGS[128]
    index = index_row_bytes(compressed.index_head_dim)
    width, index_width = (4 * each * _STATE_ELEMENT_BYTES for each in (head_dim, compressed.index_head_dim))

    def rows(kind: str, slots: int, page: int, size: int, count: int, logical: bool) -> DevicePool:
        pages = -(-(slots + _PAGE) // page) if logical else (slots + page + 1) // page
        return DevicePool(kind, slots, size * count, pages * page - slots, layers=count)

    def states(kind: str, slots: int, ratio: int, size: int, count: int) -> DevicePool:
        return DevicePool(kind, slots, size * count, _up(slots + STATE_RINGS[ratio] + 1, ratio) - slots, layers=count)

    by_page, index_by_page = facts.pads_by_logical_page, facts.pads_index_by_logical_page
    late = 2 * head_dim * _STATE_ELEMENT_BYTES
    found = (
        rows(SWA, window, _PAGE, row_bytes(_PAGE), layers.layers, by_page),
        rows(C4, tokens // 4, _PAGE // 4, row_bytes(_PAGE // 4), layers.of_4, by_page),
        rows(C4_INDEXER, tokens // 4, _PAGE // 4, index, layers.of_4, index_by_page),
        rows(C128, tokens // 128, _PAGE // 128, row_bytes(_PAGE // 128), layers.of_128, by_page),
        states(C4_STATE, of_4, 4, width, layers.of_4),
        states(C4_INDEXER_STATE, of_4, 4, index_width, layers.of_4),
        states(C128_STATE, of_128, 128, late, layers.of_128),
    )
    return tuple(pool for pool in found if pool.bytes_per_slot)


def token_bytes(compressed: Compressed, layers: CompressedLayers) -> int:
    """Bytes that a token adds to the pools that keep every token, rounded up."""
    by_4 = (row_bytes(_PAGE // 4) + index_row_bytes(compressed.index_head_dim)) * layers.of_4
    return -(-(32 * by_4 + row_bytes(_PAGE // 128) * layers.of_128) // 128)


def divide_compressed(
    compressed: Compressed,
    stages: Sequence[range],
    facts: CompressedFacts,
    asked: CompressedRequest,
    head_dim: int,
    budget_bytes: int,
    cap: int | None,
) -> tuple[DevicePools, list[str]]:
    """The pools out of a budget; the stage with the fewest tokens decides for all."""
    counted = [tokens_of_budget(compressed, stage, facts, asked, head_dim, budget_bytes) for stage in stages]
    tokens, lines = min(counted, key=lambda one: one[0])
    profiled = tokens
    if cap is not None and cap < tokens:
        tokens = cap // _PAGE * _PAGE
        lines.append(f"tokens capped by max_total_tokens = {format_count(tokens)}")
    return _joined(compressed, stages, facts, asked, head_dim, tokens, profiled, lines)


def compressed_of_tokens(
    compressed: Compressed,
    stages: Sequence[range],
    facts: CompressedFacts,
    asked: CompressedRequest,
    head_dim: int,
    tokens: int,
) -> tuple[DevicePools, list[str]]:
    """The pools of a number of tokens, where no memory is measured."""
    whole = tokens // _PAGE * _PAGE
    line = f"tokens = max_total_tokens in whole pages of {_PAGE} = {format_count(whole)}"
    return _joined(compressed, stages, facts, asked, head_dim, whole, whole, [line])


def _joined(
    compressed: Compressed,
    stages: Sequence[range],
    facts: CompressedFacts,
    asked: CompressedRequest,
    head_dim: int,
    tokens: int,
    profiled: int,
    lines: list[str],
) -> tuple[DevicePools, list[str]]:
    if tokens < 1:
        return DevicePools(tokens, profiled, (), tuple(lines), ((),) * len(stages)), lines
    parts = [pools_of(compressed, layers_of(compressed, stage), facts, asked, head_dim, tokens) for stage in stages]
    most = max(parts, key=lambda part: sum(pool.allocated_bytes for pool in part))
    words = [
        f"{pool.kind} pool = ({format_count(pool.slots)} + {pool.padding} for padding) x {pool.bytes_per_slot:,} bytes "
        f"= {format_gib(pool.allocated_bytes)}"
        for pool in most
    ]
    return DevicePools(tokens, profiled, most, tuple(lines), tuple(parts)), [*lines, *words]
