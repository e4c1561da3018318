# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What would give a server whose weights leave nothing a KV cache: a higher fraction, more GPUs, or so many bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.idle_memory import STEPS
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.goals import smallest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.goals_device import device_for_goal
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.layout_check import check_layout
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    Observed,
    PlanRequest,
    ServerRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# More GPUs than that share no layer.
_MOST_RANKS = 64
# More tokens than any card holds.
_MOST_TOKENS = 1 << 30
# Where the fraction that was asked for is too low for any number of GPUs.
_PLENTY = 0.85
NO_ROOM = frozenset({"kv_budget_empty", "state_pool_empty", "window_pool_too_small"})

Attempt = Callable[[ServerRequest, Observed, tuple[GpuFacts, ...]], DevicePlan]


def with_what_fits(
    refusal: Refusal, version: str, request: PlanRequest, attempt: Attempt, placed: tuple[GpuFacts, ...]
) -> Refusal:
    """The refusal with the smallest fraction that gives a page, else the fewest GPUs, else the missing bytes."""
    if refusal.code not in NO_ROOM or refusal.evidence.get("option") == "observed.kv_pool_bytes":
        return refusal
    cap = _smallest_cap(refusal, version, request, attempt, placed)
    if cap is not None:
        words = f"Set server.max_total_tokens to {cap} or more"
        if request.server.device != "cpu":
            words += ", leave it out, or raise swa_full_tokens_ratio"
        return _told(refusal, f"{words}.", smallest_max_total_tokens=cap)
    if request.server.device == "cpu":
        return refusal
    plain = replace(request.server, mem_fraction_auto=False, leave_bytes=None, target_tokens=None)

    def served(server: ServerRequest, observed: Observed, gpus: tuple[GpuFacts, ...]) -> bool:
        try:
            check_layout(version, request.model, server)
            return attempt(server, observed, gpus).max_total_num_tokens > 0
        except Refusal:
            return False

    def at(steps: int) -> bool:
        return served(replace(plain, mem_fraction_static=steps / STEPS), request.observed, placed)

    also = ""
    if plain.max_total_tokens is not None and refusal.code == "window_pool_too_small" and not at(STEPS - 1):
        # The cap stands in the way as well.
        plain, also = replace(plain, max_total_tokens=None), " without server.max_total_tokens"
    if at(STEPS - 1):
        least = smallest(1, STEPS - 1, at) / STEPS
        words = f"Set server.mem_fraction_static to {least} or more"
        if replace(plain, max_total_tokens=request.server.max_total_tokens) != request.server:
            words += " in place of the goal"
        return _told(
            refusal,
            f"{words}{also}, use more GPUs or a smaller model.",
            smallest_mem_fraction_static=least,
            **_without_cap(also),
        )
    tensor = request.server.tensor_parallel_size
    stages = request.server.pipeline_parallel_size
    for size in range(2 * tensor, _MOST_RANKS + 1, tensor):
        # As many GPUs of the same kind; what a rank of fewer measured does not hold for them.
        gpus = tuple(placed[rank % len(placed)] for rank in range(size * stages)) if placed else ()
        for fraction in dict.fromkeys((plain.mem_fraction_static, _PLENTY)):
            wider = replace(plain, tensor_parallel_size=size, gpus=(), mem_fraction_static=fraction)
            if not served(wider, Observed(), gpus):
                continue
            there = len(request.machine.gpus)
            words = f"No mem_fraction_static below 1 fits: set server.tensor_parallel_size to {size}"
            if fraction != plain.mem_fraction_static:
                words += f" and server.mem_fraction_static to {fraction}"
            words += also
            if size * stages > there:
                words += f", which takes {size * stages} GPUs of this kind (topology has {there})"
            return _told(
                refusal,
                f"{words}, or take a smaller model.",
                smallest_tensor_parallel_size=size,
                with_mem_fraction_static=fraction,
                **_without_cap(also),
            )
    evidence: Mapping[str, Any] = refusal.evidence
    missing = -int(evidence.get("kv_budget_bytes") or 0)
    lacking = f": {format_gib(missing)} a GPU are missing" if missing > 0 else ""
    return _told(
        refusal,
        f"No mem_fraction_static below 1 and no tensor_parallel_size up to {_MOST_RANKS} fits{lacking}. "
        "Take larger GPUs or a smaller model.",
        missing_bytes=max(0, missing),
    )


def _without_cap(also: str) -> dict[str, bool]:
    return {"without_max_total_tokens": True} if also else {}


def _smallest_cap(
    refusal: Refusal, version: str, request: PlanRequest, attempt: Attempt, placed: tuple[GpuFacts, ...]
) -> int | None:
    """The smallest max_total_tokens whose window pool holds a request; None where that alone does not help."""
    cap = request.server.max_total_tokens
    if refusal.code != "window_pool_too_small" or cap is None:
        return None

    def served(tokens: int | None) -> bool:
        server = replace(request.server, max_total_tokens=tokens)
        try:
            check_layout(version, request.model, server)
            device_for_goal(
                replace(request, server=server),
                placed,
                lambda server, observed: attempt(server, observed, placed),
                request.change_threshold,
            )
        except Refusal:
            return False
        return True

    most = cap
    while most < _MOST_TOKENS and not served(most):
        most *= 2
    return smallest(cap, most, served) if served(most) else None


def _told(refusal: Refusal, remedy: str, **evidence: float | None) -> Refusal:
    found = {"smallest_mem_fraction_static": None, "smallest_tensor_parallel_size": None, **evidence}
    return Refusal(refusal.code, refusal.message, remedy, {**refusal.evidence, **found})


def as_told(refusal: Refusal, request: PlanRequest) -> PlanRequest | None:
    """The request with the value that a refusal of the device's side names; None where it names none."""
    server = request.server
    told: Mapping[str, Any] = refusal.evidence
    uncapped = replace(server, max_total_tokens=None) if told.get("without_max_total_tokens") else server
    if refusal.code in NO_ROOM and told.get("smallest_max_total_tokens"):
        return replace(request, server=replace(server, max_total_tokens=told["smallest_max_total_tokens"]))
    if refusal.code in NO_ROOM and told.get("smallest_mem_fraction_static"):
        plain = replace(uncapped, mem_fraction_auto=False, leave_bytes=None, target_tokens=None)
        return replace(request, server=replace(plain, mem_fraction_static=told["smallest_mem_fraction_static"]))
    size, there = told.get("smallest_tensor_parallel_size"), len(request.machine.gpus)
    if refusal.code in NO_ROOM and size and size * server.pipeline_parallel_size <= there:
        plain = replace(uncapped, mem_fraction_auto=False, leave_bytes=None, target_tokens=None, gpus=())
        fraction = told.get("with_mem_fraction_static")
        wider = replace(plain, tensor_parallel_size=size, mem_fraction_static=fraction)
        return replace(request, server=wider, observed=Observed())
    if refusal.code == "target_tokens_out_of_reach":
        return replace(request, server=replace(server, target_tokens=told["largest_target_tokens"]))
    if refusal.code == "leave_bytes_too_large" and server.leave_bytes is not None:
        return replace(request, server=replace(server, leave_bytes=told["largest_leave_bytes"]))
    return None


def with_next(refusal: Refusal, following: Refusal) -> Refusal:
    """What stands in the way once a refusal's value is set: in its place where no value helps, else told with it."""
    if following.code == "hicache_unsupported":
        return following
    return Refusal(
        refusal.code,
        refusal.message,
        f"{refusal.remedy} With that alone another bound is passed: {following.message} {following.remedy}",
        {**refusal.evidence, "then": following.as_dict()},
    )
