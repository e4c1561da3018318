# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mem_fraction_static for a goal: the largest that leaves so much of a GPU idle, or the smallest with so many tokens.

The KV budget grows by what was free before the weights, times what the fraction grows by. So memory that a start was
seen to leave idle can go there, but for what is to stay. Where nothing was seen, the release's own default is the
largest safe fraction: its reserve is SGLang's estimate of what activations and graphs take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.idle_memory import STEPS, steps_leaving
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import smallest_card
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.goals import (
    LEAVE,
    TARGET,
    Choice,
    Goal,
    device_goal,
    smallest,
    stays,
    stays_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import MEASUREMENT_BYTES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    Observed,
    PlanRequest,
    ServerRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

Attempt = Callable[[ServerRequest, Observed], DevicePlan]
# The budget, or a part of it, is too small for anything; a higher fraction mends it.
_TOO_SMALL = frozenset({"kv_budget_empty", "state_pool_empty", "window_pool_too_small"})


@dataclass(frozen=True)
class _Ground:
    """What a choice stands on: a fraction, what is idle under it, and the memory that fractions are shares of.

    C(idle_bytes) is 0 where nothing was seen: then the fraction is the release's own. C(whole_bytes) are a lower and
    an upper bound.
    """

    fraction: float
    idle_bytes: int
    seen: bool
    whole_bytes: tuple[int, int]
    words: str

    def steps(self, leave_bytes: int) -> int:
        return steps_leaving(self.fraction, self.idle_bytes, leave_bytes, *self.whole_bytes)

    def most_left(self, steps: int) -> int:
        """The most bytes that the fraction of so many steps can be asked to leave."""
        lower = self.fraction - steps / STEPS
        return math.floor(self.idle_bytes + lower * self.whole_bytes[0 if lower > 0 else 1])


def device_for_goal(
    request: PlanRequest, gpus: tuple[GpuFacts, ...], attempt: Attempt, threshold: float
) -> tuple[ServerRequest, DevicePlan]:
    """The server with the fraction that its goal comes to, and the device's plan with it.

    C(attempt) plans the device for a server. A fraction that was observed in force, is safe and meets the goal stays
    when the chosen one would give no more tokens than the share C(threshold) of them.
    """
    server, observed = request.server, request.observed
    goal = device_goal(server)
    if goal is None:
        return server, attempt(server, observed)
    plain = replace(server, mem_fraction_auto=False, leave_bytes=None, target_tokens=None)

    def planned(steps: int) -> DevicePlan:
        return attempt(replace(plain, mem_fraction_static=steps / STEPS), observed)

    ground = _ground(request, plain, gpus, attempt)
    leave = _to_leave(goal, ground, request.margin_bytes)
    most = _with_in_force(ground, leave, observed.mem_fraction_static)
    lines = [_limit_line(ground, leave, most)]
    device = _planned_or_refused(goal, leave, most, ground, planned)
    if goal.kind == TARGET:
        _check_reach(goal.amount, device, server)
        fewest = smallest(1, most, lambda steps: _tokens(steps, planned) >= goal.amount)
        lines.append(
            f"mem_fraction_static {fewest / STEPS} is the smallest with {format_count(goal.amount)} tokens; "
            f"{most / STEPS} is the largest that is safe"
        )
        device = planned(fewest)
    current = observed.mem_fraction_static
    if current is not None and device.mem_fraction_static is not None and current <= most / STEPS:
        kept = attempt(replace(plain, mem_fraction_static=current), observed)
        in_force = Choice(current, kept.max_total_num_tokens)
        chosen = Choice(device.mem_fraction_static, device.max_total_num_tokens)
        if stays(goal, in_force, chosen, threshold):
            lines.append(stays_line("mem_fraction_static", in_force, chosen, threshold))
            device = kept
    said = device.assumptions
    if ground.seen:
        said = (*said, "The idle memory of a GPU was observed under these settings, but for mem_fraction_static.")
    return replace(plain, mem_fraction_static=device.mem_fraction_static), replace(
        device,
        fraction_source=goal.kind,
        # A goal that is met leaves nothing to propose.
        raised=None,
        explanation=(*lines, *device.explanation),
        assumptions=said,
    )


def _with_in_force(ground: _Ground, leave: int, current: float | None) -> int:
    """The largest safe fraction in steps; the one in force is safe while it is short by less than can be measured."""
    most = ground.steps(leave)
    steps = None if current is None else round(current * STEPS)
    if steps is None or steps / STEPS != current or steps > ground.steps(max(0, leave - MEASUREMENT_BYTES)):
        return most
    return max(most, steps)


def _ground(request: PlanRequest, plain: ServerRequest, gpus: tuple[GpuFacts, ...], attempt: Attempt) -> _Ground:
    observed = request.observed
    measured = [name for name in ("kv_pool_bytes", "idle_bytes_per_gpu") if getattr(observed, name) is not None]
    under = observed.mem_fraction_static
    if measured and under is None:
        raise Refusal(
            "observed_fraction_missing",
            f"observed.{' and observed.'.join(measured)} {'is' if len(measured) == 1 else 'are'} given without the "
            "mem_fraction_static under which that was measured.",
            "Give observed.mem_fraction_static, or a mem_fraction_static instead of a goal.",
        )
    if observed.idle_bytes_per_gpu is not None and under is not None:
        device = attempt(replace(plain, mem_fraction_static=under), observed)
        words = f"{format_gib(observed.idle_bytes_per_gpu)} of a GPU were seen idle under mem_fraction_static {under}"
        return _Ground(under, observed.idle_bytes_per_gpu, True, _whole(device, observed, gpus), words)
    default = _by_default(plain, observed, attempt)
    if isinstance(default, DevicePlan) and default.mem_fraction_static is not None:
        device, fraction = default, default.mem_fraction_static
        words = "the default of this release keeps what SGLang itself needs"
    elif under is not None:
        device, fraction = attempt(replace(plain, mem_fraction_static=under), observed), under
        words = "that fraction was observed to serve, and the default of this release is not known"
    else:
        why = default.message if isinstance(default, Refusal) else "The default of this release is not known."
        raise Refusal(
            "mem_fraction_static_unknown",
            f"{why} A goal chooses no fraction above it before a start was observed.",
            "Set mem_fraction_static, or give observed.idle_bytes_per_gpu and observed.mem_fraction_static.",
        )
    return _Ground(fraction, 0, False, _whole(device, observed, gpus), f"mem_fraction_static {fraction}: {words}")


def _by_default(plain: ServerRequest, observed: Observed, attempt: Attempt) -> DevicePlan | Refusal:
    """The device under the default of the release, or why that is not known."""
    try:
        return attempt(plain, replace(observed, mem_fraction_static=None))
    except Refusal as refusal:
        if refusal.code != "mem_fraction_static_unknown":
            raise
        return refusal


def _whole(device: DevicePlan, observed: Observed, gpus: tuple[GpuFacts, ...]) -> tuple[int, int]:
    """What a fraction is a share of, at least and at most: that of the whole card where none measured less."""
    before, base = device.available_before_load_bytes, device.fraction_base_bytes
    if before is None or base is None:
        raise Refusal(
            "gpu_memory_unknown",
            "The memory of the GPUs is not known, so that no mem_fraction_static can be chosen.",
            "Give topology.gpus[].memory_total_bytes, or observed.available_before_load_bytes.",
        )
    if observed.available_before_load_bytes is not None:
        return base, base
    return base, math.ceil(base * max(before, smallest_card(gpus) or before) / before)


def _to_leave(goal: Goal, ground: _Ground, margin_bytes: int) -> int:
    """Bytes that have to stay idle; without an observation they come on top of the release's own reserve."""
    if goal.kind == LEAVE:
        return goal.amount
    return margin_bytes if ground.seen else 0


def _limit_line(ground: _Ground, leave: int, most: int) -> str:
    if ground.seen or leave:
        return f"{ground.words}; {most / STEPS} is the largest that leaves {format_gib(leave)} idle" + (
            "" if ground.seen else " beside it"
        )
    return ground.words


def _plan_of(steps: int, planned: Callable[[int], DevicePlan]) -> DevicePlan | None:
    """The plan with that fraction; None where it is too low for any token."""
    if steps < 1:
        return None
    try:
        return planned(steps)
    except Refusal as refusal:
        if refusal.code not in _TOO_SMALL:
            raise
        return None


def _tokens(steps: int, planned: Callable[[int], DevicePlan]) -> int:
    device = _plan_of(steps, planned)
    return 0 if device is None else device.max_total_num_tokens


def _check_reach(tokens: int, largest: DevicePlan, server: ServerRequest) -> None:
    if largest.max_total_num_tokens >= tokens:
        return
    capped = server.max_total_tokens is not None and server.max_total_tokens < tokens
    raise Refusal(
        "target_tokens_out_of_reach",
        f"server.target_tokens is {format_count(tokens)}, and the largest safe mem_fraction_static, "
        f"{largest.mem_fraction_static}, gives {format_count(largest.max_total_num_tokens)} tokens.",
        f"Set server.target_tokens to {largest.max_total_num_tokens} or less"
        + (", raise server.max_total_tokens" if capped else ", use more or larger GPUs")
        + ", or set mem_fraction_static yourself.",
        {
            "largest_target_tokens": largest.max_total_num_tokens,
            "mem_fraction_static": largest.mem_fraction_static,
        },
    )


def _planned_or_refused(
    goal: Goal, leave: int, steps: int, ground: _Ground, planned: Callable[[int], DevicePlan]
) -> DevicePlan:
    """The plan with that fraction, or a Refusal that names the most bytes that can stay idle."""
    device = _plan_of(steps, planned)
    if device is not None:
        return device
    highest = ground.steps(0)
    if _plan_of(highest, planned) is None:
        # Nothing can be left: the refusal of the largest safe fraction says why.
        return planned(max(1, highest))
    most = ground.most_left(smallest(max(1, steps + 1), highest, lambda higher: _plan_of(higher, planned) is not None))
    raise Refusal(
        "leave_bytes_too_large",
        f"With {format_gib(leave)} of each GPU left idle, nothing remains for the KV cache.",
        f"Set {'server.leave_bytes' if goal.kind == LEAVE else 'margin_bytes'} to {most} or less.",
        {"largest_leave_bytes": most},
    )
