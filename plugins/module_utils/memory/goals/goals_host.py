# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ratio of HiCache for a goal: the largest that every bound of the host allows, or the smallest with enough tokens.

The choice is a ratio in hundredths: finer than a size in whole GB for every device pool below 100 GB a rank, and to the
server's own check the same.

What is available differs from look to look, and is less by page tables and the like once the pools are there. So the
largest is chosen with a slack below every bound, which threshold.py derives. What is in force may use that slack up: it
is left only when a bound itself is passed, and for more only when that leaves twice the slack. So available memory that
moves by less than the slack, up or down, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.goals import (
    LEAVE,
    TARGET,
    Choice,
    host_goal,
    smallest,
    stays,
    stays_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import (
    LEAST_SLACK_BYTES,
    SLACK_DIVISOR,
    slack_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    BY_FRACTION,
    BY_RATIO,
    RATIO_STEP,
    Sizing,
    largest_fitting,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_candidate import largest_ratio_for
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_plan import HostPlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_room import HostRoom
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_verdict import SMALL_RATIO, judge_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# The host's plan for a request and a sizing.
Attempt = Callable[[PlanRequest, Sizing], HostPlan]


def sizing_for_goal(
    request: PlanRequest,
    facts: VersionFacts,
    device: DevicePlan,
    attempt: Attempt,
    current_ratio: float | None,
    threshold: float,
) -> tuple[PlanRequest, Sizing, list[str]] | None:
    """Request, sizing and the choice in words, where HiCache has a goal; None where it has none.

    C(current_ratio) is in force; where it fits and meets the goal, it stays when the chosen one would gain no more
    tokens than the share C(threshold) of them, or no more than the slack.
    """
    goal = host_goal(request.hicache)
    if goal is None:
        return None
    if goal.kind == LEAVE:
        request = replace(request, host_reserve_bytes=goal.amount)

    def sized(ratio: float) -> HostPlan:
        return attempt(request, Sizing(BY_RATIO, ratio=ratio))

    def planned(hundredths: int) -> HostPlan:
        return sized(hundredths / RATIO_STEP)

    least = _least(facts, device, planned)
    bounded = planned(least)
    bound = None
    if bounded.limits and not (goal.kind == TARGET and request.allow_oversubscription):
        target = goal.amount if goal.kind == TARGET else 0
        bound = _largest(facts, device, bounded, lambda: sized(_for_tokens(target, least, None, planned)))
    if goal.kind == TARGET:
        ratio = _for_tokens(goal.amount, least, bound, planned)
        lines = [
            f"HiCache ratio {ratio} is the smallest, in hundredths, with {format_count(goal.amount)} tokens a rank"
        ]
    elif bound is None:
        raise Refusal(
            "host_memory_unknown",
            f"hicache.{goal.kind} is given, and the available host memory is not known.",
            "Give topology.host.memory_available_bytes, or set hicache.ratio.",
        )
    else:
        roomy = _with_slack(bounded, 1)
        ratio = roomy or least / RATIO_STEP
        lines = [_slack_line(bounded, ratio, roomy is not None)]
        lines += _by_share(facts, device, bounded, sized(ratio).tokens, lambda sizing: attempt(request, sizing))
    if current_ratio is not None and least / RATIO_STEP <= current_ratio <= (bound or current_ratio):
        in_force, chosen = Choice(current_ratio, sized(current_ratio).tokens), Choice(ratio, sized(ratio).tokens)
        if goal.kind != TARGET and _within_slack(bounded, current_ratio, ratio):
            lines.append(
                f"HiCache ratio {current_ratio:g} is in force and stays: every bound allows it, and {ratio:g} is no "
                "further off than the slack"
            )
            ratio = current_ratio
        elif stays(goal, in_force, chosen, threshold):
            lines.append(stays_line("HiCache ratio", in_force, chosen, threshold))
            ratio = current_ratio
    return request, Sizing(BY_RATIO, ratio=ratio), lines


def _by_share(
    facts: VersionFacts, device: DevicePlan, bounded: HostPlan, tokens: int, planned: Callable[[Sizing], HostPlan]
) -> list[str]:
    """What the server would arrive at by itself, where its check of a ratio stands in the way of a larger one."""
    if not facts.auto_sizes_host_pool or not bounded.limits[0].name.startswith("guard"):
        return []
    share = planned(Sizing(BY_FRACTION, fraction=facts.default_host_memory_fraction))
    if judge_host(facts, device, share) is not None or share.tokens <= tokens:
        return []
    return [
        f"with hicache.host_memory_fraction {facts.default_host_memory_fraction} in its place the server, which books "
        f"all pools against one snapshot then, would keep {format_count(share.tokens)} tokens a rank instead of "
        f"{format_count(tokens)}"
    ]


def _least(facts: VersionFacts, device: DevicePlan, planned: Callable[[int], HostPlan]) -> int:
    """The smallest ratio that the release takes, in hundredths; some insist on more tokens than the device has."""

    floor = device.max_total_num_tokens if facts.smaller_than_device_is_fatal else 0
    return smallest(1, RATIO_STEP + 1, lambda hundredths: planned(hundredths).tokens > floor)


def _largest(facts: VersionFacts, device: DevicePlan, bounded: HostPlan, wanted: Callable[[], HostPlan]) -> float:
    """The largest ratio of all bounds; where there is none, why C(wanted) cannot be had."""
    if bounded.largest_ratio is not None:
        return bounded.largest_ratio
    refusal = judge_host(facts, device, wanted())
    if refusal is not None:
        raise refusal
    raise Refusal(
        "host_memory_short",
        f"No HiCache ratio fits: a rank may pin {format_gb(bounded.limits[0].bytes_per_rank)}.",
        "Free host memory, lower server.max_total_tokens, or set hicache.enabled to false.",
        {"largest_ratio": None},
    )


def _less_slack(size_bytes: int | None, available_bytes: int | None, times: int) -> int | None:
    return None if size_bytes is None else size_bytes - times * slack_bytes(available_bytes or 0)


def _narrower(room: HostRoom, times: int) -> HostRoom:
    """The room with so many times the slack taken off everything that is available."""
    return replace(
        room,
        available_bytes=_less_slack(room.available_bytes, room.available_bytes, times),
        group_bytes=_less_slack(room.group_bytes, room.group_bytes, times),
        nodes=tuple(
            replace(node, limit_bytes=_less_slack(node.limit_bytes, node.available_bytes, times)) for node in room.nodes
        ),
    )


def _with_slack(bounded: HostPlan, times: int) -> float | None:
    """The largest ratio that leaves so many times the slack below every bound; None if there is none."""
    if bounded.candidate is None:
        return None
    narrow = replace(bounded.candidate, room=_narrower(bounded.room, times))
    return largest_ratio_for(narrow, bounded.limits[0].bytes_per_rank)


def _within_slack(bounded: HostPlan, current: float, chosen: float) -> bool:
    """Whether the ratio in force, which every bound allows, is one that a fall or rise by the slack accounts for."""
    return current != chosen and (current > chosen or current >= (_with_slack(bounded, 2) or 0))


def _slack_line(bounded: HostPlan, ratio: float, roomy: bool) -> str:
    tightest = bounded.limits[0].name
    node = next((bound.node for bound in bounded.bounds if bound.name == tightest and bound.node is not None), None)
    available = bounded.available_bytes if node is None else node.available_bytes
    slack = (
        f"a slack of {format_gb(slack_bytes(available or 0))} (1/{SLACK_DIVISOR} of what is available, at least "
        f"{format_gb(LEAST_SLACK_BYTES)}), by which available memory may fall before a setting in force has to change"
    )
    if roomy:
        return (
            f"HiCache ratio {ratio} is the largest, in hundredths, that {bounded.limits[0].allowing} beside "
            f"{format_gb(bounded.reserve_bytes)} left available and {slack}"
        )
    return (
        f"HiCache ratio {ratio} is the smallest that the release takes, and {bounded.limits[0].allowing} none beside "
        f"{format_gb(bounded.reserve_bytes)} left available and {slack}"
    )


def _for_tokens(tokens: int, least: int, bound: float | None, planned: Callable[[int], HostPlan]) -> float:
    """The smallest ratio with so many tokens a rank, up to C(bound) where there is one."""
    top = least if bound is None else round(bound * RATIO_STEP)
    while bound is None and planned(top).tokens < tokens:
        top *= 2
    reach = planned(top).tokens
    if reach < tokens:
        raise Refusal(
            "host_target_tokens_out_of_reach",
            f"hicache.target_tokens is {format_count(tokens)}, and the largest ratio that fits, {bound}, gives "
            f"{format_count(reach)} tokens a rank.",
            f"Set hicache.target_tokens to {reach} or less, or give the host more memory.",
            {"largest_target_tokens": reach, "largest_ratio": bound},
        )
    return smallest(least, top, lambda hundredths: planned(hundredths).tokens >= tokens) / RATIO_STEP


def with_fewer_tokens(
    refusal: Refusal, tokens: int, page_size: int, sizing: Sizing, fits: Callable[[int, Sizing], bool]
) -> Refusal:
    """The refusal with the most tokens on the device beside which the host tier fits, where no ratio does beside all.

    Where what was asked for fits beside no tokens at all, the same with a small ratio.
    """
    if refusal.evidence.get("largest_ratio", 0) is not None or refusal.evidence.get("largest_size_gb") is not None:
        return refusal
    for tried in (sizing, Sizing(BY_RATIO, ratio=SMALL_RATIO)):
        most = page_size * largest_fitting(tokens // page_size, partial(_pages_fit, page_size, tried, fits))
        if not most:
            continue
        also = "" if tried is sizing else f"hicache.ratio {SMALL_RATIO} and "
        return Refusal(
            refusal.code,
            refusal.message,
            f"{refusal.remedy} With {also}server.max_total_tokens {most} or less it fits.",
            {
                **refusal.evidence,
                "largest_max_total_tokens": most,
                "with_ratio": None if tried is sizing else SMALL_RATIO,
            },
        )
    return refusal


def _pages_fit(page_size: int, sizing: Sizing, fits: Callable[[int, Sizing], bool], pages: int) -> bool:
    return fits(pages * page_size, sizing)
