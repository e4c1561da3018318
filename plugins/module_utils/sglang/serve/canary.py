# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The canary: a prompt that is driven out of the device pool and has to come back from the host tier. No I/O.

The canary sends prompts as token ids, so their length is exact whatever the tokenizer. It is about the caches of one
data parallel rank; each has its own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import ServingFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import (
    Check,
    Client,
    Generation,
    generate_call,
    read_generation,
    unique_prompt,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.churn import CanaryLimits, ChurnPlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.drafts import accept_length, judge_draft
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.same_text import judge_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.source import Source, judge_hit, source_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.traffic import busy, read_traffic

COLD_ATTEMPTS = 3
# Twice at least, so that it is known whether the server says the same of the same state.
LEAST_WARM = 2
# When the text that came back differs, what is on the device now is asked for so often again.
REPEATS = 2
# After so many prompts of the churn it is looked whether others need the server.
TRAFFIC_EVERY = 16


@dataclass(frozen=True)
class Course:
    """What one canary is run with. C(until): when the churn has to end, on the client's clock.

    C(route): the field that sends a request to the C(rank), none where there is one alone.
    """

    client: Client
    release: ServingFacts
    limits: CanaryLimits
    plan: ChurnPlan
    dice: random.Random
    until: float
    rank: str | None = None
    route: Mapping[str, int] | None = None
    keeps_draft: bool = True


@dataclass
class Canary:
    """What it saw; filled as it goes, so that what failed halfway is told."""

    figures: dict[str, Any]
    checks: list[Check] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Stopped(Exception):
    """A request of the canary was not answered as it should be."""

    def __init__(self, words: str, late: bool) -> None:
        super().__init__(words)
        self.late = late


class CutShort(Exception):
    """A bound ends the canary before it proves anything."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def run_canary(course: Course) -> Canary:
    plan = course.plan
    figures: dict[str, Any] = dict.fromkeys(("cold", "warm", "churn", "hit", "same_text", "same_text_as_cold"))
    figures = {"rank": course.rank, "prompt_tokens": plan.canary_tokens, **figures, "accept_length": None}
    canary = Canary(figures)
    step = "cold"
    try:
        if plan.impossible is not None:
            raise CutShort(_impossible(plan.impossible))
        _look_at_traffic(course)
        prompts, cold = _cold(course)
        known = max(one.cached_tokens for one in cold)
        figures["cold"] = {"cached_tokens": known}
        canary.checks.append(_judge_cold(course, known))
        if canary.checks[-1].ok is False:
            return canary
        step = "warm"
        warm = _warm(course, prompts)
        figures["warm"] = _cached(warm[0][0])
        step = "churn"
        hits, source, full = _churn_until_gone(course, prompts, figures)
        figures["hit"] = {**_cached(hits[0]), "device": source.device, "host": source.host, "proof": source.proof}
        step = "hit"
        check, problems = judge_hit(source, plan, figures["churn"], full, course.rank)
        canary.checks.append(check)
        canary.problems += problems
        if check.ok:
            _compare(course, canary, prompts, cold, warm, hits)
    except CutShort as cut:
        canary.checks.append(Check("canary_host_hit", None, None, f"more than {plan.least_hit}", rank=course.rank))
        canary.problems.append(cut.problem)
    except Stopped as stopped:
        canary.checks.append(_judge_stop(course, step, stopped))
    return canary


def _cached(one: Generation) -> dict[str, Any]:
    return {"cached_tokens": one.cached_tokens, "device": one.device, "host": one.host}


def _send(course: Course, prompt: Sequence[int], answer_tokens: int) -> Generation:
    answer = course.client.send(generate_call(prompt, answer_tokens, course.route))
    done = read_generation(answer)
    if done is None:
        raise Stopped(answer.words(), answer.late)
    return done


def _cold(course: Course) -> tuple[list[list[int]], list[Generation]]:
    """Prompts that nobody sent before; another one if its first tokens are known by chance."""
    prompts, answers = [], []
    for _unused in range(course.plan.canaries):
        for _attempt in range(COLD_ATTEMPTS):
            prompt = unique_prompt(course.dice, course.plan.canary_tokens)
            cold = _send(course, prompt, course.plan.answer_tokens)
            if cold.cached_tokens == 0:
                break
        prompts.append(prompt)
        answers.append(cold)
    return prompts, answers


def _warm(course: Course, prompts: Sequence[Sequence[int]]) -> list[list[Generation]]:
    """So often that every write policy has stored them: a selective one counts how often a prompt is seen."""
    times = max(LEAST_WARM, course.release.selective_hits - 1)
    return [[_send(course, prompt, course.plan.answer_tokens) for prompt in prompts] for _unused in range(times)]


def _look_at_traffic(course: Course) -> None:
    problem = busy(read_traffic(course.client, course.release), course.limits.busy_requests, "canary")
    if problem is not None:
        raise CutShort(problem)


def _churn_until_gone(
    course: Course, prompts: Sequence[Sequence[int]], figures: dict[str, Any]
) -> tuple[list[Generation], Source, bool]:
    """Fills the device pool with other prompts, one at a time, then sends the canary again; whether it was full, too.

    Asking makes it the most recently used one, so it is asked once after a pool full, and if it was still on the
    device, once more after all that the limits leave.
    """
    plan = course.plan
    requests = tokens = 0
    goal = min(plan.first_tokens, plan.max_tokens)
    figures["churn"] = {"requests": 0, "tokens": 0, "seconds": 0.0}
    began = course.client.clock()
    while True:
        while tokens < goal and requests < plan.max_requests and course.client.clock() < course.until:
            done = _send(course, unique_prompt(course.dice, plan.prompt_tokens), 1)
            requests += 1
            tokens += done.prompt_tokens or plan.prompt_tokens
            seconds = round(course.client.clock() - began, 3)
            figures["churn"] = {"requests": requests, "tokens": tokens, "seconds": seconds}
            if requests % TRAFFIC_EVERY == 0:
                _look_at_traffic(course)
        full = tokens >= plan.first_tokens
        if not full:
            raise CutShort(_bounded(course, figures["churn"]))
        hits, source = _ask_for_hit(course, prompts, full)
        on_device = hits[0].cached_tokens if source.device is None else source.device
        spent = requests >= plan.max_requests or tokens >= plan.max_tokens or course.client.clock() >= course.until
        if source.host or on_device <= plan.least_hit or spent:
            return hits, source, full
        goal = plan.max_tokens


def _ask_for_hit(course: Course, prompts: Sequence[Sequence[int]], full: bool) -> tuple[list[Generation], Source]:
    """With what says where the tokens came from, for the first of the prompts."""

    def asked() -> Generation:
        return _send(course, prompts[0], course.plan.answer_tokens)

    hit, source = source_of(asked, course.client, course.release, full)
    return [hit, *(_send(course, prompt, course.plan.answer_tokens) for prompt in prompts[1:])], source


def _compare(
    course: Course,
    canary: Canary,
    prompts: Sequence[Sequence[int]],
    cold: Sequence[Generation],
    warm: Sequence[Sequence[Generation]],
    hits: Sequence[Generation],
) -> None:
    """Same prompt, same cached prefix, computed alike from there: what differs then is the cache's content."""
    with_draft = any(one.verified for one in (*cold, *warm[0], *hits))

    def again() -> list[Generation]:
        return [_send(course, prompts[0], course.plan.answer_tokens) for _unused in range(REPEATS)]

    found = judge_text(cold[0], [one[0] for one in warm], hits[0], again, with_draft, course.rank)
    canary.figures["same_text"] = found.same
    canary.figures["same_text_as_cold"] = hits[0].said == cold[0].said
    canary.checks.append(found.check)
    canary.problems += found.problems
    if with_draft:
        lengths = {"cold": accept_length(cold), "warm": accept_length(warm[0]), "hit": accept_length(hits)}
        canary.figures["accept_length"] = lengths
        check, problems = judge_draft(lengths, course.limits.draft_ratio, course.keeps_draft, course.rank)
        canary.checks.append(check)
        canary.problems += problems


def _judge_cold(course: Course, known: int) -> Check:
    return Check(
        "canary_cold",
        known <= course.plan.least_hit,
        known,
        0,
        "canary_known",
        f"{format_count(known)} tokens of a prompt that was never sent are said to be cached.",
        "Look at who answers: a server that finds what was never there, or a proxy that answers from a cache of its "
        "own.",
        course.rank,
        {"cached_tokens": known},
    )


def _judge_stop(course: Course, step: str, stopped: Stopped) -> Check:
    return Check(
        f"canary_{step}",
        False,
        str(stopped),
        "an answer",
        "out_of_time" if course.client.left_seconds() <= 0 else "canary_hang" if stopped.late else "canary_failed",
        f"A request of the canary failed: {stopped}.",
        "Look at the log of the unit for what happened to it; a server that dies of long prompts has too little memory "
        "left on the device, and one that stops at a hit cannot load from its host pool."
        if step != "cold"
        else "Look at the log of the unit for what happened to it.",
        course.rank,
        {"step": step},
    )


def _impossible(why: str) -> Problem:
    return Problem(
        "canary_impossible",
        "warning",
        f"The host tier is not proven by a canary: {why}.",
        "Give the host pool more room than the device pool, or set canary to false.",
    )


def _bounded(course: Course, churn: Mapping[str, Any]) -> Problem:
    plan = course.plan
    return Problem(
        "canary_cut_short",
        "warning",
        f"The host tier is not proven: driving a prompt out of the device pool takes {format_count(plan.first_tokens)} "
        f"tokens, and the churn was ended after {format_count(churn['tokens'])} in {churn['requests']} requests and "
        f"{format_seconds(churn['seconds'])}.",
        f"Allow that much: churn_max_tokens {plan.first_tokens}, churn_max_requests "
        f"{-(-plan.first_tokens // plan.prompt_tokens)}, or more churn_max_seconds; or set canary to false.",
    )
