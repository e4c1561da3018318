# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where cached tokens came from, by the best witness that a release has. No I/O.

The answer itself tells (0.5.9), a counter does (0.5.6), or it follows: what was driven out of the device and is cached
all the same can only have come from the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import ServingFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Client, Generation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.churn import ChurnPlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.metrics import parse_metrics, total

BY_ANSWER = "cached_tokens_details"
BY_COUNTER = "load_back_tokens_total"
BY_EVICTION = "eviction"
METRICS_SECONDS = 30.0


@dataclass(frozen=True)
class Source:
    """Tokens of one request by where they were; None where no witness tells. C(proof): which one it was."""

    cached: int
    device: int | None
    host: int | None
    proof: str | None


def source_of(
    ask: Callable[[], Generation], client: Client, release: ServingFacts, driven_out: bool
) -> tuple[Generation, Source]:
    """C(ask) sends the request; C(driven_out): a whole device pool of other prompts was sent before."""
    before = _counted(client, release)
    done = ask()
    if done.device is not None and done.host is not None:
        return done, Source(done.cached_tokens, done.device, done.host, BY_ANSWER)
    if done.cached_tokens == 0:
        # The answer tells nothing where nothing was cached.
        return done, Source(0, 0, 0, BY_ANSWER)
    after = None if before is None else _counted(client, release)
    if before is not None and after is not None:
        # Others may have loaded something meanwhile.
        host = min(done.cached_tokens, int(max(0.0, after - before)))
        return done, Source(done.cached_tokens, done.cached_tokens - host, host, BY_COUNTER)
    if driven_out and release.load_back_counter is None and not release.tells_source:
        return done, Source(done.cached_tokens, 0, done.cached_tokens, BY_EVICTION)
    return done, Source(done.cached_tokens, None, None, None)


def _counted(client: Client, release: ServingFacts) -> float | None:
    """Tokens that came back so far; a counter that never counted is missing from the text."""
    if release.tells_source or release.load_back_counter is None:
        return None
    answer = client.get("/metrics", METRICS_SECONDS)
    return total(parse_metrics(answer.body), release.load_back_counter) if answer.status == 200 else None


def judge_hit(
    source: Source, plan: ChurnPlan, churn: Mapping[str, Any], full: bool, rank: str | None
) -> tuple[Check, list[Problem]]:
    name, expected = "canary_host_hit", f"more than {plan.least_hit}"
    values = {
        "host_tokens": source.host,
        "device_tokens": source.device,
        "cached_tokens": source.cached,
        "needed_tokens": plan.least_hit + 1,
        "churn_tokens": churn["tokens"],
        "churn_requests": churn["requests"],
    }
    if source.host is None:
        return Check(name, None, None, expected, rank=rank), [_untold(source)]
    if source.host > plan.least_hit:
        return Check(name, True, source.host, expected, rank=rank, values=values), []
    if source.device is not None and source.device > plan.least_hit:
        return Check(
            name,
            False,
            source.host,
            expected,
            "canary_stays",
            f"The canary is still on the device after {churn['requests']} other prompts of "
            f"{format_count(churn['tokens'])} tokens, so the host tier was not asked: the device pool holds more than "
            "it says, or prompts are not cached where they were sent.",
            "Raise churn_max_tokens and churn_max_requests, or look at what routes requests to another server.",
            rank,
            values,
        ), []
    return Check(
        name,
        False,
        source.host,
        expected,
        "canary_not_restored",
        f"The canary left the device and did not come back from the host tier ({format_count(source.host)} tokens "
        "did): write policy, io backend or layout keep it from being stored or loaded, or the host tier is smaller "
        "than the device pool.",
        "Look in the log for what HiCache was rewritten to and for failed copies; write_through stores everything at "
        "once.",
        rank,
        values,
    ), []


def _untold(source: Source) -> Problem:
    return Problem(
        "canary_source_unknown",
        "warning",
        f"The server does not say where {format_count(source.cached)} cached tokens of the canary come from, so the "
        "host tier is not proven.",
        "Set enable_metrics; SGLang 0.5.9 and newer say it in the answer itself.",
    )
