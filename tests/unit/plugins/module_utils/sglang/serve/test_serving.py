# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Answer, Proof
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.serving import Wanted, would_check
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.proofs import WANTED, proved


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


def test_check_mode_names_what_would_be_checked() -> None:
    assert would_check(WANTED)[-1] == "canary_same_text"
    assert would_check(Wanted(canary=False, chat=False)) == ["health", "served_model_name", "generate"]
