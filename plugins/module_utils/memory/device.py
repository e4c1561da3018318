# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The device side of a plan: what is left of a GPU for the KV cache, and what a higher fraction would give it.

Source: SGLang, model_executor/model_runner_kv_cache_mixin.py (0.5.9), mem_cache/kv_cache_configurator.py and
arg_groups/memory_hook.py (0.5.23). SGLang counts in GiB here and prints them under the letters GB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_division import (
    Division,
    divide,
    divide_tokens,
    division_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_fraction import (
    fraction_in_force,
    smallest_card,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_page import effective_page_size
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_pools import DevicePool, DevicePools
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    GIB,
    format_count,
    format_gib,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts

# Driver context and collectives, before the weights: 0.8 GiB with one rank and 2.9 GiB with eight on 80 GB H100s
# (SGLang start-up logs in sgl-project/sglang#1386 and #4760). Only used while nothing was measured.
CONTEXT_BYTES_ONE_RANK = 1 * GIB
CONTEXT_BYTES_MORE_RANKS = 3 * GIB


@dataclass(frozen=True)
class FractionRaise:
    """What idle GPU memory would give to the KV cache through a higher fraction. A proposal, not applied."""

    idle_bytes_per_gpu: int
    margin_bytes: int
    mem_fraction_static: float
    gained_bytes: int
    gained_tokens: int
    budget_bytes: int
    kv_pool_bytes: int
    max_total_num_tokens: int


@dataclass(frozen=True)
class DevicePlan:
    """Sizes are of one rank; None where nothing is known about them (device cpu).

    C(bytes_per_token) is that of a token in all layers that keep every token, C(kv_pool_bytes) that of all C(pools)
    without their padding.
    """

    device: str
    division: Division
    pools: tuple[DevicePool, ...]
    bytes_per_token: int
    page_size: int
    max_total_num_tokens: int
    kv_pool_bytes: int
    mem_fraction_static: float | None
    fraction_source: str
    available_before_load_bytes: int | None
    weights_bytes: int | None
    reserved_bytes: int | None
    headroom_bytes: int | None
    raised: FractionRaise | None
    explanation: tuple[str, ...]
    assumptions: tuple[str, ...]


def plan_device(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    gpus: tuple[GpuFacts, ...],
    observed: Observed,
    margin_bytes: int,
    hicache: bool = False,
) -> DevicePlan:
    """Device pools of one rank, from measurements where there are any and from named estimates otherwise."""
    division = division_of(facts, model, server, gpus, hicache, effective_page_size(server, gpus))
    explanation = list(division.explanation)
    if server.device == "cpu":
        return _plan_cpu(model, server, division, explanation)

    assumptions: list[str] = []
    fraction, source = fraction_in_force(facts, model, server, gpus, observed, explanation)
    before = _before_load(server, gpus, observed, assumptions)
    weights = None
    if observed.kv_pool_bytes is not None:
        budget = observed.kv_pool_bytes
        explanation.append(f"KV budget = {format_count(budget)} bytes as observed = {format_gib(budget)}")
        measured_under = observed.mem_fraction_static
        if measured_under is None:
            assumptions.append("The KV budget was observed under the same mem_fraction_static as this plan's.")
        elif fraction is not None and fraction != measured_under and before is not None:
            change = int(before * (fraction - measured_under))
            budget += change
            explanation.append(
                f"KV budget at {fraction} = that of {measured_under} + {format_gib(before)} x "
                f"{fraction - measured_under:+.3f} = {format_gib(budget)}"
            )
        if before is not None and observed.available_after_load_bytes is not None:
            weights = before - observed.available_after_load_bytes
    else:
        budget, weights = _estimated_budget(facts, model, server, observed, before, fraction, explanation, assumptions)
    if weights is None and model.weights_bytes is not None:
        weights = math.ceil(model.weights_bytes / server.ranks)
        assumptions.append("The weights divide evenly over the ranks.")

    # Enough for a token, or there is nothing to divide.
    if budget < division.cells.allocated:
        raise _empty(budget, fraction)
    divided, lines = divide(division, budget)
    if divided.profiled < 1:
        raise _empty(budget, fraction)
    explanation += lines
    reserved = math.ceil(before * (1 - fraction)) if before is not None and fraction is not None else None
    return DevicePlan(
        device=server.device,
        division=division,
        pools=divided.pools,
        bytes_per_token=division.cells.allocated,
        page_size=division.page_size,
        max_total_num_tokens=divided.tokens,
        kv_pool_bytes=_used_bytes(divided),
        mem_fraction_static=fraction,
        fraction_source=source,
        available_before_load_bytes=before,
        weights_bytes=weights,
        reserved_bytes=reserved,
        headroom_bytes=observed.idle_bytes_per_gpu,
        raised=_raise_fraction(observed, division, budget, before, fraction, margin_bytes),
        explanation=tuple(explanation),
        assumptions=tuple(assumptions),
    )


def _used_bytes(divided: DevicePools) -> int:
    return sum(pool.used_bytes for pool in divided.pools)


def _empty(budget: int, fraction: float | None) -> Refusal:
    return Refusal(
        "kv_budget_empty",
        f"The weights leave {format_gib(budget)} a GPU for the KV cache at mem_fraction_static {fraction}.",
        "Raise mem_fraction_static, use more GPUs or a smaller model.",
        {"kv_budget_bytes": budget, "mem_fraction_static": fraction},
    )


def _plan_cpu(model: ModelFacts, server: ServerRequest, division: Division, explanation: list[str]) -> DevicePlan:
    if server.max_total_tokens is None:
        raise Refusal(
            "token_cap_missing",
            "device is cpu and max_total_tokens is not set.",
            "Set max_total_tokens: without a GPU there is no card to measure a KV budget on.",
        )
    divided, lines = divide_tokens(division, server.max_total_tokens)
    explanation += lines
    weights = math.ceil(model.weights_bytes / server.ranks) if model.weights_bytes is not None else None
    return DevicePlan(
        device="cpu",
        division=division,
        pools=divided.pools,
        bytes_per_token=division.cells.allocated,
        page_size=division.page_size,
        max_total_num_tokens=divided.tokens,
        kv_pool_bytes=_used_bytes(divided),
        mem_fraction_static=server.mem_fraction_static,
        fraction_source="given" if server.mem_fraction_static is not None else "not used",
        available_before_load_bytes=None,
        weights_bytes=weights,
        reserved_bytes=None,
        headroom_bytes=None,
        raised=None,
        explanation=tuple(explanation),
        assumptions=(),
    )


def _before_load(
    server: ServerRequest, gpus: tuple[GpuFacts, ...], observed: Observed, assumptions: list[str]
) -> int | None:
    if observed.available_before_load_bytes is not None:
        return observed.available_before_load_bytes
    card = smallest_card(gpus)
    if card is None:
        return None
    context = CONTEXT_BYTES_ONE_RANK if server.ranks == 1 else CONTEXT_BYTES_MORE_RANKS
    assumptions.append(
        f"CUDA context and collectives take {format_gib(context)} of a GPU before the weights are loaded "
        "(give observed.available_before_load_bytes to replace this)."
    )
    return card - context


def _estimated_budget(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    observed: Observed,
    before: int | None,
    fraction: float | None,
    explanation: list[str],
    assumptions: list[str],
) -> tuple[int, int]:
    if before is None or fraction is None:
        raise Refusal(
            "gpu_memory_unknown",
            "The memory of the GPUs is not known.",
            "Give topology.gpus[].memory_total_bytes, or observed.kv_pool_bytes of an earlier start.",
        )
    after = observed.available_after_load_bytes
    if after is None:
        if model.weights_bytes is None:
            raise Refusal(
                "weights_unknown",
                f"The size of the weights of {model.name} is not known.",
                "Give model.weights.total_bytes, or observed.available_after_load_bytes.",
            )
        after = before - math.ceil(model.weights_bytes / server.ranks)
        assumptions.append(
            "The weights divide evenly over the ranks and take no more on the GPU than in the files "
            "(give observed.available_after_load_bytes to replace this)."
        )
    multimodal = facts.multimodal_reservation_bytes if model.multimodal else 0
    budget = math.floor(after - before * (1 - fraction) - multimodal)
    explanation.append(
        f"KV budget = available after weights {format_gib(after)} - available before {format_gib(before)} x "
        f"(1 - {fraction})"
        + (f" - multimodal reservation {format_gib(multimodal)}" if multimodal else "")
        + f" = {format_gib(budget)}"
    )
    return budget, before - after


def _raise_fraction(
    observed: Observed,
    division: Division,
    budget: int,
    before: int | None,
    fraction: float | None,
    margin_bytes: int,
) -> FractionRaise | None:
    """The KV budget grows by C(before) times what the fraction grows by, so idle bytes less a margin can go there."""
    idle = observed.idle_bytes_per_gpu
    if idle is None or before is None or fraction is None or idle <= margin_bytes:
        return None
    # Down to three digits, as SGLang's own default is rounded; never up into the margin.
    raised = math.floor((fraction + (idle - margin_bytes) / before) * 1000 + 1e-9) / 1000
    if not fraction < raised < 1:
        return None
    gained = math.floor(before * (raised - fraction))
    more, _lines = divide(division, budget + gained)
    today, _lines = divide(division, budget)
    return FractionRaise(
        idle_bytes_per_gpu=idle,
        margin_bytes=margin_bytes,
        mem_fraction_static=raised,
        gained_bytes=gained,
        gained_tokens=more.profiled - today.profiled,
        budget_bytes=budget + gained,
        kv_pool_bytes=_used_bytes(more),
        max_total_num_tokens=more.profiled,
    )
