# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The canary: a prompt that is driven out of the device pool and has to come back from the host tier. No I/O.

The canary sends prompts as token ids, so their length is exact whatever the tokenizer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import (
    Ask,
    Check,
    Generation,
    Proof,
    error_of,
    generate_body,
    read_generation,
    unique_prompt,
)

# Two prompts share their first tokens by chance when pages are small; so many cached tokens prove nothing.
CHANCE_TOKENS = 16
COLD_ATTEMPTS = 3
ANSWER_TOKENS = 8
# Prompts that drive the canary out: long, so that few are needed, and far from what one batch can hold.
LONGEST_CHURN_PROMPT = 4096


@dataclass(frozen=True)
class CanaryLimits:
    """How far the canary may go. None: computed from the device pool."""

    prompt_tokens: int = 512
    churn_max_tokens: int | None = None
    churn_max_requests: int = 2000


@dataclass(frozen=True)
class ChurnPlan:
    """Unique prompts that together are sure to fill the device pool, so that the least recently used one leaves it."""

    prompt_tokens: int
    first_tokens: int
    max_tokens: int
    max_requests: int


def plan_churn(capacity: int, canary_tokens: int, context: int | None, limits: CanaryLimits) -> ChurnPlan:
    """C(capacity): tokens of the device pool. The first round is one pool full; a second one follows if need be."""
    longest = min(LONGEST_CHURN_PROMPT, max(1, capacity // 4))
    if context is not None:
        longest = min(longest, max(1, context - 2 * ANSWER_TOKENS))
    return ChurnPlan(
        prompt_tokens=longest,
        first_tokens=max(1, capacity - canary_tokens) + longest,
        max_tokens=limits.churn_max_tokens or 3 * capacity,
        max_requests=limits.churn_max_requests,
    )


def canary_length(capacity: int, context: int | None, asked: int) -> int:
    """The canary is to be small beside the pool, and within what the server takes."""
    length = min(asked, max(1, capacity // 4))
    return min(length, max(1, context - 2 * ANSWER_TOKENS)) if context is not None else length


class _Refused(Exception):
    """A request of the canary was not answered as it should be."""


def _send(
    ask: Ask, prompt: Sequence[int], answer_tokens: int, deadline: float, clock: Callable[[], float]
) -> Generation:
    if clock() >= deadline:
        raise _Refused("there was no time left")
    answer = ask("POST", "/generate", generate_body(prompt, answer_tokens))
    done = read_generation(answer)
    if done is None:
        raise _Refused(error_of(answer))
    return done


def run_canary(
    ask: Ask,
    limits: CanaryLimits,
    proof: Proof,
    capacity: int,
    context: int | None,
    dice: random.Random,
    deadline: float,
    clock: Callable[[], float],
) -> None:
    length = canary_length(capacity, context, limits.prompt_tokens)
    plan = plan_churn(capacity, length, context, limits)
    canary: dict[str, Any] = {"prompt_tokens": length, "cold": None, "warm": None, "churn": None, "hit": None}
    canary["same_text"] = None
    proof.canary = canary
    step = "cold"
    try:
        prompt, cold = _cold(ask, dice, length, deadline, clock)
        canary["cold"] = {"cached_tokens": cold.cached_tokens}
        chance = cold.cached_tokens <= min(CHANCE_TOKENS, length // 4)
        proof.checks.append(
            Check("canary_cold", chance, cold.cached_tokens, 0, "A prompt that was never sent is said to be cached.")
        )
        if not chance:
            return
        step = "warm"
        warm = _send(ask, prompt, ANSWER_TOKENS, deadline, clock)
        canary["warm"] = {"cached_tokens": warm.cached_tokens, "device": warm.device, "host": warm.host}
        step = "churn"
        hit = _churn_until_gone(ask, prompt, plan, dice, canary, deadline, clock)
    except _Refused as refusal:
        proof.checks.append(
            Check(f"canary_{step}", False, str(refusal), "an answer", f"A request of the canary failed: {refusal}.")
        )
        return
    canary["hit"] = {"cached_tokens": hit.cached_tokens, "device": hit.device, "host": hit.host}
    # Same prompt, same cached prefix, computed alike from there: what differs then is the cache's content.
    canary["same_text"] = (hit.text, hit.output_ids) == (warm.text, warm.output_ids)
    canary["same_text_as_cold"] = (hit.text, hit.output_ids) == (cold.text, cold.output_ids)
    proof.checks += _judge_hit(hit, canary, length)


def _cold(
    ask: Ask, dice: random.Random, length: int, deadline: float, clock: Callable[[], float]
) -> tuple[list[int], Generation]:
    """A prompt that nobody sent before; another one if its first tokens are known by chance."""
    for _unused in range(COLD_ATTEMPTS):
        prompt = unique_prompt(dice, length)
        cold = _send(ask, prompt, ANSWER_TOKENS, deadline, clock)
        if cold.cached_tokens == 0:
            break
    return prompt, cold


def _churn_until_gone(
    ask: Ask,
    prompt: Sequence[int],
    plan: ChurnPlan,
    dice: random.Random,
    canary: dict[str, Any],
    deadline: float,
    clock: Callable[[], float],
) -> Generation:
    """Fills the device pool with other prompts, then sends the canary again.

    Asking makes it the most recently used one, so it is asked once after a pool full, and if it was still on the
    device, once more after all that the limits leave.
    """
    requests = tokens = 0
    goal = min(plan.first_tokens, plan.max_tokens)
    canary["churn"] = {"requests": 0, "tokens": 0}
    while True:
        while tokens < goal and requests < plan.max_requests:
            done = _send(ask, unique_prompt(dice, plan.prompt_tokens), 1, deadline, clock)
            requests += 1
            tokens += done.prompt_tokens or plan.prompt_tokens
            canary["churn"] = {"requests": requests, "tokens": tokens}
        hit = _send(ask, prompt, ANSWER_TOKENS, deadline, clock)
        on_device = hit.cached_tokens if hit.device is None else hit.device
        spent = requests >= plan.max_requests or tokens >= plan.max_tokens
        if hit.host or on_device <= CHANCE_TOKENS or spent:
            return hit
        goal = plan.max_tokens


def _judge_hit(hit: Generation, canary: Mapping[str, Any], length: int) -> list[Check]:
    churn = canary["churn"]
    if hit.host is None:
        problem = "The server does not say where cached tokens come from; SGLang 0.5.9 and newer do."
    elif hit.device and not hit.host:
        problem = (
            f"The canary is still on the device after {churn['requests']} other prompts of "
            f"{format_count(churn['tokens'])} tokens, so the host tier was not asked; raise the limits of the churn."
        )
    else:
        problem = (
            "The canary left the device and did not come back from the host tier: write policy, io backend or layout "
            "keep it from being stored, or the host tier is smaller than the device pool."
        )
    enough = hit.host is not None and hit.host > min(CHANCE_TOKENS, length // 4)
    checks = [Check("canary_host_hit", enough, hit.host, f"more than {min(CHANCE_TOKENS, length // 4)}", problem)]
    if enough:
        checks.append(
            Check(
                "canary_same_text",
                canary["same_text"],
                "same" if canary["same_text"] else "different",
                "same",
                "The text from the host tier differs from the text from the device at temperature 0: what comes back "
                "from host memory is not what was stored.",
            )
        )
    return checks
