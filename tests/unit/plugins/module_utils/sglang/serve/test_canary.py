# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.churn import (
    CanaryLimits,
    Pools,
    canary_length,
    plan_churn,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.proofs import WANTED, proved


def test_canary_goes_cold_warm_churn_hit() -> None:
    canary = proved(FakeServer()).canary
    assert canary is not None
    assert canary["cold"] == {"cached_tokens": 0}
    assert canary["warm"] == {"cached_tokens": 511, "device": 511, "host": 0}
    # A pool of 4096 less the canary, plus one prompt of a quarter of the pool.
    assert (canary["churn"]["requests"], canary["churn"]["tokens"]) == (5, 5120)
    assert canary["hit"] == {"cached_tokens": 511, "device": 0, "host": 511, "proof": "cached_tokens_details"}
    assert canary["same_text"] is True and canary["same_text_as_cold"] is True


def test_canary_runs_out_of_time() -> None:
    check = proved(FakeServer(), replace(WANTED, timeout_seconds=36.0), cost=1.5).failed
    assert check is not None
    assert (check.name, check.code, check.found) == ("canary_churn", "out_of_time", "there was no time left")


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        (CanaryLimits(churn_max_requests=2), 2),
        (CanaryLimits(churn_max_tokens=2000), 2),
        (CanaryLimits(churn_max_seconds=0.65), 3),
    ],
)
def test_churn_stays_within_its_limits_and_says_what_it_needs(limits: CanaryLimits, requests: int) -> None:
    proof = proved(FakeServer(), replace(WANTED, limits=limits))
    assert proof.failed is None
    assert proof.canary is not None and proof.canary["churn"]["requests"] == requests
    assert proof.canary["hit"] is None
    (problem,) = proof.problems
    assert problem.code == "canary_cut_short"
    # What it needs is what then does.
    assert "churn_max_tokens 4608, churn_max_requests 5" in problem.remedy
    enough = CanaryLimits(churn_max_tokens=4608, churn_max_requests=5)
    assert proved(FakeServer(), replace(WANTED, limits=enough)).problems == []


def test_second_round_follows_if_the_first_did_not_do() -> None:
    # More room than the server says, as with a pool that was grown after it was announced.
    class Roomy(FakeServer):
        def _metrics(self) -> Answer:
            answer = super()._metrics()
            return Answer(answer.status, answer.body.replace(str(self.device_tokens), "4096"))

    proof = proved(Roomy(device_tokens=7000))
    assert proof.failed is None
    assert proof.canary is not None and proof.canary["churn"]["tokens"] > 5120


def test_policy_that_stores_what_is_seen_again() -> None:
    # The third time, as write_through_selective counts to 0.5.1, and as often in any release.
    assert proved(FakeServer(stores_after=3)).failed is None
    often = replace(WANTED, sglang_version="0.4.7", host_tokens=None)
    assert proved(FakeServer(stores_after=3), often).failed is None


@pytest.mark.parametrize("host_tokens", [3000, 4096, 5000])
def test_host_pool_that_would_lose_the_canary_is_no_failure(host_tokens: int) -> None:
    wanted = replace(WANTED, host_tokens=host_tokens)
    server = FakeServer(host_tokens=host_tokens)
    proof = proved(server, wanted)
    assert proof.failed is None
    assert [problem.code for problem in proof.problems] == ["canary_impossible"]
    assert "host pool" in proof.problems[0].message


def test_second_round_does_not_drive_the_canary_out_of_the_host_pool() -> None:
    pools = Pools(device_tokens=4096, host_tokens=8192)
    plan = plan_churn(pools, CanaryLimits())
    assert plan.impossible is None
    assert plan.first_tokens <= plan.max_tokens <= 8192 - 512 - plan.prompt_tokens
    # A host pool of twice the device pool is proven.
    assert proved(FakeServer(host_tokens=8192), replace(WANTED, host_tokens=8192)).problems == []


def test_page_that_is_larger_than_the_prompt() -> None:
    assert canary_length(Pools(400_000, page_size=1024), 512) == 2049
    small = plan_churn(Pools(400_000, page_size=1024, context_tokens=900), CanaryLimits())
    assert small.impossible is not None and "no whole page of 1024 tokens" in small.impossible
    assert plan_churn(Pools(400_000, page_size=64), CanaryLimits()).impossible is None


