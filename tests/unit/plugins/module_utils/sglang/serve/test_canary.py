# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.canary import (
    CanaryLimits,
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
    assert canary["churn"] == {"requests": 5, "tokens": 5120}
    assert canary["hit"] == {"cached_tokens": 511, "device": 0, "host": 511}
    assert canary["same_text"] is True and canary["same_text_as_cold"] is True


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
