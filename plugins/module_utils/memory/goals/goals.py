# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a setting is chosen for, instead of being given: the largest that is safe, bytes to leave, or tokens to reach.

A goal stands in the place of a setting: of mem_fraction_static on the device (goals_device.py), of ratio, size and
share on the host (goals_host.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

AUTO, LEAVE, TARGET = "auto", "leave_bytes", "target_tokens"


@dataclass(frozen=True)
class Goal:
    """C(amount) is in bytes or tokens, 0 for auto."""

    kind: str
    amount: int = 0


@dataclass(frozen=True)
class Choice:
    """A value of a setting, and the tokens that it gives."""

    value: float
    tokens: int


def _only_one(given: Mapping[str, object], code: str, what: str) -> str | None:
    """The name of what is given, if anything; more than one is refused."""
    named = [name for name, value in given.items() if value is not None and value is not False]
    if len(named) > 1:
        raise Refusal(
            code,
            f"{' and '.join(named)} are given together, and each of them decides {what}.",
            "Keep one.",
            {name: given[name] for name in named},
        )
    return named[0] if named else None


def _goal(where: str, auto: bool, leave_bytes: int | None, target_tokens: int | None) -> Goal | None:
    if leave_bytes is not None:
        if leave_bytes < 0:
            raise Refusal("value_negative", f"{where}.leave_bytes is {leave_bytes}.", "Expected 0 bytes or more.")
        return Goal(LEAVE, leave_bytes)
    if target_tokens is not None:
        if target_tokens < 1:
            raise Refusal(
                "value_not_positive", f"{where}.target_tokens is {target_tokens}.", "Expected a number above 0."
            )
        return Goal(TARGET, target_tokens)
    return Goal(AUTO) if auto else None


def device_goal(server: ServerRequest) -> Goal | None:
    """What mem_fraction_static is chosen for; None where it is given or left to the release."""
    _only_one(
        {
            "server.mem_fraction_static": server.mem_fraction_static,
            "server.mem_fraction_auto": server.mem_fraction_auto,
            "server.leave_bytes": server.leave_bytes,
            "server.target_tokens": server.target_tokens,
        },
        "mem_fraction_ambiguous",
        "mem_fraction_static",
    )
    goal = _goal("server", server.mem_fraction_auto, server.leave_bytes, server.target_tokens)
    if goal is not None and server.device == "cpu":
        name = "mem_fraction_auto" if goal.kind == AUTO else goal.kind
        raise Refusal(
            "goal_needs_gpu",
            f"server.{name} is given and server.device is cpu, where mem_fraction_static decides nothing.",
            "Set server.max_total_tokens instead.",
        )
    return goal


def host_goal(hicache: HiCacheRequest) -> Goal | None:
    """What the ratio of HiCache is chosen for; None where the size of its pools is given or left to the release."""
    if not hicache.enabled:
        return None
    _only_one(
        {
            "hicache.ratio": hicache.ratio,
            "hicache.size_gb": hicache.size_gb,
            "hicache.host_memory_fraction": hicache.host_memory_fraction,
            "hicache.auto": hicache.auto,
            "hicache.leave_bytes": hicache.leave_bytes,
            "hicache.target_tokens": hicache.target_tokens,
        },
        "hicache_sizing_ambiguous",
        "the size of the host pools",
    )
    return _goal("hicache", hicache.auto, hicache.leave_bytes, hicache.target_tokens)


def stays(goal: Goal, in_force: Choice, chosen: Choice, threshold: float) -> bool:
    """Whether a value in force, which is safe, stays: it meets the goal, and the chosen one is a small step off.

    A step is small that gains less than the share C(threshold) of the tokens. For a target, which takes the smallest
    value, it is one that saves less than that.
    """
    if in_force.value == chosen.value:
        return False
    if goal.kind == TARGET:
        return goal.amount <= in_force.tokens < chosen.tokens * (1 + threshold)
    return chosen.tokens < in_force.tokens * (1 + threshold)


def stays_line(setting: str, in_force: Choice, chosen: Choice, threshold: float) -> str:
    """Why a value stays, in a sentence."""
    return (
        f"{setting} {in_force.value:g} is in force and stays: {chosen.value:g} would give "
        f"{format_count(chosen.tokens)} tokens instead of {format_count(in_force.tokens)}, and a change has to be "
        f"worth {threshold * 100:g} %"
    )


def smallest(low: int, high: int, reached: Callable[[int], bool]) -> int:
    """The smallest whole number from C(low) to C(high) at which C(reached) holds, as it does at C(high)."""
    while low < high:
        middle = (low + high) // 2
        if reached(middle):
            high = middle
        else:
            low = middle + 1
    return high
