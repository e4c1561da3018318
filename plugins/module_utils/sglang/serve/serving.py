# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a server serves what was planned: the gate, and the canary that proves its host tier.

No I/O: the caller gives an C(ask) that makes one HTTP request, a clock and a sleep.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import (
    Answer,
    Ask,
    Check,
    Proof,
    error_of,
    generate_body,
    read_generation,
    unique_prompt,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.canary import CanaryLimits, run_canary
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.metrics import Sample, parse_metrics, values

# observability/metrics_collector.py; one sample for each data parallel rank.
HOST_TOTAL = "sglang:hicache_host_total_tokens"
HOST_USED = "sglang:hicache_host_used_tokens"
DEVICE_TOTAL = "sglang:max_total_num_tokens"
REPORTED = (DEVICE_TOTAL, HOST_TOTAL, HOST_USED, "sglang:cached_tokens_total", "sglang:load_back_tokens_total")

HEALTH_PAUSE_SECONDS = 1.0
METRICS_PAUSE_SECONDS = 1.0
METRICS_PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class Wanted:
    """What the plan says, and how long to be patient. C(host_tokens) None or 0: no host tier is expected."""

    served_model_name: str | None = None
    max_total_num_tokens: int | None = None
    host_tokens: int | None = None
    canary: bool = True
    chat: bool = True
    host_gauge: bool = True
    limits: CanaryLimits = CanaryLimits()
    timeout_seconds: float = 300.0


# The gate


def prove(ask: Ask, wanted: Wanted, clock: Callable[[], float], sleep: Callable[[float], None], seed: str) -> Proof:
    """Everything in turn; what depends on a check that failed is not tried."""
    proof = Proof()
    deadline = clock() + wanted.timeout_seconds
    proof.checks.append(_health(ask, deadline, clock, sleep, wanted.timeout_seconds))
    if proof.failed:
        return proof
    models = ask("GET", "/v1/models", None)
    proof.checks.append(_model_name(models, wanted.served_model_name))
    name = wanted.served_model_name or next(iter(_model_names(models)), "default")
    dice = random.Random(seed)
    proof.checks.append(_own_token(ask, dice))
    if wanted.chat:
        proof.checks.append(_chat(ask, name))
    if proof.failed:
        return proof
    _measure(ask, wanted, proof, deadline, clock, sleep)
    if proof.failed or not wanted.canary:
        return proof
    capacity = _capacity(proof, wanted)
    if capacity is None:
        proof.checks.append(
            Check("canary", False, None, "a hit in the host tier", "The size of the device pool is not known.")
        )
        return proof
    run_canary(ask, wanted.limits, proof, capacity, _context(models), dice, deadline, clock)
    return proof


def would_check(wanted: Wanted) -> list[str]:
    """Names of the checks, in order, for a run that sends nothing."""
    names = ["health", "served_model_name", "generate"]
    names += ["chat_completion"] if wanted.chat else []
    names += ["max_total_num_tokens"] if wanted.max_total_num_tokens else []
    names += ["host_tokens"] if wanted.host_tokens else []
    names += ["canary_cold", "canary_host_hit", "canary_same_text"] if wanted.canary else []
    return names


def _health(
    ask: Ask, deadline: float, clock: Callable[[], float], sleep: Callable[[float], None], patience: float
) -> Check:
    while True:
        answer = ask("GET", "/health", None)
        if answer.status == 200:
            return Check("health", True, 200, 200)
        if clock() + HEALTH_PAUSE_SECONDS >= deadline:
            found = answer.status or answer.body
            return Check(
                "health",
                False,
                found,
                200,
                f"The server did not become healthy within {format_seconds(patience)}; /health last gave {found}.",
            )
        sleep(HEALTH_PAUSE_SECONDS)


def _model_names(answer: Answer) -> list[str]:
    data = answer.data()
    rows = data.get("data") if isinstance(data, Mapping) else None
    return [str(row["id"]) for row in rows or [] if isinstance(row, Mapping) and "id" in row]


def _context(answer: Answer) -> int | None:
    """Longest sequence that the server takes."""
    data = answer.data()
    rows = data.get("data") if isinstance(data, Mapping) else None
    lengths = [row.get("max_model_len") for row in rows or [] if isinstance(row, Mapping)]
    return next((int(length) for length in lengths if isinstance(length, int) and length > 0), None)


def _model_name(answer: Answer, expected: str | None) -> Check:
    names = _model_names(answer)
    if answer.status in (401, 403):
        return Check("served_model_name", False, answer.status, expected, "The API key was not accepted.")
    if expected is None:
        return Check("served_model_name", bool(names), ", ".join(names) or answer.status, "any")
    return Check(
        "served_model_name",
        expected in names,
        ", ".join(names) or answer.status,
        expected,
        f"The server serves {', '.join(names) or 'no model'} under that port: another server, or another name.",
    )


def _own_token(ask: Ask, dice: random.Random) -> Check:
    answer = ask("POST", "/generate", generate_body(unique_prompt(dice, 8), 1))
    done = read_generation(answer)
    if done is None:
        return Check(
            "generate", False, error_of(answer), 1, f"The server did not generate a token ({error_of(answer)})."
        )
    return Check("generate", done.completion_tokens >= 1, done.completion_tokens, 1, "The server generated no token.")


def _chat(ask: Ask, model: str) -> Check:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Say yes."}],
        "max_tokens": 4,
        "temperature": 0,
    }
    answer = ask("POST", "/v1/chat/completions", body)
    data = answer.data()
    choices = data.get("choices") if isinstance(data, Mapping) else None
    tokens = (data.get("usage") or {}).get("completion_tokens") if isinstance(data, Mapping) else None
    return Check(
        "chat_completion",
        answer.status == 200 and bool(choices) and bool(tokens),
        tokens if choices else error_of(answer),
        "1 or more",
        f"A chat completion failed ({error_of(answer) if not choices else 'no token'}).",
    )


