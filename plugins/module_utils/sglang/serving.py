# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a server serves what was planned: the gate, and the canary that proves its host tier.

No I/O: the caller gives an C(ask) that makes one HTTP request, a clock and a sleep.
The canary sends prompts as token ids, so their length is exact whatever the tokenizer.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_seconds

# observability/metrics_collector.py; one sample for each data parallel rank.
HOST_TOTAL = "sglang:hicache_host_total_tokens"
HOST_USED = "sglang:hicache_host_used_tokens"
DEVICE_TOTAL = "sglang:max_total_num_tokens"
REPORTED = (DEVICE_TOTAL, HOST_TOTAL, HOST_USED, "sglang:cached_tokens_total", "sglang:load_back_tokens_total")

# Every tokenizer has so many ids; the first ones are special in many.
TOKEN_IDS = range(16, 250)
# Two prompts share their first tokens by chance when pages are small; so many cached tokens prove nothing.
CHANCE_TOKENS = 16
COLD_ATTEMPTS = 3
ANSWER_TOKENS = 8
# Prompts that drive the canary out: long, so that few are needed, and far from what one batch can hold.
LONGEST_CHURN_PROMPT = 4096
HEALTH_PAUSE_SECONDS = 1.0
METRICS_PAUSE_SECONDS = 1.0
METRICS_PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class Answer:
    """C(status) 0: no HTTP answer came; C(body) says why."""

    status: int
    body: str

    def data(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


# (method, path, JSON body or None) -> Answer. It raises nothing.
Ask = Callable[[str, str, "Mapping[str, Any] | None"], Answer]


@dataclass(frozen=True)
class Check:
    """C(ok) None: could not be told, which is no failure; C(problem) says why or what to do."""

    name: str
    ok: bool | None
    found: Any
    expected: Any
    problem: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "found": self.found, "expected": self.expected}


@dataclass(frozen=True)
class CanaryLimits:
    """How far the canary may go. None: computed from the device pool."""

    prompt_tokens: int = 512
    churn_max_tokens: int | None = None
    churn_max_requests: int = 2000


@dataclass
class Proof:
    """What was found, in the order in which it was asked."""

    checks: list[Check] = field(default_factory=list)
    canary: dict[str, Any] | None = None
    metrics: dict[str, list[float]] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)

    @property
    def failed(self) -> Check | None:
        return next((check for check in self.checks if check.ok is False), None)


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


# Prometheus text format

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def parse_metrics(text: str) -> list[Sample]:
    """Samples of an exposition; lines that are none are left out."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        if match is None:
            continue
        try:
            value = float(match.group(3))
        except ValueError:
            continue
        found.append(Sample(match.group(1), tuple(_LABEL.findall(match.group(2) or "")), value))
    return found


def values(samples: Iterable[Sample], name: str, **labels: str) -> list[float]:
    """Values of a metric whose labels include the given ones."""
    wanted = set(labels.items())
    return [one.value for one in samples if one.name == name and wanted <= set(one.labels)]


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
    _canary(ask, wanted.limits, proof, capacity, _context(models), dice, deadline, clock)
    return proof


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


def _error_of(answer: Answer) -> str:
    """The server's words, shortened."""
    data = answer.data()
    if isinstance(data, Mapping):
        inner = data.get("error")
        message = inner.get("message") if isinstance(inner, Mapping) else data.get("message")
        if message:
            return f"{answer.status}: {message}"[:300]
    return f"{answer.status}: {answer.body.strip()}"[:300]


@dataclass(frozen=True)
class Generation:
    """One finished request. C(device) and C(host): where its cached tokens came from, None if it is not said."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    device: int | None
    host: int | None
    text: str
    output_ids: tuple[int, ...]


def generate_body(prompt: Sequence[int], answer_tokens: int) -> dict[str, Any]:
    """Greedy, and to the full length, so that equal states give equal texts."""
    return {
        "input_ids": list(prompt),
        "sampling_params": {"temperature": 0, "max_new_tokens": answer_tokens, "ignore_eos": True},
    }


def read_generation(answer: Answer) -> Generation | None:
    data = answer.data()
    if answer.status != 200 or not isinstance(data, Mapping) or not isinstance(data.get("meta_info"), Mapping):
        return None
    meta = data["meta_info"]
    details = meta.get("cached_tokens_details")
    known = details if isinstance(details, Mapping) else {}
    return Generation(
        prompt_tokens=int(meta.get("prompt_tokens") or 0),
        cached_tokens=int(meta.get("cached_tokens") or 0),
        completion_tokens=int(meta.get("completion_tokens") or 0),
        device=int(known.get("device") or 0) if known else None,
        host=int(known.get("host") or 0) if known else None,
        text=str(data.get("text") or ""),
        output_ids=tuple(data.get("output_ids") or ()),
    )


def unique_prompt(dice: random.Random, length: int) -> list[int]:
    return [dice.choice(TOKEN_IDS) for _unused in range(length)]


def _own_token(ask: Ask, dice: random.Random) -> Check:
    answer = ask("POST", "/generate", generate_body(unique_prompt(dice, 8), 1))
    done = read_generation(answer)
    if done is None:
        return Check(
            "generate", False, _error_of(answer), 1, f"The server did not generate a token ({_error_of(answer)})."
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
        tokens if choices else _error_of(answer),
        "1 or more",
        f"A chat completion failed ({_error_of(answer) if not choices else 'no token'}).",
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


# The canary


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
        raise _Refused(_error_of(answer))
    return done


def _canary(
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


def would_check(wanted: Wanted) -> list[str]:
    """Names of the checks, in order, for a run that sends nothing."""
    names = ["health", "served_model_name", "generate"]
    names += ["chat_completion"] if wanted.chat else []
    names += ["max_total_num_tokens"] if wanted.max_total_num_tokens else []
    names += ["host_tokens"] if wanted.host_tokens else []
    names += ["canary_cold", "canary_host_hit", "canary_same_text"] if wanted.canary else []
    return names
