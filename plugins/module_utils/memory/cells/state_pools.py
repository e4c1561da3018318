# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states per request: bytes of a slot, and how many slots come out of a budget before the tokens do.

Source: SGLang, configs/mamba_utils.py C(Mamba2StateShape.create) and C(mamba_cache_per_req); C(handle_max_mamba_cache)
in model_runner_kv_cache_mixin.py, mem_cache/kv_cache_configurator.py from 0.5.16 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import State
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    DEFAULT_STATE_RATIO,
    STATES_BEFORE,
    STATES_JOINT_PADDED,
    PoolFacts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import (
    STATE_SLOTS_A_REQUEST,
)

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# SGLANG_MAMBA_CONV_DTYPE: bfloat16 unless it says otherwise.
_CONV_BYTES = 2


@dataclass(frozen=True)
class StateRequest:
    """What was asked of the state pool. C(draft_tokens) is None without speculative decoding.

    C(slots) is C(--max-mamba-cache-size) of the whole server; C(running_requests) C(--max-running-requests).
    """

    slots: int | None = None
    ratio: float = DEFAULT_STATE_RATIO
    dtype: str | None = None
    running_requests: int | None = None
    draft_tokens: int | None = None
    radix_cache: bool = True
    slots_per_request: int = STATE_SLOTS_A_REQUEST
    replicas: int = 1


@dataclass(frozen=True)
class StatePlan:
    """C(left_bytes) is what remains for the tokens; C(draft_bytes) is what verifying drafts takes of it."""

    slots: int
    bytes_per_slot: int
    padding_slots: int
    draft_bytes: int
    left_bytes: float
    explanation: tuple[str, ...]


def _divided(value: int, ranks: int, what: str) -> int:
    if value % ranks:
        raise Refusal(
            "tensor_parallel_uneven",
            f"{what} {value} of the state layers does not divide over {ranks} ranks.",
            "Expected a tensor_parallel_size that divides the heads of the linear layers as well.",
            {"attention_ranks": ranks},
        )
    return value // ranks


def slot_bytes(state: State, ranks: int, layers: int | None = None, dtype: str | None = None) -> int:
    """Bytes that the states of one request take on one rank; C(layers) of them where a stage holds a part."""
    # Groups are replicated until every rank has one.
    groups = state.num_groups if state.num_groups % ranks == 0 else ranks
    width = state.intermediate_size + 2 * groups * state.state_size
    convolution = _divided(width, ranks, "The width") * (state.conv_kernel - 1)
    heads = _divided(state.num_heads, ranks, "The number of heads") if state.state_size else 0
    recurrent = heads * state.head_dim * state.state_size
    per_layer = convolution * _CONV_BYTES + recurrent * _DTYPE_BYTES[dtype or state.dtype]
    return per_layer * (len(state.layers) if layers is None else layers)


def plan_states(
    state: State,
    ranks: int,
    budget_bytes: float,
    request: StateRequest,
    pools: PoolFacts,
    stage_layers: tuple[int, ...] = (),
) -> StatePlan:
    """Slots and what they leave of the budget. C(stage_layers): state layers of each stage, where there are stages."""
    every = slot_bytes(state, ranks, dtype=request.dtype)
    charged = every
    if stage_layers and pools.state_stage_share:
        charged = int(every * (max(stage_layers) / max(len(state.layers), 1)))
    padding = 1 if pools.state_padding_slot else 0
    left, drafts = float(budget_bytes), 0
    running = None
    if request.running_requests is not None:
        running = max(1, request.running_requests // request.replicas)
    tokens = request.draft_tokens or 0
    if tokens and running is None:
        raise Refusal(
            "running_requests_missing",
            "Speculative decoding keeps a state for every draft token of every running request, and "
            "max_running_requests is not set.",
            "Set max_running_requests, as SGLang itself asks for with this model.",
        )
    per_request = request.slots_per_request if request.radix_cache else 1
    if tokens and pools.state_drafts == STATES_BEFORE:
        drafts = charged * (running or 0) * tokens
        left -= drafts
    if request.slots is not None:
        slots, how = request.slots // request.replicas, "max_mamba_cache_size"
    elif not request.radix_cache and running is not None:
        slots, how = running, "max_running_requests, without a radix cache"
    else:
        part = left * request.ratio / (1 + request.ratio)
        how = f"{format_gib(int(part))} of the budget (ratio {request.ratio:g}) // {charged:,} bytes"
        if tokens and pools.state_drafts != STATES_BEFORE:
            if pools.state_drafts == STATES_JOINT_PADDED:
                part -= charged * (1 + tokens)
            slots = int(part // (charged * (1 + tokens / per_request)))
        else:
            slots = int((part - charged * padding) // charged)
            how += " - 1 for padding" if padding else ""
    if slots < 1:
        raise Refusal(
            "state_pool_empty",
            f"Not one state fits the budget of {format_gib(int(max(0.0, budget_bytes)))}: {how}.",
            "Raise mem_fraction_static, use more GPUs, or lower max_running_requests or the number of draft tokens.",
            {"bytes_per_slot": charged, "budget_bytes": int(budget_bytes)},
        )
    if tokens and pools.state_drafts != STATES_BEFORE:
        capped = min(running or 0, slots // per_request)
        drafts = charged * (capped + (1 if pools.state_drafts == STATES_JOINT_PADDED else 0)) * tokens
        left -= drafts
    left -= (slots + padding) * charged
    lines = [f"states: {how} = {format_count(slots)} slots of {every:,} bytes a rank"]
    if drafts:
        lines.append(f"states of draft tokens = {format_gib(drafts)}")
    lines.append(f"the states leave {format_gib(int(max(0.0, left)))} for the tokens")
    # The pool itself has a slot more for padding in every release, counted or not.
    return StatePlan(slots, every, 1, drafts, left, tuple(lines))