def test_source_by_counter_where_the_answer_does_not_tell() -> None:
    older = replace(WANTED, sglang_version="0.5.8", host_tokens=None)
    proof = proved(FakeServer(tells_source=False, counts_load_back=True), older)
    assert proof.failed is None and proof.canary is not None
    assert proof.canary["hit"] == {"cached_tokens": 511, "device": 0, "host": 511, "proof": "load_back_tokens_total"}
    # It was computed anew, so nothing came from anywhere.
    lost = proved(FakeServer(tells_source=False, counts_load_back=True, stores_on_host=False), older).failed
    assert lost is not None and lost.code == "canary_not_restored"


def test_source_by_eviction_before_there_was_a_counter() -> None:
    oldest = replace(WANTED, sglang_version="0.5.5", host_tokens=None)
    proof = proved(FakeServer(tells_source=False), oldest)
    assert proof.failed is None and proof.canary is not None
    assert proof.canary["hit"]["proof"] == "eviction" and proof.canary["hit"]["host"] == 511
    lost = proved(FakeServer(tells_source=False, stores_on_host=False), oldest).failed
    assert lost is not None and lost.code == "canary_not_restored"


def test_source_that_nothing_tells_is_not_guessed() -> None:
    proof = proved(FakeServer(tells_source=False), replace(WANTED, sglang_version="0.5.23"))
    assert proof.failed is None
    assert [problem.code for problem in proof.problems] == ["canary_source_unknown"]


def test_unknown_prompt_that_is_cached_means_somebody_else_answers() -> None:
    check = proved(FakeServer(changes={"meta_info": {"cached_tokens": 400}})).failed
    assert check is not None and check.code == "canary_known"


@pytest.mark.parametrize(
    ("capacity", "context", "asked", "length"),
    [(400_000, 8192, 512, 512), (1024, 8192, 512, 256), (400_000, 128, 512, 112), (400_000, None, 512, 512)],
)
def test_canary_is_small_beside_the_pool(capacity: int, context: int | None, asked: int, length: int) -> None:
    assert canary_length(Pools(capacity, context_tokens=context), asked) == length


@pytest.mark.parametrize(
    ("capacity", "context", "prompt", "first"),
    [
        (159_277, 262_144, 4096, 159_277 - 512 + 4096),
        (8192, 8192, 2048, 8192 - 512 + 2048),
        (8192, 1024, 1008, 8192 - 512 + 1008),
    ],
)
def test_churn_fills_the_pool_once(capacity: int, context: int, prompt: int, first: int) -> None:
    plan = plan_churn(Pools(capacity, context_tokens=context), CanaryLimits())
    assert (plan.prompt_tokens, plan.first_tokens, plan.max_tokens) == (prompt, first, 3 * capacity)


def test_draft_that_comes_back_with_its_target() -> None:
    server = FakeServer(accept={"cold": 3.2, "warm": 3.1, "hit": 3.0}, info={"speculative_algorithm": "EAGLE3"})
    proof = proved(server)
    assert proof.failed is None and proof.canary is not None
    assert proof.canary["accept_length"] == {"cold": 3.2, "warm": 3.048, "hit": 3.048}
    # Not one canary but as many as the pool has room for, each answered at length.
    long = [body for body in server.bodies if body["sampling_params"]["max_new_tokens"] == 64]
    assert len({tuple(body["input_ids"]) for body in long}) == 2


@pytest.mark.parametrize(
    ("version", "hit", "warm", "failed", "problem"),
    [
        ("0.5.23", 1.4, 3.2, "draft_collapsed", None),
        ("0.5.10", 1.4, 3.2, None, "draft_not_restored"),
        ("0.5.10", 1.4, 1.4, "draft_collapsed", None),
        ("0.5.23", 3.2, 1.4, "draft_collapsed", None),
    ],
)
def test_draft_that_collapses_after_a_hit(
    version: str, hit: float, warm: float, failed: str | None, problem: str | None
) -> None:
    server = FakeServer(accept={"cold": 3.2, "warm": warm, "hit": hit}, info={"speculative_algorithm": "EAGLE3"})
    proof = proved(server, replace(WANTED, sglang_version=version))
    assert (None if proof.failed is None else proof.failed.code) == failed
    assert [one.code for one in proof.problems] == ([] if problem is None else [problem])
    off = replace(WANTED, sglang_version=version, limits=CanaryLimits(draft_ratio=0.0))
    assert proved(replace(server, caches={}, asked=[], bodies=[]), off).failed is None
