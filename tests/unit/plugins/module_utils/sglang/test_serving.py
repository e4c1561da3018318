# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serving import (
    Answer,
    CanaryLimits,
    Proof,
    Wanted,
    canary_length,
    parse_metrics,
    plan_churn,
    prove,
    read_generation,
    unique_prompt,
    values,
    would_check,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer

WANTED = Wanted("rehearsal-llama", 4096, 16_385)


class Clock:
    """Moves by sleeping, and a little with every request."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept = 0.0

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.slept += seconds


def proved(server: FakeServer, wanted: Wanted = WANTED, cost: float = 0.1) -> Proof:
    clock = Clock()

    def ask(method: str, path: str, body: Any) -> Answer:
        clock.at += cost
        return server.ask(method, path, body)

    return prove(ask, wanted, clock, clock.sleep, seed="a")


def names(proof: Proof) -> dict[str, bool | None]:
    return {check.name: check.ok for check in proof.checks}


def test_server_that_serves_what_was_planned() -> None:
    proof = proved(FakeServer())
    assert names(proof) == {
        "health": True,
        "served_model_name": True,
        "generate": True,
        "chat_completion": True,
        "max_total_num_tokens": True,
        "host_tokens": True,
        "canary_cold": True,
        "canary_host_hit": True,
        "canary_same_text": True,
    }
    assert proof.failed is None and proof.problems == []
    assert proof.metrics == {
        "sglang:max_total_num_tokens": [4096.0, 4096.0],
        "sglang:hicache_host_total_tokens": [16_385.0],
    }


def test_canary_goes_cold_warm_churn_hit() -> None:
    canary = proved(FakeServer()).canary
    assert canary is not None
    assert canary["cold"] == {"cached_tokens": 0}
    assert canary["warm"] == {"cached_tokens": 511, "device": 511, "host": 0}
    # A pool of 4096 less the canary, plus one prompt of a quarter of the pool.
    assert canary["churn"] == {"requests": 5, "tokens": 5120}
    assert canary["hit"] == {"cached_tokens": 511, "device": 0, "host": 511}
    assert canary["same_text"] is True and canary["same_text_as_cold"] is True


@pytest.mark.parametrize(
    ("server", "failed", "words"),
    [
        ({"ready_after": 10_000}, "health", "did not become healthy within 5 min 00 s; /health last gave 503"),
        ({"model": "another"}, "served_model_name", "serves another under that port"),
        ({"api_key": "sk"}, "served_model_name", "API key was not accepted"),
        ({"generates": False}, "generate", "scheduler is gone"),
        ({"chat": False}, "chat_completion", "no chat template"),
        ({"device_tokens": 4095}, "max_total_num_tokens", "holds 4,095 tokens where 4,096 were planned"),
        ({"host_tokens": 8193}, "host_tokens", "holds 8,193 tokens a rank where 16,385 were planned"),
        ({"host_tokens": 0}, "host_tokens", "no host tier"),
        ({"stores_on_host": False}, "canary_host_hit", "did not come back from the host tier"),
        ({"remembers_everything": True}, "canary_host_hit", "still on the device after 12 other prompts"),
        ({"tells_source": False}, "canary_host_hit", "does not say where cached tokens come from"),
        ({"spoils_host": True}, "canary_same_text", "not what was stored"),
    ],
)
def test_what_can_be_wrong(server: dict[str, Any], failed: str, words: str) -> None:
    check = proved(FakeServer(**server)).failed
    assert check is not None
    assert check.name == failed
    assert check.problem is not None and words in check.problem


def test_what_depends_on_a_failed_check_is_not_tried() -> None:
    server = FakeServer(generates=False)
    proof = proved(server)
    assert ("GET", "/metrics") not in server.asked
    assert proof.canary is None


def test_health_is_asked_again_until_the_deadline() -> None:
    server = FakeServer(ready_after=20)
    assert proved(server).failed is None
    late = proved(FakeServer(ready_after=20), replace(WANTED, timeout_seconds=10.0))
    assert late.failed is not None and late.failed.name == "health"
    assert names(late) == {"health": False}


def test_gauge_that_comes_with_the_first_batch_is_waited_for() -> None:
    assert proved(FakeServer(gauge_after=5)).failed is None
    never = proved(FakeServer(gauge_after=10_000)).failed
    assert never is not None and never.name == "host_tokens"


def test_more_device_tokens_than_planned_are_no_fault() -> None:
    assert proved(FakeServer(device_tokens=5000)).failed is None


def test_server_without_metrics_tells_its_capacity_otherwise() -> None:
    proof = proved(FakeServer(metrics=False))
    assert names(proof)["max_total_num_tokens"] is True
    assert names(proof)["host_tokens"] is None
    assert [problem["code"] for problem in proof.problems] == ["metrics_off"]
    assert proof.failed is None
    assert "sk-secret" not in repr(proof)


def test_release_without_the_gauge_is_not_asked_for_it() -> None:
    proof = proved(FakeServer(gauge_after=10_000), replace(WANTED, host_gauge=False))
    assert names(proof)["host_tokens"] is None
    assert proof.failed is None


def test_server_without_host_tier_and_canary() -> None:
    proof = proved(FakeServer(host_tokens=0), Wanted(None, None, None, canary=False, chat=False))
    assert names(proof) == {"health": True, "served_model_name": True, "generate": True}


def test_canary_needs_the_size_of_the_device_pool() -> None:
    class Silent(FakeServer):
        def ask(self, method: str, path: str, body: Any, key: str | None = None) -> Answer:
            return Answer(404, "") if path in ("/metrics", "/server_info") else super().ask(method, path, body, key)

    check = proved(Silent(), Wanted("rehearsal-llama")).failed
    assert check is not None and check.name == "canary"


def test_canary_runs_out_of_time() -> None:
    check = proved(FakeServer(), replace(WANTED, timeout_seconds=12.0), cost=1.5).failed
    assert check is not None
    assert (check.name, check.found) == ("canary_churn", "there was no time left")


def test_churn_stays_within_its_limits() -> None:
    few = replace(WANTED, limits=CanaryLimits(churn_max_requests=2))
    proof = proved(FakeServer(), few)
    assert proof.canary is not None and proof.canary["churn"]["requests"] == 2
    check = proof.failed
    assert check is not None and check.problem is not None
    assert "raise the limits of the churn" in check.problem


def test_second_round_follows_if_the_first_did_not_do() -> None:
    # More room than the server says, as with a pool that was grown after it was announced.
    class Roomy(FakeServer):
        def _metrics(self) -> Answer:
            answer = super()._metrics()
            return Answer(answer.status, answer.body.replace(str(self.device_tokens), "4096"))

    proof = proved(Roomy(device_tokens=7000))
    assert proof.failed is None
    assert proof.canary is not None and proof.canary["churn"]["tokens"] > 5120


@pytest.mark.parametrize(
    ("capacity", "context", "asked", "length"),
    [(400_000, 8192, 512, 512), (1024, 8192, 512, 256), (400_000, 128, 512, 112), (400_000, None, 512, 512)],
)
def test_canary_is_small_beside_the_pool(capacity: int, context: int | None, asked: int, length: int) -> None:
    assert canary_length(capacity, context, asked) == length


@pytest.mark.parametrize(
    ("capacity", "context", "prompt", "first"),
    [
        (159_277, 262_144, 4096, 159_277 - 512 + 4096),
        (8192, 8192, 2048, 8192 - 512 + 2048),
        (8192, 1024, 1008, 8192 - 512 + 1008),
    ],
)
def test_churn_fills_the_pool_once(capacity: int, context: int, prompt: int, first: int) -> None:
    plan = plan_churn(capacity, 512, context, CanaryLimits())
    assert (plan.prompt_tokens, plan.first_tokens, plan.max_tokens) == (prompt, first, 3 * capacity)


def test_prompts_differ() -> None:
    dice = random.Random("a")
    prompts = {tuple(unique_prompt(dice, 8)) for _unused in range(1000)}
    assert len(prompts) == 1000


def test_metrics_text() -> None:
    text = (
        "# TYPE sglang:x gauge\n"
        'sglang:x{model="a \\"b\\" }",tp_rank="0"} 8192.0\n'
        "sglang:x 1e3 1795971202000\n"
        'sglang:x{tp_rank="1"} NaN\n'
        "broken line here now\n"
        'sglang:y_bucket{le="+Inf"} +Inf\n'
    )
    samples = parse_metrics(text)
    assert [sample.name for sample in samples] == ["sglang:x", "sglang:x", "sglang:x", "sglang:y_bucket"]
    assert dict(samples[0].labels) == {"model": 'a \\"b\\" }', "tp_rank": "0"}
    assert values(samples, "sglang:x", tp_rank="0") == [8192.0]
    assert values(samples, "sglang:x")[1] == 1000.0
    assert values(samples, "sglang:z") == []


@pytest.mark.parametrize("answer", [Answer(500, "{}"), Answer(200, "no json"), Answer(200, "[]"), Answer(0, "")])
def test_answer_that_is_no_generation(answer: Answer) -> None:
    assert read_generation(answer) is None


def test_check_mode_names_what_would_be_checked() -> None:
    assert would_check(WANTED)[-1] == "canary_same_text"
    assert would_check(Wanted(canary=False, chat=False)) == ["health", "served_model_name", "generate"]
