# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Proof
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.burn_in import BurnInLimits
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.churn import CanaryLimits
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.serving import (
    Wanted,
    would_check,
    would_send,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.proofs import WANTED, Clock, proved


def names(proof: Proof) -> dict[str, bool | None]:
    return {check.name: check.ok for check in proof.checks}


def codes(proof: Proof) -> list[str]:
    return [problem.code for problem in proof.problems]


def test_server_that_serves_what_was_planned() -> None:
    proof = proved(FakeServer())
    assert names(proof) == {
        "health": True,
        "served_model_name": True,
        "generate": True,
        "chat_completion": True,
        "max_total_num_tokens": True,
        "host_tokens": True,
        "burn_in": True,
        "health_after_burn_in": True,
        "canary_cold": True,
        "canary_host_hit": True,
        "canary_same_text": True,
    }
    assert proof.failed is None and proof.problems == []
    assert proof.metrics == {
        "sglang:max_total_num_tokens": [4096.0, 4096.0],
        "sglang:hicache_host_total_tokens": [16_385.0],
    }


@pytest.mark.parametrize(
    ("server", "failed", "code", "words"),
    [
        (
            {"ready_after": 10_000},
            "health",
            "health_not_reached",
            "healthy within 5 min 00 s; /health_generate last gave 503",
        ),
        ({"model": "another"}, "served_model_name", "model_not_served", "serves another under that port"),
        ({"api_key": "sk"}, "served_model_name", "key_rejected", "API key was not accepted"),
        ({"hidden_paths": ("/v1/models",)}, "served_model_name", "not_an_api_server", "lists no models"),
        ({"generates": False}, "generate", "generation_failed", "scheduler is gone"),
        ({"hangs_after": 0}, "generate", "generation_hangs", "calls itself healthy and generates no token"),
        ({"hangs_after": 0, "paused": True}, "generate", "generation_paused", "/ready gives 503: generation is paused"),
        ({"chat": False}, "chat_completion", "chat_failed", "no chat template"),
        (
            {"device_tokens": 4095},
            "max_total_num_tokens",
            "device_capacity_below_plan",
            "holds 4,095 tokens where 4,096 were planned, 1 or 0.02% fewer",
        ),
        ({"host_tokens": 8193}, "host_tokens", "host_tier_differs", "holds 8,193 tokens a rank where 16,385 were"),
        ({"host_tokens": 0}, "host_tokens", "host_tier_missing", "no host tier"),
        ({"health_after_requests": 503}, "health_after_burn_in", "health_lost", "is not healthy now"),
        ({"stores_on_host": False}, "canary_host_hit", "canary_not_restored", "did not come back from the host tier"),
        ({"remembers_everything": True}, "canary_host_hit", "canary_stays", "still on the device after 12 other"),
        ({"spoils_host": True}, "canary_same_text", "canary_text_differs", "not what was stored"),
    ],
)
def test_what_can_be_wrong(server: dict[str, Any], failed: str, code: str, words: str) -> None:
    check = proved(FakeServer(**server)).failed
    assert check is not None
    assert (check.name, check.code) == (failed, code)
    assert words in check.problem
    failure = check.failure()
    assert list(failure) == ["code", "message", "remedy", "rank", "evidence", "computed"]
    assert failure["remedy"].endswith(".") and failure["evidence"]["check"] == failed


def test_what_depends_on_a_failed_check_is_not_tried() -> None:
    server = FakeServer(generates=False)
    proof = proved(server)
    assert ("GET", "/metrics") not in server.asked
    assert proof.canary is None and proof.burn_in is None


def test_health_is_asked_again_until_the_deadline_and_less_and_less_often() -> None:
    server = FakeServer(ready_after=20)
    clock = Clock()
    assert proved(server, clock=clock).failed is None
    pauses = clock.slept[:20]
    assert pauses[:3] == [1.0, 1.5, 2.25] and pauses == sorted(pauses) and max(pauses) == 5.0
    late = proved(FakeServer(ready_after=20), replace(WANTED, timeout_seconds=10.0))
    assert late.failed is not None and late.failed.name == "health"
    assert names(late) == {"health": False}


def test_plain_health_where_nothing_else_is_passed_on() -> None:
    server = FakeServer(hidden_paths=("/health_generate",), ready_after=2)
    assert proved(server).failed is None
    assert (
        len([one for one in server.asked if one[1] == "/health"]) == 4
    )  # two refused, one good, one after the burn-in


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
    assert codes(proof) == ["metrics_off"]
    assert proof.failed is None
    assert "sk-secret" not in repr(proof)


def test_release_without_the_gauge_is_not_asked_for_it() -> None:
    proof = proved(FakeServer(gauge_after=10_000), replace(WANTED, sglang_version="0.5.9"))
    assert names(proof)["host_tokens"] is None
    assert proof.failed is None


def test_server_without_host_tier_and_canary() -> None:
    nothing = BurnInLimits(requests=0)
    proof = proved(FakeServer(host_tokens=0), Wanted(canary=False, chat=False, burn_in=nothing))
    assert names(proof) == {"health": True, "served_model_name": True, "generate": True}


@pytest.mark.parametrize(
    ("info", "failed", "words"),
    [
        ({"version": "0.5.9"}, "release_differs", "is SGLang 0.5.9, and 0.5.23 was planned"),
        ({"version": "0.5.23", "model_path": "/srv/other"}, "model_differs", "has loaded /srv/other, and /srv/llama"),
        ({"version": "0.5.23", "model_path": "/srv/llama/"}, None, ""),
        ({"version": "0.5.24.dev3+gabc", "model_path": 4}, None, ""),
        ({"version": "0.5.23+cu130"}, None, ""),
        ({"version": "0.5.23.post1"}, "release_differs", "is SGLang 0.5.23.post1, and 0.5.23 was planned"),
        ({"version": "unknown"}, None, ""),
        ({}, None, ""),
    ],
)
def test_another_server_is_known_by_what_it_says_of_itself(
    info: dict[str, Any], failed: str | None, words: str
) -> None:
    wanted = replace(WANTED, sglang_version="0.5.23", model_path="/srv/llama")
    check = proved(FakeServer(info=info), wanted).failed
    assert (None if check is None else check.code) == failed
    assert check is None or words in check.problem


def test_listener_is_looked_at_before_anything_is_sent_and_at_the_end() -> None:
    server = FakeServer()
    judged = [Check("listener", True, 7, 7), Check("listener", False, 9, 7, "listener_is_another", "another")]
    proof = proved(server, listener=lambda: judged.pop(0))
    assert [check.name for check in proof.checks][1] == "listener"
    assert proof.failed is not None and proof.failed.name == "listener_at_the_end"
    stranger = FakeServer()
    judged = [Check("listener", False, 9, 7, "listener_is_another", "another")]
    assert proved(stranger, listener=lambda: judged.pop(0)).failed is not None
    assert stranger.generated == 0


@pytest.mark.parametrize("info", [{"disable_radix_cache": True}, {"enable_hierarchical_cache": False}])
def test_no_host_tier_to_prove_is_said_and_not_searched_for(info: dict[str, Any]) -> None:
    server = FakeServer(info=info)
    planned = proved(server).failed
    assert planned is not None and planned.code == "host_tier_off"
    unplanned = proved(FakeServer(info=info, host_tokens=0), Wanted("rehearsal-llama", 4096, 0))
    assert unplanned.failed is None and codes(unplanned) == ["canary_host_tier_off"]
    assert unplanned.canaries == []


def test_canary_needs_the_size_of_the_device_pool() -> None:
    proof = proved(FakeServer(hidden_paths=("/metrics", "/server_info")), Wanted("rehearsal-llama"))
    assert names(proof)["canary"] is None
    assert "canary_size_unknown" in codes(proof) and proof.failed is None


def test_each_data_parallel_rank_has_a_canary_of_its_own() -> None:
    server = FakeServer(ranks=2, info={"dp_size": 2})
    proof = proved(server, replace(WANTED, sglang_version="0.5.23"))
    assert proof.failed is None
    assert [one["rank"] for one in proof.canaries] == ["DP0", "DP1"]
    assert [one["hit"]["host"] for one in proof.canaries] == [511, 511]
    # All that the canaries and the burn-in send says where to; the gate's own token does not care.
    assert {body.get("routed_dp_rank") for body in server.bodies[1:]} == {0, 1}
    older = FakeServer(ranks=2)
    assert proved(older, replace(WANTED, sglang_version="0.5.9")).failed is None
    assert {body.get("data_parallel_rank") for body in older.bodies[1:]} == {0, 1}


def test_ranks_that_no_time_is_left_for_are_named() -> None:
    # Four requests before and five prompts at 1.5 s for the first rank, and then the bound.
    limits = CanaryLimits(churn_max_seconds=12.9)
    proof = proved(FakeServer(ranks=2), replace(WANTED, limits=limits), cost=1.5)
    assert proof.failed is None
    assert codes(proof) == ["canary_cut_short", "canary_ranks_unproven"]
    assert "proven for 1 of 2 data parallel ranks" in proof.problems[-1].message and "DP1" in proof.problems[-1].message


@pytest.mark.parametrize(("others", "skipped"), [(4, False), (5, True)])
def test_real_traffic_goes_first(others: int, skipped: bool) -> None:
    server = FakeServer(others=others)
    proof = proved(server)
    assert proof.failed is None
    assert codes(proof) == (["server_busy", "server_busy"] if skipped else [])
    # The gate's own token, and no more.
    assert (server.generated == 1) is skipped
    assert names(proof)["burn_in"] is (None if skipped else True)


def test_traffic_that_comes_meanwhile_ends_the_churn() -> None:
    class Filling(FakeServer):
        def ask(self, method: str, path: str, body: Any, key: str | None = None) -> Any:
            self.others = 50 if self.generated > 25 else 0
            return super().ask(method, path, body, key)

    # Many prompts, as the context lets none be long.
    server = Filling(context=128)
    proof = proved(server)
    assert proof.failed is None and codes(proof) == ["server_busy"]
    assert proof.canary is not None and proof.canary["churn"]["requests"] == 16 and proof.canary["hit"] is None


def test_out_of_time_says_so() -> None:
    check = proved(FakeServer(), replace(WANTED, timeout_seconds=40.0), cost=5.0).failed
    assert check is not None and check.code == "out_of_time"


def test_check_mode_names_what_would_be_checked_and_its_bounds() -> None:
    assert would_check(WANTED)[-1] == "canary_same_text"
    bare = Wanted(canary=False, chat=False, burn_in=BurnInLimits(requests=0))
    assert would_check(bare) == ["health", "served_model_name", "generate"]
    assert would_send(bare) == {"requests": 0, "tokens": 0, "seconds": 300.0}
    assert would_send(WANTED) == {"requests": 2008, "tokens": 8 * 48 + 3 * 4096, "seconds": 300.0}
    assert would_send(Wanted())["tokens"] is None
