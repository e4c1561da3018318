# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The device side of a plan: what is left of a GPU for the KV cache, and what a higher fraction would give it.

Source: SGLang, model_executor/model_runner_kv_cache_mixin.py (0.5.9), mem_cache/kv_cache_configurator.py and
arg_groups/memory_hook.py (0.5.23). SGLang counts in GiB here and prints them under the letters GB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_available import (
    available_before_load,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_budget import estimated_budget
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_division import (
    Division,
    divide,
    divide_tokens,
    division_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePool, DevicePools
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_raise import (
    FractionRaise,
    idle_bytes,
    raise_fraction,
    used_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_weights import (
    EVEN,
    DeviceWeights,
    device_weights,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import resolve_speculation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.environment import AFTER_CAPTURE
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.attention_backend import (
    AttentionDefaults,
    attention_backend_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import (
    Reserve,
    capability_of,
    fraction_in_force,
    smallest_card,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import multimodal_reservation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    Observed,
    ServerRequest,
    SpeculativeRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    MIB,
    format_count,
    format_gib,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

_EVEN_BESIDE = "The weights divide evenly over the ranks."


@dataclass(frozen=True)
class StagePools:
    """What a rank of one pipeline stage holds; there is always one stage at least."""

    stage: int
    layers: range
    pools: tuple[DevicePool, ...]
    weights_bytes: int | None


@dataclass(frozen=True)
class DevicePlan:
    """Sizes are of one rank; None where nothing is known about them (device cpu).

    C(bytes_per_token) is that of a token in all layers that keep every token, C(kv_pool_bytes) that of all C(pools)
    which the budget counts, without their padding, C(budget_bytes) what they were divided out of. Where pipeline
    stages differ, C(pools) and C(weights_bytes) are those of the stage that takes most of each. C(draft_bytes) are the
    draft's weights, 0 where nothing is loaded for one, and None where they are not known.
    """

    device: str
    division: Division
    stages: tuple[StagePools, ...]
    pools: tuple[DevicePool, ...]
    bytes_per_token: int
    page_size: int
    max_total_num_tokens: int
    budget_bytes: int | None
    kv_pool_bytes: int
    mem_fraction_static: float | None
    fraction_source: str
    reserve: Reserve | None
    attention: AttentionDefaults | None
    available_before_load_bytes: int | None
    weights_bytes: int | None
    draft_bytes: int | None
    reserved_bytes: int | None
    headroom_bytes: int | None
    raised: FractionRaise | None
    explanation: tuple[str, ...]
    assumptions: tuple[str, ...]
    # What a step of mem_fraction_static is a share of: the memory before loading, less where a release lowers the
    # fraction by a factor.
    fraction_base_bytes: int | None = None

    @property
    def total_num_tokens(self) -> int:
        """Tokens of all groups of attention ranks together."""
        return self.division.layout.attention_data_parallel_size * self.max_total_num_tokens


def plan_device(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    gpus: tuple[GpuFacts, ...],
    observed: Observed,
    margin_bytes: int,
    copies: str | None = None,
    speculative: SpeculativeRequest | None = None,
) -> DevicePlan:
    """Device pools of one rank, from measurements where there are any and from named estimates otherwise.

    C(copies) is the io backend of HiCache, None where HiCache is off.
    """
    speculation = resolve_speculation(str(facts.version), model, server, speculative)
    attention = _attention(facts, model, server, gpus, copies, speculative)
    division = division_of(
        facts,
        model,
        server if attention is None else replace(server, attention_backend=attention.backend),
        gpus,
        copies is not None,
        (server.page_size or 1) if attention is None else attention.page_size,
        speculation,
    )
    explanation = list(division.explanation)
    held = device_weights(model, server, division.facts, speculation, gpus)
    if server.device == "cpu":
        return _plan_cpu(server, division, held, explanation)

    assumptions: list[str] = []
    chosen = fraction_in_force(facts, model, server, gpus, observed, explanation, speculative, copies)
    fraction = chosen.value
    before = available_before_load(server, gpus, observed, assumptions)
    base = None if before is None else int(before * chosen.factor)
    weights = None
    if observed.kv_pool_bytes is not None:
        budget = observed.kv_pool_bytes
        explanation.append(f"KV budget = {format_count(budget)} bytes as observed = {format_gib(budget)}")
        measured_under = observed.mem_fraction_static
        if measured_under is None:
            assumptions.append("The KV budget was observed under the same mem_fraction_static as this plan's.")
        elif fraction is not None and fraction != measured_under and base is not None:
            change = int(base * (fraction - measured_under))
            budget += change
            explanation.append(
                f"KV budget at {fraction} = that of {measured_under} + {format_gib(base)} x "
                f"{fraction - measured_under:+.3f} = {format_gib(budget)}"
            )
        if before is not None and observed.available_after_load_bytes is not None:
            weights = before - observed.available_after_load_bytes
    else:
        card = smallest_card(gpus)
        multimodal = multimodal_reservation(
            facts, model, server, capability_of(gpus), None if card is None else card // MIB
        )
        if chosen.after_capture:
            assumptions.append(
                f"SGLang {facts.version} sizes the KV cache after it has captured its graphs "
                f"({AFTER_CAPTURE}); what they take is not known before a start and is not taken off the KV budget."
            )
        budget, weights = estimated_budget(
            model, speculation, held, observed, before, chosen, multimodal, explanation, assumptions
        )
    if weights is None and held.largest is not None:
        weights = held.largest
        assumptions += [_EVEN_BESIDE if said == EVEN else said for said in held.assumptions]

    # Enough for a token, or there is nothing to divide.
    if budget < division.cells.allocated:
        raise _empty(budget, fraction, observed)
    divided, lines = divide(division, budget)
    if divided.profiled < 1:
        raise _empty(budget, fraction, observed)
    _check_cap(division, divided)
    explanation += lines
    applied = chosen.applied
    reserved = math.ceil(before * (1 - applied)) if before is not None and applied is not None else None
    return DevicePlan(
        device=server.device,
        division=division,
        stages=_stage_pools(division, divided, held.stages if weights == held.largest else None, weights),
        pools=divided.pools,
        bytes_per_token=division.cells.allocated,
        page_size=division.page_size,
        max_total_num_tokens=divided.tokens,
        budget_bytes=budget,
        kv_pool_bytes=used_bytes(division, divided),
        mem_fraction_static=fraction,
        fraction_source=chosen.source,
        reserve=chosen.reserve,
        attention=attention,
        available_before_load_bytes=before,
        weights_bytes=weights,
        draft_bytes=held.draft_bytes,
        reserved_bytes=reserved,
        headroom_bytes=idle_bytes(observed, base, fraction),
        raised=raise_fraction(observed, division, budget, base, fraction, margin_bytes),
        explanation=tuple(explanation),
        assumptions=tuple(assumptions),
        fraction_base_bytes=base,
    )


def _check_cap(division: Division, divided: DevicePools) -> None:
    if divided.tokens < 1:
        raise Refusal(
            "token_cap_below_a_page",
            f"max_total_tokens is {division.cap}, less than a page of {division.page_size} tokens.",
            f"Expected {division.page_size} or more.",
            {"max_total_tokens": division.cap, "page_size": division.page_size},
        )


def _stage_pools(
    division: Division, divided: DevicePools, stages: tuple[int, ...] | None, weights: int | None
) -> tuple[StagePools, ...]:
    """C(weights) stands for every stage where it was measured, as the least free memory of all ranks decides."""
    by_stage = stages or (weights,) * len(division.stages)
    return tuple(
        StagePools(number, stage.layers, pools, size)
        for number, (stage, pools, size) in enumerate(zip(division.stages, divided.stages, by_stage))
    )


def _empty(budget: int, fraction: float | None, observed: Observed) -> Refusal:
    if observed.kv_pool_bytes is not None and observed.mem_fraction_static is None:
        # No fraction and no other GPU changes what was measured.
        return Refusal(
            "kv_budget_empty",
            f"observed.kv_pool_bytes is {budget:,} bytes a GPU, less than the KV cache takes.",
            "Set it to what an earlier start had, or leave it out and give topology.gpus[].memory_total_bytes.",
            {"option": "observed.kv_pool_bytes", "kv_budget_bytes": budget, "mem_fraction_static": fraction},
        )
    return Refusal(
        "kv_budget_empty",
        f"At mem_fraction_static {fraction} "
        + (
            f"{format_gib(budget)} a GPU are left for the KV cache, less than it takes."
            if budget > 0
            else f"nothing is left for the KV cache: the weights take {format_gib(-budget)} a GPU more than there is."
        ),
        "Raise mem_fraction_static, use more GPUs or a smaller model.",
        {"kv_budget_bytes": budget, "mem_fraction_static": fraction},
    )


def _plan_cpu(server: ServerRequest, division: Division, held: DeviceWeights, explanation: list[str]) -> DevicePlan:
    if server.max_total_tokens is None:
        raise Refusal(
            "token_cap_missing",
            "device is cpu and max_total_tokens is not set.",
            "Set max_total_tokens: without a GPU there is no card to measure a KV budget on.",
        )
    divided, lines = divide_tokens(division, server.max_total_tokens)
    _check_cap(division, divided)
    explanation += lines
    return DevicePlan(
        device="cpu",
        division=division,
        stages=_stage_pools(division, divided, held.stages, held.largest),
        pools=divided.pools,
        bytes_per_token=division.cells.allocated,
        page_size=division.page_size,
        max_total_num_tokens=divided.tokens,
        budget_bytes=None,
        kv_pool_bytes=used_bytes(division, divided),
        mem_fraction_static=server.mem_fraction_static,
        fraction_source="given" if server.mem_fraction_static is not None else "not used",
        reserve=None,
        attention=None,
        available_before_load_bytes=None,
        weights_bytes=held.largest,
        draft_bytes=held.draft_bytes,
        reserved_bytes=None,
        headroom_bytes=None,
        raised=None,
        explanation=tuple(explanation),
        assumptions=(),
    )


def _attention(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    gpus: tuple[GpuFacts, ...],
    copies: str | None,
    speculative: SpeculativeRequest | None,
) -> AttentionDefaults | None:
    """What attends on GPUs; None on a CPU, whose backends take any page."""
    if server.device == "cpu":
        return None
    card = smallest_card(gpus)
    card_mib = None if card is None else card // MIB
    return attention_backend_default(
        str(facts.version), model, server, capability_of(gpus), speculative, copies, card_mib
    )
