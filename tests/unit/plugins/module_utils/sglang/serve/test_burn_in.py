# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.burn_in import BurnInLimits, hang_seconds
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import FakeServer
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.proofs import WANTED, proved

# The gate's own token goes before it.
GATE = 1


def test_burn_in_asks_different_things_and_says_what_it_took() -> None:
    server = FakeServer(seconds={GATE + 1: 0.9, GATE + 2: 0.4, GATE + 3: 0.4, GATE + 4: 0.4})
    burn_in = proved(server, replace(WANTED, canary=False)).burn_in
    assert burn_in is not None
    assert (burn_in["asked"], burn_in["answered"], burn_in["tokens"]) == (8, 8, 8 * 48)
    assert (burn_in["slowest_seconds"], burn_in["hang_seconds"], burn_in["outliers"]) == (0.9, 20.0, [])
    prompts = [tuple(body["input_ids"]) for body in server.bodies[GATE:]]
    assert len(set(prompts)) == 8


@pytest.mark.parametrize("after", range(1, 8))
def test_hang_after_any_number_of_requests_is_found_at_the_first(after: int) -> None:
    server = FakeServer(hangs_after=GATE + after)
    proof = proved(server, replace(WANTED, canary=False))
    check = proof.failed
    assert check is not None and check.code == "burn_in_hang"
    assert f"Request {after + 1} of 8 did not finish within 20.0 s, after {after} that did" in check.problem
    assert check.values == {"request": after + 1, "requests": 8, "answered": after, "hang_seconds": 20.0}
    # Nothing more is sent to it.
    assert server.generated == GATE + after + 1


def test_hang_of_the_first_one_takes_the_time_of_any_request() -> None:
    check = proved(FakeServer(hangs_after=GATE), replace(WANTED, request_seconds=60.0)).failed
    assert check is not None and check.code == "burn_in_hang" and "within 60.0 s" in check.problem


@pytest.mark.parametrize(("first", "limit"), [([], 20.0), ([0.4, 1.2], 20.0), ([3.0, 2.5], 30.0)])
def test_slow_servers_have_more_time(first: list[float], limit: float) -> None:
    assert hang_seconds(first) == limit


def test_rank_that_hangs_is_named() -> None:
    server = FakeServer(ranks=4, hangs_after=GATE, hanging_rank=2)
    check = proved(server).failed
    assert check is not None and (check.code, check.rank) == ("burn_in_hang", "DP2")
    assert "(data parallel rank 2)" in check.problem


def test_each_rank_gets_one_request_at_least() -> None:
    server = FakeServer(ranks=12)
    burn_in = proved(server, replace(WANTED, canary=False)).burn_in
    assert burn_in is not None and burn_in["asked"] == 12
    assert [body["routed_dp_rank"] for body in server.bodies[GATE:]] == list(range(12))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"meta_info": {"completion_tokens": 3}}, "3 tokens instead of the 16"),
        ({"meta_info": {"prompt_tokens": 7}}, "a prompt of 7 tokens instead of the 32"),
        ({"meta_info": {"finish_reason": {"type": "abort", "message": "x"}}}, "finish reason abort instead of length"),
        ({"meta_info": {"finish_reason": "nonsense"}}, "finish reason unknown instead of length"),
    ],
)
def test_answers_that_are_not_what_was_asked_for(changes: dict[str, Any], words: str) -> None:
    check = proved(FakeServer(changes=changes)).failed
    assert check is not None and check.code == "burn_in_failed"
    assert words in check.problem


def test_more_tokens_than_asked_for_are_no_fault() -> None:
    more = {"meta_info": {"completion_tokens": 18, "prompt_tokens": 33}}
    proof = proved(FakeServer(changes=more), replace(WANTED, canary=False))
    assert proof.failed is None


def test_garbage_that_can_be_told() -> None:
    zeros = proved(FakeServer(changes={"output_ids": [0] * 16, "text": "!" * 16})).failed
    assert zeros is not None and zeros.code == "answers_garbage"
    for changes in ({"text": " ", "output_ids": [5]}, {"text": "the same", "output_ids": [5, 6]}):
        proof = proved(FakeServer(changes=changes), replace(WANTED, canary=False))
        assert proof.failed is None and [one.code for one in proof.problems] == ["answers_alike"]


def test_outliers_are_told_and_no_failure() -> None:
    proof = proved(FakeServer(seconds={GATE + 5: 4.0}), replace(WANTED, canary=False))
    assert proof.failed is None and proof.burn_in is not None
    assert proof.burn_in["outliers"] == [{"request": 5, "rank": None, "seconds": 4.0}]
    assert [one.code for one in proof.problems] == ["burn_in_outliers"]
    # The first may have to compile.
    first = proved(FakeServer(seconds={GATE + 1: 9.0}), replace(WANTED, canary=False))
    assert first.problems == []


def test_burn_in_is_bounded_in_time() -> None:
    wanted = replace(WANTED, canary=False, burn_in=BurnInLimits(100, 2, 5.0))
    server = FakeServer()
    proof = proved(server, wanted, cost=1.0)
    assert proof.failed is None
    assert [one.code for one in proof.problems] == ["burn_in_cut_short"]
    # Two alone, then two at a time; the fake's clock counts them one after the other.
    assert server.generated == GATE + 6
