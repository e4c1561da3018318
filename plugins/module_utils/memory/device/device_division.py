# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How one request divides the bytes of its device budget: cells, pages, states and settings, put together once.

The arithmetic is in cell_size.py, state_pools.py and device_pools.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import CacheType, cache_type
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    CellSizes,
    Layout,
    token_budget,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_division import (
    compressed_request,
    compressed_stages,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_pools import (
    CompressedRequest,
    compressed_of_tokens,
    divide_compressed,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.pool_request import (
    PoolRequest,
    attention_in_force,
    forced_page_size,
    pool_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import (
    StatePlan,
    StateRequest,
    plan_states,
    slot_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import (
    DevicePools,
    describe,
    device_pools,
    pools_of_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_stages import (
    Stage,
    stage_lines,
    stages_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import Speculation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import capability_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.known_architecture import check_release
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    compressed_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pipeline_versions import (
    stage_keeps_all_layers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import PoolFacts, pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import (
    DEFAULT_RUNNING_REQUESTS,
    NGRAM,
    state_slots_a_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


@dataclass(frozen=True)
class Division:
    """What turns bytes into pools; C(attention) is the one in force, C(cap) is max_total_tokens."""

    attention: Attention
    layout: Layout
    cache: CacheType
    facts: PoolFacts
    stages: tuple[Stage, ...]
    page_size: int
    cap: int | None
    asked: PoolRequest
    speculation: Speculation | None
    explanation: tuple[str, ...]
    version: str
    compressed: CompressedRequest | None = None

    @property
    def cells(self) -> CellSizes:
        """Of the stage that holds the fewest tokens, which decides for all."""
        return max((stage.cells for stage in self.stages), key=self.budget_of)

    def budget_of(self, cells: CellSizes) -> float:
        return token_budget(cells, self.facts, self.asked.window_ratio)


def division_of(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    gpus: tuple[GpuFacts, ...],
    hicache: bool,
    page_size: int,
    speculation: Speculation | None = None,
) -> Division:
    """The division of one request, or a Refusal of what its release does not serve or this one does not count."""
    version = str(facts.version)
    check_release(model.architecture, model.attention, version)
    asked, pools = pool_request(server.extra_arguments), pool_facts(version)
    asked = replace(asked, states=_states_asked(version, model, server, asked, speculation))
    capability = capability_of(gpus)
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
    layout = Layout(
        server.tensor_parallel_size,
        server.pipeline_parallel_size,
        server.attention_data_parallel_size,
        server.expert_parallel_size,
    )
    compressed = None
    if attention.compressed is not None:
        compressed = compressed_request(version, server, asked)
        found = compressed_stages(
            attention.compressed,
            attention.head_dim,
            attention.num_layers,
            layout,
            pools.pipeline_division,
            version,
            compressed,
        )
    else:
        found = stages_of(
            attention,
            layout,
            cache,
            pools,
            speculation.draft if speculation is not None else None,
            layout.pipeline_parallel_size > 1 and stage_keeps_all_layers(version, model.architecture),
        )
    lines = stage_lines(found)
    forced = forced_page_size(attention) if server.device == "cuda" else None
    if cause is not None:
        lines.append(f"all layers keep every token: SGLang {version} has no window pool for this model under {cause}")
    if forced is not None and forced != (server.page_size or page_size):
        lines.append(f"pages of {forced} tokens: this model's attention takes no other")
    if layout.attention_data_parallel_size > 1:
        lines.append(
            f"{layout.attention_data_parallel_size} groups of {layout.attention_ranks} attention ranks, each with "
            "requests and tokens of its own"
        )
    if speculation is not None:
        lines += speculation.explanation
    page = forced or page_size
    return Division(
        attention,
        layout,
        cache,
        pools,
        found,
        page,
        server.max_total_tokens,
        asked,
        speculation,
        tuple(lines),
        version,
        compressed,
    )


def _states_asked(
    version: str, model: ModelFacts, server: ServerRequest, asked: PoolRequest, speculation: Speculation | None
) -> StateRequest:
    """Beside the flags of the states: how many requests run at once, on how many groups of ranks, with which drafts."""
    running = server.max_running_requests
    if running is None and speculation is not None:
        running = DEFAULT_RUNNING_REQUESTS
    return replace(
        asked.states,
        running_requests=running,
        draft_tokens=speculation.draft_tokens if speculation is not None else None,
        replicas=server.attention_data_parallel_size,
        slots_per_request=state_slots_a_request(version, model.architecture, asked.state_strategy),
    )


def _states(division: Division, budget_bytes: float) -> StatePlan | None:
    state = division.attention.state
    if state is None:
        return None
    by_stage = tuple(stage.state_layers for stage in division.stages) if len(division.stages) > 1 else ()
    return plan_states(
        state, division.layout.attention_ranks, budget_bytes, division.asked.states, division.facts, by_stage
    )


def _states_of(division: Division, states: StatePlan | None, stage: Stage) -> StatePlan | None:
    """The states as a rank of one stage keeps them: all requests, in its own layers."""
    state = division.attention.state
    if states is None or state is None or len(division.stages) == 1:
        return states
    size = slot_bytes(state, division.layout.attention_ranks, stage.state_layers, division.asked.states.dtype)
    return replace(states, bytes_per_slot=size)


def _added_tokens(division: Division) -> int:
    """What releases before 0.5.7 put on top for drafts: of each running request, and a hundred."""
    speculation = division.speculation
    if speculation is None or not division.facts.draft_headroom or speculation.algorithm == NGRAM:
        return 0
    running = division.asked.states.running_requests or DEFAULT_RUNNING_REQUESTS
    return running * speculation.tokens_a_request + 100


def _joined(parts: list[DevicePools], decides: DevicePools, before: list[str]) -> tuple[DevicePools, list[str]]:
    """The pools of all stages as one answer, that of the stage which takes most; C(decides) counted the tokens."""
    most = max(parts, key=lambda part: sum(pool.allocated_bytes for pool in part.pools))
    lines = [*before, *decides.explanation]
    if len(parts) > 1:
        lines.append(f"all {len(parts)} stages keep {format_count(decides.tokens)} tokens, the fewest of any")
    joined = replace(most, profiled=decides.profiled, stages=tuple(part.pools for part in parts))
    return joined, [*lines, *describe(most.pools)]


def divide(division: Division, budget_bytes: int) -> tuple[DevicePools, list[str]]:
    """The pools out of a budget, and the arithmetic in words.

    Every rank counts with the same budget, as free memory is the least of all ranks; the stage with the fewest tokens
    decides for all.
    """
    whole = division.attention.compressed
    if whole is not None and division.compressed is not None:
        return divide_compressed(
            whole,
            [stage.layers for stage in division.stages],
            compressed_facts(division.version),
            division.compressed,
            division.attention.head_dim,
            budget_bytes,
            division.cap,
        )
    states = _states(division, budget_bytes)
    counted = [
        device_pools(
            division.attention,
            stage.cells,
            division.facts,
            budget_bytes if states is None else states.left_bytes,
            division.page_size,
            division.cap,
            division.asked.window_ratio,
            _states_of(division, states, stage),
            _added_tokens(division),
        )
        for stage in division.stages
    ]
    fewest = min(counted, key=lambda part: part.tokens)
    parts = [
        part if part.tokens == fewest.tokens else _of_tokens(division, stage, fewest.tokens, states)
        for stage, part in zip(division.stages, counted)
    ]
    return _joined(parts, fewest, list(states.explanation) if states is not None else [])


def _of_tokens(division: Division, stage: Stage, tokens: int, states: StatePlan | None) -> DevicePools:
    return pools_of_tokens(
        division.attention,
        stage.cells,
        division.facts,
        tokens,
        division.page_size,
        division.asked.window_ratio,
        _states_of(division, states, stage),
    )


def divide_tokens(division: Division, tokens: int) -> tuple[DevicePools, list[str]]:
    """The pools of a number of tokens, where no memory is measured; states have to be asked for by number."""
    whole = division.attention.compressed
    if whole is not None and division.compressed is not None:
        return compressed_of_tokens(
            whole,
            [stage.layers for stage in division.stages],
            compressed_facts(division.version),
            division.compressed,
            division.attention.head_dim,
            tokens,
        )
    if division.attention.state is not None and division.asked.states.slots is None:
        raise Refusal(
            "state_slots_missing",
            "device is cpu and max-mamba-cache-size is not set.",
            "Set it in extra_arguments: without a GPU there is no budget to divide.",
        )
    # Out of a budget that is never short, so that the slots asked for are the slots.
    states = _states(division, 2.0**60)
    parts = [_of_tokens(division, stage, tokens, states) for stage in division.stages]
    return _joined(parts, parts[0], [])
