# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a server serves what was planned: the gate, the burn-in, and the canary that proves its host tier. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import (
    HEALTH_TIMEOUT_SECONDS,
    ServingFacts,
    serving_facts_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import has_host_gauge
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Client, Proof
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.burn_in import (
    ANSWER_TOKENS,
    PROMPT_TOKENS,
    BurnInLimits,
    run_burn_in,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.canary import Course, run_canary
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.capacity import (
    Gauges,
    check_device,
    check_host,
    metrics_off,
    read_gauges,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.churn import CanaryLimits, Pools, plan_churn
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.drafts import keeps_draft
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.gate import (
    MODELS_SECONDS,
    check_asks_for_key,
    check_chat,
    check_health,
    check_health_again,
    check_model_name,
    check_own_token,
    context_tokens,
    model_names,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.identity import (
    ServerFacts,
    ask_server,
    judge_identity,
    known_release,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.traffic import busy, read_traffic


@dataclass(frozen=True)
class Wanted:
    """What the plan says, and how long to be patient. C(host_tokens) None or 0: no host tier is expected."""

    served_model_name: str | None = None
    max_total_num_tokens: int | None = None
    host_tokens: int | None = None
    model_path: str | None = None
    asks_for_key: bool = False
    sglang_version: str | None = None
    canary: bool = True
    chat: bool = True
    limits: CanaryLimits = CanaryLimits()
    burn_in: BurnInLimits = BurnInLimits()
    health_seconds: float = HEALTH_TIMEOUT_SECONDS
    request_seconds: float = 120.0
    timeout_seconds: float = 300.0


def prove(
    client: Client,
    wanted: Wanted,
    seed: str,
    listener: Callable[[], Check] | None = None,
    stranger: Client | None = None,
) -> Proof:
    """Everything in turn; what depends on a check that failed is not tried. C(stranger) asks without the key.

    C(listener) looks who listens: before anything is sent to it, and again at the end, as a unit may start anew.
    """
    proof = Proof()
    dice = random.Random(seed)
    proof.checks.append(check_health(client, wanted.health_seconds, wanted.timeout_seconds))
    if listener is not None and not proof.failed:
        proof.checks.append(listener())
    if proof.failed:
        return proof
    if wanted.asks_for_key and stranger is not None:
        proof.checks.append(check_asks_for_key(stranger))
        if proof.failed:
            return proof
    models = client.get("/v1/models", MODELS_SECONDS)
    proof.checks.append(check_model_name(models, wanted.served_model_name))
    if proof.failed:
        return proof
    # Asked for before anything that asks the schedulers: one that hangs would hang those as well.
    release = serving_facts_of(wanted.sglang_version)
    proof.checks.append(check_own_token(client, dice, release))
    if proof.failed:
        return proof
    facts = ask_server(client)
    proof.server = facts.as_dict()
    proof.checks += judge_identity(facts, wanted.sglang_version, wanted.model_path)
    version = known_release(wanted.sglang_version, facts.version)
    release = serving_facts_of(version)
    if wanted.chat:
        proof.checks.append(check_chat(client, wanted.served_model_name or model_names(models)[0]))
    if proof.failed:
        return proof
    gauges = _measure(client, wanted, facts, version, proof)
    if proof.failed:
        return proof
    ranks = facts.ranks or gauges.ranks or 1
    _burn_in(client, wanted, release, ranks, dice, proof)
    if not proof.failed and wanted.canary:
        _canaries(client, wanted, _Server(facts, gauges, models, release, version, ranks), dice, proof)
    if listener is not None:
        proof.checks.append(replace(listener(), name="listener_at_the_end"))
    return proof


@dataclass(frozen=True)
class _Server:
    """What the gate has found out."""

    facts: ServerFacts
    gauges: Gauges
    models: Answer
    release: ServingFacts
    version: str | None
    ranks: int


def _measure(client: Client, wanted: Wanted, facts: ServerFacts, version: str | None, proof: Proof) -> Gauges:
    has_gauge = version is None or has_host_gauge(version)
    gauges = read_gauges(client, needs_host=bool(wanted.host_tokens) and has_gauge)
    proof.metrics = gauges.reported()
    proof.problems += metrics_off(gauges)
    if wanted.max_total_num_tokens:
        proof.checks.append(check_device(gauges, facts, wanted.max_total_num_tokens))
    if wanted.host_tokens:
        proof.checks.append(check_host(gauges, wanted.host_tokens, has_gauge))
    return gauges


def _burn_in(
    client: Client, wanted: Wanted, release: ServingFacts, ranks: int, dice: random.Random, proof: Proof
) -> None:
    if not wanted.burn_in.requests:
        return
    crowd = busy(read_traffic(client, release), wanted.limits.busy_requests, "burn-in")
    if crowd is not None:
        proof.checks.append(Check("burn_in", None, None, wanted.burn_in.requests))
        proof.problems.append(crowd)
        return
    done = run_burn_in(client, wanted.burn_in, dice, release.rank_field, ranks, wanted.request_seconds)
    proof.burn_in = done.figures
    proof.checks.append(done.check)
    proof.problems += done.problems
    if proof.failed:
        return
    if client.left_seconds() <= 0:
        proof.checks.append(_out_of_time(wanted, "burn-in"))
        return
    proof.checks.append(check_health_again(client, wanted.health_seconds, release))


def _out_of_time(wanted: Wanted, what: str) -> Check:
    return Check(
        "time",
        False,
        f"ended in the {what}",
        f"within {format_seconds(wanted.timeout_seconds)}",
        "out_of_time",
        f"The time for the whole check, {format_seconds(wanted.timeout_seconds)}, was up in the {what}.",
        "Raise timeout_seconds, or look why the server is so slow.",
        values={"timeout_seconds": wanted.timeout_seconds},
    )


def _canaries(client: Client, wanted: Wanted, server: _Server, dice: random.Random, proof: Proof) -> None:
    """One for each data parallel rank, in turn and within one bound of time, until one fails."""
    refused = _no_canary(wanted, server)
    if refused is not None:
        proof.checks.append(refused[0])
        proof.problems += refused[1]
        return
    pools = _pools(wanted, server)
    if pools is None:
        proof.checks.append(Check("canary", None, None, "a hit in the host tier"))
        proof.problems.append(_size_unknown())
        return
    plan = plan_churn(pools, wanted.limits, with_draft=server.facts.draft is not None)
    course = Course(
        client=client,
        release=server.release,
        limits=wanted.limits,
        plan=plan,
        dice=dice,
        until=client.clock() + wanted.limits.churn_max_seconds,
        keeps_draft=keeps_draft(server.version),
    )
    for rank in range(server.ranks):
        if server.ranks > 1:
            course = replace(course, rank=f"DP{rank}", route={server.release.rank_field: rank})
        found = run_canary(course)
        proof.canaries.append(found.figures)
        proof.checks += found.checks
        known = {problem.message for problem in proof.problems}
        proof.problems += [problem for problem in found.problems if problem.message not in known]
        if proof.failed:
            return
    unproven = [str(one["rank"]) for one in proof.canaries if one["hit"] is None]
    if server.ranks > 1 and unproven:
        proof.problems.append(_ranks_unproven(unproven, server.ranks))


def _no_canary(wanted: Wanted, server: _Server) -> tuple[Check, Sequence[Problem]] | None:
    """Where there is no host tier to prove, which is a failure if one was planned."""
    off = (
        "HiCache" if server.facts.hicache is False else "the radix cache" if server.facts.radix_cache is False else None
    )
    if off is None:
        return None
    said = f"The server says that {off} is off, so that no prompt can come back from a host tier."
    remedy = "Start it with enable_hierarchical_cache and without disable_radix_cache, or set canary to false."
    if wanted.host_tokens:
        return Check("canary", False, f"{off} off", "a host tier", "host_tier_off", said, remedy), []
    return Check("canary", None, f"{off} off", "a host tier"), [
        Problem("canary_host_tier_off", "warning", said, remedy)
    ]


def _pools(wanted: Wanted, server: _Server) -> Pools | None:
    """By gauge, else as the server says, else as planned."""
    device = server.gauges.device_tokens or list(server.facts.device_tokens)
    tokens = max(device, default=None) or wanted.max_total_num_tokens
    if not tokens:
        return None
    host = server.gauges.host_tokens
    return Pools(
        device_tokens=tokens,
        host_tokens=min(host, default=None) or wanted.host_tokens or None,
        page_size=server.facts.page_size,
        context_tokens=context_tokens(server.models),
    )


def _size_unknown() -> Problem:
    return Problem(
        "canary_size_unknown",
        "warning",
        "The host tier is not proven: neither /metrics nor /server_info nor the plan tells the size of the device "
        "pool, which the canary has to fill.",
        "Give expected.max_total_num_tokens, set enable_metrics, or set canary to false.",
    )


def _ranks_unproven(ranks: Sequence[str], of: int) -> Problem:
    return Problem(
        "canary_ranks_unproven",
        "warning",
        f"The host tier is proven for {of - len(ranks)} of {of} data parallel ranks; each has caches of its own, and "
        f"{', '.join(ranks)} had no hit.",
        "Raise churn_max_seconds and timeout_seconds, as the ranks are proven in turn.",
    )


# What a run that sends nothing says


def would_check(wanted: Wanted) -> list[str]:
    """Names of the checks, in order."""
    names = ["health", *(["asks_for_key"] if wanted.asks_for_key else []), "served_model_name", "generate"]
    names += ["sglang_version"] if wanted.sglang_version else []
    names += ["model_path"] if wanted.model_path else []
    names += ["chat_completion"] if wanted.chat else []
    names += ["max_total_num_tokens"] if wanted.max_total_num_tokens else []
    names += ["host_tokens"] if wanted.host_tokens else []
    names += ["burn_in", "health_after_burn_in"] if wanted.burn_in.requests else []
    names += ["canary_cold", "canary_host_hit", "canary_same_text"] if wanted.canary else []
    return names


def would_send(wanted: Wanted) -> dict[str, Any]:
    """Bounds, for one data parallel rank; None where only the server can tell."""
    burn_in = wanted.burn_in
    requests: int | None = burn_in.requests
    tokens: int | None = burn_in.requests * (PROMPT_TOKENS + ANSWER_TOKENS)
    if wanted.canary:
        size = wanted.max_total_num_tokens
        pools = None if size is None else Pools(size, wanted.host_tokens)
        most = wanted.limits.churn_max_tokens if pools is None else plan_churn(pools, wanted.limits).max_tokens
        requests = (requests or 0) + wanted.limits.churn_max_requests
        tokens = None if most is None else (tokens or 0) + most
    return {"requests": requests, "tokens": tokens, "seconds": wanted.timeout_seconds}
