# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the words of a command line to what is played."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.arguments import prepare
from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.playing import laid_over, scenario_of
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.answers import Answers
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import Scenario, scenario_from
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.start import MAIN, steps_of
from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.make_model import config

GIB = 1 << 30
BASE = ["--model-path", "/srv/m", "--device", "cpu", "--max-total-tokens", "4099", "--page-size", "16"]
TIER = ["--enable-hierarchical-cache", "--hicache-ratio", "8", "--tp-size", "2"]


def scenario(*words: str, release: str = "0.5.23", available: int = 20 * GIB) -> dict[str, Any]:
    arguments = vars(prepare([*BASE, *words], admin_key=True))
    return scenario_of(release, arguments, config(), available, 32_000_000)


def played(*words: str, release: str = "0.5.23", available: int = 20 * GIB) -> Scenario:
    return scenario_from(scenario(*words, release=release, available=available))


def first_words(found: Scenario) -> str:
    return next(str(step["say"]) for step in steps_of(found, MAIN) if "say" in step)


def test_pools_and_ranks_follow_from_the_arguments() -> None:
    found = played(*TIER)
    (pool,) = found.host_pools
    assert (found.ranks, found.device, found.capacity_tokens) == (("TP0", "TP1"), "cpu", 4096)
    assert (pool.tokens, pool.bytes, pool.gb_per_second) == (32784, 32784 * 2048, 0.032)
    assert found.memory_gib["pool"] == 4096 * 2048 / GIB
    assert found.model["context_tokens"] == 8192


def test_no_tier_no_pool() -> None:
    assert played().host_pools == ()


@pytest.mark.parametrize(("release", "memory"), [("0.5.4", "driver"), ("0.5.12", "private"), ("0.5.23", "shared")])
def test_memory_is_of_the_kind_of_the_release(release: str, memory: str) -> None:
    assert played(*TIER, release=release).host_pools[0].memory == memory


def test_what_cannot_be_allocated_crashes_every_rank_before_its_pool() -> None:
    found = played(*TIER, available=10 * GIB + 1_000_000)
    for rank in found.ranks:
        steps = steps_of(found, rank)
        crash = next(number for number, step in enumerate(steps) if "crash" in step)
        assert "ValueError: Not enough host memory available. Requesting 0.07 GB" in steps[crash]["crash"]
        assert "pools" in steps[crash + 1]


def test_without_a_number_of_tokens_nothing_is_played() -> None:
    arguments = vars(prepare(["--model-path", "/srv/m"], admin_key=True))
    with pytest.raises(ValueError, match="expected --max-total-tokens"):
        scenario_of("0.5.23", arguments, config(), 20 * GIB)
    with pytest.raises(ValueError, match="less than a page"):
        scenario("--max-total-tokens", "15")


def test_arguments_are_printed_and_answered_as_the_release_does() -> None:
    found = played(*TIER, "--api-key", "k")
    assert first_words(found).startswith("server_args={'model_path': '/srv/m', ")
    older = first_words(played(*TIER, "--api-key", "k", release="0.5.18"))
    assert older.startswith("server_args=ServerArgs(model_path='/srv/m', ")
    assert "'api_key': 'k'" in first_words(found)
    assert "api_key='k'" in older
    told = Answers(found, lambda: True, lambda _seconds: None).answer("GET", "/server_info", None, None).body
    assert '"hicache_write_policy": "write_through"' in told
    assert '"max_total_num_tokens": 4096' in told
    assert '"version": "0.5.23"' in told


def test_the_model_answers_by_its_name_and_its_path() -> None:
    server = Answers(played("--served-model-name", "llama"), lambda: True, lambda _seconds: None)
    assert '"id": "llama"' in server.answer("GET", "/v1/models", None, None).body
    assert '"model_path": "/srv/m"' in server.answer("GET", "/model_info", None, None).body


@pytest.mark.parametrize(("words", "status"), [((), 404), (("--enable-metrics",), 200)])
def test_metrics_are_shown_where_they_are_asked_for(words: tuple[str, ...], status: int) -> None:
    server = Answers(played(*words), lambda: True, lambda _seconds: None)
    assert server.answer("GET", "/metrics", None, None).status == status


def test_faults_are_laid_over_and_added() -> None:
    fault = {"after": "ready", "do": [{"exit": 1}]}
    more = {"faults": [fault], "seconds": {"boot": 5}, "http": {"chat": False}, "noise": [{"kind": "json"}]}
    found = laid_over(scenario(*TIER, available=10 * GIB), more)
    checked = scenario_from(found)
    assert [entry.point for entry in checked.faults] == ["host_pool", "ready"]
    assert (checked.seconds["boot"], checked.seconds["load"] < 5) == (5, True)
    assert (checked.http["chat"], checked.http["served_model_name"]) == (False, "/srv/m")
    assert checked.noise == ({"kind": "json"},)
