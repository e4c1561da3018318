# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The burn-in: so many short requests, all different, for servers that answer the first ones and then no more. No I/O.

The first ones go alone and say how long a request takes; from then on one that takes many times longer has hung, and
nothing is sent after it. With several data parallel ranks each gets its share, so that one that hangs has a name.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import (
    Check,
    Client,
    Generation,
    generate_call,
    read_generation,
    unique_prompt,
)

PROMPT_TOKENS = 32
ANSWER_TOKENS = 16
# So many go alone, before any others.
FIRST_REQUESTS = 2
# A request has hung when it takes so many times longer than the slowest of the first ones, and longer than the time
# after which the server itself takes a request of its own for lost.
HANG_FACTOR = 10.0
HANG_FLOOR_SECONDS = 20.0
# What is slow: so many times the median, and by so much.
OUTLIER_FACTOR = 3.0
OUTLIER_SECONDS = 1.0
# What cannot be told from fewer answers.
LEAST_ANSWERS = 4
# Sampling from logits that are no numbers gives the first token of the vocabulary.
FIRST_TOKEN = 0


@dataclass(frozen=True)
class BurnInLimits:
    requests: int = 8
    at_once: int = 2
    max_seconds: float = 120.0


@dataclass(frozen=True)
class Sent:
    """One request, where it went, and what came; None if it was not sent."""

    number: int
    rank: str | None
    answer: Answer | None
    done: Generation | None


@dataclass(frozen=True)
class BurnIn:
    check: Check
    figures: dict[str, Any]
    problems: tuple[Problem, ...] = ()


def hang_seconds(first: Sequence[float]) -> float:
    """When a request counts as hung, from what the first ones took."""
    return max(HANG_FLOOR_SECONDS, HANG_FACTOR * max(first, default=0.0))


def run_burn_in(
    client: Client, limits: BurnInLimits, dice: random.Random, rank_field: str, ranks: int, request_seconds: float
) -> BurnIn:
    """C(ranks): data parallel ranks that requests can be sent to by number; each gets one request at least."""
    requests = max(limits.requests, ranks)
    # Nothing is begun after it; what was begun has the time of a request.
    until = client.clock() + limits.max_seconds
    routes = [{rank_field: number % ranks} if ranks > 1 else None for number in range(requests)]
    prompts = [unique_prompt(dice, PROMPT_TOKENS) for _unused in range(requests)]

    def sent(numbers: range, seconds: float) -> list[Sent]:
        calls = [generate_call(prompts[number], ANSWER_TOKENS, routes[number], seconds) for number in numbers]
        answers = client.send_all(calls, limits.at_once, _is_wrong)
        return [
            Sent(
                number,
                f"DP{number % ranks}" if ranks > 1 else None,
                answer,
                None if answer is None else read_generation(answer),
            )
            for number, answer in zip(numbers, answers)
        ]

    began = client.clock()
    limit = request_seconds
    everything: list[Sent] = []
    # In portions, so that the time that is left is looked at between them.
    for numbers in _portions(requests, limits.at_once):
        if client.clock() >= until:
            break
        everything += sent(numbers, limit)
        if any(one.answer is None or _is_wrong(one.answer) for one in everything):
            break
        first = [one.answer.seconds for one in everything[:FIRST_REQUESTS] if one.answer is not None]
        limit = min(request_seconds, hang_seconds(first))
    figures = _figures(everything, requests, limits.at_once, limit, client.clock() - began)
    wrong = _worst(everything)
    if wrong is not None and not _ran_out(wrong, limit):
        return BurnIn(_failed(wrong, figures), figures)
    if wrong is not None or len(everything) < requests:
        return _cut_short(figures, limits)
    garbage = _garbage([one.done for one in everything if one.done is not None], requests)
    if isinstance(garbage, Check):
        return BurnIn(garbage, figures)
    return BurnIn(Check("burn_in", True, requests, requests), figures, (*garbage, *_slow(figures)))


def _portions(requests: int, at_once: int) -> Iterator[range]:
    for number in range(min(FIRST_REQUESTS, requests)):
        yield range(number, number + 1)
    for start in range(FIRST_REQUESTS, requests, at_once):
        yield range(start, min(start + at_once, requests))


def _ran_out(wrong: Sent, limit: float) -> bool:
    """Whether it was cut by the time for the whole check rather than by that of a request."""
    return wrong.answer is not None and wrong.answer.late and wrong.answer.seconds < 0.9 * limit


def _is_wrong(answer: Answer) -> bool:
    done = read_generation(answer)
    return done is None or _why(done) is not None


def _why(done: Generation) -> str | None:
    """What a finished request lacks; drafts may make an answer longer, and a release may count tokens of its own."""
    if done.completion_tokens < ANSWER_TOKENS:
        return f"{done.completion_tokens} tokens instead of the {ANSWER_TOKENS} that were asked for"
    if done.prompt_tokens is not None and done.prompt_tokens < PROMPT_TOKENS:
        return f"a prompt of {done.prompt_tokens} tokens instead of the {PROMPT_TOKENS} that were sent"
    if done.finish not in (None, "length"):
        return f"the finish reason {done.finish} instead of length"
    return None