# Capacity


def _measure(
    ask: Ask,
    wanted: Wanted,
    proof: Proof,
    deadline: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Device and host capacity against the plan. The host gauge first appears with a batch, so there is patience."""
    needs_host = bool(wanted.host_tokens) and wanted.host_gauge
    until = min(deadline, clock() + METRICS_PATIENCE_SECONDS)
    while True:
        answer = ask("GET", "/metrics", None)
        samples = parse_metrics(answer.body) if answer.status == 200 else []
        if answer.status != 200 or not needs_host or any(values(samples, HOST_TOTAL)) or clock() >= until:
            break
        sleep(METRICS_PAUSE_SECONDS)
    if answer.status != 200:
        _problem(
            proof,
            "metrics_off",
            f"/metrics answers {answer.status}, so the pools cannot be compared with the plan by gauge.",
            "Set enable_metrics.",
        )
    proof.metrics = {name: values(samples, name) for name in REPORTED if values(samples, name)}
    if wanted.max_total_num_tokens:
        proof.checks.append(_device_capacity(ask, samples, wanted.max_total_num_tokens))
    if wanted.host_tokens:
        proof.checks.append(_host_capacity(samples, wanted, answer.status == 200, proof))


def _problem(proof: Proof, code: str, message: str, remedy: str) -> None:
    proof.problems.append({"code": code, "severity": "warning", "message": message, "remedy": remedy})


def _device_capacity(ask: Ask, samples: Iterable[Sample], expected: int) -> Check:
    found = [int(value) for value in values(samples, DEVICE_TOTAL)] or _capacity_of_server_info(ask)
    if not found:
        return Check("max_total_num_tokens", None, None, expected, "Neither /metrics nor /server_info tells it.")
    least = min(found)
    return Check(
        "max_total_num_tokens",
        least >= expected,
        least,
        expected,
        f"The device pool holds {format_count(least)} tokens where {format_count(expected)} were planned: something "
        "else held device memory when it was sized, or the plan is of another model.",
    )


def _capacity_of_server_info(ask: Ask) -> list[int]:
    """For servers without metrics. The answer holds keys and is never returned."""
    for path in ("/server_info", "/get_server_info"):
        data = ask("GET", path, None).data()
        found = data.get("max_total_num_tokens") if isinstance(data, Mapping) else None
        if isinstance(found, int):
            return [found]
    return []


def _host_capacity(samples: Iterable[Sample], wanted: Wanted, has_metrics: bool, proof: Proof) -> Check:
    expected = int(wanted.host_tokens or 0)
    found = sorted({int(value) for value in values(samples, HOST_TOTAL)})
    if not found:
        if not wanted.host_gauge or not has_metrics:
            return Check("host_tokens", None, None, expected, "No gauge of the host tier.")
        return Check(
            "host_tokens", False, None, expected, f"The server has no host tier: {HOST_TOTAL} is missing from /metrics."
        )
    return Check(
        "host_tokens",
        found == [expected],
        found[0] if len(found) == 1 else found,
        expected,
        f"The host tier holds {', '.join(format_count(one) for one in found)} tokens a rank where "
        f"{format_count(expected)} were planned: the server runs with another ratio or size than the plan.",
    )


def _capacity(proof: Proof, wanted: Wanted) -> int | None:
    found = next((check.found for check in proof.checks if check.name == "max_total_num_tokens"), None)
    gauge = proof.metrics.get(DEVICE_TOTAL)
    return found or (int(min(gauge)) if gauge else None) or wanted.max_total_num_tokens