def _worst(everything: Sequence[Sent]) -> Sent | None:
    """The one that hung before one that was refused, as others are often refused because one hangs."""
    wrong = [one for one in everything if one.answer is not None and _is_wrong(one.answer)]
    return min(wrong, key=lambda one: (not (one.answer is not None and one.answer.late), one.number), default=None)


def _figures(everything: Sequence[Sent], asked: int, at_once: int, limit: float, took: float) -> dict[str, Any]:
    done = [one.done for one in everything if one.done is not None]
    seconds = [round(one.seconds, 3) for one in done]
    usual = median(seconds) if seconds else None
    return {
        "asked": asked,
        "answered": len(done),
        "at_once": at_once,
        "tokens": sum((one.prompt_tokens or PROMPT_TOKENS) + one.completion_tokens for one in done),
        "elapsed_seconds": round(took, 3),
        "median_seconds": usual,
        "slowest_seconds": max(seconds, default=None),
        "hang_seconds": round(limit, 3),
        "outliers": [
            {"request": one.number + 1, "rank": one.rank, "seconds": round(one.done.seconds, 3)}
            for one in everything
            # The first one may have to compile.
            if one.done is not None and usual is not None and one.number and _is_slow(one.done.seconds, usual)
        ],
    }


def _is_slow(seconds: float, usual: float) -> bool:
    return seconds > OUTLIER_FACTOR * usual and seconds > usual + OUTLIER_SECONDS


def _failed(wrong: Sent, figures: dict[str, Any]) -> Check:
    number, of = wrong.number + 1, figures["asked"]
    where = "" if wrong.rank is None else f" (data parallel rank {wrong.rank[2:]})"
    answer = wrong.answer
    values = {
        "request": number,
        "requests": of,
        "answered": figures["answered"],
        "hang_seconds": figures["hang_seconds"],
    }
    if answer is not None and answer.late:
        return Check(
            "burn_in",
            False,
            figures["answered"],
            of,
            "burn_in_hang",
            f"Request {number} of {of}{where} did not finish within {format_seconds(answer.seconds)}, after "
            f"{figures['answered']} that did, with a median of {format_seconds(figures['median_seconds'] or 0.0)}: the "
            "server has stopped generating, or far more than this keeps it busy.",
            "Restart it, and look in its log for a rank that stopped, a watchdog or a collective that waits.",
            wrong.rank,
            values,
        )
    said = _why(wrong.done) if wrong.done is not None else None if answer is None else answer.words()
    return Check(
        "burn_in",
        False,
        figures["answered"],
        of,
        "burn_in_failed",
        f"Request {number} of {of}{where} was not answered as it should be: {said}.",
        "Look at the log of the unit for what happened to it; a server that aborts requests cannot take traffic.",
        wrong.rank,
        values,
    )


def _cut_short(figures: dict[str, Any], limits: BurnInLimits) -> BurnIn:
    problem = Problem(
        "burn_in_cut_short",
        "warning",
        f"The burn-in was ended after {format_seconds(limits.max_seconds)}, with {figures['answered']} of "
        f"{figures['asked']} requests answered and none of them wrong.",
        "Raise burn_in_max_seconds, or lower burn_in_requests.",
    )
    return BurnIn(Check("burn_in", None, figures["answered"], figures["asked"]), figures, (problem,))


def _slow(figures: dict[str, Any]) -> list[Problem]:
    slow = figures["outliers"]
    if not slow:
        return []
    said = ", ".join(f"request {one['request']} took {format_seconds(one['seconds'])}" for one in slow[:5])
    return [
        Problem(
            "burn_in_outliers",
            "warning",
            f"{len(slow)} of {figures['answered']} requests of the burn-in were slow: {said}, where the median is "
            f"{format_seconds(figures['median_seconds'])}.",
            "Run it again when nothing else is served; if one rank is slow each time, look at its GPU's clocks and "
            "links.",
        )
    ]


def _garbage(done: Sequence[Generation], requests: int) -> Check | list[Problem]:
    """What many answers to different prompts have in common, which a single one may have by chance."""
    if len(done) < LEAST_ANSWERS:
        return []
    ids = Counter(token for one in done for token in one.output_ids)
    if set(ids) == {FIRST_TOKEN}:
        return Check(
            "burn_in",
            False,
            f"token {FIRST_TOKEN} {ids[FIRST_TOKEN]} times",
            "words",
            "answers_garbage",
            f"All answers to {len(done)} different prompts consist of token {FIRST_TOKEN} alone, which is what logits "
            "that are no numbers give.",
            "Look at the data type, the quantisation and the weights: they overflow, or do not belong together.",
            values={"requests": requests, "token": FIRST_TOKEN},
        )
    if all(not one.text.strip() for one in done):
        return [_alike(f"All answers to {len(done)} different prompts are empty texts.")]
    if len({one.said for one in done}) == 1:
        return [_alike(f"All answers to {len(done)} different prompts are the same.")]
    return []


def _alike(message: str) -> Problem:
    return Problem(
        "answers_alike",
        "warning",
        message,
        "Read some answers: a model may do so with prompts that mean nothing, and one with wrong weights does.",
    )
